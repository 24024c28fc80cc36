//! [`Status`]: the progress of the projector, which the projector publishes.

use events::Moment;
use projections::{Checkpoint, Tally};
use schemars::JsonSchema;
use serde::Serialize;

use crate::log::Freshness;

/// The progress of the projector; by default that at the start.
#[derive(Debug, Clone, Default)]
pub struct Status {
    pub phase: Phase,
    /// The error because of which the views are not live, if there is one.
    pub failure: Option<FoldFailure>,
    /// Number of such errors, a full disk excepted.
    pub failures: u64,
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
    /// The progress of new views that are built beside those in force, if that is running: seq and pending.
    pub rebuild: Option<(u64, u64)>,
    /// Number of rebuilds that have replaced the live views.
    pub rebuilds: u64,
    /// What became of the messages that were folded since the start, into the views in force or those before them.
    pub tally: Tally,
}

/// An error because of which the views are not live.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FoldFailure {
    /// The error, for operators. It may name files.
    pub reason: String,
    /// Whether the cause is a full disk.
    pub is_disk_full: bool,
}

/// What the projector is doing.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(rename = "ProjectorPhase")]
pub enum Phase {
    /// It opens the views and checks every byte of them.
    #[default]
    OpeningViews,
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
    /// The last event that is folded, and the number of events that the log has after it. Without views to serve, the
    /// new ones are all there is.
    pub fn reached(&self) -> (u64, u64) {
        match (self.rebuild, self.phase) {
            (Some(building), Phase::CatchingUp) if self.seq == 0 => building,
            _ => (self.seq, self.pending),
        }
    }

    /// Notes the event that the views reflect; `None` without views.
    pub(crate) fn reflect(&mut self, checkpoint: Option<&Checkpoint>) {
        self.seq = checkpoint.map_or(0, |checkpoint| checkpoint.seq);
        self.missing = checkpoint.map_or(0, |checkpoint| checkpoint.history.missing);
        self.recorded_at = checkpoint.and_then(|checkpoint| checkpoint.recorded_at);
    }
}
