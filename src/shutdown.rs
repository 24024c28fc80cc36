//! [`Shutdown`]: the signal that ends every loop. [`Signals`]: those of the operating system.

use std::io;

use futures::future::select_all;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio_util::sync::CancellationToken;

/// The signal that ends every loop: `cancel` sends it, `cancelled` waits for it. Clones share it.
pub type Shutdown = CancellationToken;

/// Signals of the operating system. Once they are handled here, they end this process no more.
#[derive(Debug)]
pub struct Signals(Vec<Signal>);

impl Signals {
    /// Handles Ctrl-C and SIGTERM from here on, so that one during the start is not lost.
    ///
    /// # Errors
    /// Returns an error if the process may not handle signals.
    pub fn install() -> io::Result<Self> {
        Self::of(&[SignalKind::interrupt(), SignalKind::terminate()])
    }

    /// Handles these.
    ///
    /// # Errors
    /// As [`Signals::install`].
    pub fn of(kinds: &[SignalKind]) -> io::Result<Self> {
        let signals = kinds.iter().map(|kind| signal(*kind));
        signals.collect::<io::Result<_>>().map(Self)
    }

    /// Waits for the next signal. Those that come while nothing waits count as one. Cancel-safe.
    pub async fn next(&mut self) {
        let received = self.0.iter_mut().map(|signal| Box::pin(signal.recv()));
        select_all(received).await;
    }
}

/// A process was stopped before it had ended what was in progress.
#[derive(Debug, thiserror::Error)]
#[error("stopped at once by a second signal: what was in progress is cut off")]
pub struct StoppedAtOnce;
