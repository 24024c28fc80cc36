//! [`Durability`]: whether the log keeps what it acknowledges, as far as this user can see.

use std::collections::BTreeMap;
use std::time::Duration;

use async_nats::StatusCode;
use async_nats::jetstream::stream::DiscardPolicy;
use futures::StreamExt;
use serde_json::Value;
use tokio::sync::watch;
use tokio::time::{Instant, sleep, timeout_at};

use super::connection::{Log, REQUEST_TIMEOUT};
use super::error::LogError;
use super::settings::{Drift, drift};
use super::stream::{ACCOUNTS, ADDRESSES, BESIDE, RACING, StreamName};
use crate::metrics;

const UNKNOWN_SYNC: &str = "nats-server does not show this user whether it has `sync_interval: always`, without which acknowledged events can \
     be lost: start it with railbird's nats.conf, or let the user's account import $SYS.REQ.SERVER.PING.VARZ as there";

/// How often the settings are compared, besides once per connection.
const CHECK_EVERY: Duration = Duration::from_secs(60);
/// How long after a failed check the next one follows.
const RETRY: Duration = Duration::from_secs(1);
/// Where the servers answer with their settings.
const VARZ: &str = "$SYS.REQ.SERVER.PING.VARZ";
/// The part of a limit, in percent, from which on a stream or a server is nearly full.
const NEARLY_FULL_PERCENT: u64 = 90;
/// The part that the stream of facts leaves to the others. A disk may be fuller, by other programs, when a server
/// starts again: it creates no stream while the limits of those that it has are more than its room.
const RESERVED_PART: i64 = 8;
/// A cluster of JetStream has at most a few servers. Answers beyond are not read.
const SERVERS_MAX: usize = 64;

/// The settings that decide whether an acknowledged event can be lost.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Durability {
    /// The settings of each stream that are not as railbird creates it.
    pub drift: BTreeMap<&'static str, Vec<Drift>>,
    /// Whether each server syncs every write before it acknowledges it, by its name. Empty if this user cannot see it.
    pub servers: BTreeMap<String, bool>,
    /// The streams and servers that are nearly full.
    pub nearly_full: Vec<String>,
}

/// A server with JetStream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct JetStreamServer {
    /// It syncs every write to disk before it acknowledges it.
    pub syncs_always: bool,
    /// The bytes of its streams.
    pub storage: u64,
    /// The bytes at which it stops all of them: `max_file_store`, or three quarters of the disk that was free when it
    /// started.
    pub storage_max: u64,
    /// The sum of the limits of its streams.
    reserved: u64,
}

impl Durability {
    /// Why an acknowledged event can be lost, or it cannot be seen that none can; empty if none can be.
    #[must_use]
    pub fn risks(&self) -> Vec<String> {
        let mut risks = Vec::new();
        if self.servers.is_empty() {
            risks.push(UNKNOWN_SYNC.to_owned());
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
            let connection_number = self.connection_number();
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
                () = self.reconnected(connection_number) => {}
            }
        }
    }

    /// Asks for the settings of the streams and of the servers.
    ///
    /// # Errors
    /// Returns a [`LogError`] if no server answers. Servers that hide their settings are no error.
    pub async fn durability(&self) -> Result<Durability, LogError> {
        let servers = self.servers().await?;
        // A server without a name has another one after each start, so the names are no labels.
        let usage = |server: &&JetStreamServer| {
            server.storage.saturating_mul(100) / server.storage_max.max(1)
        };
        if let Some(fullest) = servers.values().max_by_key(usage) {
            metrics::nats_storage(fullest.storage, fullest.storage_max);
        }
        let full = servers
            .iter()
            .filter(|(_, server)| is_nearly_full(server.storage, server.storage_max));
        let full = full.map(|(name, _)| {
            format!("nats-server {name} has less than 10 % of its storage left; full, it stops all streams")
        });
        let reserved = (servers.iter())
            .filter(|(_, server)| server.storage_max > 0 && server.reserved > server.storage_max);
        let reserved = reserved.map(|(name, server)| {
            let JetStreamServer { reserved, storage_max, .. } = server;
            format!(
                "nats-server {name} has {storage_max} bytes of storage, and the max_bytes of its streams are {reserved}: \
                 no stream can be created or restored, until you lower that of RACING or make space"
            )
        });
        let mut nearly_full: Vec<String> = full.chain(reserved).collect();
        let mut drift = BTreeMap::new();
        let streams = [RACING, ACCOUNTS, ADDRESSES].into_iter().chain(BESIDE);
        for stream in streams {
            match self.check_stream(stream).await {
                Ok((found, is_nearly_full)) => {
                    drift.insert(stream.name, found);
                    if is_nearly_full {
                        let name = stream.name;
                        nearly_full.push(format!(
                            "the stream {name} has less than 10 % of its max_bytes left"
                        ));
                    }
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
            servers: servers.map(|(name, of)| (name, of.syncs_always)).collect(),
            nearly_full,
        })
    }

    /// The settings of a stream that are not those that railbird creates it with, and whether it is nearly full. Notes
    /// its size in the metrics.
    async fn check_stream(&self, stream: StreamName) -> Result<(Vec<Drift>, bool), LogError> {
        let info = self.info(stream).await?;
        let mut wanted = stream.config(self.replicas());
        // It is limited by the room of the server, or by an operator.
        let is_limited = stream == RACING && info.config.discard == DiscardPolicy::New;
        if is_limited || (!stream.keeps_all() && info.config.max_bytes > 0) {
            wanted.max_bytes = info.config.max_bytes;
        }
        let mut drift = drift(&wanted, &info);
        if !stream.keeps_all() {
            drift
                .iter_mut()
                .for_each(|drift| drift.loses_events = false);
        }
        let limit = u64::try_from(info.config.max_bytes).unwrap_or(0);
        metrics::log_size(stream.name, info.state.bytes, (limit > 0).then_some(limit));
        let is_nearly_full = stream.keeps_all() && is_nearly_full(info.state.bytes, limit);
        Ok((drift, is_nearly_full))
    }

    /// The bytes that the stream of facts may have, so that there is room for the others; `None` if this user cannot
    /// see the servers. A limit of another stream reserves nothing: a server that is full stops all of them.
    pub(super) async fn room_for_facts(&self) -> Option<i64> {
        let room = self.free_room().await?;
        Some(room - room / RESERVED_PART)
    }

    /// The bytes that no limit of a stream reserves on any server; `None` if this user cannot see the servers.
    pub(super) async fn free_room(&self) -> Option<i64> {
        let servers = self.servers().await.ok()?;
        let limited = servers.values().filter(|server| server.storage_max > 0);
        let room = limited.map(|server| server.storage_max.saturating_sub(server.reserved));
        i64::try_from(room.min()?).ok()
    }

    /// The servers with JetStream that are up, by name. Empty if this user may not read the configuration of the
    /// servers.
    ///
    /// # Errors
    /// Returns a [`LogError`] if none answers.
    pub async fn servers(&self) -> Result<BTreeMap<String, JetStreamServer>, LogError> {
        let mut servers = BTreeMap::new();
        let inbox = self.client.new_inbox();
        let subscribed = self.client.subscribe(inbox.clone()).await;
        let mut answers = subscribed.map_err(|error| self.jetstream_error(&error))?;
        let request = self.client.publish_with_reply(VARZ, inbox, "".into());
        let sent = request.await;
        sent.map_err(|error| self.jetstream_error(&error))?;
        let mut size = 1;
        let until = Instant::now() + REQUEST_TIMEOUT;
        while servers.len() < size.min(SERVERS_MAX) {
            let answer = tokio::select! {
                answer = timeout_at(until, answers.next()) => answer,
                _ = self.permissions.denied(|subject| subject == VARZ) => return Ok(servers),
            };
            let answer = match answer {
                Ok(Some(answer)) => answer,
                // One that is away is checked when it is back.
                _ if !servers.is_empty() => break,
                _ => {
                    let late = std::io::Error::from(std::io::ErrorKind::TimedOut);
                    return Err(self.jetstream_error(&late));
                }
            };
            if answer.status == Some(StatusCode::NO_RESPONDERS) {
                return Ok(servers);
            }
            let answer: Value = serde_json::from_slice(&answer.payload).unwrap_or_default();
            let jetstream = &answer["data"]["jetstream"];
            let config = &jetstream["config"];
            let stats = &jetstream["stats"];
            if config.is_object() {
                let name = answer["server"]["name"].as_str().unwrap_or_default();
                let server = JetStreamServer {
                    // The server leaves the field out where it is false.
                    syncs_always: config["sync_always"].as_bool().unwrap_or(false),
                    storage: stats["storage"].as_u64().unwrap_or(0),
                    storage_max: config["max_storage"].as_u64().unwrap_or(0),
                    reserved: stats["reserved_storage"].as_u64().unwrap_or(0),
                };
                servers.insert(name.to_owned(), server);
            }
            let cluster = answer.pointer("/data/jetstream/meta/cluster_size");
            size = size.max(cluster.and_then(Value::as_u64).unwrap_or(1) as usize);
        }
        Ok(servers)
    }
}

/// Whether most of a limit is used; 0 is none.
fn is_nearly_full(bytes: u64, limit: u64) -> bool {
    limit > 0 && bytes.saturating_mul(100) >= limit.saturating_mul(NEARLY_FULL_PERCENT)
}

fn log_drift(found: &Durability) {
    for what in &found.nearly_full {
        tracing::warn!(what, "the log is nearly full");
    }
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
