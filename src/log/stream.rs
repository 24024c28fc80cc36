//! The streams [`RACING`], [`ACCOUNTS`], [`ADDRESSES`], [`KEY_USE`], [`LEASES`] and [`SNAPSHOTS`]: their settings and
//! their state.

use std::time::Duration;

use async_nats::jetstream::ErrorCode;
use async_nats::jetstream::response::Response;
use async_nats::jetstream::stream::{
    ClusterInfo, Config, DiscardPolicy, Info, Source, StorageType,
};
use futures::future::join_all;
use projections::LogIdentity;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::json;

use super::backoff::Attempts;
use super::connection::{ConnectMode, REQUEST_TIMEOUT};
use super::message::moment;
use super::{Backoff, Log, LogError, LogResult, Replicas};

/// The stream of all facts about racing.
pub const RACING: StreamName = StreamName::new("RACING", events::SUBJECTS, Keeps::All);
/// The stream of API keys and subscriptions, with permissions of its own.
pub const ACCOUNTS: StreamName = StreamName::new("ACCOUNTS", "accounts.>", Keeps::All);
/// The stream of the secrets without which nobody can read the addresses in [`ACCOUNTS`].
pub const ADDRESSES: StreamName = StreamName::new("ADDRESSES", "addresses.>", Keeps::UntilErased);
/// The stream of the use of keys. It may be lost: it holds nothing but these numbers.
pub const KEY_USE: StreamName = StreamName::new(
    "KEY_USE",
    "key_use.>",
    Keeps::Latest(KEY_USE_AGE_MAX, KEY_USE_BYTES_MAX),
);

/// The object store of the snapshots of the views. It may be lost: the log has everything.
pub const SNAPSHOTS: StreamName = StreamName::new(
    "OBJ_SNAPSHOTS",
    "$O.SNAPSHOTS.>",
    Keeps::Objects(SNAPSHOTS_BYTES_MAX),
);
/// The streams that may be lost, the smallest first.
pub(super) const BESIDE: [StreamName; 3] = [LEASES, KEY_USE, SNAPSHOTS];
/// All streams.
pub(super) const STREAMS: [StreamName; 6] =
    [RACING, ACCOUNTS, ADDRESSES, LEASES, KEY_USE, SNAPSHOTS];
/// The name of that object store.
pub(super) const SNAPSHOTS_BUCKET: &str = "SNAPSHOTS";

/// Several snapshots of some million events.
const SNAPSHOTS_BYTES_MAX: i64 = 512 * 1024 * 1024;
/// The part of the free room of a small server that a limited stream takes at most.
const ROOM_PART: i64 = 2;

/// The key-value bucket of leases. An entry that nobody renews ends with the term.
pub const LEASES: StreamName = StreamName::new(
    "KV_LEASES",
    "$KV.LEASES.>",
    Keeps::Latest(LEASE_TERM, LEASES_BYTES_MAX),
);

/// How long a lease lasts. A holder keeps it through the election of a leader, which takes up to 9 seconds.
const LEASE_TERM: Duration = Duration::from_secs(20);
/// An entry takes some 250 bytes: a few roles, and some thousand replicas.
const LEASES_BYTES_MAX: i64 = 1024 * 1024;

/// How long the use of a key is known: a key that runs a program once a month is not shown as unused.
pub const KEY_USE_AGE_MAX: Duration = Duration::from_secs(35 * 24 * 60 * 60);
/// A message takes some 250 bytes: the use of 7,000 keys by a process that is started each day, or of 250,000 by one.
const KEY_USE_BYTES_MAX: i64 = 64 * 1024 * 1024;

/// The server forgets message ids after this long. Correctness never depends on it.
const DUPLICATE_WINDOW: Duration = Duration::from_secs(120);

/// How long a server that has just started may take to load its streams.
const STARTUP_TIMEOUT: Duration = Duration::from_secs(20);
const STARTUP_BACKOFF: Backoff = Backoff::new(Duration::from_millis(50), REQUEST_TIMEOUT);

/// Followers answer the heartbeats of a leader, one each second.
pub(super) const FOLLOWS_WITHIN: Duration = Duration::from_secs(4);

/// The metadata of a restored stream with the creation time of the one that was backed up: it is the same log. The
/// server creates it anew.
pub(super) const CREATED: &str = "railbird_created";

/// The metadata of a stream that is not completely restored.
pub(super) const RESTORING: &str = "railbird_restoring";

/// A stream and the subjects that it stores.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StreamName {
    /// The stream's name.
    pub name: &'static str,
    subjects: &'static str,
    keeps: Keeps,
}

/// The messages that a stream keeps.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Keeps {
    /// Every message, for ever.
    All,
    /// Every message that is not erased.
    UntilErased,
    /// The last message of each subject, until it is older than this or the stream has more bytes.
    Latest(Duration, i64),
    /// The objects that nobody removes. A stream with so many bytes rejects new ones.
    Objects(i64),
}

/// The state of a stream.
#[derive(Debug, Clone)]
pub struct LogState {
    /// The identity of the log: the stream's name and creation time, or that of the stream that it was restored from.
    pub identity: LogIdentity,
    /// The sequence of its last message; 0 if it is empty.
    pub last_seq: u64,
    /// The messages that it has.
    pub messages: u64,
    /// What it lacks of the stream that it mirrors. `None` if it is no mirror.
    pub mirror: Option<MirrorState>,
}

/// How far a mirror is behind its source.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MirrorState {
    /// The messages that it has not received yet.
    pub lag: u64,
    /// The time since it last heard from the source. `None` if it never did.
    pub silent: Option<Duration>,
}

impl From<&Info> for LogState {
    fn from(info: &Info) -> Self {
        // With all nanoseconds: two streams may be created within a millisecond.
        let created = moment(info.created.unix_timestamp_nanos()).timestamp();
        let restored = info.config.metadata.get(CREATED).cloned();
        Self {
            identity: LogIdentity {
                name: info.config.name.clone(),
                created: restored.unwrap_or_else(|| created.to_string()),
            },
            last_seq: info.state.last_sequence,
            messages: info.state.messages,
            mirror: info.mirror.as_ref().map(|source| MirrorState {
                lag: source.lag,
                silent: source.active,
            }),
        }
    }
}

impl StreamName {
    const fn new(name: &'static str, subjects: &'static str, keeps: Keeps) -> Self {
        Self {
            name,
            subjects,
            keeps,
        }
    }

    /// The settings with which railbird creates the stream.
    pub(super) fn config(self, replicas: Replicas) -> Config {
        let mut config = Config {
            name: self.name.to_owned(),
            subjects: vec![self.subjects.to_owned()],
            storage: StorageType::File,
            num_replicas: replicas.count(),
            duplicate_window: DUPLICATE_WINDOW,
            allow_direct: true,
            allow_atomic_publish: self == RACING,
            ..Config::default()
        };
        match self.keeps {
            Keeps::All => (config.deny_delete, config.deny_purge) = (true, true),
            Keeps::UntilErased => config.deny_purge = true,
            Keeps::Latest(age_max, bytes_max) => {
                config.max_messages_per_subject = 1;
                config.max_age = age_max;
                // The server accepts no longer one.
                config.duplicate_window = DUPLICATE_WINDOW.min(age_max);
                config.max_bytes = bytes_max;
                config.discard = DiscardPolicy::Old;
            }
            Keeps::Objects(bytes_max) => {
                config.max_bytes = bytes_max;
                config.discard = DiscardPolicy::New;
                config.allow_rollup = true;
            }
        }
        config
    }

    /// Whether a feeder can publish nothing to the stream that the client library cannot read.
    pub(super) fn is_written_by_railbird_alone(self) -> bool {
        self == ACCOUNTS
    }

    /// Whether the stream keeps every message that nobody erases.
    pub(super) fn keeps_all(self) -> bool {
        matches!(self.keeps, Keeps::All | Keeps::UntilErased)
    }
}

impl Log {
    /// The answer of JetStream to a request about a stream.
    ///
    /// # Errors
    /// Returns [`LogError::NoStream`], [`LogError::StreamExists`], [`LogError::NoMessage`], [`LogError::Denied`],
    /// [`LogError::NoLeader`], and [`LogError::Unreachable`] or [`LogError::JetStream`] if the request fails.
    pub(super) async fn api<T: DeserializeOwned>(
        &self,
        action: &str,
        stream: StreamName,
        query: &(impl Serialize + Sync),
    ) -> LogResult<T> {
        let api = format!("{action}.{}", stream.name);
        let request = self.server.request(api.clone(), query);
        let response = self.request(&[&api], request).await?;
        self.answer(stream, response)
    }

    pub(super) fn answer<T>(&self, stream: StreamName, response: Response<T>) -> LogResult<T> {
        let error = match response {
            Response::Ok(answer) => return Ok(answer),
            Response::Err { error } => error,
        };
        Err(match error.error_code() {
            ErrorCode::STREAM_NOT_FOUND => LogError::NoStream(stream.name),
            ErrorCode::STREAM_NAME_EXIST | ErrorCode::STREAM_NAME_EXIST_RESTORE_FAILED => {
                LogError::StreamExists(stream.name)
            }
            ErrorCode::NO_MESSAGE_FOUND | ErrorCode::SEQUENCE_NOT_FOUND => LogError::NoMessage,
            _ => self.jetstream_error(&error),
        })
    }

    /// The replicas of the streams that this creates.
    pub fn replicas(&self) -> Replicas {
        self.address.config.replicas
    }

    /// Creates a stream unless it exists. An existing one keeps its settings. The stream of facts is limited, so that
    /// there is room for the others.
    ///
    /// # Errors
    /// Returns [`LogError::TooOld`], [`LogError::Denied`] if this user may not create streams,
    /// [`LogError::ForeignSetting`], and [`LogError::Unreachable`] or [`LogError::JetStream`] if the request fails.
    pub async fn ensure(&self, stream: StreamName) -> LogResult<LogState> {
        self.check_version()?;
        match self.state(stream).await {
            Err(LogError::NoStream(_)) => {}
            found => {
                self.refuse_foreign(stream).await?;
                return found;
            }
        }
        if stream == RACING
            && let Some(room) = self.room_for_facts().await
        {
            let limited = Config {
                max_bytes: room,
                discard: DiscardPolicy::New,
                ..stream.config(self.replicas())
            };
            match self.create(stream, limited).await {
                // The account may have less room than the server.
                Err(LogError::JetStream(error)) if has_no_room(&error) => {
                    tracing::warn!(error, room, "cannot limit the stream RACING");
                }
                created => return created,
            }
        }
        let mut config = stream.config(self.replicas());
        if config.max_bytes > 0
            && let Some(room) = self.free_room().await
        {
            // Zero is no limit.
            config.max_bytes = config.max_bytes.min(room / ROOM_PART).max(1);
        }
        self.create(stream, config).await
    }

    /// Checks that no stranger has created or changed a stream.
    ///
    /// # Errors
    /// As [`Log::state`], and [`LogError::ForeignSetting`].
    pub(super) async fn refuse_foreign(&self, stream: StreamName) -> LogResult<()> {
        let setting = foreign_setting(&self.info(stream).await?.config);
        let foreign = |setting| Err(LogError::ForeignSetting(stream.name, setting));
        setting.map_or(Ok(()), foreign)
    }

    /// Checks that of all streams that can be read: the server publishes on the log what any of them sends there.
    ///
    /// # Errors
    /// Returns [`LogError::ForeignSetting`].
    pub(super) async fn refuse_foreign_streams(&self) -> LogResult<()> {
        let checks = STREAMS.map(|stream| self.refuse_foreign(stream));
        let is_foreign = |of: &LogResult<()>| matches!(of, Err(LogError::ForeignSetting { .. }));
        let mut found = join_all(checks).await.into_iter();
        found.find(is_foreign).unwrap_or(Ok(()))
    }

    async fn create(&self, stream: StreamName, config: Config) -> LogResult<LogState> {
        if self.is_clustered() && config.num_replicas == 1 {
            tracing::warn!(
                stream = config.name,
                "the stream is created on one server of the NATS cluster, and is away while that is; set --replicas 3"
            );
        }
        let info = match self.api("STREAM.CREATE", stream, &config).await {
            // Another replica was faster, and has other settings.
            Err(exists @ LogError::StreamExists(_)) => match self.any_info(stream).await {
                Err(LogError::NoStream(_)) => Err(exists),
                info => info,
            },
            created => created,
        };
        Ok(LogState::from(&info?))
    }

    /// The state of a stream, which is created if it does not exist and this user may create it. A feeder may not: it
    /// waits for the service to create the stream, and for a server that has just started.
    ///
    /// # Errors
    /// As [`Log::ensure`], after 20 seconds of retries unless a retry cannot help, and [`LogError::NoStream`].
    pub async fn state_or_create(&self, stream: StreamName) -> LogResult<LogState> {
        let mut attempts = Attempts::new(STARTUP_BACKOFF, STARTUP_TIMEOUT);
        loop {
            let error = match self.state(stream).await {
                Ok(state) => return Ok(state),
                Err(error @ LogError::Denied { .. }) => return Err(error),
                Err(state_error) => match self.ensure(stream).await {
                    Ok(state) => return Ok(state),
                    Err(error @ LogError::TooOld { .. }) => return Err(error),
                    // The service may create it, and will.
                    Err(LogError::Denied { .. }) => state_error,
                    Err(error) => error,
                },
            };
            if !attempts.wait().await {
                return Err(error);
            }
        }
    }

    /// The state of an existing stream. A command waits for the election of a leader, for 20 seconds.
    ///
    /// # Errors
    /// Returns [`LogError::NoStream`] if it does not exist, [`LogError::Denied`], [`LogError::NoLeader`], and
    /// [`LogError::Unreachable`] or [`LogError::JetStream`] if the request fails.
    pub async fn state(&self, stream: StreamName) -> LogResult<LogState> {
        let mut attempts = Attempts::new(STARTUP_BACKOFF, STARTUP_TIMEOUT);
        loop {
            match self.info(stream).await {
                // A command has nothing else to do than to wait for an answer.
                Err(LogError::NoLeader(_))
                    if self.mode == ConnectMode::Now && attempts.wait().await => {}
                info => return Ok(LogState::from(&info?)),
            }
        }
    }

    pub(super) async fn info(&self, stream: StreamName) -> LogResult<Info> {
        let info = self.any_info(stream).await?;
        if !is_led(info.cluster.as_ref()) {
            return Err(LogError::NoLeader(format!("the stream {}", stream.name)));
        }
        if info.config.metadata.contains_key(RESTORING) {
            return Err(LogError::Restoring(stream.name));
        }
        Ok(info)
    }

    async fn any_info(&self, stream: StreamName) -> LogResult<Info> {
        self.api("STREAM.INFO", stream, &json!({})).await
    }
}

/// A setting by which the server publishes elsewhere what the stream stores, or stores what was published elsewhere. It
/// does so with all rights, whoever has created the stream. A mirror that names the log that it copies is a replica's.
fn foreign_setting(found: &Config) -> Option<&'static str> {
    let is_copy = found.metadata.contains_key(CREATED);
    let is_foreign = |mirror: &Source| !is_copy || !mirror.subject_transforms.is_empty();
    let mut settings = [
        ("republish", found.republish.is_some()),
        ("sources", found.sources.iter().any(|of| !of.is_empty())),
        ("subject_transform", found.subject_transform.is_some()),
        ("mirror", found.mirror.as_ref().is_some_and(is_foreign)),
    ]
    .into_iter();
    settings.find_map(|(name, is_set)| is_set.then_some(name))
}

/// Whether an error of nats-server is about the limits of a stream that is to be created.
fn has_no_room(error: &str) -> bool {
    let limits = ["resource", "storage", "exceeds account limit"];
    limits.iter().any(|limit| error.contains(limit))
}

/// Whether the leader of a stream has answered, and most of its servers follow it. Without a leader any of them answers
/// from what it has, and one that was cut off or paused takes itself for the leader for another 10 s.
pub(super) fn is_led(cluster: Option<&ClusterInfo>) -> bool {
    let Some(cluster) = cluster else { return true };
    let replicas = cluster.replicas.iter();
    let followers = replicas.filter(|replica| replica.active <= FOLLOWS_WITHIN);
    let leader = cluster.leader.as_ref();
    leader.is_some_and(|leader| !leader.is_empty())
        && (1 + followers.count()) * 2 > 1 + cluster.replicas.len()
}
