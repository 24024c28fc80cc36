//! [`LiveClient`]: keeps a connection to the live channel, and resumes it as docs/live-odds.md prescribes.

use std::convert::Infallible;
use std::ops::RangeInclusive;
use std::time::Duration;

use events::Text;
use futures::StreamExt;
use serde_json::Value;
use tokio::net::TcpStream;
use tokio::sync::mpsc::Sender;
use tokio::time::{Instant, sleep, timeout, timeout_at};
use tokio_tungstenite::tungstenite::client::IntoClientRequest;
use tokio_tungstenite::tungstenite::http::{HeaderValue, Response, StatusCode, header};
use tokio_tungstenite::tungstenite::protocol::WebSocketConfig;
use tokio_tungstenite::tungstenite::{Error, Message as Frame, Utf8Bytes};
use tokio_tungstenite::{MaybeTlsStream, WebSocketStream, connect_async_with_config};
use url::Url;

use super::message::{WatchMessage, WatchPosition, WatchWelcome};
use super::service_url::{address, with_query};
use crate::log::Backoff;

/// Far above the size of the largest race.
const MESSAGE_BYTES_MAX: usize = 1024 * 1024;
/// Holds the pongs and the close frame, which are all that the client sends.
const WRITE_BUFFER_BYTES_MAX: usize = 256 * 1024;

/// For name resolution, TCP, TLS and the WebSocket handshake together.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
const WELCOME_TIMEOUT: Duration = Duration::from_secs(10);

const BACKOFF_MIN: Duration = Duration::from_millis(500);
const BACKOFF_MAX: Duration = Duration::from_secs(30);
const BACKOFF: Backoff = Backoff::new(BACKOFF_MIN, BACKOFF_MAX);
/// The longest wait that a service can ask for.
const RETRY_AFTER_MAX: Duration = Duration::from_secs(300);

/// The heartbeat interval, unless `welcome` names another.
const HEARTBEAT_MS_DEFAULT: u64 = 5_000;
/// The heartbeat intervals that the live channel allows. The bound keeps a faulty `welcome` from disabling the timeout.
const HEARTBEAT_MS: RangeInclusive<u64> = 1_000..=60_000;

/// The close code for an expired or revoked key.
const CLOSE_KEY_REVOKED: u16 = 4401;

/// The longest reason that is shown.
const REASON_CHARS_MAX: usize = 200;

type Socket = WebSocketStream<MaybeTlsStream<TcpStream>>;

pub(super) enum ClientEvent {
    /// A message, and its JSON text.
    Message(Box<WatchMessage>, Utf8Bytes),
    /// The connection is lost; the next attempt starts after `retry_in`.
    Disconnected {
        reason: String,
        retry_in: Duration,
    },
    Connecting,
}

/// Why the live channel cannot be watched.
#[derive(Debug, thiserror::Error)]
pub(crate) enum WatchError {
    #[error(
        "cannot connect to {address}: {reason}. Check --url, and that the service runs (`railbird dev` or `railbird serve`)."
    )]
    Unreachable { address: String, reason: String },
    #[error(
        "the API key is not valid: {message}. `railbird keys issue --plan PLAN` creates a key."
    )]
    InvalidKey { message: String },
    #[error("the service on {address} rejects the connection with {status}: {message}")]
    Rejected {
        address: String,
        status: StatusCode,
        message: String,
        retry_after: Option<Duration>,
    },
    #[error("the API key is no longer valid. `railbird keys issue --plan PLAN` creates a key.")]
    KeyRevoked,
}

impl WatchError {
    /// Whether the service is not reachable or not ready.
    pub(crate) fn is_unavailable(&self) -> bool {
        match self {
            Self::Rejected { status, .. } => *status == StatusCode::SERVICE_UNAVAILABLE,
            _ => matches!(self, Self::Unreachable { .. }),
        }
    }

    /// Why a reconnection attempt failed.
    ///
    /// # Errors
    /// Returns the error itself if further attempts cannot succeed.
    fn into_disconnect(self) -> Result<Disconnect, Self> {
        let (reason, wait) = match self {
            Self::Unreachable { reason, .. } => (reason, None),
            Self::Rejected { status, .. } if status == StatusCode::BAD_REQUEST => return Err(self),
            Self::Rejected { status, .. } if status == StatusCode::FORBIDDEN => return Err(self),
            Self::Rejected { retry_after, .. } => (self.to_string(), retry_after),
            Self::InvalidKey { .. } | Self::KeyRevoked => return Err(self),
        };
        Ok(Disconnect { reason, wait })
    }
}

/// Why a connection ended or could not be established, and how long the service asked to wait.
struct Disconnect {
    reason: String,
    wait: Option<Duration>,
}

pub(super) struct LiveClient {
    url: Url,
    key: HeaderValue,
    position: ResumePosition,
    /// Connection attempts since the last heartbeat.
    attempts: u32,
    events: Sender<ClientEvent>,
}

impl LiveClient {
    /// Sends events until their receiver is dropped. Reconnects after each loss of the connection.
    ///
    /// # Errors
    /// Returns [`WatchError`] if the first attempt fails, or if the service rejects the key or the request later.
    pub(super) async fn run(
        url: Url,
        key: HeaderValue,
        events: Sender<ClientEvent>,
    ) -> Result<(), WatchError> {
        let receiver = events.clone();
        let mut client = Self {
            url,
            key,
            position: ResumePosition::default(),
            attempts: 0,
            events,
        };
        tokio::select! {
            result = client.receive() => result.map(|never| match never {}),
            () = receiver.closed() => Ok(()),
        }
    }

    async fn receive(&mut self) -> Result<Infallible, WatchError> {
        let mut socket = self.connect().await?;
        loop {
            let disconnect = self.read(socket).await?;
            socket = self.reconnect(disconnect).await?;
        }
    }

    async fn send(&self, event: ClientEvent) {
        // An error means that the receiver is dropped; `run` ends then.
        let _ = self.events.send(event).await;
    }

    async fn connect(&self) -> Result<Socket, WatchError> {
        let unreachable = |reason: String| WatchError::Unreachable {
            address: address(&self.url),
            reason,
        };
        let url = with_query(self.url.clone(), &self.position.query());
        let request = url.as_str().into_client_request();
        let mut request = request.map_err(|error| unreachable(without_prefix(error)))?;
        request.headers_mut().insert("x-api-key", self.key.clone());
        let config = WebSocketConfig::default()
            .max_message_size(Some(MESSAGE_BYTES_MAX))
            .max_frame_size(Some(MESSAGE_BYTES_MAX))
            .max_write_buffer_size(WRITE_BUFFER_BYTES_MAX);
        let connecting = connect_async_with_config(request, Some(config), true);
        match timeout(CONNECT_TIMEOUT, connecting).await {
            Ok(Ok((socket, _))) => Ok(socket),
            Ok(Err(Error::Http(response))) => Err(self.error_of(&response)),
            Ok(Err(error)) => Err(unreachable(without_prefix(error))),
            Err(_) => {
                let seconds = CONNECT_TIMEOUT.as_secs();
                Err(unreachable(format!("no answer within {seconds} s")))
            }
        }
    }

    /// The error for a response that is not an upgrade.
    fn error_of(&self, response: &Response<Option<Vec<u8>>>) -> WatchError {
        let address = address(&self.url);
        let status = response.status();
        let body = response.body().as_deref().unwrap_or_default();
        let body: Value = serde_json::from_slice(body).unwrap_or_default();
        let message = body["message"].as_str().or(status.canonical_reason());
        let message = printable(message.unwrap_or("no reason"));
        let retry_after = response.headers().get(header::RETRY_AFTER);
        let retry_after = retry_after.and_then(|value| value.to_str().ok()?.parse().ok());
        if status == StatusCode::UNAUTHORIZED {
            return WatchError::InvalidKey { message };
        }
        WatchError::Rejected {
            address,
            status,
            message,
            retry_after: retry_after.map(Duration::from_secs),
        }
    }

    /// Reads messages until the connection ends, and returns why it did.
    ///
    /// # Errors
    /// Returns [`WatchError::KeyRevoked`] if the service closes the connection for that reason.
    async fn read(&mut self, mut socket: Socket) -> Result<Disconnect, WatchError> {
        let mut silence_max = WELCOME_TIMEOUT;
        let mut received_at = Instant::now();
        let mut announced = None;
        let reason = loop {
            let text = match timeout_at(received_at + silence_max, socket.next()).await {
                Ok(Some(Ok(Frame::Text(text)))) => text,
                Ok(Some(Ok(Frame::Close(None)))) => break "closed without a reason".to_owned(),
                Ok(Some(Ok(Frame::Close(Some(frame))))) => match u16::from(frame.code) {
                    CLOSE_KEY_REVOKED => return Err(WatchError::KeyRevoked),
                    code => break format!("closed with {code} {}", printable(&frame.reason)),
                },
                // The library answers pings. Only messages prove that the channel works.
                Ok(Some(Ok(_))) => continue,
                Ok(Some(Err(error))) => break without_prefix(error),
                Ok(None) => break "the connection was cut".to_owned(),
                Err(_) => break format!("no message for {} s", silence_max.as_secs()),
            };
            let message: WatchMessage = match serde_json::from_str(&text) {
                Ok(message) => message,
                Err(error) => break format!("received an invalid message: {error}"),
            };
            self.position.advance(&message);
            match &message {
                WatchMessage::Welcome(welcome) => silence_max = silence_max_of(welcome),
                // A connection that has lived this long ends the series of failures.
                WatchMessage::Heartbeat { .. } => self.attempts = 0,
                WatchMessage::Closing {
                    code,
                    reason,
                    retry_after_ms,
                } => {
                    if *code == Some(CLOSE_KEY_REVOKED) {
                        return Err(WatchError::KeyRevoked);
                    }
                    announced = Some((reason.to_string(), *retry_after_ms));
                }
                _ => {}
            }
            self.send(ClientEvent::Message(Box::new(message), text))
                .await;
            received_at = Instant::now();
        };
        let (reason, retry_after_ms) = announced.unwrap_or((reason, 0));
        let wait = Some(Duration::from_millis(retry_after_ms)).filter(|wait| !wait.is_zero());
        Ok(Disconnect { reason, wait })
    }

    /// Connects again, with a pause before each attempt.
    ///
    /// # Errors
    /// Returns the [`WatchError`] of an attempt after which others cannot succeed.
    async fn reconnect(&mut self, mut lost: Disconnect) -> Result<Socket, WatchError> {
        loop {
            let retry_in = match lost.wait {
                Some(wait) => wait.min(RETRY_AFTER_MAX),
                None => BACKOFF.delay(self.attempts),
            };
            self.attempts = self.attempts.saturating_add(1);
            let reason = lost.reason;
            self.send(ClientEvent::Disconnected { reason, retry_in })
                .await;
            sleep(retry_in).await;
            self.send(ClientEvent::Connecting).await;
            match self.connect().await {
                Ok(socket) => return Ok(socket),
                Err(error) => lost = error.into_disconnect()?,
            }
        }
    }
}

/// The message of an error, without the library's "IO error: ".
fn without_prefix(error: Error) -> String {
    match error {
        Error::Io(error) => error.to_string(),
        error => error.to_string(),
    }
}

/// The time without a message after which a connection counts as dead: two heartbeats.
fn silence_max_of(welcome: &WatchWelcome) -> Duration {
    let heartbeat_ms = welcome.heartbeat_ms.unwrap_or(HEARTBEAT_MS_DEFAULT);
    Duration::from_millis(2 * heartbeat_ms.clamp(*HEARTBEAT_MS.start(), *HEARTBEAT_MS.end()))
}

/// Text of the service, cut to a bound, without the characters that control a terminal.
fn printable(text: &str) -> String {
    let text = text.chars().filter(|c| !c.is_control());
    text.take(REASON_CHARS_MAX).collect()
}

/// The position in the log up to which this client has received everything.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct ResumePosition {
    epoch: Text,
    /// That of the latest message that counts; `None` until the first snapshots are complete.
    latest: Option<WatchPosition>,
}

impl ResumePosition {
    fn advance(&mut self, message: &WatchMessage) {
        if let Some(epoch) = message.reset() {
            (self.epoch, self.latest) = (epoch.clone(), None);
        } else if let Some(position) = message.complete_up_to()
            && (self.latest.is_some() || matches!(message, WatchMessage::SnapshotComplete(_)))
        {
            self.latest = Some(position);
        }
    }

    /// The query parameters that resume at this position.
    fn query(&self) -> Vec<(&'static str, String)> {
        match &self.latest {
            Some(latest) if !self.epoch.is_empty() => vec![
                ("since", latest.seq.to_string()),
                ("recorded_at", latest.recorded_at.clone()),
                ("epoch", self.epoch.to_string()),
            ],
            _ => Vec::new(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn query_after(messages: &[&str]) -> Vec<(&'static str, String)> {
        let mut position = ResumePosition::default();
        for message in messages {
            position.advance(&serde_json::from_str(message).unwrap());
        }
        position.query()
    }

    const WELCOME: &str =
        r#"{"event":"welcome","seq":9,"epoch":"e1","server_time":"2026-11-21T09:01:15Z"}"#;
    const COMPLETE: &str =
        r#"{"event":"snapshot_complete","seq":9,"recorded_at":"2026-11-21T09:00:09Z","races":0}"#;
    const HEARTBEAT: &str = r#"{"event":"heartbeat","seq":12,"recorded_at":"2026-11-21T09:00:12Z","server_time":"2026-11-21T09:01:20Z","feed":{"state":"live"}}"#;

    fn since(seq: u64) -> Vec<(&'static str, String)> {
        vec![
            ("since", seq.to_string()),
            ("recorded_at", format!("2026-11-21T09:00:{seq:02}Z")),
            ("epoch", "e1".to_owned()),
        ]
    }

    #[test]
    fn an_incomplete_snapshot_is_not_resumed() {
        assert_eq!(query_after(&[]), []);
        assert_eq!(query_after(&[WELCOME]), []);
        assert_eq!(query_after(&[WELCOME, HEARTBEAT]), []);
    }

    #[test]
    fn a_connection_resumes_at_the_latest_message_that_counts() {
        assert_eq!(query_after(&[WELCOME, COMPLETE]), since(9));
        assert_eq!(query_after(&[WELCOME, COMPLETE, HEARTBEAT]), since(12));
        assert_eq!(
            query_after(&[WELCOME, COMPLETE, HEARTBEAT, COMPLETE]),
            since(9)
        );
    }

    #[test]
    fn the_position_is_kept_only_if_the_service_resumes() {
        let recovered = WELCOME.replace("\"seq\":9", "\"seq\":99,\"recovered\":true");
        let restarted = WELCOME.replace("\"seq\":9", "\"seq\":99,\"recovered\":false");
        let resync = r#"{"event":"resync","seq":3,"epoch":"e2","reason":"the log was replaced"}"#;
        assert_eq!(query_after(&[WELCOME, COMPLETE, &recovered]), since(9));
        assert_eq!(query_after(&[WELCOME, COMPLETE, &restarted]), []);
        assert_eq!(query_after(&[WELCOME, COMPLETE, resync]), []);
    }

    #[test]
    fn a_service_without_an_epoch_is_not_resumed() {
        let old = WELCOME.replace("\"epoch\":\"e1\",", "");
        assert_eq!(query_after(&[&old, COMPLETE]), []);
    }

    #[test]
    fn pauses_grow_are_bounded_and_differ() {
        let range = |retry| {
            (
                BACKOFF.delay_with(retry, 0),
                BACKOFF.delay_with(retry, u32::MAX),
            )
        };
        assert_eq!(range(0), (BACKOFF_MIN / 2, BACKOFF_MIN));
        assert_eq!(range(1), (BACKOFF_MIN, BACKOFF_MIN * 2));
        assert_eq!(range(u32::MAX), (BACKOFF_MAX / 2, BACKOFF_MAX));
    }

    #[test]
    fn two_missing_heartbeats_end_the_connection() {
        let silence_max = |text: &str| match serde_json::from_str(text) {
            Ok(WatchMessage::Welcome(welcome)) => silence_max_of(&welcome),
            other => panic!("{other:?}"),
        };
        assert_eq!(silence_max(WELCOME), Duration::from_secs(10));
        let chosen = |ms: &str| {
            silence_max(&WELCOME.replace("\"seq\"", &format!("\"heartbeat_ms\":{ms},\"seq\"")))
        };
        assert_eq!(chosen("1000"), Duration::from_secs(2));
        assert_eq!(chosen("18446744073709551615"), Duration::from_secs(120));
    }
}
