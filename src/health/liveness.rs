//! [`Liveness`]: whether the feed receives what happens.

use std::time::Duration;

use schemars::JsonSchema;
use serde::Serialize;
use tokio::sync::watch;

use super::sources::{SourceHealth, Sources};
use crate::log::ConnectionStatus;
use crate::projector::{Phase, Status};

/// Views that were not known for this long to reflect the whole log are stale.
pub const STALE_AFTER: Duration = Duration::from_secs(10);
/// After this long the feed is down.
const DOWN_AFTER: Duration = Duration::from_secs(30);

/// Whether the feed receives what happens.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema, strum::IntoStaticStr)]
#[serde(rename_all = "lowercase")]
#[strum(serialize_all = "lowercase", const_into_str)]
#[schemars(rename = "FeedState")]
pub enum Liveness {
    /// Within the last 10 seconds, the views were known to reflect the whole log.
    Live,
    /// Not for 10 seconds, or the log cannot be reached.
    Stale,
    /// Not for 30 seconds.
    Down,
}

impl Liveness {
    /// The state by the progress of the projector and the connection to the log.
    pub fn of(status: &Status, connection: ConnectionStatus) -> Self {
        let age = status.freshness.age();
        if age >= DOWN_AFTER {
            Self::Down
        } else if age >= STALE_AFTER || status.phase != Phase::Live || !connection.up {
            Self::Stale
        } else {
            Self::Live
        }
    }
}

/// Whether the feed receives what happens, in heartbeats.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub(crate) struct FeedHealth {
    /// Whether the views reflect the whole log.
    pub(crate) state: Liveness,
    /// When the log recorded the last event that the views reflect, RFC 3339; empty before the first.
    pub(crate) last_event_at: String,
    /// For how many milliseconds events have been delayed; 0 if none is.
    pub(crate) lag_ms: u64,
    /// The feeders that show that they are alive, since the start of the service.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) sources: Vec<SourceHealth>,
}

impl FeedHealth {
    /// The health by the progress of the projector and the connection to the log.
    pub(crate) fn of(
        status: &Status,
        connection: ConnectionStatus,
        sources: Vec<SourceHealth>,
    ) -> Self {
        let state = Liveness::of(status, connection);
        let is_delayed = state != Liveness::Live || status.pending > 0;
        let lag = is_delayed.then(|| status.freshness.age());
        let last_event_at = status.recorded_at.map(|at| at.to_string());
        Self {
            state,
            last_event_at: last_event_at.unwrap_or_default(),
            lag_ms: u64::try_from(lag.unwrap_or_default().as_millis()).unwrap_or(u64::MAX),
            sources,
        }
    }
}

/// The sources of the feed's health. Clones share them.
///
/// It returns copies. A thread that holds one guard of a watch channel and takes another one of the same channel never
/// ends if a value is sent between the two.
#[derive(Debug, Clone)]
pub struct FeedMonitor {
    projector: watch::Receiver<Status>,
    connection: watch::Receiver<ConnectionStatus>,
    pub sources: Sources,
}

impl FeedMonitor {
    /// The monitor of a projector and of its connection to the log.
    pub fn new(
        projector: watch::Receiver<Status>,
        connection: watch::Receiver<ConnectionStatus>,
    ) -> Self {
        Self {
            projector,
            connection,
            sources: Sources::default(),
        }
    }

    /// The progress of the projector.
    pub fn progress(&self) -> Status {
        self.projector.borrow().clone()
    }

    /// Whether the service is connected to the log.
    pub fn connection(&self) -> ConnectionStatus {
        *self.connection.borrow()
    }

    pub fn liveness(&self) -> Liveness {
        Liveness::of(&self.progress(), self.connection())
    }

    pub(crate) fn health(&self) -> FeedHealth {
        FeedHealth::of(&self.progress(), self.connection(), self.sources.states())
    }
}
