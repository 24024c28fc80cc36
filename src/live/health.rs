//! [`Health`]: whether the feed receives what happens, for heartbeats.

use std::time::{Duration, Instant};

use tokio::sync::watch;

use super::context::LiveContext;
use super::server_message::FeedHealth;
use super::status::{Phase, Status};
use crate::log::ConnectionStatus;

/// A log that cannot be reached for this long counts as down.
const DOWN_AFTER: Duration = Duration::from_secs(30);

#[derive(Debug)]
pub(super) struct Health {
    projector: watch::Receiver<Status>,
    connection: watch::Receiver<ConnectionStatus>,
    last_state: &'static str,
}

impl Health {
    pub(super) fn new(context: &LiveContext) -> Self {
        let mut health = Self {
            projector: context.projector.clone(),
            connection: context.connection.clone(),
            last_state: "",
        };
        health.last_state = health.current().state;
        health
    }

    pub(super) fn current(&self) -> FeedHealth {
        let (state, delayed_since) = self.state();
        let lag = delayed_since.map_or(Duration::ZERO, |since| since.elapsed());
        let last_event_at = self.projector.borrow().recorded_at;
        FeedHealth {
            state,
            last_event_at: last_event_at.map(|at| at.to_string()).unwrap_or_default(),
            lag_ms: u64::try_from(lag.as_millis()).unwrap_or(u64::MAX),
        }
    }

    /// The health, if its state has changed since the last call.
    pub(super) fn changed(&mut self) -> Option<FeedHealth> {
        let health = self.current();
        let before = std::mem::replace(&mut self.last_state, health.state);
        (before != health.state).then_some(health)
    }

    /// The state, and since when events have been delayed.
    fn state(&self) -> (&'static str, Option<Instant>) {
        let connection = *self.connection.borrow();
        let status = self.projector.borrow();
        if !connection.up {
            let is_down = connection.changed_at.elapsed() > DOWN_AFTER;
            let state = if is_down { "down" } else { "stale" };
            return (state, Some(connection.changed_at));
        }
        let is_live = status.phase == Phase::Live && !status.is_stalled();
        let is_delayed = !is_live || status.pending > 0;
        let state = if is_live { "live" } else { "stale" };
        (state, is_delayed.then_some(status.progress_at))
    }
}
