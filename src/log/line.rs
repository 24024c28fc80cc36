//! [`Line`]: a connection that ends when it breaks.

use std::error::Error;
use std::sync::Arc;

use tokio::runtime::{Builder, Runtime};

use super::{Log, LogError, Mode};

/// A connection that ends when it breaks, with all that waits to be sent on it.
///
/// Other connections come back by themselves, and then first send what they were given meanwhile: ahead of what was lost
/// with the old connection and has to be sent again.
#[derive(Debug)]
pub(super) struct Line {
    log: Log,
    /// Where the client library works for this connection. A connection that stays away ends with it.
    runtime: Option<Runtime>,
}

impl Line {
    /// Connects once more to where a log is.
    pub(super) async fn open(log: &Log) -> Result<Self, LogError> {
        let unreachable = |error: &dyn Error| LogError::Unreachable(error.to_string());
        let runtime = Builder::new_multi_thread()
            .worker_threads(1)
            .thread_name("line")
            .enable_all()
            .build()
            .map_err(|error| unreachable(&error))?;
        let address = Arc::clone(&log.address);
        let connecting = runtime.spawn(async move {
            let log = Log::open(&address.url, &address.name, Mode::Once).await?;
            // The word that it stood comes by another way than the connection itself.
            let _ = log.connection().wait_for(|stood| stood.epoch > 0).await;
            Ok(log)
        });
        let line = connecting.await.map_err(|error| unreachable(&error));
        match line.flatten() {
            Ok(log) => Ok(Self {
                log,
                runtime: Some(runtime),
            }),
            Err(error) => {
                runtime.shutdown_background();
                Err(error)
            }
        }
    }

    pub(super) fn log(&self) -> &Log {
        &self.log
    }

    pub(super) fn is_lost(&self) -> bool {
        !self.log.connection.borrow().up
    }
}

impl Drop for Line {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}
