//! [`Durability`]: whether the log keeps what it acknowledges, as far as this user can see.

use std::collections::BTreeMap;
use std::time::Duration;

use futures::StreamExt;
use serde_json::Value;
use tokio::sync::watch;
use tokio::time::{sleep, timeout};

use super::connection::{Log, REQUEST_TIMEOUT};
use super::error::LogError;
use super::settings::Drift;
use super::stream::{ACCOUNTS, ADDRESSES, KEY_USE, RACING};
use crate::metrics;

/// How often the settings are compared, besides once per connection.
const CHECK_EVERY: Duration = Duration::from_secs(60);
/// How long after a check that failed, or found no streams yet, the next one follows.
const RETRY: Duration = Duration::from_secs(1);
/// The time in which all servers answer that are up.
const SERVERS_TIMEOUT: Duration = Duration::from_secs(1);
/// A cluster of JetStream has at most a few servers. Answers beyond are not read.
const SERVERS_MAX: usize = 64;

/// The settings that decide whether an acknowledged event can be lost.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Durability {
    /// The settings of each stream that are not as railbird creates it.
    pub drift: BTreeMap<&'static str, Vec<Drift>>,
    /// Whether each server syncs every write before it acknowledges it, by its name. Empty if this user cannot see it.
    pub servers: BTreeMap<String, bool>,
}

/// What a server reports of its storage.
#[derive(Debug, Clone, Copy)]
pub struct JetStreamServer {
    /// Whether it syncs every write to disk before it acknowledges it.
    pub syncs: bool,
    /// The room for more messages of all streams, if it reports that.
    pub free_bytes: Option<u64>,
}

impl Durability {
    /// Why an acknowledged event can be lost, or it cannot be seen that none can; empty if none can be.
    #[must_use]
    pub fn risks(&self) -> Vec<String> {
        let mut risks = Vec::new();
        if self.servers.is_empty() {
            risks.push("this user cannot see whether nats-server has `sync_interval: always`; see docs/operating.md".to_owned());
        }
        let lazy: Vec<&str> = (self.servers.iter().filter(|(_, syncs)| !**syncs))
            .map(|(name, _)| name.as_str())
            .collect();
        if !lazy.is_empty() {
            risks.push(format!(
                "nats-server acknowledges events before they are on disk: set `sync_interval: always` in the configuration of {}",
                lazy.join(", ")
            ));
        }
        for (stream, drift) in &self.drift {
            for Drift { setting, .. } in drift.iter().filter(|drift| drift.loses_events) {
                risks.push(format!(
                    "the stream {stream} can lose events: its {setting}"
                ));
            }
        }
        risks
    }
}

impl Log {
    /// Publishes the durability of the log, at each connection and every minute, until dropped. `None` before the
    /// first check.
    pub async fn watch_durability(self, durability: watch::Sender<Option<Durability>>) {
        loop {
            let epoch = self.epoch();
            let wait = match self.durability().await {
                Ok(found) => {
                    // At the first start, the streams are created meanwhile.
                    let mut streams = [RACING, ACCOUNTS].into_iter();
                    let are_there = streams.all(|of| found.drift.contains_key(of.name));
                    durability.send_if_modified(|known| {
                        let changed = known.as_ref() != Some(&found);
                        if changed {
                            log_drift(&found);
                            *known = Some(found);
                        }
                        changed
                    });
                    if are_there { CHECK_EVERY } else { RETRY }
                }
                Err(error) => {
                    tracing::debug!(%error, "cannot check the settings of the log");
                    RETRY
                }
            };
            tokio::select! {
                () = sleep(wait) => {}
                () = self.reconnected(epoch) => {}
            }
        }
    }

    /// Asks for the settings of the streams and of the servers, and notes their sizes in the metrics.
    ///
    /// # Errors
    /// Returns a [`LogError`] if JetStream does not answer. Servers that hide their settings are no error.
    pub async fn durability(&self) -> Result<Durability, LogError> {
        let mut servers = self.servers().await;
        if servers.is_empty() {
            // An answer can be late once.
            servers = self.servers().await;
        }
        let free_bytes = servers
            .values()
            .filter_map(|server| server.free_bytes)
            .min();
        let mut drift = BTreeMap::new();
        for stream in [RACING, ACCOUNTS, ADDRESSES, KEY_USE] {
            match self.info(stream).await {
                Ok(info) => {
                    let bytes = info.state.bytes;
                    let limit = u64::try_from(info.config.max_bytes).ok();
                    let limit = limit.filter(|limit| *limit > 0);
                    let room = free_bytes.map(|free_bytes| bytes + free_bytes);
                    metrics::log_size(stream.name, bytes, limit.into_iter().chain(room).min());
                    drift.insert(stream.name, stream.drift(&info));
                }
                Err(LogError::NoStream(_)) => {}
                // A configuration of NATS from before this stream does not allow to read it.
                Err(LogError::Denied { .. }) if !stream.keeps_all() => {}
                Err(error) => return Err(error),
            }
        }
        let servers = servers.into_iter();
        Ok(Durability {
            drift,
            servers: servers.map(|(name, found)| (name, found.syncs)).collect(),
        })
    }

    /// The servers with JetStream, by name. Empty if this user may not read their configuration, or none answers.
    pub async fn servers(&self) -> BTreeMap<String, JetStreamServer> {
        let mut servers = BTreeMap::new();
        let inbox = self.client.new_inbox();
        let Ok(mut answers) = self.client.subscribe(inbox.clone()).await else {
            return servers;
        };
        let request = self
            .client
            .publish_with_reply("$SYS.REQ.SERVER.PING.VARZ", inbox, "".into());
        if request.await.is_err() {
            return servers;
        }
        let (mut size, mut patience) = (1, REQUEST_TIMEOUT);
        while servers.len() < size.min(SERVERS_MAX) {
            let Ok(Some(answer)) = timeout(patience, answers.next()).await else {
                break;
            };
            let answer: Value = serde_json::from_slice(&answer.payload).unwrap_or_default();
            if let Some(config) = answer.pointer("/data/jetstream/config") {
                let name = answer["server"]["name"].as_str().unwrap_or_default();
                let used = answer.pointer("/data/jetstream/stats/storage");
                let used = used.and_then(Value::as_u64);
                let max = config["max_storage"].as_u64();
                let found = JetStreamServer {
                    // The server leaves the field out where it is false.
                    syncs: config["sync_always"].as_bool().unwrap_or(false),
                    free_bytes: max.zip(used).map(|(max, used)| max.saturating_sub(used)),
                };
                servers.insert(name.to_owned(), found);
            }
            let cluster = answer.pointer("/data/jetstream/meta/cluster_size");
            size = size.max(cluster.and_then(Value::as_u64).unwrap_or(1) as usize);
            patience = SERVERS_TIMEOUT;
        }
        servers
    }
}

fn log_drift(found: &Durability) {
    for (stream, drift) in &found.drift {
        for Drift {
            setting,
            loses_events,
        } in drift
        {
            tracing::warn!(
                stream,
                setting,
                loses_events,
                "the stream has other settings than railbird creates it with"
            );
        }
    }
    for risk in found.risks() {
        tracing::warn!(risk, "acknowledged events can be lost");
    }
}
