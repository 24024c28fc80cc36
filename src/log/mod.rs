//! The log: NATS JetStream. The only module that names async_nats.
//!
//! Facts about racing stand in the stream [`RACING`], keys in [`ACCOUNTS`]. [`Appender`] writes and awaits every
//! acknowledgement; [`Reader`] hands out every message once and in order, through restarts of the server.

mod append;
mod ids;
mod one_shot;
mod publish_core;
mod publish_permissions;
mod reader;
pub mod runtime;
mod stored;

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use async_nats::header::NATS_MESSAGE_ID;
use async_nats::jetstream::context::{GetStreamError, GetStreamErrorKind};
use async_nats::jetstream::stream::{Config, StorageType};
use async_nats::jetstream::{self, ErrorCode, context};
use async_nats::{ConnectErrorKind, ServerAddr};
use bytes::Bytes;
use events::Moment;
use percent_encoding::percent_decode_str;
use projections::LogIdentity;
use tokio::sync::watch;
use tokio::time::{Instant, sleep};

use self::publish_permissions::{DenialSender, PublishPermissions};

pub use append::{Appended, Appender, Outgoing};
pub use reader::{Batch, LogMessage, ReadError, ReadPosition, Reader};

/// The stream of all facts about racing.
pub const RACING: StreamName = StreamName {
    name: "RACING",
    subjects: events::SUBJECTS,
};
/// The stream of keys and subscriptions, with permissions of its own.
pub const ACCOUNTS: StreamName = StreamName {
    name: "ACCOUNTS",
    subjects: "accounts.>",
};

/// Atomic stream settings that the design relies on came with this version.
const SERVER_VERSION_MIN: (u32, u32) = (2, 12);

/// The server forgets message ids after this long. Correctness never rests on it.
const DUPLICATE_WINDOW: Duration = Duration::from_secs(120);

/// How long one request to JetStream may take before it is tried again.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(3);

/// How long a server may take to bring its streams up.
const STARTUP_TIMEOUT: Duration = Duration::from_secs(20);
const STARTUP_RETRY_MIN: Duration = Duration::from_millis(50);

/// How long an acknowledgement may take: with every write synced, a slow disk takes its time.
const ACK_TIMEOUT: Duration = Duration::from_secs(10);

/// Messages that wait in this process for a slow fold. A pull asks for fewer, so it never overflows.
const SUBSCRIPTION_CAPACITY: usize = 64 * 1024;

/// A stream and the subjects that it takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StreamName {
    /// The stream's name.
    pub name: &'static str,
    subjects: &'static str,
}

/// What can go wrong between this process and the log.
#[derive(Debug, thiserror::Error)]
pub enum LogError {
    /// Nobody answers.
    #[error("NATS is not there: {0}")]
    Unreachable(String),
    /// The address does not parse. It may hold a password, so it is not repeated.
    #[error(
        "the address of NATS is nats://user:password@host:port, or several with commas between them"
    )]
    WrongAddress,
    /// The server is too old.
    #[error("nats-server {found} is too old, {}.{} or later is needed", SERVER_VERSION_MIN.0, SERVER_VERSION_MIN.1)]
    TooOld {
        /// The server's version.
        found: String,
    },
    /// There is no such stream.
    #[error("there is no stream {0}; the service creates it when it first starts")]
    NoStream(&'static str),
    /// The server does not know this user with this password.
    #[error("NATS does not let {0} in: the user or the password is wrong")]
    NotLetIn(String),
    /// This user may not do that.
    #[error("{user} may not publish on {subject}")]
    Denied {
        /// Who it is.
        user: String,
        /// Where it may not.
        subject: String,
    },
    /// The message is larger than the server takes.
    #[error("the message is larger than the server takes")]
    TooLarge,
    /// More stands on a subject than is read.
    #[error("the log has more than {max} messages on {subject}")]
    TooMany {
        /// The subject.
        subject: String,
        /// How many are read.
        max: usize,
    },
    /// Somebody else has written there meanwhile.
    #[error("somebody else has written there meanwhile")]
    Conflict,
    /// JetStream says no.
    #[error("JetStream: {0}")]
    JetStream(String),
}

/// Whether the connection stands, and how often it was made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ConnectionStatus {
    /// It stands.
    pub up: bool,
    /// Since when it has, or has not.
    pub changed_at: std::time::Instant,
    /// Counts connections, so that a reader sees each reconnect.
    pub epoch: u64,
}

impl ConnectionStatus {
    fn lose(&mut self) {
        if std::mem::take(&mut self.up) {
            self.changed_at = std::time::Instant::now();
        }
    }
}

/// The state of a stream.
#[derive(Debug, Clone)]
pub struct LogState {
    /// Which log it is.
    pub identity: LogIdentity,
    /// The sequence of its first message.
    pub first_seq: u64,
    /// The sequence of its last message; 0 when it is empty.
    pub last_seq: u64,
}

/// How a connection comes about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Mode {
    /// At once or not at all. When it breaks it comes back.
    Now,
    /// At once or not at all. When it breaks it stays away.
    Once,
    /// Whenever somebody answers. When it breaks it comes back.
    InBackground,
}

/// The last message on a subject.
struct Last {
    seq: u64,
    /// Empty if it has none.
    id: String,
}

/// A connection to the log. Clones share it.
#[derive(Debug, Clone)]
pub struct Log {
    client: async_nats::Client,
    jetstream: jetstream::Context,
    connection: watch::Receiver<ConnectionStatus>,
    denials: PublishPermissions,
    address: Arc<Address>,
    mode: Mode,
}

/// Where the log is, to connect once more. The URL may hold a password.
struct Address {
    url: String,
    name: String,
}

impl fmt::Debug for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Address")
            .field("name", &self.name)
            .finish_non_exhaustive()
    }
}

impl Log {
    /// Connects, and fails if nobody answers.
    ///
    /// # Errors
    /// Nobody answers, the credentials are wrong, or the server is too old.
    pub async fn connect(url: &str, name: &str) -> Result<Self, LogError> {
        let log = Self::open(url, name, Mode::Now).await?;
        log.check_version()?;
        Ok(log)
    }

    /// Connects in the background, for as long as it takes.
    ///
    /// # Errors
    /// The URL is wrong.
    pub async fn connect_in_background(url: &str, name: &str) -> Result<Self, LogError> {
        Self::open(url, name, Mode::InBackground).await
    }

    async fn open(url: &str, name: &str, mode: Mode) -> Result<Self, LogError> {
        let (up, connection) = watch::channel(ConnectionStatus {
            up: false,
            changed_at: std::time::Instant::now(),
            epoch: 0,
        });
        let servers = parse_servers(url).ok_or(LogError::WrongAddress)?;
        let credentials = servers.iter().find_map(credentials);
        let user = credentials.as_ref().map(|(user, _)| user.as_str());
        let (said, denials) = PublishPermissions::of(user);
        let connected = Arc::new(AtomicBool::new(false));
        let again = (mode == Mode::Once).then(|| Arc::clone(&connected));
        let mut options = async_nats::ConnectOptions::new()
            .name(name)
            .subscription_capacity(SUBSCRIPTION_CAPACITY)
            .connection_timeout(REQUEST_TIMEOUT)
            .reconnect_delay_callback(move |attempts| match &again {
                Some(connected) if connected.load(Ordering::Relaxed) => Duration::MAX,
                _ => reconnect_delay(attempts),
            })
            .event_callback(move |event| {
                note(&event, mode, &up, &said);
                std::future::ready(())
            });
        if mode == Mode::InBackground {
            options = options.retry_on_initial_connect();
        }
        if let Some((user, password)) = credentials {
            options = options.user_and_password(user, password);
        }
        let servers: Option<Vec<ServerAddr>> = servers.iter().map(without_credentials).collect();
        let servers = servers.ok_or(LogError::WrongAddress)?;
        let client = options
            .connect(servers)
            .await
            .map_err(|error| match error.kind() {
                ConnectErrorKind::Authentication | ConnectErrorKind::AuthorizationViolation => {
                    denials.not_let_in()
                }
                _ => LogError::Unreachable(error.to_string()),
            })?;
        connected.store(true, Ordering::Relaxed);
        let jetstream = context::ContextBuilder::new()
            .timeout(REQUEST_TIMEOUT)
            .ack_timeout(ACK_TIMEOUT)
            .build(client.clone());
        Ok(Self {
            client,
            jetstream,
            connection,
            denials,
            address: Arc::new(Address {
                url: url.to_owned(),
                name: name.to_owned(),
            }),
            mode,
        })
    }

    fn check_version(&self) -> Result<(), LogError> {
        let found = self.client.server_info().version;
        if found.is_empty() {
            return Err(LogError::Unreachable(
                "no server has answered yet".to_owned(),
            ));
        }
        let mut numbers = found.split('.').map(|n| n.parse::<u32>().unwrap_or(0));
        let version = (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0));
        if version < SERVER_VERSION_MIN {
            Err(LogError::TooOld { found })
        } else {
            Ok(())
        }
    }

    /// The state of the connection, to be watched.
    #[must_use]
    pub fn connection(&self) -> watch::Receiver<ConnectionStatus> {
        self.connection.clone()
    }

    /// Creates a stream unless it is there. An existing one keeps its settings.
    ///
    /// # Errors
    /// JetStream does not answer, or this user may not.
    pub async fn ensure(&self, stream: StreamName) -> Result<LogState, LogError> {
        self.check_version()?;
        let config = Config {
            name: stream.name.to_owned(),
            subjects: vec![stream.subjects.to_owned()],
            storage: StorageType::File,
            duplicate_window: DUPLICATE_WINDOW,
            deny_delete: true,
            deny_purge: true,
            allow_direct: true,
            ..Config::default()
        };
        let calls = ["INFO", "CREATE"].map(|call| format!("STREAM.{call}.{}", stream.name));
        let created = self
            .ask(
                &calls.each_ref().map(String::as_str),
                self.jetstream.get_or_create_stream(config),
            )
            .await?;
        Ok(state(created.cached_info()))
    }

    /// The state of a stream; creates it where it is not there. A feeder may only do the first. A server that was just
    /// started is waited for.
    ///
    /// # Errors
    /// JetStream does not answer, or there is no such stream and this user may not create it.
    pub async fn state_or_create(&self, stream: StreamName) -> Result<LogState, LogError> {
        let until = Instant::now() + STARTUP_TIMEOUT;
        let mut attempt = 0;
        loop {
            let error = match self.state(stream).await {
                Ok(state) => return Ok(state),
                Err(error @ LogError::Denied { .. }) => return Err(error),
                Err(unseen) => match self.ensure(stream).await {
                    Ok(state) => return Ok(state),
                    Err(error @ LogError::TooOld { .. }) => return Err(error),
                    // The service may create it, and will.
                    Err(LogError::Denied { .. }) => unseen,
                    Err(error) => error,
                },
            };
            if Instant::now() > until {
                return Err(error);
            }
            sleep(backoff(STARTUP_RETRY_MIN, attempt, REQUEST_TIMEOUT)).await;
            attempt += 1;
        }
    }

    /// The state of a stream that is there.
    ///
    /// # Errors
    /// JetStream does not answer, or has no such stream.
    pub async fn state(&self, stream: StreamName) -> Result<LogState, LogError> {
        let found = async {
            let found = self.jetstream.get_stream(stream.name).await;
            match found {
                Ok(found) => Ok(Some(found)),
                Err(error) if is_not_found(&error) => Ok(None),
                Err(error) => Err(error),
            }
        };
        let api = format!("STREAM.INFO.{}", stream.name);
        let found = self.ask(&[&api], found).await?;
        let found = found.ok_or(LogError::NoStream(stream.name))?;
        Ok(state(found.cached_info()))
    }

    /// The id of the last message on a subject; `None` if there is none.
    ///
    /// # Errors
    /// JetStream does not answer.
    pub async fn last_id(
        &self,
        stream: StreamName,
        subject: &str,
    ) -> Result<Option<String>, LogError> {
        let last = self.last(stream, subject).await?;
        Ok(last.map(|last| last.id).filter(|id| !id.is_empty()))
    }

    async fn last(&self, stream: StreamName, subject: &str) -> Result<Option<Last>, LogError> {
        use jetstream::stream::DirectGetErrorKind;
        let stream = self
            .jetstream
            .get_stream_no_info(stream.name)
            .await
            .map_err(|e| self.jetstream_error(&e))?;
        match stream.direct_get_last_for_subject(subject).await {
            Ok(message) => Ok(Some(Last {
                seq: message.sequence,
                id: message
                    .headers
                    .get(NATS_MESSAGE_ID)
                    .map(ToString::to_string)
                    .unwrap_or_default(),
            })),
            Err(error) if error.kind() == DirectGetErrorKind::NotFound => Ok(None),
            Err(error) => Err(self.jetstream_error(&error)),
        }
    }

    /// What the first message on a subject says; `None` if there is none.
    ///
    /// # Errors
    /// JetStream does not answer.
    pub async fn first(
        &self,
        stream: StreamName,
        subject: &str,
    ) -> Result<Option<Bytes>, LogError> {
        use jetstream::stream::DirectGetErrorKind;
        let stream = self
            .jetstream
            .get_stream_no_info(stream.name)
            .await
            .map_err(|e| self.jetstream_error(&e))?;
        match stream.direct_get_first_for_subject(subject).await {
            Ok(message) => Ok(Some(message.payload)),
            Err(error) if error.kind() == DirectGetErrorKind::NotFound => Ok(None),
            Err(error) => Err(self.jetstream_error(&error)),
        }
    }

    /// Whether the server syncs every write to disk before it acknowledges; `None` where this user cannot see it.
    pub async fn syncs_always(&self) -> Option<bool> {
        let request = self.client.request("$SYS.REQ.SERVER.PING.VARZ", "".into());
        let answer = tokio::time::timeout(REQUEST_TIMEOUT, request)
            .await
            .ok()?
            .ok()?;
        let varz: serde_json::Value = serde_json::from_slice(&answer.payload).ok()?;
        let config = varz.pointer("/data/jetstream/config")?;
        Some(
            config
                .get("sync_always")
                .and_then(serde_json::Value::as_bool)
                .unwrap_or(false),
        )
    }

    /// A reader of all messages after a place in the log.
    #[must_use]
    pub fn reader(&self, stream: StreamName, from: ReadPosition) -> Reader {
        self.reader_of(stream, from, Vec::new())
    }

    /// A reader of the messages on some subjects after a place in the log; on all, where none is given.
    #[must_use]
    pub fn reader_of(
        &self,
        stream: StreamName,
        from: ReadPosition,
        subjects: Vec<String>,
    ) -> Reader {
        Reader::new(self.clone(), stream, from, subjects)
    }

    /// An appender that keeps up to `window` messages under way.
    #[must_use]
    pub fn appender(&self, window: usize) -> Appender {
        Appender::new(self.clone(), window)
    }

    /// Appends one message and awaits its acknowledgement.
    ///
    /// # Errors
    /// As [`Appender::append`].
    pub async fn append(&self, outgoing: Outgoing) -> Result<Appended, LogError> {
        let mut appender = self.appender(1);
        appender.append(outgoing).await?;
        let mut done = appender.finish().await?;
        done.pop()
            .ok_or_else(|| LogError::JetStream("no acknowledgement".to_owned()))
    }

    /// Appends one message behind the place `last_seq` on its subject, 0 for the first, and awaits its acknowledgement. Of
    /// several who do so at the same time one succeeds.
    ///
    /// # Errors
    /// As [`Appender::append`], and [`LogError::Conflict`] if another message stands there.
    pub async fn append_expecting(
        &self,
        stream: StreamName,
        outgoing: Outgoing,
        last_seq: u64,
    ) -> Result<Appended, LogError> {
        let mut appender = self.appender(1);
        appender.append_expecting(stream, &outgoing, last_seq).await
    }

    /// Sends everything and closes the connection.
    pub async fn close(&self) {
        if let Err(error) = self.client.drain().await {
            tracing::debug!(%error, "the connection was closed already");
        }
    }

    /// Asks JetStream, but waits no longer where the server says that this user may not call one of these parts of its API.
    async fn ask<T, E: std::error::Error>(
        &self,
        calls: &[&str],
        request: impl Future<Output = Result<T, E>>,
    ) -> Result<T, LogError> {
        // nats.conf gives feeders some of them under another name, in lower case.
        let is_one = |subject: &str| {
            let subject = subject.to_uppercase();
            calls.iter().any(|call| subject.ends_with(call))
        };
        tokio::select! {
            answer = request => answer.map_err(|error| self.jetstream_error(&error)),
            denied = self.denials.of_subject(is_one) => Err(denied),
        }
    }

    /// Resolves when nothing that was sent on the connection of an epoch will be answered any more.
    async fn lost(&self, epoch: u64) {
        match self.mode {
            Mode::Now | Mode::InBackground => self.reconnected(epoch).await,
            Mode::Once => {
                let mut connection = self.connection.clone();
                // An error says so as well: the connection is not looked after any more.
                let _ = connection.wait_for(|connection| !connection.up).await;
            }
        }
    }

    /// Resolves when a newer connection than `epoch` stands.
    async fn reconnected(&self, epoch: u64) {
        let mut connection = self.connection.clone();
        let gone = connection
            .wait_for(|c| c.up && c.epoch > epoch)
            .await
            .is_err();
        if gone {
            std::future::pending::<()>().await;
        }
    }

    fn jetstream_error(&self, error: &dyn std::error::Error) -> LogError {
        let mut text = error.to_string();
        let mut cause = error.source();
        while let Some(source) = cause {
            text = format!("{text}: {source}");
            cause = source.source();
        }
        if self.connection.borrow().up {
            LogError::JetStream(text)
        } else {
            LogError::Unreachable(text)
        }
    }
}

fn is_not_found(error: &GetStreamError) -> bool {
    matches!(error.kind(), GetStreamErrorKind::JetStream(error) if error.error_code() == ErrorCode::STREAM_NOT_FOUND)
}

fn parse_servers(url: &str) -> Option<Vec<ServerAddr>> {
    url.split(',')
        .map(|server| server.trim().parse().ok())
        .collect()
}

/// The client library leaves the credentials of an address unused, and logs them.
fn without_credentials(server: &ServerAddr) -> Option<ServerAddr> {
    let (scheme, host, port) = (server.scheme(), server.host(), server.port());
    let host = if host.contains(':') {
        format!("[{host}]")
    } else {
        host.to_owned()
    };
    format!("{scheme}://{host}:{port}").parse().ok()
}

/// The user and the password in an address, without their percent encoding.
fn credentials(server: &ServerAddr) -> Option<(String, String)> {
    let plain = |text: &str| percent_decode_str(text).decode_utf8_lossy().into_owned();
    Some((
        plain(server.username()?),
        plain(server.password().unwrap_or_default()),
    ))
}

fn state(info: &jetstream::stream::Info) -> LogState {
    let created = moment_text(info.created.unix_timestamp_nanos());
    LogState {
        identity: LogIdentity {
            name: info.config.name.clone(),
            created,
        },
        first_seq: info.state.first_sequence,
        last_seq: info.state.last_sequence,
    }
}

/// Nanoseconds since the epoch as a time. The server's clock is within the range of either type.
fn moment(nanoseconds: i128) -> Moment {
    jiff::Timestamp::from_nanosecond(nanoseconds)
        .unwrap_or(jiff::Timestamp::UNIX_EPOCH)
        .into()
}

/// With all nanoseconds: two streams may be created within a millisecond.
fn moment_text(nanoseconds: i128) -> String {
    moment(nanoseconds).timestamp().to_string()
}

fn note(
    event: &async_nats::Event,
    mode: Mode,
    up: &watch::Sender<ConnectionStatus>,
    denials: &DenialSender,
) {
    // A line comes and goes with a connection that says so.
    let is_line = mode == Mode::Once;
    match event {
        async_nats::Event::Connected => {
            denials.forget();
            up.send_modify(|c| {
                *c = ConnectionStatus {
                    up: true,
                    changed_at: std::time::Instant::now(),
                    epoch: c.epoch + 1,
                }
            });
            if !is_line {
                tracing::info!("connected to NATS");
            }
        }
        async_nats::Event::Closed => {
            up.send_modify(ConnectionStatus::lose);
            tracing::debug!("the connection to NATS is closed");
        }
        async_nats::Event::Disconnected => {
            up.send_modify(ConnectionStatus::lose);
            if !is_line {
                tracing::warn!("disconnected from NATS");
            }
        }
        async_nats::Event::ServerError(error) => {
            let text = error.to_string();
            if denials.note(&text) {
                tracing::warn!(error = %text, "NATS said");
            } else {
                tracing::debug!(error = %text, "NATS said");
            }
        }
        other => tracing::debug!(event = %other, "NATS"),
    }
}

/// Between 0.1 and 2 seconds, growing, never in step with other clients.
fn reconnect_delay(attempts: usize) -> Duration {
    let step = u32::try_from(attempts.min(5)).unwrap_or(5);
    backoff(Duration::from_millis(100), step, Duration::from_secs(2))
}

/// `base` doubled `step` times, at most `max`, of which a random half is taken off.
fn backoff(base: Duration, step: u32, max: Duration) -> Duration {
    let full = base.saturating_mul(1 << step.min(10)).min(max);
    let random = getrandom::u32().unwrap_or(0) % 1000;
    full - full / 2 * random / 1000
}
