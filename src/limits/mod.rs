//! How much may be asked: a [`Meter`] for each who holds keys, and [`HashedLimiter`] for strangers, of whom there may be any number.
//!
//! Both count with GCRA: an allowance is full at first, and what was taken of it comes back evenly. Each replica counts for
//! itself, in memory.

mod hashed_limiter;
mod meter;
mod network;
pub mod plans;

use std::num::NonZeroU32;
use std::time::Duration;

use governor::Quota;

pub use hashed_limiter::HashedLimiter;
pub use meter::{Exceeded, Meter, Period, RateLimitStatus};
pub use network::{Network, Proxies};

/// An allowance of so many in a period.
fn quota(limit: NonZeroU32, period: Duration) -> Quota {
    let each = (period / limit.get()).max(Duration::from_nanos(1));
    let quota = Quota::with_period(each).expect("longer than nothing");
    quota.allow_burst(limit)
}

/// Whole seconds, and not too few: who waits for so long comes in time.
fn seconds(wait: Duration) -> u32 {
    let seconds = wait.as_secs() + u64::from(wait.subsec_nanos() > 0);
    u32::try_from(seconds.max(1)).unwrap_or(u32::MAX)
}
