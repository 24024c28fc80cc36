//! [`HashedLimiter`]: a rate limit for each of any number of clients, in a table of a fixed size.

use std::hash::{BuildHasher, Hash, RandomState};
use std::num::NonZeroU32;
use std::sync::atomic::AtomicU64;
use std::time::{Duration, Instant};

use super::gcra::{Gcra, whole_seconds};

/// Half a MiB. As many as a part of a hash can choose among.
const SLOTS: usize = 1 << 16;

/// A rate limit for each of any number of clients, by network address or e-mail address.
///
/// A hash with a secret of this process chooses four slots for a client. Each of its requests is counted in all four,
/// and is rejected only if all are empty: a client is limited by others only if they use up all its slots. Of a
/// thousand clients that use up theirs, that happens to one in a hundred thousand, and no client can find out with whom
/// it shares a slot. So the table never grows, and needs no sweeping.
#[derive(Debug)]
pub struct HashedLimiter {
    limit: Gcra,
    slots: Box<[AtomicU64]>,
    hasher: RandomState,
    start: Instant,
}

impl HashedLimiter {
    /// A limit of a number of requests in a period for each client.
    pub fn new(limit: NonZeroU32, period: Duration) -> Self {
        Self {
            limit: Gcra::new(limit, period),
            slots: (0..SLOTS).map(|_| AtomicU64::default()).collect(),
            hasher: RandomState::new(),
            start: Instant::now(),
        }
    }

    /// Counts a request of a client.
    ///
    /// # Errors
    /// Returns the seconds until the next request if the limit is reached.
    pub fn take(&self, client: &impl Hash) -> Result<(), u32> {
        let now = self.start.elapsed();
        let waits = (self.slots_of(client)).map(|slot| self.limit.take(slot, now).err());
        // No wait is less than any. All are computed, so that each slot counts the request.
        let wait = waits.min().flatten();
        wait.map_or(Ok(()), |wait| Err(whole_seconds(wait)))
    }

    /// Checks that a client has a request left, without counting it: what it costs is [charged](Self::charge) later.
    ///
    /// # Errors
    /// As [`HashedLimiter::take`].
    pub fn check(&self, client: &impl Hash) -> Result<(), u32> {
        let now = self.start.elapsed();
        let waits = (self.slots_of(client)).map(|slot| self.limit.retry_after(slot, now));
        let wait = waits.min().filter(|wait| !wait.is_zero());
        wait.map_or(Ok(()), |wait| Err(whole_seconds(wait)))
    }

    /// Counts what was admitted as so many requests, even if fewer are left: the client then waits for longer.
    pub fn charge(&self, client: &impl Hash, requests: u32) {
        let now = self.start.elapsed();
        for slot in self.slots_of(client) {
            self.limit.charge(slot, now, requests);
        }
    }

    /// The slots of a client.
    fn slots_of(&self, client: &impl Hash) -> impl Iterator<Item = &AtomicU64> {
        let hash = self.hasher.hash_one(client);
        (0..4).map(move |part| &self.slots[usize::from((hash >> (16 * part)) as u16)])
    }
}

#[cfg(test)]
mod tests {
    use std::num::NonZeroU32;
    use std::time::Duration;

    use super::HashedLimiter;

    fn per_hour(limit: u32) -> HashedLimiter {
        let limit = NonZeroU32::new(limit).expect("some");
        HashedLimiter::new(limit, Duration::from_secs(60 * 60))
    }

    #[test]
    fn each_client_has_its_own_limit() {
        let limiter = per_hour(2);
        assert_eq!(limiter.take(&"one"), Ok(()));
        assert_eq!(limiter.take(&"one"), Ok(()));
        let wait = limiter.take(&"one").expect_err("nothing remains");
        assert!((1..=1_800).contains(&wait), "{wait}");
        assert!((0..100).any(|other| limiter.take(&other).is_ok()));
    }

    #[test]
    fn what_a_client_is_charged_it_waits_for() {
        let limiter = per_hour(10);
        limiter.charge(&"one", 9);
        assert_eq!(limiter.check(&"one"), Ok(()));
        limiter.charge(&"one", 21);
        let wait = limiter.check(&"one").expect_err("twenty are missing");
        let expected = 21 * 360;
        assert!((expected - 5..=expected).contains(&wait), "{wait}");
        assert!((0..100).any(|other| limiter.check(&other).is_ok()));
    }

    #[test]
    fn a_million_clients_take_no_more_memory_than_one() {
        let many = per_hour(10);
        for client in 0..1_000_000_u32 {
            let _ = many.take(&client);
        }
        assert_eq!(size_of_val(&*many.slots), 512 * 1024);
    }

    #[test]
    fn a_thousand_clients_do_not_limit_each_other() {
        let limiter = per_hour(1);
        let limited = (0..1_000_u32).filter(|client| limiter.take(client).is_err());
        // One is limited in 3 of a thousand runs, two in 4 of a million.
        assert!(limited.count() <= 1);
    }
}
