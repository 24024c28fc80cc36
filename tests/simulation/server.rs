//! [`LogServer`]: the model of nats-server, and [`Connection`]: a client's connection to it. What is sent on one
//! connection arrives in order, and may be lost with it; so may the answers.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::fmt;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use async_nats::HeaderMap;
use async_nats::header::{HeaderName, NATS_EXPECTED_LAST_SUBJECT_SEQUENCE, NATS_MESSAGE_ID};
use async_nats::jetstream::context::{
    PublishError, PublishErrorKind, RequestError, RequestErrorKind,
};
use async_nats::jetstream::message::OutboundMessage;
use async_nats::jetstream::publish::PublishAck;
use async_nats::jetstream::response::Response;
use bytes::Bytes;
use futures::stream::BoxStream;
use futures::{FutureExt, StreamExt, stream};
use parking_lot::Mutex;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use tokio::sync::{mpsc, oneshot, watch};
use tokio::time::{sleep, timeout};
use tokio_util::task::AbortOnDropHandle;

use super::chance::Chance;
use super::machine::{spawn_outside, uptime};
use super::streams::{Stored, Stream, Streams};
use crate::accounts::{AccountEvent, Actor, Fact};
use crate::log::simulated::{ConsumerDelivery, Deliveries, ServerError};
use crate::log::{ConnectionStatus, LEASES, LogMessage, Outgoing};

const REQUEST_TIMEOUT: Duration = Duration::from_secs(3);
/// Three pings.
const NOTICED_AFTER: Duration = Duration::from_secs(12);
/// Two heartbeats.
const HEARTBEATS: Duration = Duration::from_secs(2);
const RECONNECT_MS: u64 = 1_500;
/// Once in so many messages, a lossy consumer skips one.
const SKIPS_ONE_IN: u64 = 12;

/// Names a computer on the network.
pub(crate) type Host = usize;

/// The state of the server, and of the network to it.
pub(crate) struct Model {
    pub(crate) streams: Streams,
    chance: Chance,
    pub(crate) is_clustered: bool,
    pub(crate) is_up: bool,
    pub(crate) is_frozen: bool,
    /// Nobody leads the streams.
    pub(crate) is_leaderless: bool,
    /// So many messages are rejected, while others are stored.
    pub(crate) rejects: u64,
    /// What some servers of the cluster still answer.
    pub(crate) before: Option<Streams>,
    pub(crate) consumers_fail: bool,
    /// Consumers of an earlier number are gone.
    pub(crate) consumers: u64,
    pub(crate) cut: Vec<Host>,
    pub(crate) loses_answers: Vec<Host>,
    /// The connections of a computer are reset when it has sent so many more messages.
    pub(crate) reset_after: Option<(Host, u64)>,
    /// The computers whose connections were reset, once for each time.
    resets: Vec<Host>,
    /// How long what the server sends is on its way to a computer.
    pub(crate) delays: Vec<(Host, Duration)>,
    /// Consumers deliver one message in this time.
    pub(crate) slow_consumers: Option<Duration>,
    /// Consumers skip messages.
    pub(crate) consumers_skip: bool,
    /// The messages about races that have reached the server, stored or not, in their order.
    pub(crate) arrived: HashMap<Bytes, usize>,
    /// A message that was announced again although the holder of the lease had noted it.
    pub(crate) announced_again: Option<String>,
    /// Servers have answered from before.
    pub(crate) has_answered_from_before: bool,
    /// The keys have lost events.
    pub(crate) has_lost_accounts: bool,
    /// The subjects and ids of messages on core NATS, by what the server knows them.
    pub(crate) announced: Vec<(String, String)>,
    /// When each subject without ids last reached the server: those of alive messages.
    pub(crate) alive: BTreeMap<String, Duration>,
    subscribers: Vec<Subscriber>,
    /// The server has lost messages of the log, or somebody has deleted some.
    pub(crate) has_lost: bool,
    /// The server has forgotten ids.
    pub(crate) has_forgotten_ids: bool,
}

/// Who gets the subjects of alive messages.
struct Subscriber {
    host: Host,
    status: watch::Receiver<ConnectionStatus>,
    subjects: mpsc::UnboundedSender<String>,
}

type Command = Box<dyn FnOnce(&mut Model) -> Option<Box<dyn FnOnce() + Send>> + Send>;

/// The model of nats-server. Clones share it.
#[derive(Clone)]
pub(crate) struct LogServer {
    pub(crate) model: Arc<Mutex<Model>>,
    changed: watch::Sender<u64>,
}

struct Sent {
    command: Command,
    /// The connection that it was sent on; `None` if it waited for one.
    connection_number: Option<u64>,
}

/// A client's connection. Clones share it.
#[derive(Clone)]
pub(crate) struct Connection(Arc<Shared>);

struct Shared {
    server: LogServer,
    host: Host,
    status: watch::Sender<ConnectionStatus>,
    sent: mpsc::UnboundedSender<Sent>,
    _tasks: [AbortOnDropHandle<()>; 2],
}

impl fmt::Debug for Connection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Connection").finish_non_exhaustive()
    }
}

impl LogServer {
    pub(crate) fn new(chance: Chance, is_clustered: bool) -> Self {
        let mut chance = chance;
        let model = Model {
            streams: Streams::new(chance.fork()),
            chance,
            is_clustered,
            is_up: true,
            is_frozen: false,
            is_leaderless: false,
            rejects: 0,
            before: None,
            consumers_fail: false,
            consumers: 0,
            cut: Vec::new(),
            loses_answers: Vec::new(),
            reset_after: None,
            resets: Vec::new(),
            delays: Vec::new(),
            slow_consumers: None,
            consumers_skip: false,
            arrived: HashMap::new(),
            announced_again: None,
            has_answered_from_before: false,
            has_lost_accounts: false,
            announced: Vec::new(),
            alive: BTreeMap::new(),
            subscribers: Vec::new(),
            has_lost: false,
            has_forgotten_ids: false,
        };
        Self {
            model: Arc::new(Mutex::new(model)),
            changed: watch::Sender::new(0),
        }
    }

    /// Changes the state, and wakes what waits for it.
    pub(crate) fn change<T>(&self, change: impl FnOnce(&mut Model) -> T) -> T {
        let changed = change(&mut self.model.lock());
        self.changed.send_modify(|changes| *changes += 1);
        changed
    }

    async fn until(&self, condition: impl Fn(&Model) -> bool) {
        let mut changed = self.changed.subscribe();
        while !condition(&self.model.lock()) {
            let _ = changed.changed().await;
        }
    }

    /// A connection of a computer in the background.
    pub(crate) fn connect(&self, host: Host) -> Connection {
        let status = watch::Sender::new(ConnectionStatus::default());
        let (sent, commands) = mpsc::unbounded_channel();
        let keeping = keep(self.clone(), host, status.clone());
        let sending = send(self.clone(), host, status.clone(), commands);
        Connection(Arc::new(Shared {
            server: self.clone(),
            host,
            _tasks: [keeping.boxed(), sending.boxed()]
                .map(|task| AbortOnDropHandle::new(spawn_outside(task))),
            status,
            sent,
        }))
    }
}

impl Model {
    /// Whether the server receives what this computer sends.
    fn is_reached(&self, host: Host) -> bool {
        self.is_up && !self.is_frozen && !self.cut.contains(&host)
    }

    /// Whether this connection is gone without a notice.
    fn is_silent(&self, host: Host) -> bool {
        self.is_frozen || self.cut.contains(&host)
    }

    /// Counts a message of a computer, and resets its connections if it is the last one before that.
    fn count_message(&mut self, host: Host) {
        if let Some((of, messages)) = &mut self.reset_after
            && *of == host
        {
            *messages = messages.saturating_sub(1);
            if *messages == 0 {
                self.reset_after = None;
                self.resets.push(host);
            }
        }
    }

    fn resets_of(&self, host: Host) -> usize {
        self.resets.iter().filter(|of| **of == host).count()
    }

    pub(crate) fn create(&mut self, stream: &str, config: &Value) {
        self.streams.create(stream, config, self.is_clustered);
    }

    /// Ends the server. It may have forgotten ids when it is back.
    pub(crate) fn kill(&mut self, forgets: bool) {
        self.is_up = false;
        self.consumers += 1;
        if forgets {
            self.has_forgotten_ids = true;
            self.streams.all.values_mut().for_each(Stream::forget_ids);
        }
    }

    pub(crate) fn answer_from_before(&mut self) {
        if self.is_clustered {
            self.has_answered_from_before = true;
            let mut before = self.streams.clone();
            let count = self.chance.between(0, 3);
            before
                .all
                .values_mut()
                .for_each(|stream| stream.lose(count));
            self.before = Some(before);
        }
    }

    pub(crate) fn lose_end(&mut self, stream: &str, messages: u64) {
        if let Some(stream) = self.streams.all.get_mut(stream) {
            stream.lose(messages);
        }
        self.kill(false);
    }

    pub(crate) fn recreate(&mut self, stream: &str, config: &Value) {
        self.streams.all.remove(stream);
        self.create(stream, config);
        self.has_lost = true;
        self.kill(false);
    }

    /// Appends an event of an operator's command.
    pub(crate) fn append_account(&mut self, fact: &Fact) {
        let now = self.streams.now().into();
        let event = AccountEvent::new(Actor::Service, fact.clone(), now);
        let Outgoing {
            subject, payload, ..
        } = Outgoing::from(&event);
        let message = Stored {
            subject,
            id: String::new(),
            payload: payload.into(),
            recorded_at: jiff::Timestamp::UNIX_EPOCH,
            at: Duration::ZERO,
        };
        self.streams
            .append(vec![(message, None)])
            .expect("the stream is there");
    }

    fn rejects_one(&mut self) -> bool {
        let rejects = self.rejects > 0 && self.chance.one_in(2);
        self.rejects -= u64::from(rejects);
        rejects
    }

    fn no_leader(&self) -> bool {
        self.is_clustered && self.is_leaderless
    }

    /// Whether a command of an operator succeeds.
    pub(crate) fn takes_commands(&self) -> bool {
        self.is_up && !self.is_frozen && !self.no_leader()
    }

    /// The time on the way to a computer.
    fn delay(&self, host: Host) -> Duration {
        let delays = self.delays.iter().filter(|(of, _)| *of == host);
        delays.map(|(_, delay)| *delay).max().unwrap_or_default()
    }

    fn announce(&mut self, subject: String, id: String) {
        let is_known = self.announced.iter().any(|(_, known)| *known == id);
        if is_known && self.is_noted(&id) == Some(true) {
            self.announced_again.get_or_insert(id.clone());
        }
        self.announced.push((subject, id));
    }

    fn show_alive(&mut self, subject: String) {
        let is_lost =
            |model: &Self, host| !model.is_reached(host) || model.loses_answers.contains(&host);
        self.subscribers.retain(|of| !of.subjects.is_closed());
        for of in &self.subscribers {
            if of.status.borrow().up && !is_lost(self, of.host) {
                let _ = of.subjects.send(subject.clone());
            }
        }
        self.alive.insert(subject, uptime().unwrap_or_default());
    }

    /// Whether the holder of the lease has noted that a message is announced.
    fn is_noted(&mut self, id: &str) -> Option<bool> {
        let entry = self.streams.last(LEASES.name, "$KV.LEASES.announcer")?;
        let entry: Value = serde_json::from_slice(&entry.payload).ok()?;
        let note: Value = serde_json::from_str(entry["note"].as_str()?).ok()?;
        let mut parts = id.rsplitn(3, '-');
        let stored_us: i64 = parts.next()?.parse().ok()?;
        let seq: u64 = parts.next()?.parse().ok()?;
        let log = parts.next()?;
        let mut noted = note.as_array()?.iter();
        Some(noted.any(|noted| {
            let is_later = noted["seq"].as_u64() >= Some(seq);
            noted["log"] == log && is_later && noted["stored_us"].as_i64() >= Some(stored_us)
        }))
    }

    /// The streams as the server has them that answers: of a cluster, maybe one that is behind.
    fn answering(&mut self) -> &mut Streams {
        match &mut self.before {
            Some(before) if self.chance.one_in(2) => before,
            _ => &mut self.streams,
        }
    }

    fn pause_ms(&mut self) -> u64 {
        if self.chance.one_in(4) {
            self.chance.between(1, 4)
        } else {
            0
        }
    }
}

/// Establishes a connection, and notes its loss.
async fn keep(server: LogServer, host: Host, status: watch::Sender<ConnectionStatus>) {
    loop {
        let pause = server.model.lock().chance.between(1, RECONNECT_MS);
        let is_first = status.borrow().number == 0;
        if !is_first {
            sleep(Duration::from_millis(pause)).await;
        }
        server.until(|model| model.is_reached(host)).await;
        if !status.borrow().up {
            status.send_modify(ConnectionStatus::set_up);
        }
        let resets = server.model.lock().resets_of(host);
        let is_reset = |model: &Model| model.resets_of(host) > resets;
        loop {
            server
                .until(|model| !model.is_up || model.is_silent(host) || is_reset(model))
                .await;
            if is_reset(&server.model.lock()) {
                break;
            }
            // The network may come back before anybody notices.
            let noticed = server.until(|model| !model.is_up || !model.is_silent(host));
            let is_back = timeout(NOTICED_AFTER, noticed).await.is_ok();
            if !(is_back && server.model.lock().is_up) {
                break;
            }
        }
        status.send_modify(|status| status.up = false);
    }
}

/// A message, and the sequence that the last one on its subject must have.
fn stored(message: OutboundMessage) -> (Stored, Option<u64>) {
    let header = |name: HeaderName| Some(message.headers.as_ref()?.get(name)?.as_str());
    let expected = header(NATS_EXPECTED_LAST_SUBJECT_SEQUENCE);
    let expected = expected.and_then(|expected| expected.parse().ok());
    let stored = Stored {
        id: header(NATS_MESSAGE_ID).unwrap_or_default().to_owned(),
        subject: message.subject.to_string(),
        payload: message.payload,
        recorded_at: jiff::Timestamp::UNIX_EPOCH,
        at: Duration::ZERO,
    };
    (stored, expected)
}

/// Sends the commands of a connection in order, and delivers the answers in order.
async fn send(
    server: LogServer,
    host: Host,
    status: watch::Sender<ConnectionStatus>,
    mut commands: mpsc::UnboundedReceiver<Sent>,
) {
    let (answered, answers) = mpsc::unbounded_channel();
    let _answering = AbortOnDropHandle::new(spawn_outside(answer(
        server.clone(),
        host,
        status.clone(),
        answers,
    )));
    let mut up = status.subscribe();
    while let Some(Sent {
        command,
        connection_number,
    }) = commands.recv().await
    {
        let pause = server.model.lock().pause_ms();
        if pause > 0 {
            sleep(Duration::from_millis(pause)).await;
        }
        let number = match connection_number {
            Some(number) => number,
            None => match up.wait_for(|status| status.up).await {
                Ok(status) => status.number,
                Err(_) => return,
            },
        };
        if !arrives(&server, host, &mut up, number).await {
            continue;
        }
        let answered_by = server.change(|model| {
            model.count_message(host);
            command(model)
        });
        if let Some(deliver) = answered_by {
            let delay = server.model.lock().delay(host);
            let _ = answered.send(Answer {
                connection_number: number,
                at: uptime().unwrap_or_default() + delay,
                deliver,
            });
        }
    }
}

/// An answer, the connection that it is sent on, and when it arrives.
struct Answer {
    connection_number: u64,
    at: Duration,
    deliver: Box<dyn FnOnce() + Send>,
}

async fn answer(
    server: LogServer,
    host: Host,
    status: watch::Sender<ConnectionStatus>,
    mut answers: mpsc::UnboundedReceiver<Answer>,
) {
    let mut up = status.subscribe();
    while let Some(answer) = answers.recv().await {
        let pause = Duration::from_millis(server.model.lock().pause_ms());
        let pause = pause.max(answer.at.saturating_sub(uptime().unwrap_or_default()));
        if !pause.is_zero() {
            sleep(pause).await;
        }
        let is_lost = server.model.lock().loses_answers.contains(&host);
        if arrives(&server, host, &mut up, answer.connection_number).await && !is_lost {
            (answer.deliver)();
        }
    }
}

/// Waits until the network lets something through. False if its connection is lost first.
async fn arrives(
    server: &LogServer,
    host: Host,
    up: &mut watch::Receiver<ConnectionStatus>,
    number: u64,
) -> bool {
    let is_of = |status: &ConnectionStatus| status.up && status.number == number;
    loop {
        if !is_of(&up.borrow()) {
            return false;
        }
        if server.model.lock().is_reached(host) {
            return true;
        }
        tokio::select! {
            biased;
            _ = up.wait_for(|status| !is_of(status)) => return false,
            () = server.until(|model| model.is_reached(host)) => {}
        }
    }
}

impl Connection {
    pub(crate) fn status(&self) -> watch::Receiver<ConnectionStatus> {
        self.0.status.subscribe()
    }

    pub(crate) fn version(&self) -> String {
        match self.0.status.borrow().number {
            0 => String::new(),
            _ => "2.12.0".to_owned(),
        }
    }

    pub(crate) fn is_clustered(&self) -> bool {
        self.0.server.model.lock().is_clustered
    }

    pub(crate) fn connect_elsewhere(&self) {}

    /// Sends a command. Resolves with its answer, and never if that is lost.
    async fn exchange<T: Send + 'static>(
        &self,
        command: impl FnOnce(&mut Model) -> Option<T> + Send + 'static,
    ) -> T {
        let (sender, answer) = oneshot::channel();
        self.send(move |model| {
            let answer = command(model)?;
            Some(Box::new(move || drop(sender.send(answer))))
        });
        match answer.await {
            Ok(answer) => answer,
            Err(_) => std::future::pending().await,
        }
    }

    fn send(
        &self,
        command: impl FnOnce(&mut Model) -> Option<Box<dyn FnOnce() + Send>> + Send + 'static,
    ) {
        let status = *self.0.status.borrow();
        let sent = Sent {
            command: Box::new(command),
            connection_number: status.up.then_some(status.number),
        };
        let _ = self.0.sent.send(sent);
    }

    pub(crate) async fn request<T: DeserializeOwned>(
        &self,
        api: String,
        query: &impl Serialize,
    ) -> Result<Response<T>, RequestError> {
        let query = serde_json::to_value(query).expect("a query is JSON");
        let asking = self.exchange(move |model| Some(model.answer(&api, &query)));
        let answer = timeout(REQUEST_TIMEOUT, asking).await;
        let answer = answer.map_err(|_| RequestError::new(RequestErrorKind::TimedOut))?;
        let answer = answer.ok_or_else(|| RequestError::new(RequestErrorKind::NoResponders))?;
        serde_json::from_value(answer)
            .map_err(|error| RequestError::with_source(RequestErrorKind::Other, error))
    }

    /// Publishes a message, or the messages of a batch.
    pub(crate) fn publish(
        &self,
        messages: Vec<OutboundMessage>,
    ) -> futures::future::BoxFuture<'static, Result<PublishAck, PublishError>> {
        let messages: Vec<_> = messages.into_iter().map(stored).collect();
        let (sender, answer) = oneshot::channel();
        self.send(move |model| {
            for (message, _) in &messages {
                if message.subject.starts_with("racing.") {
                    let next = model.arrived.len();
                    let payload = message.payload.clone();
                    model.arrived.entry(payload).or_insert(next);
                }
            }
            let stored = if model.no_leader() || model.rejects_one() {
                Err(PublishErrorKind::StreamNotFound)
            } else {
                model.streams.append(messages)
            };
            let answer = stored.map(|(sequence, duplicate)| PublishAck {
                sequence,
                duplicate,
                ..PublishAck::default()
            });
            Some(Box::new(move || drop(sender.send(answer))))
        });
        let acknowledged = async {
            match timeout(REQUEST_TIMEOUT, answer).await {
                Ok(Ok(answer)) => answer.map_err(PublishError::new),
                Ok(Err(_)) | Err(_) => Err(PublishError::new(PublishErrorKind::TimedOut)),
            }
        };
        acknowledged.boxed()
    }

    pub(crate) fn publish_core(&self, subject: String, headers: &HeaderMap) {
        let id = headers
            .get(NATS_MESSAGE_ID)
            .map(|id| id.as_str().to_owned());
        self.send(move |model| {
            match id {
                Some(id) => model.announce(subject, id),
                None => model.show_alive(subject),
            }
            None
        });
    }

    /// Another connection.
    pub(crate) fn again(&self) -> Self {
        self.0.server.connect(self.0.host)
    }

    /// The subjects of alive messages. The client library subscribes again after each reconnect.
    pub(crate) fn subscribe(&self) -> BoxStream<'static, String> {
        let (subjects, arriving) = mpsc::unbounded_channel();
        let subscriber = Subscriber {
            host: self.0.host,
            status: self.status(),
            subjects,
        };
        self.send(move |model| {
            model.subscribers.push(subscriber);
            None
        });
        let next = |mut arriving: mpsc::UnboundedReceiver<String>| async {
            let subject = arriving.recv().await?;
            Some((subject, arriving))
        };
        stream::unfold(arriving, next).boxed()
    }

    pub(crate) async fn direct_get(
        &self,
        stream: &'static str,
        seq: u64,
        subject: Option<&str>,
    ) -> Result<Option<LogMessage>, ServerError> {
        let subject = subject.map(str::to_owned);
        let asking = self.exchange(move |model| {
            let streams = model.answering();
            Some(streams.direct_get(stream, seq, subject.as_deref()))
        });
        match timeout(REQUEST_TIMEOUT, asking).await {
            Ok(found) => Ok(found),
            Err(_) => Err(io::Error::from(io::ErrorKind::TimedOut).into()),
        }
    }

    pub(crate) async fn consume(
        &self,
        stream: &'static str,
        start: u64,
        subjects: Vec<String>,
    ) -> Result<(Deliveries, u64), ServerError> {
        let (deliveries, arriving) = mpsc::unbounded_channel();
        let consumer = Consumer {
            server: self.0.server.clone(),
            host: self.0.host,
            up: self.status(),
            stream,
            next: start,
            subjects,
            delivered: 0,
            deliveries,
        };
        let asking = self.exchange(move |model| {
            if model.consumers_fail || model.no_leader() {
                return Some(None);
            }
            let pending = model.streams.pending(stream, start, &consumer.subjects)?;
            let generation = model.consumers;
            let task = spawn_outside(consumer.run(generation));
            Some(Some((pending, AbortOnDropHandle::new(task))))
        });
        let created = timeout(REQUEST_TIMEOUT, asking).await;
        let created = created.map_err(|_| io::Error::from(io::ErrorKind::TimedOut))?;
        let (pending, task) = created.ok_or("error code 10008: no consumer can be created")?;
        let deliveries = stream::unfold((arriving, task), |(mut arriving, task)| async {
            loop {
                return match timeout(HEARTBEATS, arriving.recv()).await {
                    Ok(Some(Some(delivery))) => Some((Ok(delivery), (arriving, task))),
                    Ok(Some(None)) => continue,
                    Ok(None) => None,
                    Err(_) => Some((Err("missed heartbeats".to_owned()), (arriving, task))),
                };
            }
        });
        Ok((Box::pin(deliveries), pending))
    }
}

/// The messages of a stream on their way to a reader.
struct Consumer {
    server: LogServer,
    host: Host,
    up: watch::Receiver<ConnectionStatus>,
    stream: &'static str,
    next: u64,
    subjects: Vec<String>,
    delivered: u64,
    /// `None` is a heartbeat.
    deliveries: mpsc::UnboundedSender<Option<ConsumerDelivery>>,
}

impl Consumer {
    async fn run(mut self, generation: u64) {
        let number = self.up.borrow().number;
        let mut changed = self.server.changed.subscribe();
        let mut in_transit = VecDeque::new();
        loop {
            if !arrives(&self.server, self.host, &mut self.up, number).await {
                return;
            }
            changed.mark_unchanged();
            let server = self.server.clone();
            let pause = {
                let mut model = server.model.lock();
                if model.consumers != generation {
                    return;
                }
                self.take(&mut model, &mut in_transit);
                let pause = Duration::from_millis(model.pause_ms());
                let slow = model.slow_consumers.filter(|_| !in_transit.is_empty());
                pause.max(slow.unwrap_or(model.delay(self.host)))
            };
            if !pause.is_zero() {
                sleep(pause).await;
            }
            if !arrives(&self.server, self.host, &mut self.up, number).await {
                return;
            }
            let is_idle = in_transit.is_empty();
            if self.server.model.lock().loses_answers.contains(&self.host) {
                in_transit.clear();
            }
            for delivery in in_transit.drain(..) {
                if self.deliveries.send(Some(delivery)).is_err() {
                    return;
                }
            }
            if is_idle
                && timeout(Duration::from_secs(1), changed.changed())
                    .await
                    .is_err()
            {
                let _ = self.deliveries.send(None);
            }
        }
    }

    /// Takes the next messages, each with the number of those that follow it.
    fn take(&mut self, model: &mut Model, into: &mut VecDeque<ConsumerDelivery>) {
        // A server repeats itself after a failover.
        if self.next > 2 && model.is_clustered && model.chance.one_in(200) {
            self.next -= model.chance.between(1, 2);
        }
        let max = match model.slow_consumers {
            Some(_) => 1,
            None => model.chance.between(1, 64),
        };
        for _ in 0..max {
            let Some(message) = model.streams.next(self.stream, self.next, &self.subjects) else {
                break;
            };
            self.next = message.seq + 1;
            // A reader of some subjects cannot notice that.
            let skips = model.consumers_skip && self.subjects.is_empty();
            if skips && model.chance.one_in(SKIPS_ONE_IN) {
                continue;
            }
            self.delivered += 1;
            into.push_back(ConsumerDelivery {
                message,
                number: self.delivered,
                pending: 0,
            });
        }
        let streams = &mut model.streams;
        let rest = streams.pending(self.stream, self.next, &self.subjects);
        for (following, delivery) in (0..).zip(into.iter_mut().rev()) {
            delivery.pending = rest.unwrap_or(0) + following;
        }
    }
}

impl Model {
    /// The answer of the API; `None` without a leader.
    fn answer(&mut self, api: &str, query: &Value) -> Option<Value> {
        if self.no_leader() {
            return None;
        }
        let cluster = self.is_clustered;
        let words: Vec<&str> = api.split('.').collect();
        match words[..] {
            ["STREAM", "INFO", stream] => Some(self.answering().info(stream, cluster)),
            ["STREAM", "CREATE", stream] => Some(self.streams.create(stream, query, cluster)),
            ["STREAM", "MSG", "GET", stream] => Some(self.answering().get(stream, query)),
            _ => panic!("the model has no {api}"),
        }
    }
}
