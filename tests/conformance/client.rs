//! [`Client`]: does what docs/live-odds.md tells a client to do, suffers what its plan says, and notes all it hears.

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

use super::chance::Chance;
use super::oracle::{KINDS, Told};

/// Without a word for so long, a connection is dead: the docs say twice the time of heartbeats.
const DEAD_AFTER_HEARTBEATS: u32 = 2;
/// Nothing takes so long to connect unless it is broken.
const CONNECT_PATIENCE: Duration = Duration::from_secs(60);

/// Which races a client asks for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Follow {
    All,
    Venue(&'static str),
    Race(&'static str, u16),
    Numbers(Vec<u16>),
    Horse(String),
}

impl Follow {
    pub(crate) fn passes(&self, race: &Told) -> bool {
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

    /// The lists of a client message that ask for the same.
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

/// How a connection ends before its time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Cut {
    /// TCP reset.
    Reset,
    /// The end of the stream, without a word.
    Drop,
    /// A close frame.
    Close,
    /// Nothing is read for a while, and then it goes on.
    Deaf,
    /// Nothing is read for a while, and then it is reset.
    DeafAndReset,
}

impl Cut {
    pub(crate) const ALL: &'static [Self] = &[
        Self::Reset,
        Self::Drop,
        Self::Close,
        Self::Deaf,
        Self::DeafAndReset,
    ];
}

/// What a client asks for, and what it suffers.
#[derive(Debug, Clone)]
pub(crate) struct Plan {
    pub(crate) follow: Follow,
    /// Which of [`KINDS`]; all where empty.
    pub(crate) kinds: Vec<usize>,
    pub(crate) conflate_ms: u64,
    pub(crate) heartbeat_ms: u64,
    /// How long it stays before each of the cuts, and how long it is away.
    pub(crate) stay_ms: Range<u64>,
    pub(crate) away_ms: Range<u64>,
    pub(crate) cuts: &'static [Cut],
    /// How often it says something.
    pub(crate) fidget_ms: Option<u64>,
    /// Stops reading for as long as the stage is set to pain.
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
            fidget_ms: None,
            stalls: false,
        }
    }
}

/// What was heard, each distinct message once for all clients.
#[derive(Debug, Default)]
pub(crate) struct Heard {
    inner: Mutex<HeardInner>,
}

/// A message about a race: its number, and up to where everything has come with it, if that is known.
#[derive(Debug, Clone, Copy)]
struct Noted {
    number: u32,
    reached: Option<u64>,
}

#[derive(Debug, Default)]
struct HeardInner {
    numbers: HashMap<Utf8Bytes, Noted>,
    all: Vec<Value>,
}

impl Heard {
    /// Notes a message about a race; `None` for any other.
    fn note(&self, text: &Utf8Bytes) -> Option<Noted> {
        let mut inner = self.inner.lock().expect("nobody panics");
        if let Some(known) = inner.numbers.get(text) {
            return Some(*known);
        }
        let value: Value = serde_json::from_str(text).expect("JSON");
        let seq = value["seq"].as_u64()?;
        if !KINDS.contains(&value["event"].as_str()?) {
            return None;
        }
        let number = u32::try_from(inner.all.len()).expect("not so many");
        // Of several that belong together, each image stands for updates before those of another: only with the last is all there.
        let reached = value.get("more").is_none().then_some(seq);
        inner.all.push(value);
        let noted = Noted { number, reached };
        inner.numbers.insert(text.clone(), noted);
        Some(noted)
    }

    pub(crate) fn all(&self) -> Vec<Value> {
        self.inner.lock().expect("nobody panics").all.clone()
    }
}

/// What befell a client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum What {
    /// It connects, and says what it has.
    Connecting {
        since: Option<u64>,
    },
    Welcome {
        recovered: Option<bool>,
        reason: Reason,
    },
    /// A message about a race: its number among what was [`Heard`].
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
    Acked(Op),
    Resync,
    Closing,
    /// The connection is over, whoever ended it.
    Over,
    /// It could not connect for a minute.
    Stranded,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reason {
    None,
    OtherEpoch,
    TooFarBehind,
    Ahead,
    Unknown,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Op {
    Subscribe,
    Resync,
    Ping,
}

/// All that a client heard, with the microseconds since the world began.
#[derive(Debug)]
pub(crate) struct Record {
    pub(crate) plan: Plan,
    pub(crate) entries: Vec<(u64, What)>,
}

/// What all clients share.
#[derive(Debug)]
pub(crate) struct World {
    pub(crate) addresses: Mutex<Vec<SocketAddr>>,
    pub(crate) key: String,
    pub(crate) heard: Heard,
    pub(crate) begun: Instant,
    pub(crate) stage: watch::Sender<Stage>,
}

/// What is played.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stage {
    /// Connections are cut, as planned.
    Pain,
    /// All stay.
    Calm,
    /// Who has heard everything up to here is done.
    Until(u64),
}

/// How far a client is, for all to see.
#[derive(Debug, Default)]
pub(crate) struct Progress {
    /// Everything up to here was heard.
    pub(crate) seq: AtomicU64,
    /// Counts the first `snapshot_complete` of each connection.
    pub(crate) connections: AtomicU64,
    pub(crate) heartbeats: AtomicU64,
    /// Counts changes of what heartbeats say of the feed.
    pub(crate) turns: AtomicU64,
}

#[derive(Debug)]
pub(crate) struct Client {
    world: Arc<World>,
    plan: Plan,
    chance: Chance,
    progress: Arc<Progress>,
    entries: Vec<(u64, What)>,
    /// What it is to say when it comes back.
    since: Option<(u64, String)>,
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
    pub(crate) fn new(world: Arc<World>, plan: Plan, seed: u64, progress: Arc<Progress>) -> Self {
        Self {
            world,
            plan,
            chance: Chance::new(seed),
            progress,
            entries: Vec::new(),
            since: None,
            epoch: String::new(),
            complete: false,
            live: true,
            retry_after: None,
        }
    }

    /// Listens until it has heard what the stage says.
    pub(crate) async fn run(mut self) -> Record {
        loop {
            let Some(socket) = self.connect().await else {
                self.note(What::Stranded);
                break;
            };
            let end = self.listen(socket).await;
            self.note(What::Over);
            match end {
                End::Done => break,
                End::Cut => {
                    let away = self.chance.within(&self.plan.away_ms);
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

    fn note(&mut self, what: What) {
        let at = self.world.begun.elapsed().as_micros();
        self.entries
            .push((u64::try_from(at).unwrap_or(u64::MAX), what));
    }

    async fn connect(&mut self) -> Option<WebSocketStream<TcpStream>> {
        let deadline = Instant::now() + CONNECT_PATIENCE;
        let since = self.since.as_ref().map(|(seq, _)| *seq);
        while Instant::now() < deadline {
            if let Ok(Ok(socket)) = timeout(CONNECT_PATIENCE, self.try_connect()).await {
                self.note(What::Connecting { since });
                return Some(socket);
            }
            let pause = self.chance.within(&(50..250));
            sleep(Duration::from_millis(pause)).await;
        }
        None
    }

    async fn try_connect(&mut self) -> Result<WebSocketStream<TcpStream>, Error> {
        let addresses = self.world.addresses.lock().expect("nobody panics").clone();
        let address = *self.chance.of(&addresses);
        let socket = TcpSocket::new_v4()?;
        // Small, so that who does not read is soon noticed.
        socket.set_recv_buffer_size(32 * 1024)?;
        let stream = socket.connect(address).await?;
        let mut url = format!(
            "ws://{address}/ws/live/odds?api_key={}&heartbeat_ms={}&conflate_ms={}{}",
            self.world.key,
            self.plan.heartbeat_ms,
            self.plan.conflate_ms,
            self.plan.follow.query()
        );
        if !self.plan.kinds.is_empty() {
            let kinds: Vec<&str> = self.plan.kinds.iter().map(|kind| KINDS[*kind]).collect();
            url = format!("{url}&events={}", kinds.join(","));
        }
        if let Some((seq, epoch)) = &self.since {
            url = format!("{url}&since={seq}&epoch={epoch}");
        }
        Ok(client_async(url, stream).await?.0)
    }

    async fn listen(&mut self, mut socket: WebSocketStream<TcpStream>) -> End {
        let mut stage = self.world.stage.subscribe();
        let (mut cut_at, mut fidget_at) = (self.next_cut(), self.next_fidget());
        let dead_after = Duration::from_millis(self.plan.heartbeat_ms) * DEAD_AFTER_HEARTBEATS;
        // The first heartbeat comes in time, however busy the machine is.
        let dead_after = dead_after.max(Duration::from_secs(20));
        let mut dead_at = tokio::time::Instant::now() + dead_after;
        let mut first = true;
        loop {
            let now = *stage.borrow_and_update();
            match now {
                Stage::Until(seq) if self.progress.seq.load(Ordering::Relaxed) >= seq && !first => {
                    return End::Done;
                }
                Stage::Pain if self.plan.stalls && !first => {
                    // An error would mean that the world ended.
                    let _ = stage.wait_for(|stage| *stage != Stage::Pain).await;
                    dead_at = tokio::time::Instant::now() + dead_after;
                }
                _ => {}
            }
            tokio::select! {
                message = socket.next() => {
                    dead_at = tokio::time::Instant::now() + dead_after;
                    match message {
                        Some(Ok(Message::Text(text))) => first &= !self.hear(&text),
                        Some(Ok(Message::Close(_)) | Err(_)) | None => return End::Lost,
                        Some(Ok(_)) => {}
                    }
                }
                () = sleep_until(cut_at), if now == Stage::Pain && !self.plan.cuts.is_empty() => {
                    let cut = *self.chance.of(self.plan.cuts);
                    if matches!(cut, Cut::Deaf | Cut::DeafAndReset) {
                        let away = self.chance.within(&self.plan.away_ms);
                        sleep(Duration::from_millis(away)).await;
                        dead_at = tokio::time::Instant::now() + dead_after;
                    }
                    match cut {
                        Cut::Deaf => {
                            cut_at = self.next_cut();
                            continue;
                        }
                        Cut::Close => drop(socket.close(None).await),
                        Cut::Reset | Cut::DeafAndReset => drop(socket.get_ref().set_zero_linger()),
                        Cut::Drop => {}
                    }
                    return End::Cut;
                }
                () = sleep_until(fidget_at), if self.plan.fidget_ms.is_some() && !first => {
                    fidget_at = self.next_fidget();
                    let text = self.remark();
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
        let stay = self.chance.within(&self.plan.stay_ms);
        tokio::time::Instant::now() + Duration::from_millis(stay)
    }

    fn next_fidget(&mut self) -> tokio::time::Instant {
        let most = self.plan.fidget_ms.unwrap_or(1_000);
        let pause = self.chance.within(&(60..most.max(61)));
        tokio::time::Instant::now() + Duration::from_millis(pause)
    }

    fn remark(&mut self) -> String {
        let op = *self
            .chance
            .of(&["subscribe", "subscribe", "resync", "ping"]);
        let mut remark = json!({ "op": op, "id": 1 });
        if op == "subscribe" {
            let lists = self.plan.follow.lists();
            remark
                .as_object_mut()
                .expect("an object")
                .extend(lists.as_object().expect("an object").clone());
        }
        remark.to_string()
    }

    /// Takes in a message. True at the first `snapshot_complete` of a connection.
    fn hear(&mut self, text: &Utf8Bytes) -> bool {
        if let Some(noted) = self.world.heard.note(text) {
            self.note(What::Message(noted.number));
            if let Some(seq) = noted.reached {
                self.reached(seq);
            }
            return false;
        }
        let message: Value = serde_json::from_str(text).expect("JSON");
        let number = |name: &str| message[name].as_u64().unwrap_or(u64::MAX);
        let small = |name: &str| u32::try_from(number(name)).unwrap_or(u32::MAX);
        match message["event"].as_str().unwrap_or_default() {
            "welcome" => {
                let recovered = message.get("recovered").and_then(Value::as_bool);
                let reason = reason(&message["reason"]);
                message["epoch"]
                    .as_str()
                    .unwrap_or_default()
                    .clone_into(&mut self.epoch);
                if recovered != Some(true) {
                    self.forget();
                }
                self.note(What::Welcome { recovered, reason });
            }
            "snapshot_complete" => {
                let seq = number("seq");
                self.note(What::Complete {
                    seq,
                    races: small("races"),
                    replayed: small("replayed"),
                });
                self.complete = true;
                self.reached(seq);
                self.progress.connections.fetch_add(1, Ordering::Relaxed);
                return true;
            }
            "heartbeat" => {
                let live = message["feed"]["state"] == "live";
                self.progress.heartbeats.fetch_add(1, Ordering::Relaxed);
                self.note(What::Heartbeat {
                    seq: number("seq"),
                    live,
                });
                if std::mem::replace(&mut self.live, live) != live {
                    self.progress.turns.fetch_add(1, Ordering::Relaxed);
                }
                self.reached(number("seq"));
            }
            "ack" => {
                let op = match message["op"].as_str().unwrap_or_default() {
                    "subscribe" => Op::Subscribe,
                    "resync" => Op::Resync,
                    _ => Op::Ping,
                };
                self.note(What::Acked(op));
            }
            "resync" => {
                message["epoch"]
                    .as_str()
                    .unwrap_or_default()
                    .clone_into(&mut self.epoch);
                self.forget();
                self.note(What::Resync);
            }
            "closing" => {
                self.note(What::Closing);
                self.retry_after = Some(Duration::from_millis(number("retry_after_ms")));
            }
            other => panic!("{other}: {message}"),
        }
        false
    }

    fn forget(&mut self) {
        self.since = None;
        self.complete = false;
    }

    /// Remembers the highest `seq` since the first `snapshot_complete`.
    fn reached(&mut self, seq: u64) {
        if !self.complete {
            return;
        }
        let highest = self.since.as_ref().map_or(0, |(seq, _)| *seq).max(seq);
        self.since = Some((highest, self.epoch.clone()));
        self.progress.seq.store(highest, Ordering::Relaxed);
    }
}

fn reason(reason: &Value) -> Reason {
    match reason.as_str() {
        None => Reason::None,
        Some("other_epoch") => Reason::OtherEpoch,
        Some("too_far_behind") => Reason::TooFarBehind,
        Some("ahead") => Reason::Ahead,
        Some(_) => Reason::Unknown,
    }
}
