//! [`FeedBatch`]: new messages that a shard delivers to its clients, grouped by race once for all of them.

use std::collections::HashMap;
use std::sync::Arc;

use bytes::Bytes;

use super::feed::{FeedMessage, Position, Topic};

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

/// Consecutive messages of the feed.
#[derive(Debug)]
pub(super) struct FeedBatch {
    /// The index of the first message.
    pub(super) first_index: u64,
    pub(super) messages: Vec<Arc<FeedMessage>>,
    /// The frame of each message.
    pub(super) frames: Vec<Bytes>,
    /// The frames of each race.
    pub(super) races: Vec<RaceFrames>,
    /// The log sequence that everything before the batch reflects.
    pub(super) seq: u64,
}

/// The messages of a batch about one race.
#[derive(Debug)]
pub(super) struct RaceFrames {
    pub(super) topic: Arc<Topic>,
    pub(super) selected: SelectedFrames,
}

/// Some messages of a longer list. A shard reuses one for all clients of a batch.
#[derive(Debug, Default)]
pub(super) struct SelectedFrames {
    pub(super) frames: Vec<Bytes>,
    /// Where in the list the message of each frame is.
    pub(super) offsets: Vec<usize>,
}

impl FeedBatch {
    /// The messages that follow `cursor`.
    pub(super) fn new(cursor: FeedCursor, messages: Vec<Arc<FeedMessage>>) -> Self {
        let mut races: Vec<RaceFrames> = Vec::new();
        let mut race_by_topic: HashMap<*const Topic, usize> = HashMap::new();
        for (offset, message) in messages.iter().enumerate() {
            let race = *race_by_topic
                .entry(Arc::as_ptr(&message.topic))
                .or_insert_with(|| {
                    races.push(RaceFrames {
                        topic: Arc::clone(&message.topic),
                        selected: SelectedFrames::default(),
                    });
                    races.len() - 1
                });
            if let Some(race) = races.get_mut(race) {
                race.selected.push(message, offset);
            }
        }
        Self {
            first_index: cursor.next_index,
            frames: messages
                .iter()
                .map(|message| message.frame.clone())
                .collect(),
            messages,
            races,
            seq: cursor.seq,
        }
    }

    /// The index after the last message.
    pub(super) fn end_index(&self) -> u64 {
        self.first_index + self.messages.len() as u64
    }
}

impl SelectedFrames {
    pub(super) fn push(&mut self, message: &FeedMessage, offset: usize) {
        self.frames.push(message.frame.clone());
        self.offsets.push(offset);
    }

    pub(super) fn clear(&mut self) {
        self.frames.clear();
        self.offsets.clear();
    }

    /// The offset of the first message that was not sent, if the first `sent` of these were; else that after the last.
    pub(super) fn offset_after(&self, sent: usize, len: usize) -> usize {
        self.offsets.get(sent).copied().unwrap_or(len)
    }
}
