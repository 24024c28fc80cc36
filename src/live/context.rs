//! [`LiveContext`]: what every part of the live channel uses.

use std::sync::Arc;

use tokio::sync::watch;

use super::feed::Feed;
use super::status::Status;
use crate::accounts::KeyCache;
use crate::log::ConnectionStatus;
use crate::metrics::LiveMetrics;
use crate::shutdown::Shutdown;

/// What every part of the live channel uses. Clones share it.
#[derive(Debug, Clone)]
pub struct LiveContext {
    pub feed: Feed,
    pub metrics: Arc<LiveMetrics>,
    pub keys: Arc<KeyCache>,
    /// The progress of the projector.
    pub projector: watch::Receiver<Status>,
    /// Whether the service is connected to the log.
    pub connection: watch::Receiver<ConnectionStatus>,
    pub shutdown: Shutdown,
}

/// Held for each client of a shard: the number of clones is the number of its clients.
pub(super) type ClientGuard = Arc<()>;
