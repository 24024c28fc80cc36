//! [`Backoff`]: exponential delays with jitter between attempts.

use std::time::Duration;

use tokio::time::{Instant, sleep};

/// Delays that double with each failure, from `min` to `max`, less up to half by chance.
///
/// The jitter keeps clients that lost the same server from coming back in step.
#[derive(Debug, Clone, Copy)]
pub struct Backoff {
    min: Duration,
    max: Duration,
}

impl Backoff {
    /// A back-off from `min` to `max`, both before jitter.
    pub const fn new(min: Duration, max: Duration) -> Self {
        Self { min, max }
    }

    /// The delay before retry number `retry`, counted from 0, with random jitter.
    pub fn delay(self, retry: u32) -> Duration {
        #[cfg(test)]
        if let Some(random) = crate::simulation::machine::random() {
            return self.delay_with(retry, random);
        }
        // Without randomness the delay is the longest one.
        self.delay_with(retry, getrandom::u32().unwrap_or(u32::MAX))
    }

    /// The delay before retry number `retry`, counted from 0: half of it for `random` 0, all of it for the maximum.
    pub fn delay_with(self, retry: u32, random: u32) -> Duration {
        let factor = 1_u32.checked_shl(retry).unwrap_or(u32::MAX);
        let half = self.min.saturating_mul(factor).min(self.max) / 2;
        half + half.mul_f64(f64::from(random) / f64::from(u32::MAX))
    }
}

/// The attempts at one operation, with a back-off between them, until a deadline.
pub(super) struct Attempts {
    backoff: Backoff,
    deadline: Instant,
    failed: u32,
}

impl Attempts {
    pub(super) fn new(backoff: Backoff, max: Duration) -> Self {
        Self {
            backoff,
            deadline: Instant::now() + max,
            failed: 0,
        }
    }

    /// Waits before the next attempt. False, at once, if the deadline has passed.
    pub(super) async fn wait(&mut self) -> bool {
        if Instant::now() >= self.deadline {
            return false;
        }
        sleep(self.backoff.delay(self.failed)).await;
        self.failed += 1;
        true
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::time::Instant;

    use super::{Attempts, Backoff};

    const MIN: Duration = Duration::from_millis(50);
    const MAX: Duration = Duration::from_secs(5);
    const BACKOFF: Backoff = Backoff::new(MIN, MAX);

    #[test]
    fn delays_double_up_to_the_maximum_and_lose_up_to_half() {
        let range = |retry| {
            (
                BACKOFF.delay_with(retry, 0),
                BACKOFF.delay_with(retry, u32::MAX),
            )
        };
        assert_eq!(range(0), (MIN / 2, MIN));
        assert_eq!(range(1), (MIN, MIN * 2));
        assert_eq!(range(6), (MIN * 32, MIN * 64));
        for retry in [7, 31, 32, 33, u32::MAX] {
            assert_eq!(range(retry), (MAX / 2, MAX), "retry {retry}");
        }
    }

    #[test]
    fn delays_of_two_clients_differ() {
        let delays: Vec<Duration> = (0..10).map(|_| BACKOFF.delay(6)).collect();
        assert!(delays.iter().any(|delay| *delay != delays[0]), "{delays:?}");
        for delay in delays {
            assert!((MIN * 32..=MIN * 64).contains(&delay), "{delay:?}");
        }
    }

    #[tokio::test]
    async fn attempts_end_at_the_deadline() {
        let begun = Instant::now();
        let backoff = Backoff::new(Duration::from_millis(1), Duration::from_millis(4));
        let mut attempts = Attempts::new(backoff, Duration::from_millis(30));
        let mut waits = 0;
        while attempts.wait().await {
            waits += 1;
        }
        assert!(begun.elapsed() >= Duration::from_millis(30));
        assert!(waits > 2, "{waits} waits");
    }
}
