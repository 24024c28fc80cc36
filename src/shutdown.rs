//! [`Shutdown`]: the signal that ends every loop. [`Signals`]: those of the operating system.

use std::io;

use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio_util::sync::CancellationToken;

/// The signal that ends every loop: `cancel` sends it, `cancelled` waits for it. Clones share it.
pub type Shutdown = CancellationToken;

/// Ctrl-C and SIGTERM, which end this process no more once they are [installed](Signals::install).
#[derive(Debug)]
pub struct Signals {
    interrupt: Signal,
    terminate: Signal,
}

impl Signals {
    /// Handles the signals from here on, so that one during the start is not lost.
    ///
    /// # Errors
    /// Returns an error if the process may not handle signals.
    pub fn install() -> io::Result<Self> {
        Ok(Self {
            interrupt: signal(SignalKind::interrupt())?,
            terminate: signal(SignalKind::terminate())?,
        })
    }

    /// Waits for the next signal. Cancel-safe.
    pub async fn next(&mut self) {
        tokio::select! {
            _ = self.interrupt.recv() => {}
            _ = self.terminate.recv() => {}
        }
    }
}

/// A process was stopped before it had ended what was in progress.
#[derive(Debug, thiserror::Error)]
#[error("stopped at once by a second signal: what was in progress is cut off")]
pub struct StoppedAtOnce;
