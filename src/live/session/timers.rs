//! [`Timers`]: when a client is sent heartbeats, pings and conflated odds, and when it counts as dead.

use std::time::{Duration, Instant};

use crate::live::close_reason::CloseReason::{self, NotReading, NotSending};

pub(super) const PING_INTERVAL: Duration = Duration::from_secs(30);
/// A client that reads nothing for this long is closed.
const NOT_READING_AFTER: Duration = Duration::from_secs(30);
/// A client that sends nothing for this long, though it is pinged, is closed.
const NOT_SENDING_AFTER: Duration = Duration::from_secs(75);

pub(super) struct Timers {
    pub(super) heartbeat_due: Instant,
    pub(super) ping_due: Instant,
    /// When something was last received.
    pub(super) received_at: Instant,
    /// When the system last accepted bytes, or had accepted all.
    pub(super) progress_at: Instant,
    /// When conflated odds were last sent.
    pub(super) flushed_at: Instant,
    /// When the odds that are held back are sent.
    pub(super) flush_due: Option<Instant>,
}

impl Timers {
    /// The first heartbeat is sent after half an interval to a whole one, at random: clients that connected together do
    /// not get their heartbeats together.
    pub(super) fn new(heartbeat: Duration, now: Instant) -> Self {
        let random = getrandom::u32().unwrap_or(0) % 512;
        Self {
            heartbeat_due: now + heartbeat * (512 + random) / 1024,
            ping_due: now + PING_INTERVAL,
            received_at: now,
            progress_at: now,
            flushed_at: now,
            flush_due: None,
        }
    }

    /// When the next of these is due.
    pub(super) fn next(&self, is_blocked: bool) -> Instant {
        let silent_at = self.received_at + NOT_SENDING_AFTER;
        let next = self.heartbeat_due.min(self.ping_due).min(silent_at);
        let stuck_at = is_blocked.then(|| self.progress_at + NOT_READING_AFTER);
        let others = self.flush_due.into_iter().chain(stuck_at);
        others.fold(next, Instant::min)
    }

    /// Why the client counts as dead, if it does. `has_acted` asks the system, which knows what the client did while
    /// this process was stopped or had no time.
    pub(super) fn check_alive(
        &mut self,
        is_blocked: bool,
        has_acted: impl FnOnce() -> bool,
        now: Instant,
    ) -> Option<CloseReason> {
        let (since, limit, reason) = if is_blocked {
            (&mut self.progress_at, NOT_READING_AFTER, NotReading)
        } else {
            (&mut self.received_at, NOT_SENDING_AFTER, NotSending)
        };
        if now.duration_since(*since) >= limit {
            if !has_acted() {
                return Some(reason);
            }
            *since = now;
        }
        if is_blocked {
            // The client reads, so it is alive. Meanwhile nothing that it sends is read.
            self.received_at = now;
        }
        None
    }

    /// Whether new odds are to be sent now, because `at_once` or because the last ones were sent an interval ago. If
    /// not, they are held back until then.
    pub(super) fn hold_odds(&mut self, interval: Duration, at_once: bool, now: Instant) -> bool {
        let due = self.flushed_at + interval;
        let is_due = at_once || due <= now;
        self.flush_due = (!is_due).then_some(due);
        is_due
    }

    /// Whether odds that were held back are due; then they are not held back any more.
    pub(super) fn take_flush(&mut self, now: Instant) -> bool {
        self.flush_due.take_if(|due| *due <= now).is_some()
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use super::Timers;
    use crate::live::close_reason::CloseReason;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn odds_are_held_back_for_the_rest_of_the_interval() {
        let now = Instant::now();
        let mut timers = Timers::new(60 * SECOND, now);
        assert!(!timers.hold_odds(10 * SECOND, false, now + SECOND));
        assert!(!timers.take_flush(now + 9 * SECOND) && timers.flush_due.is_some());
        assert_eq!(timers.next(false), now + 10 * SECOND);
        assert!(timers.take_flush(now + 10 * SECOND) && timers.flush_due.is_none());

        timers.flushed_at = now + 10 * SECOND;
        assert!(!timers.hold_odds(10 * SECOND, false, now + 11 * SECOND));
        assert!(timers.hold_odds(10 * SECOND, true, now + 12 * SECOND));
        assert!(
            timers.flush_due.is_none(),
            "all are sent with what cannot wait"
        );
        assert!(timers.hold_odds(10 * SECOND, false, now + 20 * SECOND));
    }

    #[test]
    fn a_blocked_client_is_dead_after_30_seconds_without_progress_and_any_other_after_75_of_silence()
     {
        let now = Instant::now();
        let mut timers = Timers::new(60 * SECOND, now);
        assert_eq!(timers.check_alive(true, || false, now + 29 * SECOND), None);
        let dead = timers.check_alive(true, || false, now + 30 * SECOND);
        assert_eq!(dead, Some(CloseReason::NotReading));
        timers.progress_at = now + 30 * SECOND;
        assert_eq!(timers.check_alive(true, || false, now + 59 * SECOND), None);

        assert_eq!(
            timers.check_alive(false, || false, now + 133 * SECOND),
            None
        );
        let dead = timers.check_alive(false, || false, now + 134 * SECOND);
        assert_eq!(dead, Some(CloseReason::NotSending));
    }
}
