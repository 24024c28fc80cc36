//! [`Gcra`]: a token bucket in one atomic number, by the generic cell rate algorithm.

use std::num::NonZeroU32;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// A limit of a number of requests in a period.
///
/// The state of a bucket is the time at which it is full again, in nanoseconds since a start that the caller chooses. A
/// bucket of 0 is full.
#[derive(Debug, Clone, Copy)]
pub(super) struct Gcra {
    /// The nanoseconds in which one request is refilled.
    interval: u64,
    /// The nanoseconds in which an empty bucket is refilled.
    capacity: u64,
}

impl Gcra {
    pub(super) fn new(limit: NonZeroU32, period: Duration) -> Self {
        let interval = nanos(period / limit.get()).max(1);
        Self {
            interval,
            capacity: interval.saturating_mul(limit.get().into()),
        }
    }

    /// Takes one request from a bucket, and returns how many remain.
    ///
    /// # Errors
    /// Returns the time until the next request if the bucket is empty.
    pub(super) fn take(&self, bucket: &AtomicU64, now: Duration) -> Result<u32, Duration> {
        let taken = bucket.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |full_at| {
            self.next(full_at, now).ok()
        });
        // The update is refused only where `next` is an error.
        let full_at = self.next(taken.unwrap_or_else(|full_at| full_at), now)?;
        let remaining = (self.capacity - (full_at - nanos(now))) / self.interval;
        Ok(u32::try_from(remaining).unwrap_or(u32::MAX))
    }

    /// Takes requests from a bucket even if it has fewer. What it lacks is refilled before the next one.
    pub(super) fn charge(&self, bucket: &AtomicU64, now: Duration, requests: u32) {
        let charged = self.interval.saturating_mul(requests.into());
        // The update is never refused.
        let _ = bucket.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |full_at| {
            Some(full_at.max(nanos(now)).saturating_add(charged))
        });
    }

    /// The time until the next request; zero if the bucket is not empty.
    pub(super) fn retry_after(&self, bucket: &AtomicU64, now: Duration) -> Duration {
        let next = self.next(bucket.load(Ordering::Relaxed), now);
        next.err().unwrap_or_default()
    }

    /// The time until the bucket is full; zero if it is.
    pub(super) fn full_after(&self, bucket: &AtomicU64, now: Duration) -> Duration {
        Duration::from_nanos(bucket.load(Ordering::Relaxed)).saturating_sub(now)
    }

    /// The requests that are missing in a bucket that is full after a time.
    pub(super) fn missing(&self, full_after: Duration) -> u32 {
        u32::try_from(nanos(full_after).div_ceil(self.interval)).unwrap_or(u32::MAX)
    }

    /// The state of a bucket after one more request, or the time until there is one.
    fn next(&self, full_at: u64, now: Duration) -> Result<u64, Duration> {
        let now = nanos(now);
        let next = full_at.max(now).saturating_add(self.interval);
        match (next - now).checked_sub(self.capacity) {
            None | Some(0) => Ok(next),
            Some(wait) => Err(Duration::from_nanos(wait)),
        }
    }
}

fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

/// Rounds a wait up to whole seconds, at least one, so that a client that waits for it is not too early.
pub(super) fn whole_seconds(wait: Duration) -> u32 {
    let seconds = wait.as_secs() + u64::from(wait.subsec_nanos() > 0);
    u32::try_from(seconds.max(1)).unwrap_or(u32::MAX)
}
