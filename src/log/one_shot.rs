//! [`OneShotConnection`]: a connection that ends when it breaks.

use std::error::Error;
use std::io;
use std::sync::Arc;

use tokio::runtime::{Builder, Runtime};

use super::{Log, LogError, Mode};

/// A connection that ends when it breaks, with all that waits to be sent on it.
///
/// Other connections come back by themselves, and then first send what they were given meanwhile: ahead of what was lost
/// with the old connection and has to be sent again.
#[derive(Debug)]
pub(super) struct OneShotConnection {
    log: Log,
    /// Where the client library works for this connection. A connection that stays away ends with it.
    _works: Works,
}

impl OneShotConnection {
    /// Connects once more to where a log is.
    pub(super) async fn open(log: &Log) -> Result<Self, LogError> {
        let unreachable = |error: &dyn Error| LogError::Unreachable(error.to_string());
        let works = Works::begin().map_err(|error| unreachable(&error))?;
        let address = Arc::clone(&log.address);
        let connecting = works.spawn(async move {
            let log = Log::open(&address.url, &address.name, Mode::Once).await?;
            // The word that it stood comes by another way than the connection itself, and may come after that of its end.
            let _ = log.connection().wait_for(|stood| stood.epoch > 0).await;
            Ok(log)
        });
        let log = connecting.await.map_err(|error| unreachable(&error))??;
        Ok(Self { log, _works: works })
    }

    pub(super) fn log(&self) -> &Log {
        &self.log
    }

    pub(super) fn is_lost(&self) -> bool {
        !self.log.connection.borrow().up
    }
}

/// A runtime that may end wherever it is dropped: it waits for nothing.
#[derive(Debug)]
struct Works(Option<Runtime>);

impl Works {
    fn begin() -> io::Result<Self> {
        let mut builder = Builder::new_multi_thread();
        let builder = builder.worker_threads(1).thread_name("line").enable_all();
        builder.build().map(|runtime| Self(Some(runtime)))
    }

    fn spawn<T: Send + 'static>(
        &self,
        work: impl Future<Output = T> + Send + 'static,
    ) -> tokio::task::JoinHandle<T> {
        let runtime = self.0.as_ref().expect("it is taken when it is dropped");
        runtime.spawn(work)
    }
}

impl Drop for Works {
    fn drop(&mut self) {
        if let Some(runtime) = self.0.take() {
            runtime.shutdown_background();
        }
    }
}
