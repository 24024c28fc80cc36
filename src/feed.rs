//! [`Feed`]: what changed, to all who listen, after it was committed.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;
use events::RaceKey;
use projections::{LiveKind, LiveUpdate};
use tokio::sync::broadcast;

/// Messages that a slow listener may be behind before it is moved on to the current images.
const BEHIND_MAX: usize = 4096;

/// What listeners are told.
#[derive(Debug)]
pub enum News {
    /// A board changed.
    Update(Update),
    /// The views were begun anew: what was said before may not hold, and what is said next begins with the images.
    BegunAnew,
}

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
    news: broadcast::Sender<Arc<News>>,
    last_seq: Arc<AtomicU64>,
}

impl Default for Feed {
    fn default() -> Self {
        Self {
            news: broadcast::Sender::new(BEHIND_MAX),
            last_seq: Arc::default(),
        }
    }
}

impl Feed {
    /// Sends boards that were committed. What was sent before is not sent again: while views are rebuilt and swapped, two
    /// projections pass the same events.
    pub fn publish(&self, updates: Vec<LiveUpdate>) {
        for LiveUpdate {
            seq,
            race,
            messages,
            ..
        } in updates
        {
            let odds = messages.into_iter().find(|m| m.kind == LiveKind::Odds);
            let Some(odds) = odds else { continue };
            if self.last_seq.fetch_max(seq, Ordering::AcqRel) >= seq {
                continue;
            }
            let text = odds.json.into();
            // An error only means that nobody listens.
            let _ = self
                .news
                .send(Arc::new(News::Update(Update { seq, race, text })));
        }
    }

    /// Says that the views were begun anew, and are at `seq`. Of another log, that may be less than it was.
    pub fn begin_anew(&self, seq: u64) {
        self.last_seq.store(seq, Ordering::Release);
        let _ = self.news.send(Arc::new(News::BegunAnew));
    }

    /// Listens from now on.
    #[must_use]
    pub fn listen(&self) -> broadcast::Receiver<Arc<News>> {
        self.news.subscribe()
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
