//! [`Shutdown`]: the one signal that ends every loop.

use tokio::sync::watch;

/// Tells that the end has begun. Clones share it.
#[derive(Debug, Clone)]
pub struct Shutdown(watch::Receiver<bool>);

/// Begins the end, by [`Trigger::pull`] or when it is dropped.
#[derive(Debug)]
pub struct Trigger(watch::Sender<bool>);

/// A trigger and the signal that it gives.
#[must_use]
pub fn shutdown() -> (Trigger, Shutdown) {
    let (send, receive) = watch::channel(false);
    (Trigger(send), Shutdown(receive))
}

impl Trigger {
    /// Begins the end.
    pub fn pull(&self) {
        self.0.send_replace(true);
    }
}

impl Shutdown {
    /// Waits for the end to begin.
    pub async fn begun(&mut self) {
        // An error means that the trigger is gone, which is the end, too.
        let _ = self.0.wait_for(|begun| *begun).await;
    }
}

/// Waits for Ctrl-C or SIGTERM.
///
/// # Errors
/// The process may not handle signals.
pub async fn signalled() -> std::io::Result<()> {
    let mut terminate = tokio::signal::unix::signal(tokio::signal::unix::SignalKind::terminate())?;
    tokio::select! {
        interrupted = tokio::signal::ctrl_c() => interrupted,
        _ = terminate.recv() => Ok(()),
    }
}
