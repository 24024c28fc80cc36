//! [`StreamOverview`]: a stream with its servers and its consumers, for an administrator.

use std::time::Duration;

use async_nats::jetstream::consumer;
use async_nats::jetstream::stream::Info;
use futures::TryStreamExt;
use serde::Serialize;

use super::durability::follows;
use super::{Log, LogError, LogState};

/// The leader of a stream waits for 4 s for the consumers on servers that are away, then leaves them out.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(8);

/// A stream, of railbird or not.
#[derive(Debug, Clone, Serialize)]
pub struct StreamOverview {
    pub name: String,
    /// The creation time that identifies the log.
    pub created: String,
    /// `None` while it has no leader: then the rest is what some server has.
    pub leader: Option<String>,
    /// The other servers that should have it.
    pub followers: Vec<StreamFollower>,
    pub messages: u64,
    pub last_seq: u64,
    pub bytes: u64,
    /// `None` without a limit.
    pub bytes_max: Option<u64>,
    /// By name, without those on servers that are away.
    pub consumers: Vec<ConsumerOverview>,
}

/// A server that should have a stream.
#[derive(Debug, Clone, Serialize)]
pub struct StreamFollower {
    pub name: String,
    /// It is there, and lacks none but the latest messages.
    pub follows: bool,
    /// The messages that it lacks.
    pub lag: u64,
    /// The time since the leader last heard from it.
    pub silent_ms: u64,
}

/// A reader of a stream.
#[derive(Debug, Clone, Serialize)]
pub struct ConsumerOverview {
    pub name: String,
    /// `None` while it has no leader.
    pub leader: Option<String>,
    /// The sequence of the last message that it was sent.
    pub last_seq: u64,
    /// The messages after that.
    pub pending: u64,
}

impl StreamOverview {
    fn new(info: &Info) -> Self {
        let cluster = info.cluster.as_ref();
        let followers = cluster.iter().flat_map(|cluster| &cluster.replicas);
        let followers = followers.map(|peer| StreamFollower {
            name: peer.name.clone(),
            follows: follows(peer),
            lag: peer.lag.unwrap_or(0),
            silent_ms: u64::try_from(peer.active.as_millis()).unwrap_or(u64::MAX),
        });
        let bytes_max = u64::try_from(info.config.max_bytes).ok();
        let leader = cluster.and_then(|cluster| cluster.leader.clone());
        Self {
            name: info.config.name.clone(),
            created: LogState::from(info).identity.created,
            leader: leader.filter(|leader| !leader.is_empty()),
            followers: followers.collect(),
            messages: info.state.messages,
            last_seq: info.state.last_sequence,
            bytes: info.state.bytes,
            bytes_max: bytes_max.filter(|max| *max > 0),
            consumers: Vec::new(),
        }
    }
}

impl Log {
    /// The names of all streams, sorted.
    ///
    /// # Errors
    /// Returns [`LogError::Denied`] unless the user is an administrator, [`LogError::NoLeader`] if JetStream has none,
    /// and [`LogError::Unreachable`] or [`LogError::JetStream`] if the request fails.
    pub async fn stream_names(&self) -> Result<Vec<String>, LogError> {
        let names = self.server.jetstream().stream_names().try_collect();
        let mut names: Vec<String> = self.request(&["STREAM.NAMES"], names).await?;
        names.sort_unstable();
        Ok(names)
    }

    /// A stream with its consumers, without waiting for a leader.
    ///
    /// # Errors
    /// As [`Log::stream_names`], if neither a leader nor another server answers.
    pub async fn overview(&self, stream: &str) -> Result<StreamOverview, LogError> {
        let api = format!("STREAM.INFO.{stream}");
        let mut jetstream = self.server.jetstream().clone();
        jetstream.set_timeout(REQUEST_TIMEOUT);
        let found = jetstream.get_stream(stream);
        let found = self.request(&[&api], found).await?;
        let mut overview = StreamOverview::new(found.cached_info());
        if overview.leader.is_some() {
            let api = format!("CONSUMER.LIST.{stream}");
            let consumers = found.consumers().try_collect();
            let consumers: Vec<consumer::Info> = self.request(&[&api], consumers).await?;
            let consumers = consumers.into_iter().map(|info| ConsumerOverview {
                name: info.name,
                leader: info.cluster.and_then(|cluster| cluster.leader),
                last_seq: info.delivered.stream_sequence,
                pending: info.num_pending,
            });
            overview.consumers = consumers.collect();
            (overview.consumers).sort_unstable_by(|one, other| one.name.cmp(&other.name));
        }
        Ok(overview)
    }
}
