//! [`Feed`]: what changed, encoded once for all clients.
//!
//! The latest messages are in a ring, in the order of the log. A client has a position in it and takes the messages
//! from there on. A client that is too far behind takes the latest image of each race instead: the feed knows for each
//! race which messages led to the image, and so how many the image stands for.

pub mod frame;
mod market;
mod message;
mod race;
pub mod replay;
mod state;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use events::Moment;
use parking_lot::Mutex;
use projections::{Checkpoint, LiveUpdate, LogIdentity};
use tokio::sync::watch;

pub use message::{
    ConflatedBy, Content, EventTime, FeedMessage, FeedTail, NotRecovered, Position, Replayed,
    Snapshots, Topic,
};
use state::{BOUNDS, Bounds, FeedState};

/// The messages for all clients. Clones share it.
#[derive(Debug, Clone)]
pub struct Feed {
    state: Arc<Mutex<FeedState>>,
    position: watch::Sender<Position>,
}

impl Default for Feed {
    fn default() -> Self {
        Self::bounded(BOUNDS)
    }
}

impl Feed {
    fn bounded(bounds: Bounds) -> Self {
        let state = FeedState::new(bounds);
        Self {
            position: watch::Sender::new(state.position.clone()),
            state: Arc::new(Mutex::new(state)),
        }
    }

    /// Publishes the updates of events that were committed. Those that were published before are skipped: while views
    /// are rebuilt and swapped, two projections pass the same events. Races whose date has ended everywhere at the time
    /// of the log are closed.
    pub fn publish(
        &self,
        updates: Vec<LiveUpdate>,
        events: &[EventTime],
        log_time: Option<Moment>,
    ) {
        let position = {
            let mut state = self.state.lock();
            for update in updates {
                if update.seq > state.position.seq {
                    state.append(update);
                }
            }
            state.pass(events);
            state.pass_time(log_time);
            state.position.clone()
        };
        self.position.send_replace(position);
    }

    /// Opens races again that were closed by a date, with their images.
    pub fn reopen(&self, open: Vec<LiveUpdate>) {
        let mut state = self.state.lock();
        for update in open {
            state.append(update);
        }
    }

    /// Starts again with other views, which are at a checkpoint: with their open races, and the events and messages
    /// before them that could be replayed.
    pub fn reset(&self, checkpoint: &Checkpoint, open: Vec<LiveUpdate>, replayed: Replayed) {
        let position = {
            let mut state = self.state.lock();
            state.clear();
            state.position.generation += 1;
            state.position.epoch = epoch(&checkpoint.log);
            state.pass_time(checkpoint.clock.latest_time());
            state.complete_from = replayed.complete_from;
            for update in replayed.updates.into_iter().chain(open) {
                state.append(update);
            }
            state.pass(&replayed.events);
            state.position.seq = checkpoint.seq;
            state.position.clone()
        };
        self.position.send_replace(position);
    }

    /// The position, and every change of it.
    pub fn watch(&self) -> watch::Receiver<Position> {
        self.position.subscribe()
    }

    pub fn position(&self) -> Position {
        self.state.lock().position.clone()
    }

    /// Waits until the feed reflects a log sequence.
    pub async fn until_seq(&self, seq: u64) {
        let mut position = self.watch();
        // The sender is a part of this.
        let _ = position.wait_for(|position| position.seq >= seq).await;
    }

    /// At most `max` messages from an index on; `None` if they are not kept.
    pub fn tail(&self, from: u64, max: usize) -> Option<FeedTail> {
        self.state.lock().tail(from, max)
    }

    /// The current images of the open races, and of their markets, that `wants` selects.
    pub fn snapshots(&self, wants: impl Fn(&Topic, &Content) -> bool) -> Snapshots {
        self.state.lock().snapshots(wants)
    }

    /// The messages from an index on, and the images after them that `wants` selects. `None` if the messages are not
    /// kept.
    pub fn tail_and_snapshots(
        &self,
        from: u64,
        wants: impl Fn(&Topic, &Content) -> bool,
    ) -> Option<(FeedTail, Snapshots)> {
        let state = self.state.lock();
        Some((state.tail(from, usize::MAX)?, state.snapshots(wants)))
    }

    /// When the log recorded the event at a sequence, or the last one before it. `None` if that is not known, or the
    /// sequence is of another generation than the feed, and so maybe of another log.
    pub fn recorded_at(&self, generation: u64, seq: u64) -> Option<Moment> {
        let state = self.state.lock();
        let known = state.position.generation == generation;
        known.then(|| state.recorded_at(seq)).flatten()
    }

    /// The number of open races.
    pub(crate) fn open_races(&self) -> usize {
        self.state.lock().open.len()
    }
}

/// Identifies a log: the same on every replica.
pub(crate) fn epoch(log: &LogIdentity) -> Arc<str> {
    let hex = blake3::hash(format!("{}\n{}", log.name, log.created).as_bytes()).to_hex();
    Arc::from(hex.get(..16).unwrap_or_default())
}
