//! [`SingleReads`]: when a reader reads messages one by one. A message may close each connection on which a consumer
//! delivers it, and so delay all others.

use std::time::Duration;

use super::backoff::Backoff;
use crate::clock::Uptime;

/// Messages that are read one by one after a lost connection: where one message closes a connection, others may follow.
pub(super) const AFTER_LOSS: u64 = 32;
/// Messages of a batch while all are read one by one.
const OF_A_BATCH: u64 = 512;
/// Connections that are lost one soon after the other before all messages are read one by one. A server that restarts
/// costs one.
const LOSSES_MAX: u32 = 3;
/// For how long all messages are read one by one, at first and after further losses.
const PERIOD: Backoff = Backoff::new(Duration::from_secs(10), Duration::from_secs(60));
/// A loss this long after the one before, or after messages were read one by one, is the first of others: a message now
/// and then costs less than to read all one by one.
const LOSS_FORGOTTEN: Duration = Duration::from_secs(30);

#[derive(Debug)]
pub(super) struct SingleReads {
    /// The connection or the consumer was lost since the last message, which the next message may have caused.
    pub(super) is_after_loss: bool,
    /// Until when all messages are read one by one.
    until: Option<Uptime>,
    /// Connections that were lost one soon after the other, and when the last one was.
    pub(super) losses: u32,
    lost_at: Uptime,
    /// The connection that was last read from.
    connection_number: Option<u64>,
}

impl SingleReads {
    pub(super) fn new() -> Self {
        Self {
            is_after_loss: false,
            until: None,
            losses: 0,
            lost_at: Uptime::now(),
            connection_number: None,
        }
    }

    /// Notes the connection that is read from now. Returns a time if too many were lost before it.
    pub(super) fn connected(&mut self, connection_number: u64, now: Uptime) -> Option<Duration> {
        if self.connection_number.replace(connection_number)? == connection_number {
            return None;
        }
        let lost_at = self.lost_at;
        let last = self.until.map_or(lost_at, |until| until.max(lost_at));
        let is_first = last + LOSS_FORGOTTEN < now;
        self.losses = if is_first { 1 } else { self.losses + 1 };
        self.lost_at = now;
        Some(PERIOD.delay(self.losses.checked_sub(LOSSES_MAX)?))
    }

    /// From now on all messages are read one by one, for a time.
    pub(super) fn start(&mut self, period: Duration) {
        self.until = Some(Uptime::now() + period);
    }

    /// Whether all messages are read one by one.
    pub(super) fn are_all(&self) -> bool {
        self.until.is_some_and(|until| Uptime::now() < until)
    }

    /// How many messages are read one by one next.
    pub(super) fn count(&self) -> u64 {
        if self.are_all() {
            OF_A_BATCH
        } else if self.is_after_loss {
            AFTER_LOSS
        } else {
            0
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connections_that_are_lost_now_and_then_do_not_slow_the_reader() {
        let mut reads = SingleReads::new();
        let mut now = Uptime::now();
        for number in 0..20 {
            assert_eq!(reads.connected(number, now), None, "{number}");
            now = now + LOSS_FORGOTTEN + Duration::from_secs(1);
        }
    }

    #[test]
    fn connections_that_are_lost_one_after_the_other_do_and_ever_longer() {
        let mut reads = SingleReads::new();
        let mut now = Uptime::now();
        let mut periods = Vec::new();
        for number in 0..20 {
            let period = reads.connected(number, now);
            period.inspect(|period| reads.until = Some(now + *period));
            periods.extend(period);
            now = now + period.unwrap_or_default() + Duration::from_secs(1);
        }
        assert_eq!(periods.len(), 17);
        assert!(periods.last() > Some(&Duration::from_secs(29)));
    }
}
