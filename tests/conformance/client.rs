//! [`Client`]: follows docs/live-odds.md, with the faults of its plan, and records all it receives.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use futures::{SinkExt, StreamExt};
use serde_json::{Value, json};
use tokio::net::{TcpSocket, TcpStream};
use tokio::sync::watch;
use tokio::time::{sleep, sleep_until, timeout};
use tokio_tungstenite::tungstenite::{Error, Message, Utf8Bytes};
use tokio_tungstenite::{WebSocketStream, client_async};

use super::oracle::{KINDS, RaceHistory};
use super::rng::Rng;

/// A connection without a message for this many heartbeats is dead, as the docs say.
const DEAD_AFTER_HEARTBEATS: u32 = 2;
/// A service that cannot be reached for this long is broken.
const CONNECT_PATIENCE: Duration = Duration::from_secs(180);

/// The races that a client follows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Follow {
    All,
    Venue(&'static str),
    Race(&'static str, u16),
    Numbers(Vec<u16>),
    Horse(String),
}

impl Follow {
    pub(crate) fn matches(&self, race: &RaceHistory) -> bool {
        match self {
            Self::All => true,
            Self::Venue(venue) => race.venue == *venue,
            Self::Race(venue, number) => race.venue == *venue && race.number == u64::from(*number),
            Self::Numbers(numbers) => numbers
                .iter()
                .any(|number| race.number == u64::from(*number)),
            Self::Horse(horse) => race.horses.contains(horse),
        }
    }

    fn query(&self) -> String {
        match self {
            Self::All => String::new(),
            Self::Venue(venue) => format!("&venue={venue}"),
            Self::Race(venue, number) => format!("&venue={venue}&race={number}"),
            Self::Numbers(numbers) => {
                let numbers: Vec<String> = numbers.iter().map(u16::to_string).collect();
                format!("&race={}", numbers.join(","))
            }
            Self::Horse(horse) => format!("&horse={horse}"),
        }
    }

    /// The same as the lists of a client message.
    fn lists(&self) -> Value {
        match self {
            Self::All => json!({}),
            Self::Venue(venue) => json!({ "venues": [venue] }),
            Self::Race(venue, number) => {
                json!({ "races": [{ "venue": venue, "race_number": number }] })
            }
            Self::Numbers(numbers) => {
                let races: Vec<Value> = numbers
                    .iter()
                    .map(|n| json!({ "race_number": n }))
                    .collect();
                json!({ "races": races })
            }
            Self::Horse(horse) => json!({ "horses": [horse] }),
        }
    }
}

/// How a connection is cut.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Cut {
    /// TCP reset.
    Reset,
    /// The end of the stream, without a close frame.
    Drop,
    /// A close frame.
    Close,
    /// Nothing is read for a while; the connection stays.
    Pause,
    /// Nothing is read for a while, then a TCP reset.
    PauseAndReset,
}

impl Cut {
    pub(crate) const ALL: &'static [Self] = &[
        Self::Reset,
        Self::Drop,
        Self::Close,
        Self::Pause,
        Self::PauseAndReset,
    ];
}

/// The subscription of a client, and its faults.
#[derive(Debug, Clone)]
pub(crate) struct Plan {
    pub(crate) follow: Follow,
    /// Indexes of [`KINDS`]; all if empty.
    pub(crate) kinds: Vec<usize>,
    pub(crate) conflate_ms: u64,
    pub(crate) heartbeat_ms: u64,
    /// How long it stays connected before each cut, and how long it is away.
    pub(crate) stay_ms: Range<u64>,
    pub(crate) away_ms: Range<u64>,
    pub(crate) cuts: &'static [Cut],
    /// The greatest time between two requests.
    pub(crate) request_interval_ms: Option<u64>,
    /// Stops reading during [`Stage::Faults`].
    pub(crate) stalls: bool,
}

impl Default for Plan {
    fn default() -> Self {
        Self {
            follow: Follow::All,
            kinds: Vec::new(),
            conflate_ms: 0,
            heartbeat_ms: 1_000,
            stay_ms: 50..1_500,
            away_ms: 10..1_000,
            cuts: &[],
            request_interval_ms: None,
            stalls: false,
        }
    }
}

/// The messages that were received, each distinct one once for all clients.
#[derive(Debug, Default)]
pub(crate) struct ReceivedMessages {
    inner: Mutex<ReceivedInner>,
}

/// A message about a race: its number, and the position up to which all has been received with it, if that is known.
#[derive(Debug, Clone)]
struct ReceivedMessage {
    number: u32,
    reached: Option<Position>,
}

/// A position in the log: the `seq` of a message and its `recorded_at`.
#[derive(Debug, Clone)]
struct Position {
    seq: u64,
    recorded_at: Arc<str>,
}

impl Position {
    fn of(message: &Value) -> Option<Self> {
        Some(Self {
            seq: message["seq"].as_u64()?,
            recorded_at: message["recorded_at"].as_str()?.into(),
        })
    }
}

#[derive(Debug, Default)]
struct ReceivedInner {
    numbers: HashMap<Utf8Bytes, ReceivedMessage>,
    all: Vec<Value>,
}

impl ReceivedMessages {
    /// Adds a message about a race; `None` for any other.
    fn insert(&self, text: &Utf8Bytes) -> Option<ReceivedMessage> {
        let mut inner = self.inner.lock().expect("no thread panics");
        if let Some(known) = inner.numbers.get(text) {
            return Some(known.clone());
        }
        let value: Value = serde_json::from_str(text).expect("JSON");
        let position = Position::of(&value)?;
        if !KINDS.contains(&value["event"].as_str()?) {
            return None;
        }
        let number = u32::try_from(inner.all.len()).expect("not so many");
        // Messages with `more` belong together: only with the last is everything received.
        let reached = value.get("more").is_none().then_some(position);
        inner.all.push(value);
        let noted = ReceivedMessage { number, reached };
        inner.numbers.insert(text.clone(), noted.clone());
        Some(noted)
    }

    pub(crate) fn all(&self) -> Vec<Value> {
        self.inner.lock().expect("no thread panics").all.clone()
    }
}

/// An event in the life of a client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Observation {
    /// It connects, and resumes after a sequence.
    Connecting {
        since: Option<u64>,
    },
    Welcome {
        recovered: Option<bool>,
        reason: Reason,
    },
    /// A message about a race: its number in [`ReceivedMessages`].
    Message(u32),
    Complete {
        seq: u64,
        races: u32,
        replayed: u32,
    },
    Heartbeat {
        seq: u64,
        live: bool,
    },
    Acknowledged(Op),
    Resync,
    Closing,
    /// The connection has ended, on either side.
    Disconnected,
    /// It could not connect for a minute.
    CouldNotConnect,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reason {
    None,
    OtherEpoch,
    TooFarBehind,
    Ahead,
    Unproven,
    OtherHistory,
    Unknown,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Op {
    Subscribe,
    Resync,
    Ping,
}

/// Everything that happened to a client, with the microseconds since the start.
#[derive(Debug)]
pub(crate) struct Record {
    pub(crate) plan: Plan,
    pub(crate) entries: Vec<(u64, Observation)>,
}

/// The state that all clients share.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) addresses: Mutex<Vec<SocketAddr>>,
    pub(crate) key: String,
    pub(crate) received: ReceivedMessages,
    pub(crate) started: Instant,
    pub(crate) stage: watch::Sender<Stage>,
}

/// The stage of a test.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stage {
    /// Connections are cut, as planned.
    Faults,
    /// Connections are not cut.
    Calm,
    /// Clients end once they have received everything up to this sequence.
    Until(u64),
}

/// The progress of a client.
#[derive(Debug, Default)]
pub(crate) struct Progress {
    /// Everything up to this sequence was received.
    pub(crate) seq: AtomicU64,
    /// Counts the first `snapshot_complete` of each connection.
    pub(crate) connections: AtomicU64,
    pub(crate) heartbeats: AtomicU64,
    /// Counts changes of the feed's state in heartbeats.
    pub(crate) state_changes: AtomicU64,
}

#[derive(Debug)]
pub(crate) struct Client {
    shared: Arc<Shared>,
    plan: Plan,
    rng: Rng,
    progress: Arc<Progress>,
    entries: Vec<(u64, Observation)>,
    /// Where it resumes: after the latest message that counts.
    since: Option<Position>,
    epoch: String,
    complete: bool,
    live: bool,
    retry_after: Option<Duration>,
}

/// Why reading ended.
enum End {
    Done,
    Cut,
    Lost,
}

impl Client {
    pub(crate) fn new(shared: Arc<Shared>, plan: Plan, seed: u64, progress: Arc<Progress>) -> Self {
        Self {
            shared,
            plan,
            rng: Rng::new(seed),
            progress,
            entries: Vec::new(),
            since: None,
            epoch: String::new(),
            complete: false,
            live: true,
            retry_after: None,
        }
    }

    /// Connects and receives until the stage is reached.
    pub(crate) async fn run(mut self) -> Record {
        loop {
            let Some(socket) = self.connect().await else {
                self.note(Observation::CouldNotConnect);
                break;
            };
            let end = self.receive(socket).await;
            self.note(Observation::Disconnected);
            match end {
                End::Done => break,
                End::Cut => {
                    let away = self.rng.within(&self.plan.away_ms);
                    sleep(Duration::from_millis(away)).await;
                }
                End::Lost => sleep(self.retry_after.take().unwrap_or_default()).await,
            }
        }
        Record {
            plan: self.plan,
            entries: self.entries,
        }
    }

    fn note(&mut self, observation: Observation) {
        let at = self.shared.started.elapsed().as_micros();
        self.entries
            .push((u64::try_from(at).unwrap_or(u64::MAX), observation));
    }

    async fn connect(&mut self) -> Option<WebSocketStream<TcpStream>> {
        let deadline = Instant::now() + CONNECT_PATIENCE;
        let since = self.since.as_ref().map(|since| since.seq);
        while Instant::now() < deadline {
            if let Ok(Ok(socket)) = timeout(CONNECT_PATIENCE, self.try_connect()).await {
                self.note(Observation::Connecting { since });
                return Some(socket);
            }
            let pause = self.rng.within(&(50..250));
            sleep(Duration::from_millis(pause)).await;
        }
        None
    }

    async fn try_connect(&mut self) -> Result<WebSocketStream<TcpStream>, Error> {
        let addresses = self
            .shared
            .addresses
            .lock()
            .expect("no thread panics")
            .clone();
        let address = *self.rng.of(&addresses);
        let socket = TcpSocket::new_v4()?;
        // Small, so that a client that does not read is soon noticed.
        socket.set_recv_buffer_size(32 * 1024)?;
        let stream = socket.connect(address).await?;
        let mut url = format!(
            "ws://{address}/ws/live/odds?api_key={}&heartbeat_ms={}&conflate_ms={}{}",
            self.shared.key,
            self.plan.heartbeat_ms,
            self.plan.conflate_ms,
            self.plan.follow.query()
        );
        if !self.plan.kinds.is_empty() {
            let kinds: Vec<&str> = self.plan.kinds.iter().map(|kind| KINDS[*kind]).collect();
            url = format!("{url}&events={}", kinds.join(","));
        }
        if let Some(Position { seq, recorded_at }) = &self.since {
            let epoch = &self.epoch;
            url = format!("{url}&since={seq}&recorded_at={recorded_at}&epoch={epoch}");
        }
        Ok(client_async(url, stream).await?.0)
    }

    async fn receive(&mut self, mut socket: WebSocketStream<TcpStream>) -> End {
        let mut stage = self.shared.stage.subscribe();
        let (mut cut_at, mut request_at) = (self.next_cut(), self.next_request_at());
        let dead_after = Duration::from_millis(self.plan.heartbeat_ms) * DEAD_AFTER_HEARTBEATS;
        // Long enough for a busy machine.
        let dead_after = dead_after.max(Duration::from_secs(20));
        let mut dead_at = tokio::time::Instant::now() + dead_after;
        let mut first = true;
        loop {
            let now = *stage.borrow_and_update();
            match now {
                Stage::Until(seq) if self.progress.seq.load(Ordering::Relaxed) >= seq && !first => {
                    return End::Done;
                }
                Stage::Faults if self.plan.stalls && !first => {
                    // The sender is not dropped before the clients.
                    let _ = stage.wait_for(|stage| *stage != Stage::Faults).await;
                    dead_at = tokio::time::Instant::now() + dead_after;
                }
                _ => {}
            }
            tokio::select! {
                message = socket.next() => {
                    dead_at = tokio::time::Instant::now() + dead_after;
                    match message {
                        Some(Ok(Message::Text(text))) => first &= !self.receive_text(&text),
                        Some(Ok(Message::Close(_)) | Err(_)) | None => return End::Lost,
                        Some(Ok(_)) => {}
                    }
                }
                () = sleep_until(cut_at), if now == Stage::Faults && !self.plan.cuts.is_empty() => {
                    let cut = *self.rng.of(self.plan.cuts);
                    if matches!(cut, Cut::Pause | Cut::PauseAndReset) {
                        let away = self.rng.within(&self.plan.away_ms);
                        sleep(Duration::from_millis(away)).await;
                        dead_at = tokio::time::Instant::now() + dead_after;
                    }
                    match cut {
                        Cut::Pause => {
                            cut_at = self.next_cut();
                            continue;
                        }
                        Cut::Close => drop(socket.close(None).await),
                        Cut::Reset | Cut::PauseAndReset => drop(socket.get_ref().set_zero_linger()),
                        Cut::Drop => {}
                    }
                    return End::Cut;
                }
                () = sleep_until(request_at), if self.plan.request_interval_ms.is_some() && !first => {
                    request_at = self.next_request_at();
                    let text = self.request();
                    if socket.send(Message::text(text)).await.is_err() {
                        return End::Lost;
                    }
                }
                () = sleep_until(dead_at) => return End::Lost,
                _ = stage.changed() => {}
            }
        }
    }

    fn next_cut(&mut self) -> tokio::time::Instant {
        let stay = self.rng.within(&self.plan.stay_ms);
        tokio::time::Instant::now() + Duration::from_millis(stay)
    }

    fn next_request_at(&mut self) -> tokio::time::Instant {
        let most = self.plan.request_interval_ms.unwrap_or(1_000);
        let pause = self.rng.within(&(60..most.max(61)));
        tokio::time::Instant::now() + Duration::from_millis(pause)
    }

    fn request(&mut self) -> String {
        let op = *self.rng.of(&["subscribe", "subscribe", "resync", "ping"]);
        let mut request = json!({ "op": op, "id": 1 });
        if op == "subscribe" {
            let lists = self.plan.follow.lists();
            request
                .as_object_mut()
                .expect("an object")
                .extend(lists.as_object().expect("an object").clone());
        }
        request.to_string()
    }

    /// Handles a message. Returns true for `snapshot_complete`.
    fn receive_text(&mut self, text: &Utf8Bytes) -> bool {
        if let Some(noted) = self.shared.received.insert(text) {
            self.note(Observation::Message(noted.number));
            self.record_position(noted.reached);
            return false;
        }
        let message: Value = serde_json::from_str(text).expect("JSON");
        let number = |name: &str| message[name].as_u64().unwrap_or(u64::MAX);
        let small = |name: &str| u32::try_from(number(name)).unwrap_or(u32::MAX);
        match message["event"].as_str().unwrap_or_default() {
            "welcome" => self.receive_welcome(&message),
            "snapshot_complete" => {
                let seq = number("seq");
                self.note(Observation::Complete {
                    seq,
                    races: small("races"),
                    replayed: small("replayed"),
                });
                self.complete = true;
                self.record_position(Position::of(&message));
                self.progress.connections.fetch_add(1, Ordering::Relaxed);
                return true;
            }
            "heartbeat" => {
                let live = message["feed"]["state"] == "live";
                self.receive_heartbeat(number("seq"), live);
                self.record_position(Position::of(&message));
            }
            "feed_update" => {}
            "ack" => {
                let op = match message["op"].as_str().unwrap_or_default() {
                    "subscribe" => Op::Subscribe,
                    "resync" => Op::Resync,
                    _ => Op::Ping,
                };
                self.note(Observation::Acknowledged(op));
            }
            "resync" => {
                message["epoch"]
                    .as_str()
                    .unwrap_or_default()
                    .clone_into(&mut self.epoch);
                self.discard_position();
                self.note(Observation::Resync);
            }
            "closing" => {
                self.note(Observation::Closing);
                self.retry_after = Some(Duration::from_millis(number("retry_after_ms")));
            }
            other => panic!("{other}: {message}"),
        }
        false
    }

    fn receive_welcome(&mut self, message: &Value) {
        let recovered = message.get("recovered").and_then(Value::as_bool);
        let reason = reason(&message["reason"]);
        message["epoch"]
            .as_str()
            .unwrap_or_default()
            .clone_into(&mut self.epoch);
        if recovered != Some(true) {
            self.discard_position();
        }
        self.note(Observation::Welcome { recovered, reason });
    }

    fn receive_heartbeat(&mut self, seq: u64, live: bool) {
        self.progress.heartbeats.fetch_add(1, Ordering::Relaxed);
        self.note(Observation::Heartbeat { seq, live });
        if std::mem::replace(&mut self.live, live) != live {
            self.progress.state_changes.fetch_add(1, Ordering::Relaxed);
        }
    }

    fn discard_position(&mut self) {
        self.since = None;
        self.complete = false;
    }

    /// Remembers the position of the latest message that counts since the first `snapshot_complete`.
    fn record_position(&mut self, position: Option<Position>) {
        let Some(position) = position.filter(|_| self.complete) else {
            return;
        };
        self.progress.seq.store(position.seq, Ordering::Relaxed);
        self.since = Some(position);
    }
}

fn reason(reason: &Value) -> Reason {
    match reason.as_str() {
        None => Reason::None,
        Some("other_epoch") => Reason::OtherEpoch,
        Some("too_far_behind") => Reason::TooFarBehind,
        Some("ahead") => Reason::Ahead,
        Some("unproven") => Reason::Unproven,
        Some("other_history") => Reason::OtherHistory,
        Some(_) => Reason::Unknown,
    }
}
