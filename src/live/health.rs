//! [`Health`]: whether the feed hears of what happens, as heartbeats tell it.

use std::time::{Duration, Instant};

use tokio::sync::watch;

use super::fan_out::LiveContext;
use super::message::FeedHealth;
use super::status::{Phase, Status};
use crate::log::ConnectionStatus;

/// A log that is out of reach for so long is not coming back by itself.
const DOWN_AFTER: Duration = Duration::from_secs(30);

#[derive(Debug)]
pub(super) struct Health {
    projector: watch::Receiver<Status>,
    connection: watch::Receiver<ConnectionStatus>,
    /// The state that was told last.
    told: &'static str,
}

impl Health {
    pub(super) fn new(channel: &LiveContext) -> Self {
        let mut health = Self {
            projector: channel.projector.clone(),
            connection: channel.connection.clone(),
            told: "",
        };
        health.told = health.now().state;
        health
    }

    pub(super) fn now(&self) -> FeedHealth {
        let (state, held_up_since) = self.state();
        let held_up = held_up_since.map_or(Duration::ZERO, |since| since.elapsed());
        let last_event_at = self.projector.borrow().recorded_at;
        FeedHealth {
            state,
            last_event_at: last_event_at.map(|at| at.to_string()).unwrap_or_default(),
            lag_ms: u64::try_from(held_up.as_millis()).unwrap_or(u64::MAX),
        }
    }

    /// The health, if it is another than was told last.
    pub(super) fn has_changed(&mut self) -> Option<FeedHealth> {
        let health = self.now();
        let before = std::mem::replace(&mut self.told, health.state);
        (before != health.state).then_some(health)
    }

    /// The state, and since when something has been held up.
    fn state(&self) -> (&'static str, Option<Instant>) {
        let connection = *self.connection.borrow();
        let status = self.projector.borrow();
        if !connection.up {
            let down = connection.changed_at.elapsed() > DOWN_AFTER;
            return (
                if down { "down" } else { "stale" },
                Some(connection.changed_at),
            );
        }
        let live = status.phase == Phase::Live && !status.is_stalled();
        let held_up = !live || status.pending > 0;
        (
            if live { "live" } else { "stale" },
            held_up.then_some(status.progress_at),
        )
    }
}
