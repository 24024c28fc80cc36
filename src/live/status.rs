//! [`Status`]: how far the projector is, as it publishes it.

use std::time::{Duration, Instant};

use events::Moment;
use projections::Store;

/// A log that has more, of which nothing came for this long, is no progress.
const STALLED_AFTER: Duration = Duration::from_secs(10);

/// Where the projector stands.
#[derive(Debug, Clone)]
pub struct Status {
    /// What it does.
    pub phase: Phase,
    /// The last event that the views reflect.
    pub seq: u64,
    /// Events that the log holds behind it, as far as is known.
    pub pending: u64,
    /// When the log took that event.
    pub recorded_at: Option<Moment>,
    /// When it last moved, or had nothing to do.
    pub progress_at: Instant,
    /// How far a rebuild beside the live views is, while there is one: seq and pending.
    pub rebuild: Option<(u64, u64)>,
    /// How many rebuilds were put in force.
    pub rebuilds: u64,
}

/// What the projector does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Phase {
    /// It waits for the log.
    WaitingForLog,
    /// It folds what the log held when it began.
    CatchingUp,
    /// It has folded all that, and follows.
    Live,
}

impl Phase {
    /// The word in answers.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::WaitingForLog => "waiting_for_log",
            Self::CatchingUp => "catching_up",
            Self::Live => "live",
        }
    }
}

impl Status {
    pub(crate) fn new(store: &Store) -> Self {
        let checkpoint = store.checkpoint();
        Self {
            phase: Phase::WaitingForLog,
            seq: store.seq(),
            pending: 0,
            recorded_at: checkpoint.and_then(|checkpoint| checkpoint.recorded_at),
            progress_at: Instant::now(),
            rebuild: None,
            rebuilds: 0,
        }
    }

    /// Whether the log has more and nothing came of it for a while.
    #[must_use]
    pub fn is_stalled(&self) -> bool {
        self.pending > 0 && self.progress_at.elapsed() > STALLED_AFTER
    }
}
