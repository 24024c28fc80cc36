//! [`Shutdown`]: the signal that ends every loop.

use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;

/// The signal that ends every loop: `cancel` sends it, `cancelled` waits for it. Clones share it.
pub type Shutdown = CancellationToken;

/// Waits for Ctrl-C or SIGTERM.
///
/// # Errors
/// Returns an error if the process may not handle signals.
pub async fn signalled() -> std::io::Result<()> {
    let mut terminate = signal(SignalKind::terminate())?;
    tokio::select! {
        interrupted = tokio::signal::ctrl_c() => interrupted,
        _ = terminate.recv() => Ok(()),
    }
}
