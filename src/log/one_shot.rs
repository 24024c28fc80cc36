//! [`OneShotConnection`]: a connection that does not reconnect.

use std::error::Error;
use std::sync::Arc;

use super::connection::{ACK_TIMEOUT, ConnectMode, Log};
use super::error::LogError;
use super::runtime::DetachedRuntime;
#[cfg(test)]
use super::server::Server;

/// A connection that ends when it breaks, together with the messages that are buffered for it.
///
/// A connection that reconnects first sends what was buffered meanwhile. That would overtake the messages that were
/// lost with the old connection and have to be sent again.
#[derive(Debug)]
pub(super) struct OneShotConnection {
    log: Log,
    /// The client library's tasks for this connection. A client that does not reconnect ends only with its runtime.
    _runtime: Option<DetachedRuntime>,
}

impl OneShotConnection {
    /// Connects once more to the server of a log.
    ///
    /// # Errors
    /// Returns [`LogError::Unreachable`] or [`LogError::LoginRejected`].
    pub(super) async fn open(log: &Log) -> Result<Self, LogError> {
        #[cfg(test)]
        if let Server::Simulated(connection) = &log.server {
            return Ok(Self {
                log: Log::simulated(connection.one_shot().await?),
                _runtime: None,
            });
        }
        let unreachable = |error: &dyn Error| LogError::Unreachable(error.to_string());
        let runtime = DetachedRuntime::start("append", 1).map_err(|error| unreachable(&error))?;
        let address = Arc::clone(&log.address);
        let failures = Arc::clone(&log.failures);
        let name = Arc::clone(&log.name);
        let opening = Log::open(address, failures, name, ConnectMode::OneShot);
        let connecting = runtime.handle().spawn(opening);
        let mut log = connecting.await.map_err(|error| unreachable(&error))??;
        // A whole window may wait for a disk.
        log.server.set_timeout(ACK_TIMEOUT);
        Ok(Self {
            log,
            _runtime: Some(runtime),
        })
    }

    pub(super) fn log(&self) -> &Log {
        &self.log
    }

    pub(super) fn is_lost(&self) -> bool {
        !self.log.status.borrow().up
    }
}
