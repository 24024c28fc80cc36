//! The messages by which feeders show that they are alive, on core NATS.

use std::convert::Infallible;
use std::fmt::Display;
use std::time::Duration;

use async_nats::HeaderMap;
use futures::StreamExt;
use tokio::time::interval;
use tokio_util::task::AbortOnDropHandle;

use super::{Log, LogError};

/// The prefix of their subjects, before the name of the source. The stream of events stores all of `racing.>`.
pub const ALIVE: &str = "alive.";
/// How often a source shows that it is alive. After twice the time it counts as down.
const ALIVE_EVERY: Duration = Duration::from_secs(10);

impl Log {
    /// Calls `connected` when the connection comes up and goes down, and `alive` with the name of each source that
    /// shows that it is alive. Any feeder can send a message that closes this connection: use one for this alone.
    ///
    /// # Errors
    /// Returns [`LogError::Unreachable`] once the connection is closed.
    pub async fn follow_alive(
        &self,
        connected: impl Fn(bool),
        alive: impl Fn(&str),
    ) -> Result<Infallible, LogError> {
        let closed = |error: String| LogError::Unreachable(error);
        let subscribed = self.server.subscribe(format!("{ALIVE}>")).await;
        let mut subjects = subscribed.map_err(|error| closed(error.to_string()))?;
        let mut status = self.connection();
        loop {
            connected(status.borrow_and_update().up);
            tokio::select! {
                subject = subjects.next() => {
                    let subject = subject.ok_or_else(|| closed("the subscription has ended".to_owned()))?;
                    alive(subject.strip_prefix(ALIVE).unwrap_or_default());
                }
                changed = status.changed() => changed.map_err(|error| closed(error.to_string()))?,
            }
        }
    }

    /// Shows every 10 seconds that the sources that are then `up` are alive, until the handle is dropped or the
    /// connection is closed.
    pub fn show_alive<S: Display + Send + 'static>(
        &self,
        up: impl Fn() -> Vec<S> + Send + 'static,
    ) -> AbortOnDropHandle<()> {
        AbortOnDropHandle::new(tokio::spawn(self.clone().keep_alive(up)))
    }

    pub(crate) async fn keep_alive<S: Display + Send>(self, up: impl Fn() -> Vec<S> + Send) {
        let mut ticks = interval(ALIVE_EVERY);
        loop {
            ticks.tick().await;
            for source in up() {
                let subject = format!("{ALIVE}{source}");
                let headers = HeaderMap::new();
                if let Err(error) = self.server.publish_core(subject, headers, Vec::new()).await {
                    return tracing::warn!(%error, %source, "the source cannot show that it is alive");
                }
            }
        }
    }
}
