//! [`Sources`]: which feeders are alive.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use schemars::JsonSchema;
use serde::Serialize;
use tokio::time::sleep;

use crate::clock::Uptime;
use crate::log::Log;

/// A source that has not shown for this long that it is alive is down: it does so every 10 seconds.
const DOWN_AFTER: Duration = Duration::from_secs(20);
/// The sources that are known at a time, as in a label of a metric. Others are of unknown state.
const SOURCES_MAX: usize = 64;
/// A source that is down for longer is forgotten: it has other days, or another name.
const FORGOTTEN_AFTER: Duration = Duration::from_secs(24 * 60 * 60);

/// The pause before a connection that was closed is replaced.
const RETRY: Duration = Duration::from_secs(10);

/// Which feeders have shown that they are alive, since the start of this process. Clones share it.
#[derive(Debug, Clone, Default)]
pub struct Sources(Arc<Mutex<KnownSources>>);

#[derive(Debug, Default)]
struct KnownSources {
    /// When each was last known to be alive.
    alive_at: BTreeMap<String, Uptime>,
    /// Since when their messages are received; `None` while they are not.
    connected_at: Option<Uptime>,
}

/// Whether a source is alive.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub(crate) enum SourceState {
    /// It has shown so within the last 20 seconds.
    Alive,
    /// Not for 20 seconds.
    Down,
    /// This service is not connected to NATS.
    Unknown,
}

/// A feeder that shows that it is alive.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub(crate) struct SourceHealth {
    /// Its name, as in its events.
    pub(crate) source: String,
    /// Whether it is alive.
    pub(crate) state: SourceState,
}

impl Sources {
    /// Follows which sources are alive, on a connection of its own.
    pub(crate) async fn follow(self, log: Log) {
        loop {
            let following = async {
                let log = log.connect_again("railbird-sources").await?;
                let connected = |is_connected| self.set_connected(is_connected);
                let alive = |source: &str| self.note(source);
                log.follow_alive(connected, alive).await
            };
            let Err(error) = following.await;
            tracing::warn!(%error, "it is unknown which sources are alive");
            self.set_connected(false);
            sleep(RETRY).await;
        }
    }

    /// Notes whether the messages of sources are received.
    pub(crate) fn set_connected(&self, is_connected: bool) {
        let mut known = self.0.lock();
        if known.connected_at.is_some() != is_connected {
            known.connected_at = is_connected.then(Uptime::now);
        }
    }

    /// Notes that a source is alive.
    pub(crate) fn note(&self, source: &str) {
        let mut known = self.0.lock();
        let now = Uptime::now();
        let is_recent = |alive_at: &mut Uptime| now.since(*alive_at) < FORGOTTEN_AFTER;
        known.alive_at.retain(|_, alive_at| is_recent(alive_at));
        if known.alive_at.len() < SOURCES_MAX || known.alive_at.contains_key(source) {
            known.alive_at.insert(source.to_owned(), now);
        }
    }

    /// The state of each source, ordered by name.
    pub(crate) fn states(&self) -> Vec<SourceHealth> {
        let known = self.0.lock();
        let now = Uptime::now();
        let state = |alive_at: Uptime| match known.connected_at {
            None => SourceState::Unknown,
            // What was sent while this service was not connected is lost.
            Some(connected_at) if now.since(alive_at.max(connected_at)) >= DOWN_AFTER => {
                SourceState::Down
            }
            Some(_) => SourceState::Alive,
        };
        let states = known.alive_at.iter();
        let states = states.map(|(source, alive_at)| SourceHealth {
            source: source.clone(),
            state: state(*alive_at),
        });
        states.collect()
    }
}

#[cfg(test)]
mod tests {
    use super::{DOWN_AFTER, FORGOTTEN_AFTER, SOURCES_MAX, SourceState, Sources};
    use crate::clock::Uptime;
    use std::time::Duration;

    impl Sources {
        fn state(&self, source: &str) -> Option<SourceState> {
            let states = self.states();
            let found = states.iter().find(|state| state.source == source);
            found.map(|found| found.state)
        }

        /// Moves all times into the past.
        fn pass(&self, time: Duration) {
            let mut known = self.0.lock();
            let moved = |at: &mut Uptime| *at = *at - time;
            known.alive_at.values_mut().for_each(moved);
            known.connected_at.iter_mut().for_each(moved);
        }
    }

    #[test]
    fn a_silent_source_is_down_unless_its_messages_were_not_received() {
        let sources = Sources::default();
        sources.set_connected(true);
        sources.note("tote");
        assert_eq!(sources.state("tote"), Some(SourceState::Alive));
        sources.pass(DOWN_AFTER);
        sources.note("book");
        assert_eq!(sources.state("tote"), Some(SourceState::Down));
        assert_eq!(sources.state("book"), Some(SourceState::Alive));
        sources.set_connected(false);
        assert_eq!(sources.state("book"), Some(SourceState::Unknown));
        sources.pass(DOWN_AFTER);
        sources.set_connected(true);
        assert_eq!(sources.state("tote"), Some(SourceState::Alive));
        sources.pass(DOWN_AFTER);
        assert_eq!(sources.state("tote"), Some(SourceState::Down));
        sources.note("tote");
        assert_eq!(sources.state("tote"), Some(SourceState::Alive));
    }

    #[test]
    fn sources_are_bounded_and_forgotten() {
        let sources = Sources::default();
        (0..1_000).for_each(|n| sources.note(&n.to_string()));
        assert_eq!(sources.states().len(), SOURCES_MAX);
        sources.pass(FORGOTTEN_AFTER);
        sources.note("tote");
        assert_eq!(sources.states().len(), 1);
    }
}
