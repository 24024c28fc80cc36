//! [`Feed`]: what changed, to all who listen, after it was committed.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;
use events::RaceKey;
use projections::BoardUpdate;
use tokio::sync::broadcast;

/// Messages that a slow listener may be behind before it is moved on to the current images.
const BEHIND_MAX: usize = 4096;

/// A message of the live channel, encoded once for all.
#[derive(Debug)]
pub struct Update {
    /// The event that it is of.
    pub seq: u64,
    /// The race that it is about.
    pub race: RaceKey,
    /// The JSON text.
    pub text: Bytes,
}

/// Fans updates out. Clones share it.
#[derive(Debug, Clone)]
pub struct Feed {
    updates: broadcast::Sender<Arc<Update>>,
    last_seq: Arc<AtomicU64>,
}

impl Default for Feed {
    fn default() -> Self {
        Self {
            updates: broadcast::Sender::new(BEHIND_MAX),
            last_seq: Arc::default(),
        }
    }
}

impl Feed {
    /// Sends boards that were committed. What was sent before is not sent again: while views are rebuilt and swapped, two
    /// projections pass the same events.
    pub fn publish(&self, boards: Vec<BoardUpdate>) {
        for BoardUpdate { seq, race, board } in boards {
            if self.last_seq.fetch_max(seq, Ordering::AcqRel) >= seq {
                continue;
            }
            let text = odds_update(&board, false);
            // An error only means that nobody listens.
            let _ = self.updates.send(Arc::new(Update { seq, race, text }));
        }
    }

    /// Listens from now on.
    #[must_use]
    pub fn listen(&self) -> broadcast::Receiver<Arc<Update>> {
        self.updates.subscribe()
    }
}

/// A board as a message of the live channel.
#[must_use]
pub fn odds_update(board: &[u8], snapshot: bool) -> Bytes {
    let head: &[u8] = if snapshot {
        br#"{"event":"odds_update","snapshot":true,"#
    } else {
        br#"{"event":"odds_update","#
    };
    [head, board.get(1..).unwrap_or_default()].concat().into()
}
