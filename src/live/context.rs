//! [`LiveContext`]: what every part of the live channel uses.

use std::sync::Arc;

use crate::accounts::KeyCache;
use crate::feed::Feed;
use crate::health::FeedMonitor;
use crate::metrics::LiveMetrics;
use crate::projector::lag::Lag;
use crate::shutdown::Shutdown;

/// What every part of the live channel uses. Clones share it.
#[derive(Debug, Clone)]
pub struct LiveContext {
    pub feed: Feed,
    pub metrics: Arc<LiveMetrics>,
    pub keys: Arc<KeyCache>,
    pub monitor: FeedMonitor,
    pub lag: Lag,
    pub shutdown: Shutdown,
    /// The feed is of the past: how late it is says nothing.
    pub is_replay: bool,
}

/// Held for each client of a shard: the number of clones is the number of its clients.
pub(super) type ClientGuard = Arc<()>;
