//! [`Batch`]: messages that a shard hands to its clients, sorted once for all of them.

use std::collections::HashMap;
use std::sync::Arc;

use bytes::Bytes;

use crate::live::feed::{Message, Position, Topic};

/// How far a shard has told what the feed holds.
#[derive(Debug, Clone, Copy)]
pub(super) struct FeedCursor {
    pub(super) generation: u64,
    /// The number of the next message.
    pub(super) place: u64,
    /// What all before it reflects.
    pub(super) seq: u64,
}

impl From<&Position> for FeedCursor {
    fn from(position: &Position) -> Self {
        Self {
            generation: position.generation,
            place: position.head,
            seq: position.seq,
        }
    }
}

/// Messages in the order of their numbers, without holes.
#[derive(Debug)]
pub(super) struct Batch {
    /// The number of the first.
    pub(super) from: u64,
    pub(super) messages: Vec<Arc<Message>>,
    /// Their frames.
    pub(super) frames: Vec<Bytes>,
    /// Those of each race.
    pub(super) lanes: Vec<Lane>,
    /// The place in the log that everything before the batch reflects.
    pub(super) seq: u64,
}

/// The messages of a batch about one race.
#[derive(Debug)]
pub(super) struct Lane {
    pub(super) topic: Arc<Topic>,
    pub(super) frames: Vec<Bytes>,
    /// Where each stands among all.
    pub(super) places: Vec<usize>,
}

impl Batch {
    /// The messages behind what was told.
    pub(super) fn new(told: FeedCursor, messages: Vec<Arc<Message>>) -> Self {
        let mut lanes: Vec<Lane> = Vec::new();
        let mut lane_of: HashMap<*const Topic, usize> = HashMap::new();
        for (at, message) in messages.iter().enumerate() {
            let lane = *lane_of
                .entry(Arc::as_ptr(&message.topic))
                .or_insert_with(|| {
                    lanes.push(Lane {
                        topic: Arc::clone(&message.topic),
                        frames: Vec::new(),
                        places: Vec::new(),
                    });
                    lanes.len() - 1
                });
            if let Some(lane) = lanes.get_mut(lane) {
                lane.frames.push(message.frame.clone());
                lane.places.push(at);
            }
        }
        Self {
            from: told.place,
            frames: messages
                .iter()
                .map(|message| message.frame.clone())
                .collect(),
            messages,
            lanes,
            seq: told.seq,
        }
    }

    /// The number behind the last.
    pub(super) fn end(&self) -> u64 {
        self.from + self.messages.len() as u64
    }
}
