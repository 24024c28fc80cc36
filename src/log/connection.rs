//! [`Log`]: a connection to NATS that reconnects by itself, and its status.

use std::sync::Arc;
use std::time::Duration;

use async_nats::header::NATS_MESSAGE_ID;
use async_nats::jetstream::{self, context};
use async_nats::{ConnectErrorKind, ConnectOptions, Event, HeaderMap, Subscriber};
use bytes::Bytes;
use tokio::sync::{Notify, watch};
use tokio::time::sleep;
use tokio_util::task::AbortOnDropHandle;

use super::address::{NatsAddress, NatsConfig};
use super::backoff::Backoff;
use super::connect_failures::ConnectAttempts;
use super::error::{LogError, LogResult, SERVER_VERSION_MIN, chain};
use super::publish_permissions::{DenialSender, PublishPermissions};
use super::server::{Server, ServerError};

/// How long one request to JetStream may take before it is tried again.
pub(super) const REQUEST_TIMEOUT: Duration = Duration::from_secs(3);

/// Messages buffered in this process for a slow fold. A pull asks for fewer, so the buffer never overflows.
const SUBSCRIPTION_CAPACITY: usize = 64 * 1024;

/// How often the server is pinged. The client library gives the connection up when two pings in a row have no answer,
/// so after three times this.
const PING_INTERVAL: Duration = Duration::from_secs(4);

/// What the client library and nats-server report without JetStream, in the server or in the account of the user.
const NO_JETSTREAM: [&str; 3] = ["jetstream unavailable", "not enabled", NO_RESOURCE];
/// What the library makes of "no responders" to a request.
const NO_RESOURCE: &str = "requested JetStream resource does not exist";

/// What the library makes of "no responders", and of no answer. In a cluster only the leader of a stream takes its
/// messages and answers about it, and while a leader is elected nobody does.
#[rustfmt::skip]
const NO_ANSWER: [&str; 4] =
    [NO_RESOURCE, "no stream found for given subject", "no responders", "timed out"];

/// The codes of nats-server for a cluster, a stream or a consumer without a leader.
#[rustfmt::skip]
const NO_LEADER: [&str; 4] = ["error code 10008", "error code 10009", "error code 10118", "error code 10119"];

const RECONNECT: Backoff = Backoff::new(Duration::from_millis(100), Duration::from_secs(2));

/// Whether the connection is up, and how often it was established.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ConnectionStatus {
    /// The connection is up.
    pub up: bool,
    /// Counts established connections, so that a reader notices each reconnect.
    pub number: u64,
}

impl ConnectionStatus {
    pub(crate) fn set_up(&mut self) {
        self.up = true;
        self.number += 1;
    }
}

/// How a connection is established, and whether it is established again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ConnectMode {
    /// Fails if no server answers. Reconnects.
    Now,
    /// Retries until a server answers. Reconnects.
    Background,
}

/// A connection to the log. Clones share it.
#[derive(Debug, Clone)]
pub struct Log {
    pub(super) server: Server,
    pub(super) status: watch::Receiver<ConnectionStatus>,
    pub(super) permissions: PublishPermissions,
    pub(super) address: Arc<NatsAddress>,
    pub(super) mode: ConnectMode,
}

impl Log {
    /// Connects as a client of the given name, and fails if no server answers.
    ///
    /// # Errors
    /// Returns [`LogError::WrongAddress`], [`LogError::WrongFile`], [`LogError::Unreachable`],
    /// [`LogError::LoginRejected`] or [`LogError::TooOld`].
    pub async fn connect(nats: impl Into<NatsConfig>, name: &str) -> LogResult<Self> {
        let address = NatsAddress::parse(&nats.into())?;
        let log = Self::open(address.into(), name.into(), ConnectMode::Now).await?;
        log.check_version()?;
        Ok(log)
    }

    /// Connects in the background, and retries until a server answers.
    ///
    /// # Errors
    /// Returns [`LogError::WrongAddress`] if the URL is not valid, and [`LogError::WrongFile`].
    pub async fn connect_in_background(nats: &NatsConfig, name: &str) -> LogResult<Self> {
        let address = NatsAddress::parse(nats)?;
        Self::open(address.into(), name.into(), ConnectMode::Background).await
    }

    /// Connects once more to the same servers in the background, as a client of another name.
    ///
    /// # Errors
    /// Returns [`LogError::WrongFile`].
    pub async fn connect_again(&self, name: &str) -> LogResult<Self> {
        #[cfg(test)]
        if let Server::Simulated(connection) = &self.server {
            return Ok(Self::simulated(connection.again()));
        }
        let address = Arc::clone(&self.address);
        Self::open(address, name.into(), ConnectMode::Background).await
    }

    async fn open(address: Arc<NatsAddress>, name: Arc<str>, mode: ConnectMode) -> LogResult<Self> {
        let attempts = ConnectAttempts::new(Arc::clone(&address));
        let (status_sender, status) = watch::channel(ConnectionStatus::default());
        let (denials, permissions) = PublishPermissions::new(&address.login());
        let lame_duck = Arc::new(Notify::new());
        let mut options = ConnectOptions::new()
            .name(&*name)
            .subscription_capacity(SUBSCRIPTION_CAPACITY)
            .connection_timeout(REQUEST_TIMEOUT)
            .ping_interval(PING_INTERVAL)
            .reconnect_delay_callback(|attempts| {
                RECONNECT.delay(u32::try_from(attempts).unwrap_or(u32::MAX))
            })
            .event_callback({
                let name = Arc::clone(&name);
                let attempts = attempts.clone();
                let lame_duck = Arc::clone(&lame_duck);
                move |event| {
                    match event {
                        Event::Connected => attempts.succeeded(),
                        Event::LameDuckMode => lame_duck.notify_one(),
                        _ => {}
                    }
                    handle_event(&event, &name, mode, &status_sender, &denials);
                    std::future::ready(())
                }
            });
        if mode == ConnectMode::Background {
            options = attempts.observe(options.retry_on_initial_connect());
            let mut status = status.clone();
            tokio::spawn(attempts.watch_first(async move {
                let _ = status.wait_for(|status| status.number > 0).await;
            }));
        }
        let connecting = address.secure(options)?.connect(address.servers.clone());
        let client = connecting.await.map_err(|error| match error.kind() {
            ConnectErrorKind::Authentication | ConnectErrorKind::AuthorizationViolation => {
                permissions.login_rejected()
            }
            _ => LogError::Unreachable(format!("{}: {error}", address.hosts())),
        })?;
        if mode != ConnectMode::Background {
            // The status comes from a task of its own. Without the wait, "not connected yet" would look like "lost".
            let _ = status.clone().wait_for(|status| status.number > 0).await;
        }
        let jetstream = jetstream(&client);
        let leaving = tokio::spawn(leave(client.clone(), lame_duck));
        Ok(Self {
            server: Server::new(client, jetstream, AbortOnDropHandle::new(leaving)),
            status,
            permissions,
            address,
            mode,
        })
    }

    /// Checks the server's version.
    ///
    /// # Errors
    /// Returns [`LogError::Unreachable`] before the first connection, and [`LogError::TooOld`].
    pub(super) fn check_version(&self) -> LogResult<()> {
        let found = self.server_version();
        if found.is_empty() {
            let reason = "no server has answered yet".to_owned();
            return Err(LogError::Unreachable(reason));
        }
        let is_new = parts(&found) >= SERVER_VERSION_MIN;
        is_new.then_some(()).ok_or(LogError::TooOld { found })
    }

    /// The version of nats-server; empty before the first connection.
    pub fn server_version(&self) -> String {
        self.server.version()
    }

    /// Whether nats-server is older than a version, as far as its formats may differ.
    pub fn is_older_than(&self, version: &str) -> bool {
        parts(&self.server_version()) < parts(version)
    }

    /// The status of the connection, to be watched.
    pub fn connection(&self) -> watch::Receiver<ConnectionStatus> {
        self.status.clone()
    }

    /// Publishes a message on core NATS once the connection is up. There is no acknowledgement.
    ///
    /// # Errors
    /// Returns [`LogError::Unreachable`] if the client cannot send it: the subject is not valid, the message is too
    /// large, or the connection is closed.
    pub async fn publish_core(&self, subject: String, id: &str, payload: Vec<u8>) -> LogResult<()> {
        let mut status = self.status.clone();
        // An error means that the connection is closed, which the publish below reports.
        let _ = status.wait_for(|status| status.up).await;
        let mut headers = HeaderMap::new();
        headers.insert(NATS_MESSAGE_ID, id);
        let sent = self.server.publish_core(subject, headers, payload).await;
        sent.map_err(|error| LogError::Unreachable(error.to_string()))
    }

    /// Sends everything that is buffered and closes the connection.
    pub async fn close(&self) {
        if let Err(error) = self.client().drain().await {
            tracing::debug!(%error, "the connection was closed already");
        }
    }

    /// Gives the connection up for one to a server of the cluster that is chosen by chance.
    pub(super) async fn connect_elsewhere(&self) {
        self.server.connect_elsewhere().await;
    }

    /// The number of the current or last connection.
    pub(super) fn connection_number(&self) -> u64 {
        self.status.borrow().number
    }

    /// Resolves when a newer connection than that of this connection_number is up.
    pub(crate) async fn reconnected(&self, connection_number: u64) {
        let mut status = self.status.clone();
        let is_newer = |status: &ConnectionStatus| status.up && status.number > connection_number;
        if status.wait_for(is_newer).await.is_err() {
            // The connection was closed, and there will be no other one.
            std::future::pending::<()>().await;
        }
    }

    /// Waits for a time, or until a newer connection than that of this number is up.
    pub(super) async fn pause(&self, connection_number: u64, time: Duration) {
        tokio::select! {
            biased;
            () = sleep(time) => {}
            () = self.reconnected(connection_number) => {}
        }
    }

    /// Sends a request to JetStream, and stops waiting when the server denies this user one of these parts of the API:
    /// a denied request gets no answer.
    pub(super) async fn request<T, E: Into<ServerError>>(
        &self,
        apis: &[&str],
        request: impl Future<Output = Result<T, E>>,
    ) -> LogResult<T> {
        // nats.conf maps some of the API to other subjects for feeders, which the server reports in lower case.
        let is_api = |subject: &str| {
            let subject = subject.to_uppercase();
            apis.iter().any(|api| subject.ends_with(api))
        };
        tokio::select! {
            biased;
            answer = request => answer.map_err(|error| self.jetstream_error(&*error.into())),
            denied = self.permissions.denied(is_api) => Err(denied),
        }
    }

    pub(super) fn client(&self) -> &async_nats::Client {
        self.server.client()
    }

    /// Publishes a request that several servers, or several messages, may answer.
    pub(super) async fn request_many(&self, subject: String, body: Bytes) -> LogResult<Subscriber> {
        let client = self.client();
        let inbox = client.new_inbox();
        let answers = client.subscribe(inbox.clone()).await;
        let answers = answers.map_err(|error| self.jetstream_error(&error))?;
        let sent = client.publish_with_reply(subject, inbox, body).await;
        sent.map_err(|error| self.jetstream_error(&error))?;
        Ok(answers)
    }

    /// A request that has no answer in time.
    pub(super) fn timed_out(&self) -> LogError {
        self.jetstream_error(&std::io::Error::from(std::io::ErrorKind::TimedOut))
    }

    /// An error of a request, as an error of the connection while that is down.
    pub(super) fn jetstream_error(&self, error: &dyn std::error::Error) -> LogError {
        let text = chain(error);
        let is_any = |reasons: &[&str]| reasons.iter().any(|reason| text.contains(reason));
        let is_up = self.status.borrow().up;
        if is_any(&NO_LEADER) || (is_up && self.is_clustered() && is_any(&NO_ANSWER)) {
            LogError::NoLeader(text)
        } else if is_any(&NO_JETSTREAM) {
            let reason = format!("{text}; does nats-server run with railbird's nats.conf?");
            LogError::JetStream(reason)
        } else if is_up {
            LogError::JetStream(text)
        } else {
            LogError::Unreachable(text)
        }
    }

    /// Whether the server is one of a cluster, as far as the connection has shown.
    pub(crate) fn is_clustered(&self) -> bool {
        self.server.is_clustered()
    }
}

fn jetstream(client: &async_nats::Client) -> jetstream::Context {
    context::ContextBuilder::new()
        .timeout(REQUEST_TIMEOUT)
        .build(client.clone())
}

/// Connects to another server as soon as this one announces that it shuts down. It would end the connection a little
/// later, and nobody can connect to it any more.
async fn leave(client: async_nats::Client, lame_duck: Arc<Notify>) {
    loop {
        lame_duck.notified().await;
        if client.force_reconnect().await.is_err() {
            return;
        }
    }
}

/// The first two numbers of a version.
fn parts(version: &str) -> (u32, u32) {
    let mut numbers = version.split('.').map(|n| n.parse::<u32>().unwrap_or(0));
    (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0))
}

/// Updates the status, and logs the event. A command that is connected has nothing to report.
fn handle_event(
    event: &Event,
    name: &str,
    mode: ConnectMode,
    status: &watch::Sender<ConnectionStatus>,
    denials: &DenialSender,
) {
    match event {
        Event::Connected => {
            denials.clear();
            status.send_modify(ConnectionStatus::set_up);
            let connection_number = status.borrow().number;
            if mode == ConnectMode::Background || connection_number > 1 {
                tracing::info!(name, connection_number, "connected to NATS");
            }
        }
        Event::Closed => {
            status.send_modify(|status| status.up = false);
            tracing::debug!("connection to NATS closed");
        }
        Event::Disconnected => {
            status.send_modify(|status| status.up = false);
            tracing::warn!(name, "disconnected from NATS");
        }
        Event::ServerError(error) => {
            let text = error.to_string();
            if denials.record(&text) {
                tracing::warn!(error = %text, "NATS reported an error");
            } else {
                tracing::debug!(error = %text, "NATS reported an error");
            }
        }
        other => tracing::debug!(event = %other, "NATS client event"),
    }
}

#[cfg(test)]
mod testing {
    use std::sync::Arc;

    use super::{ConnectMode, Log, NatsAddress, PublishPermissions, Server};
    use crate::simulation::server::Connection;

    impl Log {
        /// A connection to the model of a server.
        pub(crate) fn simulated(connection: Connection) -> Self {
            let address = Arc::new(NatsAddress::parse(&"nats://model".into()).expect("a URL"));
            let (_, permissions) = PublishPermissions::new("the model");
            Self {
                status: connection.status(),
                permissions,
                address,
                mode: ConnectMode::Background,
                server: Server::Simulated(connection),
            }
        }
    }
}
