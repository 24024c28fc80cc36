//! [`HashedLimiter`]: one limit for each of any number of strangers, in a table that does not grow.

use std::hash::{BuildHasher, Hash, RandomState};
use std::num::NonZeroU32;
use std::time::Duration;

use governor::RateLimiter;
use governor::clock::{Clock, DefaultClock};
use governor::nanos::Nanos;
use governor::state::{InMemoryState, NotKeyed, StateStore};

use super::{quota, seconds};

/// Half a MiB. Of a thousand strangers who are counted at a time, one in a hundred shares a cell with another.
const CELLS: usize = 1 << 16;

/// One limit for each of any number of strangers: network addresses, e-mail addresses.
///
/// A stranger's cell is told by a hash with a secret of this process. Two may share one, and then share its limit; nobody can tell with
/// whom. So the table takes the same memory, however many there are, and needs no sweeping.
#[derive(Debug)]
pub struct HashedLimiter {
    limiter: RateLimiter<u64, Table, DefaultClock>,
    hasher: RandomState,
}

impl HashedLimiter {
    /// So many in a period for each.
    #[must_use]
    pub fn new(limit: NonZeroU32, period: Duration) -> Self {
        let clock = DefaultClock::default();
        Self {
            limiter: RateLimiter::new(quota(limit, period), Table::default(), clock),
            hasher: RandomState::new(),
        }
    }

    /// Counts one more of somebody.
    ///
    /// # Errors
    /// Nothing was left. In so many seconds there is.
    pub fn take(&self, who: &impl Hash) -> Result<(), u32> {
        let taken = self.limiter.check_key(&self.hasher.hash_one(who));
        taken.map_err(|until| seconds(until.wait_time_from(self.limiter.clock().now())))
    }
}

#[derive(Debug)]
struct Table(Box<[InMemoryState]>);

impl Default for Table {
    fn default() -> Self {
        Self((0..CELLS).map(|_| InMemoryState::default()).collect())
    }
}

impl StateStore for Table {
    type Key = u64;

    fn measure_and_replace<T, F, E>(&self, hash: &u64, measure: F) -> Result<T, E>
    where
        F: Fn(Option<Nanos>) -> Result<(T, Nanos), E>,
    {
        let cell = usize::try_from(*hash % CELLS as u64).expect("there are fewer");
        self.0[cell].measure_and_replace(&NotKeyed::NonKey, measure)
    }
}

#[cfg(test)]
mod tests {
    use std::num::NonZeroU32;
    use std::time::Duration;

    use super::HashedLimiter;

    fn cells(limit: u32) -> HashedLimiter {
        let limit = NonZeroU32::new(limit).expect("some");
        HashedLimiter::new(limit, Duration::from_secs(60 * 60))
    }

    #[test]
    fn each_has_a_limit_of_its_own() {
        let cells = cells(2);
        assert_eq!(cells.take(&"one"), Ok(()));
        assert_eq!(cells.take(&"one"), Ok(()));
        let wait = cells.take(&"one").expect_err("nothing is left");
        assert!((1..=1_800).contains(&wait), "{wait}");
        assert!((0..100).any(|other| cells.take(&other).is_ok()));
    }

    #[test]
    fn a_million_strangers_take_no_more_memory_than_one() {
        let many = cells(10);
        for who in 0..1_000_000_u32 {
            let _ = many.take(&who);
        }
        let table = many.limiter.into_state_store();
        assert_eq!(size_of_val(&*table.0), 512 * 1024);

        let few = cells(1);
        let served = (0..1_000_u32).filter(|who| few.take(who).is_ok()).count();
        assert!(
            served > 950,
            "{served} of a thousand have a cell of their own"
        );
    }
}
