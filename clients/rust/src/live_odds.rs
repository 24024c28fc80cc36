//! [`LiveOdds`]: keeps a connection to the live channel, and resumes it as docs/live-odds.md prescribes.

use std::convert::Infallible;
use std::ops::RangeInclusive;
use std::time::Duration;

use futures::{SinkExt, StreamExt};
use serde_json::Value;
use tokio::net::TcpStream;
use tokio::sync::mpsc::{Receiver, Sender, channel};
use tokio::sync::watch as latest;
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep, timeout, timeout_at};
use tokio_tungstenite::tungstenite::client::IntoClientRequest;
use tokio_tungstenite::tungstenite::http::{HeaderValue, Response, StatusCode, header};
use tokio_tungstenite::tungstenite::protocol::WebSocketConfig;
use tokio_tungstenite::tungstenite::{Error, Message as Frame, Utf8Bytes};
use tokio_tungstenite::{MaybeTlsStream, WebSocketStream, connect_async_with_config};

use crate::error::{CLOSE_KEY_REVOKED, InvalidKey, LiveOddsError};
use crate::message::{Closing, Message, Play, Welcome};
use crate::position::ResumePosition;
use crate::sequences::{Gap, Received, Sequences};
use crate::service_url::ServiceUrl;

/// Messages that are received and not yet taken. Beyond that, the client stops reading from the service.
const QUEUE_LEN_MAX: usize = 64;

/// Far above the size of the largest race.
const MESSAGE_BYTES_MAX: usize = 1024 * 1024;
/// Holds the pongs and the close frame, which are all that the client sends.
const WRITE_BUFFER_BYTES_MAX: usize = 256 * 1024;

/// For name resolution, TCP, TLS and the WebSocket handshake together.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
const WELCOME_TIMEOUT: Duration = Duration::from_secs(10);

/// The bounds of the pause before another attempt, which doubles with each failure.
const PAUSE_MIN: Duration = Duration::from_millis(500);
const PAUSE_MAX: Duration = Duration::from_secs(30);
/// The longest wait that a service can ask for.
const RETRY_AFTER_MAX: Duration = Duration::from_secs(300);

/// The heartbeat interval, unless `welcome` names another.
const HEARTBEAT_MS_DEFAULT: u64 = 5_000;
/// The heartbeat intervals that the live channel allows. The bound keeps a faulty `welcome` from disabling the timeout.
const HEARTBEAT_MS: RangeInclusive<u64> = 1_000..=60_000;

/// Close codes after which the same request would fail again.
const FINAL_CODES: [u16; 6] = [1002, 1003, 1007, 1009, CLOSE_KEY_REVOKED, 4403];

/// The longest reason that is shown.
const REASON_CHARS_MAX: usize = 200;

type Socket = WebSocketStream<MaybeTlsStream<TcpStream>>;

/// What happens on the live channel.
#[derive(Debug, Clone, PartialEq)]
pub enum Event {
    /// A message that was not received before, in order.
    Message {
        message: Box<Message>,
        /// The message as it was sent, JSON.
        text: Utf8Bytes,
        /// The messages that are missing before it. The service promises that there are none.
        gap: Option<Gap>,
    },
    /// The connection is lost; the next attempt starts after `retry_in`.
    Disconnected { reason: String, retry_in: Duration },
    /// The next attempt starts.
    Connecting,
}

/// The live odds channel, through lost connections and restarts of the service. It connects in a task of its own, which
/// ends when this is dropped.
#[derive(Debug)]
pub struct LiveOdds {
    events: Receiver<Event>,
    play: latest::Sender<Play>,
    /// `None` after its end.
    task: Option<JoinHandle<Result<(), LiveOddsError>>>,
}

impl LiveOdds {
    /// Connects, and stays connected. Must be called in a tokio runtime.
    ///
    /// # Errors
    /// Returns [`InvalidKey`] if no key can have these characters.
    pub fn connect(url: ServiceUrl, key: &str) -> Result<Self, InvalidKey> {
        let mut key = HeaderValue::from_str(key.trim()).map_err(|_| InvalidKey)?;
        key.set_sensitive(true);
        let (sender, events) = channel(QUEUE_LEN_MAX);
        let (play, played) = latest::channel(Play::default());
        let connection = Connection {
            url,
            key,
            position: ResumePosition::default(),
            sequences: Sequences::default(),
            attempts: 0,
            events: sender,
            play: played,
        };
        let task = Some(tokio::spawn(connection.run()));
        Ok(Self { events, play, task })
    }

    /// Changes a replay, or has it changed once there is a connection. The last change is in force, also after a
    /// reconnect, so let it have the speed and the pause.
    pub fn play(&self, play: Play) {
        self.play.send_replace(play);
    }

    /// The next event; `None` after an error. It may be cancelled: nothing is lost then.
    ///
    /// # Errors
    /// Returns [`LiveOddsError`] if the first attempt fails, or if the same request would fail again.
    pub async fn next(&mut self) -> Result<Option<Event>, LiveOddsError> {
        if let Some(event) = self.events.recv().await {
            return Ok(Some(event));
        }
        let Some(task) = &mut self.task else {
            return Ok(None);
        };
        let ended = task.await;
        self.task = None;
        // A task that was cancelled ends with the runtime, and with all that awaits it.
        ended.unwrap_or(Ok(())).map(|()| None)
    }
}

/// Why a connection ended or could not be made, and how long the service asked to wait.
struct Disconnect {
    reason: String,
    wait: Option<Duration>,
}

impl Disconnect {
    /// That of an attempt that failed.
    fn of(error: LiveOddsError) -> Self {
        let (reason, wait) = match error {
            LiveOddsError::Unreachable { reason, .. } => (reason, None),
            LiveOddsError::Rejected { retry_after, .. } => (error.to_string(), retry_after),
            error => (error.to_string(), None),
        };
        Self { reason, wait }
    }
}

/// The connection, and what a reconnect needs.
struct Connection {
    url: ServiceUrl,
    key: HeaderValue,
    position: ResumePosition,
    sequences: Sequences,
    /// Connection attempts since the last heartbeat.
    attempts: u32,
    events: Sender<Event>,
    play: latest::Receiver<Play>,
}

impl Connection {
    /// Sends events until their receiver is dropped. Reconnects after each loss of the connection.
    async fn run(mut self) -> Result<(), LiveOddsError> {
        let receiver = self.events.clone();
        tokio::select! {
            result = self.receive() => result.map(|never| match never {}),
            () = receiver.closed() => Ok(()),
        }
    }

    async fn receive(&mut self) -> Result<Infallible, LiveOddsError> {
        let mut socket = self.connect().await?;
        loop {
            let disconnect = self.read(socket).await?;
            socket = self.reconnect(disconnect).await?;
        }
    }

    async fn send(&self, event: Event) {
        // An error means that the receiver is dropped; `run` ends then.
        let _ = self.events.send(event).await;
    }

    async fn connect(&self) -> Result<Socket, LiveOddsError> {
        let unreachable = |reason: String| LiveOddsError::Unreachable {
            address: self.url.address(),
            reason,
        };
        let url = self.url.clone().with_query(&self.position.query());
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
    fn error_of(&self, response: &Response<Option<Vec<u8>>>) -> LiveOddsError {
        let status = response.status();
        let body = response.body().as_deref().unwrap_or_default();
        let body: Value = serde_json::from_slice(body).unwrap_or_default();
        let message = body["message"].as_str().or(status.canonical_reason());
        let message = printable(message.unwrap_or("no reason"));
        let retry_after = response.headers().get(header::RETRY_AFTER);
        let retry_after = retry_after.and_then(|value| value.to_str().ok()?.parse().ok());
        if status == StatusCode::UNAUTHORIZED {
            return LiveOddsError::InvalidKey { message };
        }
        LiveOddsError::Rejected {
            address: self.url.address(),
            status,
            message,
            retry_after: retry_after.map(Duration::from_secs),
        }
    }

    /// Reads messages until the connection ends, and returns why it did.
    ///
    /// # Errors
    /// Returns [`LiveOddsError::KeyRevoked`] if the service closes the connection for that reason.
    async fn read(&mut self, mut socket: Socket) -> Result<Disconnect, LiveOddsError> {
        let mut silence_max = WELCOME_TIMEOUT;
        let mut received_at = Instant::now();
        let mut announced = None;
        let reason = loop {
            let received = tokio::select! {
                received = timeout_at(received_at + silence_max, socket.next()) => received,
                Ok(()) = self.play.changed() => {
                    let frame = frame_of(&self.play.borrow_and_update());
                    match socket.send(frame).await {
                        Ok(()) => continue,
                        Err(error) => break without_prefix(error),
                    }
                }
            };
            let text = match received {
                Ok(Some(Ok(Frame::Text(text)))) => text,
                Ok(Some(Ok(Frame::Close(frame)))) => {
                    let code = frame.as_ref().map(|frame| u16::from(frame.code));
                    let reason = frame.map_or_else(String::new, |frame| printable(&frame.reason));
                    break closed(code, reason)?;
                }
                // The library answers pings. Only messages prove that the channel works.
                Ok(Some(Ok(_))) => continue,
                Ok(Some(Err(error))) => break without_prefix(error),
                Ok(None) => break "the connection was cut".to_owned(),
                Err(_) => break format!("no message for {} s", silence_max.as_secs()),
            };
            let message: Message = match serde_json::from_str(&text) {
                Ok(message) => message,
                Err(error) => break format!("received an invalid message: {error}"),
            };
            received_at = Instant::now();
            self.position.advance(&message);
            match &message {
                Message::Welcome(welcome) => {
                    silence_max = silence_max_of(welcome);
                    // A resumed replay is where it was, at the speed of the URL.
                    let mut again = *self.play.borrow();
                    again.seek = None;
                    if again != Play::default()
                        && let Err(error) = socket.send(frame_of(&again)).await
                    {
                        break without_prefix(error);
                    }
                }
                // A connection that has lived this long ends the series of failures.
                Message::Heartbeat(_) => self.attempts = 0,
                Message::Closing(closing) => announced = Some(self::announced(closing)?),
                _ => {}
            }
            if let Received::New(gap) = self.sequences.receive(&message) {
                let message = Box::new(message);
                self.send(Event::Message { message, text, gap }).await;
            }
        };
        Ok(announced.unwrap_or(Disconnect { reason, wait: None }))
    }

    /// Connects again, with a pause before each attempt.
    ///
    /// # Errors
    /// Returns the [`LiveOddsError`] of an attempt after which others cannot succeed.
    async fn reconnect(&mut self, mut lost: Disconnect) -> Result<Socket, LiveOddsError> {
        loop {
            let retry_in = match lost.wait {
                Some(wait) => wait.min(RETRY_AFTER_MAX),
                None => pause(self.attempts),
            };
            self.attempts = self.attempts.saturating_add(1);
            let reason = lost.reason;
            self.send(Event::Disconnected { reason, retry_in }).await;
            sleep(retry_in).await;
            self.send(Event::Connecting).await;
            match self.connect().await {
                Ok(socket) => return Ok(socket),
                Err(error) if error.is_final() => return Err(error),
                Err(error) => lost = Disconnect::of(error),
            }
        }
    }
}

fn frame_of(play: &Play) -> Frame {
    let text = serde_json::to_string(play);
    Frame::text(text.expect("it has no maps"))
}

/// Why a connection ended that the service has announced to close.
///
/// # Errors
/// Returns [`LiveOddsError`] if the same request would fail again.
fn announced(closing: &Closing) -> Result<Disconnect, LiveOddsError> {
    let reason = printable(&closing.reason);
    if closing.retry_after_ms == Some(0) {
        return Err(LiveOddsError::closed(closing.code, reason));
    }
    let wait = closing.retry_after_ms.map(Duration::from_millis);
    Ok(Disconnect { reason, wait })
}

/// Why a connection was closed, for people.
///
/// # Errors
/// Returns [`LiveOddsError`] if the same request would fail again.
fn closed(code: Option<u16>, reason: String) -> Result<String, LiveOddsError> {
    match code {
        None => Ok("closed without a reason".to_owned()),
        Some(code) if FINAL_CODES.contains(&code) => Err(LiveOddsError::closed(Some(code), reason)),
        Some(code) => Ok(format!("closed with {code} {reason}")),
    }
}

/// The pause before an attempt after some failures, less up to half by chance: clients that lost the same service do
/// not return in step.
fn pause(failures: u32) -> Duration {
    // Without randomness the pause is the longest one.
    pause_with(failures, getrandom::u32().unwrap_or(u32::MAX))
}

fn pause_with(failures: u32, random: u32) -> Duration {
    let factor = 1_u32.checked_shl(failures).unwrap_or(u32::MAX);
    let half = PAUSE_MIN.saturating_mul(factor).min(PAUSE_MAX) / 2;
    half + half.mul_f64(f64::from(random) / f64::from(u32::MAX))
}

/// The message of an error, without the library's "IO error: ".
fn without_prefix(error: Error) -> String {
    match error {
        Error::Io(error) => error.to_string(),
        error => error.to_string(),
    }
}

/// The time without a message after which a connection counts as dead: two heartbeats.
fn silence_max_of(welcome: &Welcome) -> Duration {
    let heartbeat_ms = welcome.heartbeat_ms.unwrap_or(HEARTBEAT_MS_DEFAULT);
    Duration::from_millis(2 * heartbeat_ms.clamp(*HEARTBEAT_MS.start(), *HEARTBEAT_MS.end()))
}

/// Text of the service, cut to a bound, without the characters that control a terminal.
fn printable(text: &str) -> String {
    let text = text.chars().filter(|c| !c.is_control());
    text.take(REASON_CHARS_MAX).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::message::FeedHealth;

    #[test]
    fn pauses_grow_are_bounded_and_differ() {
        let range = |failures| (pause_with(failures, 0), pause_with(failures, u32::MAX));
        assert_eq!(range(0), (PAUSE_MIN / 2, PAUSE_MIN));
        assert_eq!(range(1), (PAUSE_MIN, PAUSE_MIN * 2));
        assert_eq!(range(u32::MAX), (PAUSE_MAX / 2, PAUSE_MAX));
    }

    #[test]
    fn two_missing_heartbeats_end_the_connection() {
        let silence_max = |heartbeat_ms: Option<u64>| {
            silence_max_of(&Welcome {
                seq: 9,
                epoch: "e1".to_owned(),
                server_time: jiff::Timestamp::UNIX_EPOCH,
                recovered: None,
                reason: String::new(),
                feed: FeedHealth::default(),
                heartbeat_ms,
                replay: None,
            })
        };
        assert_eq!(silence_max(None), Duration::from_secs(10));
        assert_eq!(silence_max(Some(1_000)), Duration::from_secs(2));
        assert_eq!(silence_max(Some(u64::MAX)), Duration::from_secs(120));
    }
}
