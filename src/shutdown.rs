//! [`Shutdown`]: the signal that ends every loop. [`Signals`]: those of the operating system.

use std::future::pending;
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
    /// The end of the terminal.
    hangup: Option<Signal>,
}

/// SIGHUP, which ends this process no more once it is [installed](Hangups::install).
#[derive(Debug)]
pub struct Hangups(Signal);

impl Signals {
    /// Handles the signals from here on, so that one during the start is not lost.
    ///
    /// # Errors
    /// Returns an error if the process may not handle signals.
    pub fn install() -> io::Result<Self> {
        Ok(Self {
            interrupt: signal(SignalKind::interrupt())?,
            terminate: signal(SignalKind::terminate())?,
            hangup: None,
        })
    }

    /// The signals of a program of a terminal, which ends with it: SIGHUP is another of them.
    ///
    /// # Errors
    /// As [`Signals::install`].
    pub fn install_in_terminal() -> io::Result<Self> {
        Ok(Self {
            hangup: Some(signal(SignalKind::hangup())?),
            ..Self::install()?
        })
    }

    /// Waits for the next signal. Cancel-safe.
    pub async fn next(&mut self) {
        let hangup = async {
            match &mut self.hangup {
                Some(hangup) => hangup.recv().await,
                None => pending().await,
            }
        };
        tokio::select! {
            _ = self.interrupt.recv() => {}
            _ = self.terminate.recv() => {}
            _ = hangup => {}
        }
    }
}

impl Hangups {
    /// Handles the signal from here on.
    ///
    /// # Errors
    /// Returns an error if the process may not handle signals.
    pub fn install() -> io::Result<Self> {
        Ok(Self(signal(SignalKind::hangup())?))
    }

    /// Waits for the next signal. Signals that come while nothing waits count as one. Cancel-safe.
    pub async fn next(&mut self) {
        self.0.recv().await;
    }
}

/// A process was stopped before it had ended what was in progress.
#[derive(Debug, thiserror::Error)]
#[error("stopped at once by a second signal: what was in progress is cut off")]
pub struct StoppedAtOnce;
