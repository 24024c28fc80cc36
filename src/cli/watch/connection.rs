//! [`Follower`]: stays connected to the live channel, as docs/live-odds.md tells clients to.

use std::time::Duration;

use events::Text;
use futures::StreamExt;
use serde::Deserialize;
use tokio::net::TcpStream;
use tokio::sync::mpsc::Sender;
use tokio::time::{Instant, sleep, timeout, timeout_at};
use tokio_tungstenite::tungstenite::client::IntoClientRequest;
use tokio_tungstenite::tungstenite::http::{HeaderValue, Response, StatusCode, header};
use tokio_tungstenite::tungstenite::protocol::{CloseFrame, WebSocketConfig};
use tokio_tungstenite::tungstenite::{Error, Message as Frame, Utf8Bytes};
use tokio_tungstenite::{MaybeTlsStream, WebSocketStream, connect_async_with_config};

use super::address::Address;
use super::message::{Message, Welcome};

/// The image of the largest race is far smaller.
const MESSAGE_BYTES_MAX: usize = 1024 * 1024;
/// Room for what comes at once; more is read in turns.
const READ_BUFFER_BYTES: usize = 32 * 1024;
/// A client that hardly says anything.
const WRITE_BUFFER_BYTES: usize = 1024;
/// Answers to pings, while the connection takes nothing.
const WRITE_BUFFER_BYTES_MAX: usize = 64 * 1024;

/// The name, the connection and the handshake.
const CONNECT_WAIT: Duration = Duration::from_secs(10);
/// A service that does not even say welcome is no such service.
const WELCOME_WAIT: Duration = Duration::from_secs(10);

/// The first pause before another try; each is twice the one before, up to the longest.
const PAUSE_MIN: Duration = Duration::from_millis(500);
const PAUSE_MAX: Duration = Duration::from_secs(30);
/// A service may ask for more patience, but not for ever.
const RETRY_AFTER_MAX: Duration = Duration::from_secs(300);

/// Too many words of a stranger are cut off.
const WORDS_MAX: usize = 200;

/// The key is no longer valid.
const CLOSE_KEY: u16 = 4401;

type Socket = WebSocketStream<MaybeTlsStream<TcpStream>>;

/// What a watcher is told.
#[derive(Debug)]
pub(super) enum Event {
    /// A message, and its text.
    Said(Box<Message>, Utf8Bytes),
    /// The connection is lost, and tried again after a pause.
    Lost { why: String, pause: Duration },
    /// It is tried again now.
    Connecting,
}

/// Why a channel cannot be followed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum FollowError {
    #[error("no service answers on {at}: {why}")]
    Away { at: Address, why: String },
    #[error("the service on {at} is not ready: {said}")]
    NotReady {
        at: Address,
        said: String,
        retry_after: Option<Duration>,
    },
    #[error("the API key is not valid: {said}")]
    WrongKey { said: String },
    #[error("the service on {at} refuses this with {status}: {said}")]
    Refused {
        at: Address,
        status: StatusCode,
        said: String,
    },
    #[error("the API key is no longer valid")]
    KeyRevoked,
}

impl FollowError {
    /// Whether another try may do better.
    fn may_pass(&self) -> bool {
        match self {
            Self::Away { .. } | Self::NotReady { .. } => true,
            Self::WrongKey { .. } | Self::KeyRevoked => false,
            // What stands before a service answers all kinds of things while that starts anew.
            Self::Refused { status, .. } => {
                !matches!(*status, StatusCode::BAD_REQUEST | StatusCode::FORBIDDEN)
            }
        }
    }

    fn retry_after(&self) -> Option<Duration> {
        match self {
            Self::NotReady { retry_after, .. } => *retry_after,
            _ => None,
        }
    }
}

/// Why a connection ended.
#[derive(Debug, thiserror::Error)]
enum Lost {
    #[error("{reason}")]
    Closed { reason: String, retry_after_ms: u64 },
    #[error("nothing came for {} s", .0.as_secs())]
    Silent(Duration),
    #[error("{0}")]
    Failed(String),
    #[error("what came is no message of the live channel: {0}")]
    Unreadable(serde_json::Error),
    #[error("the API key is no longer valid")]
    Key,
}

impl Lost {
    fn retry_after(&self) -> Option<Duration> {
        match self {
            Self::Closed { retry_after_ms, .. } if *retry_after_ms > 0 => {
                Some(Duration::from_millis(*retry_after_ms))
            }
            _ => None,
        }
    }
}

/// Nobody listens any more.
struct NobodyListens;

/// How a connection came to its end.
enum Ended {
    Lost(Lost),
    NobodyListens,
}

impl From<Lost> for Ended {
    fn from(lost: Lost) -> Self {
        Self::Lost(lost)
    }
}

/// Stays connected, and goes on where it was.
#[derive(Debug)]
pub(super) struct Follower {
    address: Address,
    key: HeaderValue,
    parameters: Vec<(&'static str, String)>,
    place: Place,
    tries: u32,
    events: Sender<Event>,
}

impl Follower {
    /// A follower that has not begun. The key is one that a header can hold.
    pub(super) fn new(
        address: Address,
        key: HeaderValue,
        parameters: Vec<(&'static str, String)>,
        events: Sender<Event>,
    ) -> Self {
        Self {
            address,
            key,
            parameters,
            place: Place::default(),
            tries: 0,
            events,
        }
    }

    /// Follows the channel until nobody listens. The first try must succeed; after that it is tried for ever.
    pub(super) async fn follow(mut self) -> Result<(), FollowError> {
        let mut socket = self.connect().await?;
        loop {
            let lost = match self.listen(socket).await {
                Ended::NobodyListens => return Ok(()),
                Ended::Lost(Lost::Key) => return Err(FollowError::KeyRevoked),
                Ended::Lost(lost) => lost,
            };
            socket = match self.reconnect(lost).await? {
                Ok(socket) => socket,
                Err(NobodyListens) => return Ok(()),
            };
        }
    }

    async fn connect(&self) -> Result<Socket, FollowError> {
        let away = |why: String| FollowError::Away {
            at: self.address.clone(),
            why,
        };
        let parameters: Vec<_> = self
            .parameters
            .iter()
            .cloned()
            .chain(self.place.parameters())
            .collect();
        let url = self.address.url(&parameters);
        let mut request = url
            .into_client_request()
            .map_err(|_| away("the address is no URL".to_owned()))?;
        request.headers_mut().insert("x-api-key", self.key.clone());
        let config = WebSocketConfig::default()
            .max_message_size(Some(MESSAGE_BYTES_MAX))
            .max_frame_size(Some(MESSAGE_BYTES_MAX))
            .read_buffer_size(READ_BUFFER_BYTES)
            .write_buffer_size(WRITE_BUFFER_BYTES)
            .max_write_buffer_size(WRITE_BUFFER_BYTES_MAX);
        let connecting = connect_async_with_config(request, Some(config), true);
        match timeout(CONNECT_WAIT, connecting).await {
            Ok(Ok((socket, _))) => Ok(socket),
            Ok(Err(Error::Http(answer))) => Err(self.refusal(&answer)),
            Ok(Err(error)) => Err(away(in_words(error))),
            Err(_) => Err(away(format!("nothing in {} s", CONNECT_WAIT.as_secs()))),
        }
    }

    /// An answer that is no upgrade.
    fn refusal(&self, answer: &Response<Option<Vec<u8>>>) -> FollowError {
        #[derive(Deserialize)]
        struct Body {
            message: Text,
        }
        let status = answer.status();
        let body = answer.body().as_deref().unwrap_or_default();
        let said = serde_json::from_slice(body).map_or_else(
            |_| status.canonical_reason().unwrap_or("no reason").to_owned(),
            |body: Body| words(body.message.as_str()),
        );
        let at = self.address.clone();
        let retry_after = answer.headers().get(header::RETRY_AFTER);
        let retry_after = retry_after.and_then(|value| value.to_str().ok()?.parse().ok());
        match status {
            StatusCode::UNAUTHORIZED => FollowError::WrongKey { said },
            StatusCode::SERVICE_UNAVAILABLE => FollowError::NotReady {
                at,
                said,
                retry_after: retry_after.map(Duration::from_secs),
            },
            status => FollowError::Refused { at, status, said },
        }
    }

    /// Hands out what comes, for as long as the connection lives.
    async fn listen(&mut self, mut socket: Socket) -> Ended {
        let mut silence_max = WELCOME_WAIT;
        let mut heard_at = Instant::now();
        let mut closing: Option<(String, u64)> = None;
        loop {
            let frame = match timeout_at(heard_at + silence_max, socket.next()).await {
                Ok(Some(Ok(frame))) => frame,
                Ok(Some(Err(error))) => return lost(closing, in_words(error)).into(),
                Ok(None) => return lost(closing, "the connection was cut".to_owned()).into(),
                Err(_) => return Lost::Silent(silence_max).into(),
            };
            let text = match frame {
                Frame::Text(text) => text,
                Frame::Close(frame) => return closed(closing, frame).into(),
                // The library answers pings. That the channel lives, only its own messages prove.
                _ => continue,
            };
            let message: Message = match serde_json::from_str(&text) {
                Ok(message) => message,
                Err(error) => return Lost::Unreadable(error).into(),
            };
            self.place.note(&message);
            match &message {
                Message::Welcome(welcome) => silence_max = Welcome::silence_max(welcome),
                // It lives: the next loss is not one more of a row.
                Message::Heartbeat(_) => self.tries = 0,
                Message::Closing(message) if message.code == Some(CLOSE_KEY) => {
                    return Lost::Key.into();
                }
                Message::Closing(message) => {
                    closing = Some((words(message.reason.as_str()), message.retry_after_ms));
                }
                _ => {}
            }
            let said = Event::Said(Box::new(message), text);
            if self.events.send(said).await.is_err() {
                return Ended::NobodyListens;
            }
            heard_at = Instant::now();
        }
    }

    /// Tries for ever, with pauses.
    async fn reconnect(
        &mut self,
        lost: Lost,
    ) -> Result<Result<Socket, NobodyListens>, FollowError> {
        let (mut why, mut retry_after) = (lost.to_string(), lost.retry_after());
        loop {
            let pause = retry_after.map_or_else(
                || pause(self.tries, getrandom::u32().unwrap_or_default()),
                |asked| asked.min(RETRY_AFTER_MAX),
            );
            self.tries = self.tries.saturating_add(1);
            if self.events.send(Event::Lost { why, pause }).await.is_err() {
                return Ok(Err(NobodyListens));
            }
            sleep(pause).await;
            if self.events.send(Event::Connecting).await.is_err() {
                return Ok(Err(NobodyListens));
            }
            match self.connect().await {
                Ok(socket) => return Ok(Ok(socket)),
                Err(error) if error.may_pass() => {
                    (why, retry_after) = (error.to_string(), error.retry_after());
                }
                Err(error) => return Err(error),
            }
        }
    }
}

/// What failed, without the library's own words about the kind of it.
fn in_words(error: Error) -> String {
    match error {
        Error::Io(error) => error.to_string(),
        error => error.to_string(),
    }
}

/// The end of a connection, with what the service said of it before.
fn lost(closing: Option<(String, u64)>, why: String) -> Lost {
    match closing {
        Some((reason, retry_after_ms)) => Lost::Closed {
            reason,
            retry_after_ms,
        },
        None => Lost::Failed(why),
    }
}

fn closed(closing: Option<(String, u64)>, frame: Option<CloseFrame>) -> Lost {
    match frame {
        Some(frame) if u16::from(frame.code) == CLOSE_KEY => Lost::Key,
        Some(frame) => {
            let code = u16::from(frame.code);
            lost(
                closing,
                format!("closed with {code} {}", words(&frame.reason)),
            )
        }
        None => lost(closing, "closed without a word".to_owned()),
    }
}

/// Half of a time that doubles with each try, and a share of the other half, so that not all come back at once.
fn pause(tries: u32, random: u32) -> Duration {
    let whole = PAUSE_MIN
        .saturating_mul(2_u32.saturating_pow(tries))
        .min(PAUSE_MAX);
    let half = whole / 2;
    half + half.mul_f64(f64::from(random) / f64::from(u32::MAX))
}

/// What a stranger says, fit for a terminal.
fn words(text: &str) -> String {
    text.chars()
        .filter(|letter| !letter.is_control())
        .take(WORDS_MAX)
        .collect()
}

/// How far a client is in which log.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Place {
    epoch: Text,
    /// The highest place up to which everything came. `None` until the first images are complete.
    seq: Option<u64>,
}

impl Place {
    fn note(&mut self, message: &Message) {
        match message {
            Message::Welcome(welcome) if welcome.goes_on() => {}
            Message::Welcome(Welcome { epoch, .. }) => *self = Self::of(epoch),
            Message::Resync(resync) => *self = Self::of(&resync.epoch),
            Message::SnapshotComplete(complete) => self.seq = self.seq.max(Some(complete.seq)),
            _ => {
                if let (Some(seq), Some(sent)) = (self.seq, message.sent_up_to()) {
                    self.seq = Some(seq.max(sent));
                }
            }
        }
    }

    fn of(epoch: &Text) -> Self {
        Self {
            epoch: epoch.clone(),
            seq: None,
        }
    }

    /// What asks a service to go on from here.
    fn parameters(&self) -> Vec<(&'static str, String)> {
        match self.seq {
            Some(seq) if !self.epoch.is_empty() => vec![
                ("since", seq.to_string()),
                ("epoch", self.epoch.as_str().to_owned()),
            ],
            _ => Vec::new(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn after(messages: &[&str]) -> Vec<(&'static str, String)> {
        let mut place = Place::default();
        for message in messages {
            place.note(&serde_json::from_str(message).unwrap());
        }
        place.parameters()
    }

    const WELCOME: &str =
        r#"{"event":"welcome","seq":9,"epoch":"e1","server_time":"2026-11-21T09:01:15Z"}"#;
    const COMPLETE: &str = r#"{"event":"snapshot_complete","seq":9,"races":0}"#;
    const HEARTBEAT: &str = r#"{"event":"heartbeat","seq":12,"server_time":"2026-11-21T09:01:20Z","feed":{"state":"live"}}"#;

    fn since(seq: u64) -> Vec<(&'static str, String)> {
        vec![("since", seq.to_string()), ("epoch", "e1".to_owned())]
    }

    #[test]
    fn what_is_not_complete_is_not_resumed() {
        assert_eq!(after(&[]), []);
        assert_eq!(after(&[WELCOME]), []);
        assert_eq!(after(&[WELCOME, HEARTBEAT]), []);
    }

    #[test]
    fn the_highest_place_that_was_sent_is_where_it_goes_on() {
        assert_eq!(after(&[WELCOME, COMPLETE]), since(9));
        assert_eq!(after(&[WELCOME, COMPLETE, HEARTBEAT]), since(12));
        assert_eq!(after(&[WELCOME, COMPLETE, HEARTBEAT, COMPLETE]), since(12));
    }

    #[test]
    fn a_resumed_connection_goes_on_and_any_other_begins_anew() {
        let recovered = WELCOME.replace("\"seq\":9", "\"seq\":99,\"recovered\":true");
        let begins_anew = WELCOME.replace("\"seq\":9", "\"seq\":99,\"recovered\":false");
        let resync = r#"{"event":"resync","seq":3,"epoch":"e2","reason":"the log was replaced"}"#;
        assert_eq!(after(&[WELCOME, COMPLETE, &recovered]), since(9));
        assert_eq!(after(&[WELCOME, COMPLETE, &begins_anew]), []);
        assert_eq!(after(&[WELCOME, COMPLETE, resync]), []);
    }

    #[test]
    fn a_service_without_an_epoch_is_not_asked_to_go_on() {
        let old = WELCOME.replace("\"epoch\":\"e1\",", "");
        assert_eq!(after(&[&old, COMPLETE]), []);
    }

    #[test]
    fn pauses_grow_are_bounded_and_differ() {
        let range = |tries| (pause(tries, 0), pause(tries, u32::MAX));
        assert_eq!(range(0), (PAUSE_MIN / 2, PAUSE_MIN));
        assert_eq!(range(1), (PAUSE_MIN, PAUSE_MIN * 2));
        assert_eq!(range(u32::MAX), (PAUSE_MAX / 2, PAUSE_MAX));
    }

    #[test]
    fn a_heartbeat_that_is_missing_twice_is_a_dead_connection() {
        let silence_max = |text: &str| match serde_json::from_str(text) {
            Ok(Message::Welcome(welcome)) => welcome.silence_max(),
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
