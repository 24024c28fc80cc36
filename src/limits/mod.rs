//! Plans and rate limits: a [`Meter`] for each holder of keys, and a [`HashedLimiter`] for any number of
//! unauthenticated clients.
//!
//! Both count with token buckets that are full at first and refill evenly. Each replica counts for itself, in memory.

mod gcra;
mod hashed_limiter;
mod meter;
mod network;
mod network_connections;
pub mod plans;

pub use hashed_limiter::HashedLimiter;
pub use meter::{Exceeded, Meter, Period, RateLimitStatus, Usage};
pub use network::{CoarseNetwork, Network, Proxies};
pub use network_connections::{NetworkConnections, NetworkPermit};
