//! [`DetachedRuntime`]: threads for the log, apart from those that serve requests.
//!
//! A serving thread takes new requests between two tasks. A busy log would delay them there.

use std::io;

use tokio::runtime::{Builder, Handle, Runtime};

/// Threads for reading and folding: the client library parses messages on one while the other collects batches.
pub const LOG_THREADS: usize = 2;

/// A tokio runtime that may be dropped anywhere, also in async code: it ends without waiting for its tasks.
#[derive(Debug)]
pub struct DetachedRuntime(Option<Runtime>);

impl DetachedRuntime {
    /// Starts so many threads of this name.
    ///
    /// # Errors
    /// Returns the error of the operating system if it cannot start a thread.
    pub fn start(thread_name: &str, threads: usize) -> io::Result<Self> {
        let runtime = Builder::new_multi_thread()
            .worker_threads(threads)
            .thread_name(thread_name)
            .enable_all()
            .build()?;
        Ok(Self(Some(runtime)))
    }

    /// A handle to spawn tasks with.
    pub fn handle(&self) -> &Handle {
        self.0
            .as_ref()
            .expect("the runtime is taken only by drop")
            .handle()
    }
}

impl Drop for DetachedRuntime {
    fn drop(&mut self) {
        if let Some(runtime) = self.0.take() {
            runtime.shutdown_background();
        }
    }
}
