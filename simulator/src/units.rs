//! Units of time.

pub(crate) const SECOND_MS: u64 = 1_000;
pub(crate) const MINUTE_MS: u64 = 60 * SECOND_MS;
pub(crate) const HOUR_MS: u64 = 60 * MINUTE_MS;
