//! [`DetachedRuntime`]: threads for the log, and for the live channel, apart from those that serve requests.
//!
//! A serving thread takes new requests between two tasks. A busy log would delay them there.

use std::time::Duration;
use std::{io, thread};

use rustix::process::setpriority_process;
use tokio::runtime::{Builder, Handle, Runtime};

/// Threads for reading and folding: the client library parses messages on one while the other collects batches.
pub const LOG_THREADS: usize = 2;

/// The nice value of work in the background: where the CPU is short, it gets a tenth of what another thread gets.
const BACKGROUND_NICE: i32 = 10;

/// A tokio runtime that may be dropped anywhere, also in async code: it ends without waiting for its tasks.
#[derive(Debug)]
pub struct DetachedRuntime(Option<Runtime>);

impl DetachedRuntime {
    /// Starts so many threads of this name.
    ///
    /// # Errors
    /// Returns the error of the operating system if it cannot start a thread.
    pub fn start(thread_name: &str, threads: usize) -> io::Result<Self> {
        let mut builder = Builder::new_multi_thread();
        let named = builder.worker_threads(threads).thread_name(thread_name);
        Ok(Self(Some(build_blocking(named)?)))
    }

    /// Starts a thread of this name that gives way to all others, as do its threads for work that blocks.
    ///
    /// # Errors
    /// As [`DetachedRuntime::start`].
    pub fn start_in_background(thread_name: &str) -> io::Result<Self> {
        let mut builder = Builder::new_multi_thread();
        let named = builder.worker_threads(1).thread_name(thread_name);
        // In Linux each thread has a priority of its own, and may lower it.
        let niced = named.on_thread_start(|| _ = setpriority_process(None, BACKGROUND_NICE));
        Ok(Self(Some(build_blocking(niced)?)))
    }

    /// Builds one with timers and sockets.
    ///
    /// # Errors
    /// As [`DetachedRuntime::start`].
    pub(crate) fn build(builder: &mut Builder) -> io::Result<Self> {
        Ok(Self(Some(builder.enable_all().build()?)))
    }

    pub(crate) fn runtime(&self) -> &Runtime {
        let runtime = self.0.as_ref();
        runtime.expect("the runtime is taken only by drop")
    }

    /// A handle to spawn tasks with.
    pub fn handle(&self) -> &Handle {
        self.runtime().handle()
    }
}

/// Builds a runtime that has a thread for work that blocks from the beginning, and keeps those that it starts. Without
/// one, tokio panics when it cannot start a thread; with one, work waits.
///
/// # Errors
/// Returns the error of the operating system if it cannot start a thread.
pub(crate) fn build_blocking(builder: &mut Builder) -> io::Result<Runtime> {
    // Where this thread cannot be started, that one could not be either.
    let ended = thread::Builder::new().spawn(|| ())?.join();
    ended.map_err(|_| io::Error::other("a thread panicked"))?;
    builder.enable_all().thread_keep_alive(Duration::MAX);
    let runtime = builder.build()?;
    runtime.spawn_blocking(|| ());
    Ok(runtime)
}

impl Drop for DetachedRuntime {
    fn drop(&mut self) {
        if let Some(runtime) = self.0.take() {
            runtime.shutdown_background();
        }
    }
}
