//! [`FeedBatch`]: new messages that a shard delivers to its clients, grouped by race once for all of them.

use std::collections::HashMap;
use std::sync::Arc;

use crate::feed::frame::Frame;
use crate::feed::{Content, FeedMessage, FeedTail, Position, Topic};

/// How far a shard has delivered the feed.
#[derive(Debug, Clone, Copy)]
pub(super) struct FeedCursor {
    pub(super) generation: u64,
    /// The index of the next message.
    pub(super) next_index: u64,
    /// The log sequence that all messages before it reflect.
    pub(super) seq: u64,
}

impl From<&Position> for FeedCursor {
    fn from(position: &Position) -> Self {
        Self {
            generation: position.generation,
            next_index: position.head,
            seq: position.seq,
        }
    }
}

impl FeedCursor {
    /// After the messages of a tail.
    pub(super) fn after(tail: &FeedTail) -> Self {
        let head = Self::from(&tail.position);
        match tail.messages.last() {
            Some(last) if last.index + 1 < head.next_index => Self {
                next_index: last.index + 1,
                seq: last.seq - 1,
                ..head
            },
            _ => head,
        }
    }
}

/// Consecutive messages of the feed.
pub(super) struct FeedBatch {
    pub(super) start: FeedCursor,
    pub(super) end: FeedCursor,
    pub(super) messages: Vec<Arc<FeedMessage>>,
    /// All but the quotes.
    pub(super) selected: SelectedFrames,
    pub(super) races: Vec<RaceFrames>,
}

/// The messages of a batch about one race, but for the quotes.
pub(super) struct RaceFrames {
    pub(super) topic: Arc<Topic>,
    pub(super) selected: SelectedFrames,
}

/// Some messages of a longer list. A shard reuses one for all clients of a batch.
#[derive(Debug, Default)]
pub(super) struct SelectedFrames {
    pub(super) frames: Vec<Frame>,
    /// Where in the list the message of each frame is.
    pub(super) offsets: Vec<usize>,
}

impl FeedBatch {
    /// The messages of a tail that begins at `start`.
    pub(super) fn new(start: FeedCursor, tail: FeedTail) -> Self {
        let end = FeedCursor::after(&tail);
        let messages = tail.messages;
        let mut races: HashMap<*const Topic, RaceFrames> = HashMap::new();
        let mut selected = SelectedFrames::default();
        for (offset, message) in messages.iter().enumerate() {
            let race = races.entry(Arc::as_ptr(&message.topic));
            let race = race.or_insert_with(|| RaceFrames {
                topic: Arc::clone(&message.topic),
                selected: SelectedFrames::default(),
            });
            if matches!(message.content, Content::Kind(_)) {
                race.selected.push(message, offset);
                selected.push(message, offset);
            }
        }
        Self {
            start,
            end,
            selected,
            messages,
            races: races.into_values().collect(),
        }
    }
}

impl SelectedFrames {
    pub(super) fn push(&mut self, message: &FeedMessage, offset: usize) {
        self.frames.push(message.frame.clone());
        self.offsets.push(offset);
    }

    /// The offset of the first message that was not sent, if the first `sent` of these were; else that after the last.
    pub(super) fn offset_after(&self, sent: usize, len: usize) -> usize {
        self.offsets.get(sent).copied().unwrap_or(len)
    }
}
