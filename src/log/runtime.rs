//! [`DetachedRuntime`]: where the log is read and folded, on threads of its own. Those that serve look for requests between two tasks, and a log that
//! says much would make these long.

use std::io;

use tokio::runtime::{Builder, Handle, Runtime};

/// The client library parses what comes on one of them while the other one makes batches of it.
const THREADS: usize = 2;

/// Threads that end, without waiting for what they do, when it is dropped.
#[derive(Debug)]
pub(crate) struct DetachedRuntime(Option<Runtime>);

impl DetachedRuntime {
    pub(crate) fn start() -> io::Result<Self> {
        let runtime = Builder::new_multi_thread()
            .worker_threads(THREADS)
            .thread_name("log")
            .enable_all()
            .build()?;
        Ok(Self(Some(runtime)))
    }

    pub(crate) fn handle(&self) -> &Handle {
        self.0
            .as_ref()
            .expect("it lives until it is dropped")
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
