//! [`Durability`]: whether the log keeps what it acknowledges, as far as this user can see.

use std::collections::BTreeMap;
use std::time::Duration;

use async_nats::StatusCode;
use async_nats::jetstream::stream::{DiscardPolicy, PeerInfo};
use bytes::Bytes;
use futures::StreamExt;
use serde::Serialize;
use serde_json::Value;
use tokio::sync::watch;
use tokio::time::{Instant, timeout_at};

use super::connection::{Log, REQUEST_TIMEOUT};
use super::error::{LogError, LogResult};
use super::settings::{Drift, drift};
use super::stream::{ACCOUNTS, FOLLOWS_WITHIN, RACING, STREAMS, StreamName};
use crate::metrics;

const UNKNOWN_SYNC: &str = "nats-server does not show this user whether it has `sync_interval: always`, without which acknowledged events can \
     be lost: start it with railbird's nats.conf, or let the user's account import $SYS.REQ.SERVER.PING.VARZ as there";

/// How often servers and settings are checked, besides once per connection.
const CHECK_EVERY: Duration = Duration::from_secs(15);
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
/// The messages that a follower may lack. Under load the slowest of three never has the last ones.
const FOLLOWER_LAG_MAX: u64 = 10_000;

/// What decides whether an acknowledged event can be lost: settings, and servers that are there.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Durability {
    /// The settings of each stream that are not as railbird creates it.
    pub drift: BTreeMap<&'static str, Vec<Drift>>,
    /// Whether each server syncs every write before it acknowledges it, by its name. Empty if this user cannot see it.
    pub servers: BTreeMap<String, bool>,
    /// The servers of the cluster that do not answer, and those that lack what a stream has.
    pub away: Vec<String>,
    /// The streams and servers that are nearly full.
    pub nearly_full: Vec<String>,
}

/// The servers with JetStream.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct NatsServers {
    /// How many the cluster has, also those that are away; 0 if this user may not see it.
    pub expected: usize,
    /// The leader of JetStream. `None` without one, and without a cluster.
    pub leader: Option<String>,
    /// Those that answer, by name.
    pub answering: BTreeMap<String, JetStreamServer>,
}

/// A server with JetStream.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
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

impl JetStreamServer {
    /// What it runs short of.
    fn shortages(self, name: &str) -> Vec<String> {
        let (storage_max, reserved) = (self.storage_max, self.reserved);
        let full = is_nearly_full(self.storage, storage_max).then(|| {
            format!("nats-server {name} has less than 10 % of its storage left; full, it stops all streams")
        });
        let reserved = (storage_max > 0 && reserved > storage_max).then(|| {
            format!(
                "nats-server {name} has {storage_max} bytes of storage, and the max_bytes of its streams are {reserved}: \
                 no stream can be created or restored, until you lower that of RACING or make space"
            )
        });
        full.into_iter().chain(reserved).collect()
    }
}

impl Durability {
    /// Whether the streams that keep the log are among what was checked: at the first start they are created meanwhile.
    pub fn is_complete(&self) -> bool {
        let mut streams = [RACING, ACCOUNTS].into_iter();
        streams.all(|stream| self.drift.contains_key(stream.name))
    }

    /// Why an acknowledged event can be lost, or it cannot be seen that none can; empty if none can be.
    pub fn risks(&self) -> Vec<String> {
        let mut risks = Vec::new();
        if self.servers.is_empty() {
            risks.push(UNKNOWN_SYNC.to_owned());
        }
        let lazy = self.servers.iter().filter(|(_, syncs)| !**syncs);
        let lazy: Vec<&str> = lazy.map(|(name, _)| name.as_str()).collect();
        if !lazy.is_empty() {
            risks.push(format!(
                "nats-server acknowledges events before they are on disk: set `sync_interval: always` in the configuration of {}",
                lazy.join(", ")
            ));
        }
        for (stream, drift) in &self.drift {
            for Drift { setting, .. } in drift.iter().filter(|drift| drift.loses_events) {
                let risk = format!("the stream {stream} can lose events: its {setting}");
                risks.push(risk);
            }
        }
        risks
    }
}

impl Log {
    /// Publishes the durability of the log, at each connection and every 15 seconds, until dropped. `None` before the
    /// first check.
    pub async fn watch_durability(self, durability: watch::Sender<Option<Durability>>) {
        loop {
            let connection_number = self.connection_number();
            let wait = match self.durability().await {
                Ok(found) => {
                    let (is_complete, risks) = (found.is_complete(), found.risks().len());
                    durability.send_if_modified(|known| {
                        let changed = known.as_ref() != Some(&found);
                        if changed {
                            log_drift(known.as_ref(), &found);
                            *known = Some(found);
                        }
                        changed
                    });
                    // While a stream has no leader, its settings are those of before.
                    if is_complete || risks > 0 {
                        metrics::set("railbird_log_risks", risks as f64);
                    }
                    if is_complete { CHECK_EVERY } else { RETRY }
                }
                Err(error) => {
                    tracing::debug!(%error, "cannot check the settings of the log");
                    RETRY
                }
            };
            self.pause(connection_number, wait).await;
        }
    }

    /// Asks for the settings of the streams and of the servers.
    ///
    /// # Errors
    /// Returns a [`LogError`] if no server answers. Servers that hide their settings are no error.
    pub async fn durability(&self) -> LogResult<Durability> {
        let servers = self.servers().await?;
        let (expected, answering) = (servers.expected, servers.answering);
        metrics::set("railbird_nats_servers_expected", expected as f64);
        metrics::set("railbird_nats_servers_answering", answering.len() as f64);
        // A server without a name has another one after each start, so the names are no labels.
        let usage = |server: &&JetStreamServer| {
            server.storage.saturating_mul(100) / server.storage_max.max(1)
        };
        if let Some(fullest) = answering.values().max_by_key(usage) {
            metrics::set("railbird_nats_storage_bytes", fullest.storage as f64);
            let bytes_max = fullest.storage_max as f64;
            metrics::set("railbird_nats_storage_bytes_max", bytes_max);
        }
        let mut found = Durability::default();
        if answering.len() < expected {
            let names: Vec<&str> = answering.keys().map(String::as_str).collect();
            let (count, names) = (names.len(), names.join(", "));
            let missing = format!("{count} of {expected} nats-servers answer: {names}");
            (found.away).push(missing);
        }
        for (name, server) in answering {
            found.nearly_full.extend(server.shortages(&name));
            found.servers.insert(name, server.syncs_always);
        }
        for stream in STREAMS {
            match self.check_stream(stream, &mut found).await {
                Ok(()) | Err(LogError::NoStream(_)) => {}
                Err(LogError::NoLeader(_)) => {
                    (found.away).push(format!("the stream {} has no leader", stream.name));
                }
                // A configuration of NATS from before this stream does not allow to read it.
                Err(LogError::Denied { .. }) if !stream.keeps_all() => {}
                Err(error) => return Err(error),
            }
        }
        Ok(found)
    }

    /// Adds the settings of a stream that are not those that railbird creates it with, whether it is nearly full, and
    /// the servers that do not follow its leader. Notes its size in the metrics.
    async fn check_stream(&self, stream: StreamName, found: &mut Durability) -> LogResult<()> {
        let name = stream.name;
        let info = self.info(stream).await?;
        let mut wanted = stream.config(self.replicas());
        // It is limited by the room of the server, or by an operator.
        let is_limited = stream == RACING && info.config.discard == DiscardPolicy::New;
        if is_limited || (!stream.keeps_all() && info.config.max_bytes > 0) {
            wanted.max_bytes = info.config.max_bytes;
        }
        let drift = drift(&wanted, &info, stream.keeps_all());
        found.drift.insert(name, drift);
        let limit = u64::try_from(info.config.max_bytes).unwrap_or(0);
        metrics::set_of_stream("railbird_log_bytes", name, info.state.bytes as f64);
        if limit > 0 {
            metrics::set_of_stream("railbird_log_bytes_max", name, limit as f64);
        }
        if stream.keeps_all() && is_nearly_full(info.state.bytes, limit) {
            let full = format!("the stream {name} has less than 10 % of its max_bytes left");
            found.nearly_full.push(full);
        }
        let followers = info.cluster.iter().flat_map(|cluster| &cluster.replicas);
        let behind: Vec<&PeerInfo> = followers.filter(|peer| !follows(peer)).collect();
        metrics::set_of_stream("railbird_log_followers_behind", name, behind.len() as f64);
        let behind = behind.iter().map(|peer| {
            let server = &peer.name;
            format!("nats-server {server} is away or behind in the stream {name}")
        });
        found.away.extend(behind);
        Ok(())
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
        let limited = (servers.answering.values()).filter(|server| server.storage_max > 0);
        let room = limited.map(|server| server.storage_max.saturating_sub(server.reserved));
        i64::try_from(room.min()?).ok()
    }

    /// The servers with JetStream. None if this user may not read the configuration of the servers.
    ///
    /// # Errors
    /// Returns a [`LogError`] if none answers.
    pub async fn servers(&self) -> LogResult<NatsServers> {
        let mut servers = NatsServers::default();
        let mut answers = self.request_many(VARZ.to_owned(), Bytes::new()).await?;
        let until = Instant::now() + REQUEST_TIMEOUT;
        while servers.answering.len() < servers.expected.clamp(1, SERVERS_MAX) {
            let answer = tokio::select! {
                answer = timeout_at(until, answers.next()) => answer,
                _ = self.permissions.denied(|subject| subject == VARZ) => return Ok(servers),
            };
            let answer = match answer {
                Ok(Some(answer)) => answer,
                // The others are away.
                _ if !servers.answering.is_empty() => break,
                _ => return Err(self.timed_out()),
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
                servers.answering.insert(name.to_owned(), server);
            }
            let meta = &jetstream["meta"];
            let size = meta["cluster_size"].as_u64().unwrap_or(1) as usize;
            servers.expected = servers.expected.max(size);
            if let Some(leader) = meta["leader"].as_str() {
                servers.leader = Some(leader.to_owned());
            }
        }
        Ok(servers)
    }
}

/// Whether most of a limit is used; 0 is none.
fn is_nearly_full(bytes: u64, limit: u64) -> bool {
    limit > 0 && bytes.saturating_mul(100) >= limit.saturating_mul(NEARLY_FULL_PERCENT)
}

/// Whether a follower has what its leader has, but for the latest.
pub(super) fn follows(peer: &PeerInfo) -> bool {
    !peer.offline && peer.active <= FOLLOWS_WITHIN && peer.lag.unwrap_or(0) <= FOLLOWER_LAG_MAX
}

fn log_drift(known: Option<&Durability>, found: &Durability) {
    for what in &found.away {
        tracing::warn!(what, "the NATS cluster is not whole");
    }
    if found.away.is_empty() && known.is_some_and(|known| !known.away.is_empty()) {
        tracing::info!("the NATS cluster is whole again");
    }
    for what in &found.nearly_full {
        tracing::warn!(what, "the log is nearly full");
    }
    for (stream, drift) in &found.drift {
        let other = "the stream has other settings than railbird creates it with";
        for drift in drift {
            let (setting, loses_events) = (&drift.setting, drift.loses_events);
            tracing::warn!(stream, setting, loses_events, "{other}");
        }
    }
    for risk in found.risks() {
        tracing::warn!(risk, "acknowledged events can be lost");
    }
}
