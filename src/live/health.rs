//! [`Health`]: whether the feed receives what happens, for heartbeats.

use std::time::Duration;

use schemars::JsonSchema;
use serde::Serialize;
use tokio::sync::watch;

use super::context::LiveContext;
use super::server_message::FeedHealth;
use super::status::{Phase, Status};
use crate::log::ConnectionStatus;

/// Views that were not known for this long to reflect the whole log are stale.
pub const STALE_AFTER: Duration = Duration::from_secs(10);
/// After this long the feed is down.
const DOWN_AFTER: Duration = Duration::from_secs(30);

/// Whether the feed receives what happens.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[schemars(inline)]
pub enum FeedState {
    /// The views reflect the whole log.
    Live,
    /// The views may be old.
    Stale,
    /// The views have been old for a while.
    Down,
}

impl FeedState {
    /// The state by the progress of the projector and the connection to the log.
    #[must_use]
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

    /// The name in messages and headers.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Live => "live",
            Self::Stale => "stale",
            Self::Down => "down",
        }
    }
}

#[derive(Debug)]
pub(super) struct Health {
    projector: watch::Receiver<Status>,
    connection: watch::Receiver<ConnectionStatus>,
    last_state: FeedState,
}

impl Health {
    pub(super) fn new(context: &LiveContext) -> Self {
        let (projector, connection) = (context.projector.clone(), context.connection.clone());
        let last_state = FeedState::of(&projector.borrow(), *connection.borrow());
        Self {
            projector,
            connection,
            last_state,
        }
    }

    pub(super) fn current(&self) -> FeedHealth {
        self.of(self.state())
    }

    /// The health, if its state has changed since the last call.
    pub(super) fn changed(&mut self) -> Option<FeedHealth> {
        let state = self.state();
        let before = std::mem::replace(&mut self.last_state, state);
        (before != state).then(|| self.of(state))
    }

    fn state(&self) -> FeedState {
        FeedState::of(&self.projector.borrow(), *self.connection.borrow())
    }

    fn of(&self, state: FeedState) -> FeedHealth {
        let status = self.projector.borrow();
        let is_delayed = state != FeedState::Live || status.pending > 0;
        let lag = is_delayed.then(|| status.freshness.age());
        FeedHealth {
            state,
            last_event_at: status
                .recorded_at
                .map(|at| at.to_string())
                .unwrap_or_default(),
            lag_ms: u64::try_from(lag.unwrap_or_default().as_millis()).unwrap_or(u64::MAX),
        }
    }
}
