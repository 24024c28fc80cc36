//! [`Status`]: the progress of the projector, which the projector publishes.

use events::Moment;
use projections::Store;
use serde::Serialize;

use crate::log::Freshness;

/// The progress of the projector.
#[derive(Debug, Clone)]
pub struct Status {
    pub phase: Phase,
    /// The last event that the views reflect.
    pub seq: u64,
    /// Events that the log has after it, as far as is known.
    pub pending: u64,
    /// Sequences up to that event for which the log had none.
    pub missing: u64,
    /// When the log recorded that event.
    pub recorded_at: Option<Moment>,
    /// When the views were last known to reflect the whole log.
    pub freshness: Freshness,
    /// The progress of a rebuild beside the live views, if one is running: seq and pending.
    pub rebuild: Option<(u64, u64)>,
    /// Number of rebuilds that have replaced the live views.
    pub rebuilds: u64,
}

/// What the projector is doing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Phase {
    /// It waits for the log.
    WaitingForLog,
    /// It folds the events that the log held when it started.
    CatchingUp,
    /// It has folded these, and follows the log.
    Live,
    /// The log has another history than the views. It serves the views and waits for the log that they were folded
    /// from, or for an operator who accepts the other one.
    Diverged,
}

impl Status {
    pub(crate) fn new(store: &Store) -> Self {
        let checkpoint = store.checkpoint();
        Self {
            phase: Phase::WaitingForLog,
            seq: store.seq(),
            pending: 0,
            missing: checkpoint
                .as_ref()
                .map_or(0, |checkpoint| checkpoint.history.missing),
            recorded_at: checkpoint.and_then(|checkpoint| checkpoint.recorded_at),
            freshness: Freshness::new(),
            rebuild: None,
            rebuilds: 0,
        }
    }
}
