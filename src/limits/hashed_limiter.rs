//! [`HashedLimiter`]: a rate limit for each of any number of clients, in a table of a fixed size.

use std::hash::{BuildHasher, Hash, RandomState};
use std::num::NonZeroU32;
use std::sync::atomic::AtomicU64;
use std::time::{Duration, Instant};

use super::gcra::{Gcra, whole_seconds};

/// Half a MiB. Of a thousand clients that are counted at the same time, one in a hundred shares a slot with another.
const SLOTS: usize = 1 << 16;

/// A rate limit for each of any number of clients, by network address or e-mail address.
///
/// A hash with a secret of this process chooses the slot of a client. Two clients may share a slot, and then its limit;
/// no client can find out with whom. So the table never grows, and needs no sweeping.
#[derive(Debug)]
pub struct HashedLimiter {
    limit: Gcra,
    slots: Box<[AtomicU64]>,
    hasher: RandomState,
    start: Instant,
}

impl HashedLimiter {
    /// A limit of a number of requests in a period for each client.
    #[must_use]
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
        let slot = self.hasher.hash_one(client) % SLOTS as u64;
        let slot = usize::try_from(slot).expect("there are fewer slots");
        let taken = self.limit.take(&self.slots[slot], self.start.elapsed());
        taken.map(drop).map_err(whole_seconds)
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
    fn a_million_clients_take_no_more_memory_than_one() {
        let many = per_hour(10);
        for client in 0..1_000_000_u32 {
            let _ = many.take(&client);
        }
        assert_eq!(size_of_val(&*many.slots), 512 * 1024);

        let few = per_hour(1);
        let served = (0..1_000_u32).filter(|client| few.take(client).is_ok());
        let served = served.count();
        assert!(
            served > 950,
            "{served} of a thousand have a slot of their own"
        );
    }
}
