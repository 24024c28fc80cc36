//! [`Reader`]: every message of the log once and in order, through restarts of the server.
//!
//! The client library's ordered consumers start over at the first message if the server restarts before they have
//! received one. So this module has a loop of its own: an ephemeral pull consumer from the next sequence, recreated
//! when the connection comes back, and after a missed heartbeat, an error, a gap, or a lack of progress.
//!
//! The client library closes the connection over some messages, see [`Log::message_at`]. So after a lost connection the
//! next messages are first read one by one, without a consumer. Where connections are lost again and again, a feeder
//! may be publishing such messages all the time: then all messages are read one by one for a while.

use std::mem::take;
use std::time::Duration;

use futures::{FutureExt, StreamExt, TryStreamExt, stream};
use projections::BATCH_MESSAGES_MAX;
use tokio::task::unconstrained;
use tokio::time::{sleep, timeout};

use super::hole::Hole;
use super::position::Suspicion;
use super::server::{ConsumerDelivery, Deliveries};
use super::single_reads::{self, SingleReads};
use super::{
    Backoff, Head, Log, LogError, LogMessage, LogReplaced, LogResult, ReadPosition, StreamName,
};
use crate::clock::Uptime;

/// How often the reader asks the server for the end of the stream, and whether it is still the stream that was read.
const CHECK_INTERVAL: Duration = Duration::from_secs(3);
/// How long a consumer has from a check that finds more messages to deliver one. A server that lags behind the others
/// delivers none and sends heartbeats, and so does a consumer that somebody has changed. A revocation counts within 5
/// seconds.
const CHECK_INTERVAL_BEHIND: Duration = Duration::from_secs(1);
/// The payload bytes that end a batch.
const BATCH_BYTES_MAX: usize = 8 * 1024 * 1024;
const SINGLE_READS_CONCURRENT: usize = 32;
/// For how long all messages are read one by one where no consumer can be created. A cluster elects the leader that
/// creates them in a few seconds, and the one of the stream may be there meanwhile.
const WITHOUT_CONSUMER: Duration = Duration::from_secs(2);
/// How long a server of a cluster may know no leader before the reader looks for another server. Elections take less.
const ISOLATED_AFTER: Duration = Duration::from_secs(20);
/// How often the server is asked for more while all messages are read one by one.
const SINGLY_POLL: Duration = Duration::from_millis(20);
/// A replica reads again within 5 s of the end of a fault. A request on the way then may take 3 s more.
const BACKOFF: Backoff = Backoff::new(Duration::from_millis(50), Duration::from_secs(1));

/// Consecutive messages.
#[derive(Debug, Default)]
pub struct Batch {
    /// The messages. May be empty if there is a head.
    pub messages: Vec<LogMessage>,
    /// How many messages the log had after the last of these when they were read. It may have more since.
    pub pending: u64,
    /// The end of the stream, each time that the server was asked for it. Only from a reader of all subjects.
    pub head: Option<Head>,
}

impl Batch {
    /// Whether this was all that the stream had when the server was asked, up to a sequence that was read.
    pub fn is_at_end(&self, seq: u64) -> bool {
        (self.head).is_some_and(|head| head.last_seq + head.lag <= seq)
    }

    /// Whether the server was asked at this time or later, and the stream ended before a sequence. If the stream has
    /// had that one, it has lost it.
    pub fn ended_before(&self, seq: u64, since: Uptime) -> bool {
        (self.head).is_some_and(|head| head.asked_at >= since && head.last_seq + head.lag < seq)
    }
}

/// Reads the messages of a stream after a position.
#[derive(Debug)]
pub struct Reader {
    log: Log,
    stream: StreamName,
    /// The filters; empty for all subjects.
    subjects: Vec<String>,
    position: ReadPosition,
    suspicion: Suspicion,
    consumer: Option<Consumer>,
    single_reads: SingleReads,
    /// Failed attempts to connect in a row.
    failures: u32,
    /// When the stream was last checked.
    checked_at: Uptime,
    /// When the last answer about the stream came, or the reader last looked for another server.
    answered_at: Uptime,
    /// The last sequence of the stream at the last check.
    last_seq: u64,
    /// The last sequence that was read at the last check, if the stream had more then.
    behind_at: Option<u64>,
    /// The hole that the next message is behind, and whether the server has confirmed it.
    hole: Option<(Hole, bool)>,
    /// What is read and not returned, and its payload bytes.
    ready: (Batch, usize),
}

/// A consumer on the server, and the stream of its messages.
#[derive(derive_more::Debug)]
struct Consumer {
    #[debug(skip)]
    messages: Deliveries,
    /// The number of its last delivery.
    delivery: u64,
    /// The connection that it was created on.
    connection_number: u64,
}

impl Log {
    /// A reader of all messages after a position.
    pub fn reader(&self, stream: StreamName, from: ReadPosition) -> Reader {
        self.reader_of(stream, from, Vec::new())
    }

    /// A reader of the messages on some subjects after a position; on all subjects if none is given.
    ///
    /// A subject may contain the wildcard `*`, not `>`.
    pub fn reader_of(&self, stream: StreamName, at: ReadPosition, subjects: Vec<String>) -> Reader {
        Reader {
            log: self.clone(),
            stream,
            subjects,
            position: at,
            suspicion: Suspicion::default(),
            consumer: None,
            single_reads: SingleReads::new(),
            failures: 0,
            checked_at: Uptime::now(),
            answered_at: Uptime::now(),
            last_seq: 0,
            behind_at: None,
            hole: None,
            ready: Default::default(),
        }
    }
}

impl Reader {
    /// The last message that was read.
    pub fn position(&self) -> &ReadPosition {
        &self.position
    }

    /// Waits for the next messages: for a full batch as long as the stream has another one, which is folded at the
    /// least cost. Cancel-safe: a dropped call loses no message.
    ///
    /// # Errors
    /// Returns [`LogReplaced`]. Any other failure is retried without limit, and logged.
    pub async fn next(&mut self) -> Result<Batch, LogReplaced> {
        loop {
            let next = self.read().await?;
            let (ready, bytes) = &mut self.ready;
            let sizes = next.messages.iter().map(|read| read.payload.len());
            *bytes += sizes.sum::<usize>();
            ready.messages.extend(next.messages);
            (ready.pending, ready.head) = (next.pending, next.head);
            let is_full = ready.messages.len() >= BATCH_MESSAGES_MAX || *bytes >= BATCH_BYTES_MAX;
            // A batch with the end of the stream is complete: what follows is of the next one.
            if is_full || ready.head.is_some() || ready.pending < BATCH_MESSAGES_MAX as u64 {
                return Ok(take(&mut self.ready).0);
            }
        }
    }

    /// Waits for the next messages that arrive.
    async fn read(&mut self) -> Result<Batch, LogReplaced> {
        loop {
            if self.consumer.is_none() {
                let batch = self.connect().await?;
                if let Some(batch) = self.advance(batch) {
                    return Ok(batch);
                }
            }
            let until_check = (self.check_interval()).saturating_sub(self.checked_at.elapsed());
            if until_check.is_zero() {
                if let Some(batch) = self.check().await? {
                    return Ok(batch);
                }
                continue;
            }
            let Some(consumer) = &mut self.consumer else {
                continue;
            };
            let first = tokio::select! {
                // Messages that arrived before the connection was lost are not requested again.
                biased;
                first = timeout(until_check, consumer.messages.next()) => first,
                () = self.log.reconnected(consumer.connection_number) => {
                    self.drop_consumer("the connection was replaced");
                    continue;
                }
            };
            if let Ok(first) = first {
                let batch = self.collect(first);
                if let Some(batch) = self.advance(batch) {
                    return Ok(batch);
                }
            }
        }
    }

    /// Moves the position to the end of a batch. `None` if the batch has nothing.
    fn advance(&mut self, batch: Batch) -> Option<Batch> {
        if let Some(last) = batch.messages.last() {
            self.position.seq = last.seq;
            self.position.recorded_at = Some(last.recorded_at);
            self.single_reads.is_after_loss = false;
            self.failures = 0;
        }
        (!batch.messages.is_empty() || batch.head.is_some()).then_some(batch)
    }

    /// Collects a first delivery and what has arrived after it.
    fn collect(&mut self, first: Option<Result<ConsumerDelivery, String>>) -> Batch {
        let mut batch = Batch::default();
        let mut next = Some(first);
        let mut seq = self.position.seq;
        // A reader of some subjects cannot know which sequences are theirs.
        let reads_all = self.reads_all();
        let mut unknown_hole = None;
        while let (Some(arrived), Some(consumer)) = (next, &mut self.consumer) {
            match check(arrived, &mut consumer.delivery) {
                // A restarted server repeats itself.
                Ok((message, _)) if message.seq <= seq => {}
                Ok((message, pending)) => {
                    let hole = Hole::between(seq, message.seq).filter(|_| reads_all);
                    if hole.is_some() && self.hole != hole.map(|hole| (hole, true)) {
                        unknown_hole = hole;
                        break;
                    }
                    seq = message.seq;
                    batch.pending = pending;
                    batch.messages.push(message);
                }
                Err(reason) => {
                    self.drop_consumer(&reason);
                    break;
                }
            }
            next = match batch.messages.len() {
                BATCH_MESSAGES_MAX.. => None,
                // Unconstrained: tokio's cooperative budget would end every batch after 128 messages.
                _ => unconstrained(consumer.messages.next()).now_or_never(),
            };
        }
        if let Some(hole) = unknown_hole {
            self.hole = Some((hole, false));
            self.drop_consumer("there is a hole in the log");
        }
        batch.pending = self.pending(batch.pending, seq);
        batch
    }

    /// How many messages follow a sequence. The server of the consumer may lack the last ones, and the others cannot
    /// know how many of the rest are on the subjects of the reader.
    fn pending(&self, of_consumer: u64, seq: u64) -> u64 {
        let all = self.reads_all().then(|| self.last_seq.saturating_sub(seq));
        of_consumer.max(all.unwrap_or(0))
    }

    fn drop_consumer(&mut self, reason: &str) {
        let (stream, seq) = (self.stream.name, self.position.seq);
        tracing::debug!(reason, stream, seq, "recreating the consumer");
        self.consumer = None;
        self.single_reads.is_after_loss = true;
    }

    /// Creates a consumer from the next message on, and retries until it succeeds. Returns what was read before it.
    ///
    /// # Errors
    /// Returns [`LogReplaced`].
    #[tracing::instrument(level = "debug", skip_all, fields(stream = self.stream.name, seq = self.position.seq))]
    async fn connect(&mut self) -> Result<Batch, LogReplaced> {
        loop {
            if self.failures > 0 {
                let connection_number = self.log.connection_number();
                tokio::select! {
                    biased;
                    () = sleep(BACKOFF.delay(self.failures - 1)) => {}
                    () = self.log.reconnected(connection_number) => self.failures = 1,
                }
            }
            let messages = self.read_without_leader().await;
            if let Some(last) = messages.last() {
                return Ok(Batch {
                    pending: self.pending(0, last.seq),
                    messages,
                    head: None,
                });
            }
            let connected = match self.check_identity().await {
                Ok(head) => self.try_connect(head?).await,
                Err(error) => Err(error),
            };
            match connected {
                Ok(batch) => return Ok(batch),
                Err(error) => {
                    self.failures += 1;
                    tracing::debug!(%error, failures = self.failures, "cannot read the log");
                }
            }
        }
    }

    /// The next messages that any server of a cluster has, of a stream that only railbird writes. A revocation must not
    /// wait for the election of a leader. A server has only messages that most of them have agreed on.
    async fn read_without_leader(&self) -> Vec<LogMessage> {
        let mut messages = Vec::new();
        let is_safe = self.stream.is_written_by_railbird_alone();
        // At first the leader is asked, for a consumer reads faster.
        let may_lack_leader =
            self.log.is_clustered() && (self.single_reads.is_after_loss || self.failures > 0);
        if !is_safe || !may_lack_leader || !self.any_server_has_position().await {
            return messages;
        }
        for seq in self.position.seq + 1..=self.position.seq + single_reads::AFTER_LOSS {
            match self.log.message_of_any_server(self.stream, seq).await {
                Ok(Some(message)) => messages.push(message),
                Ok(None) => break,
                Err(error) => {
                    tracing::debug!(%error, stream = self.stream.name, "no server has more messages");
                    break;
                }
            }
        }
        messages
    }

    /// Whether a server has the last message that was read, as it was read, or none was. Else what follows may be of
    /// another history, as after a restore: only [`Self::check_identity`] knows.
    async fn any_server_has_position(&self) -> bool {
        let Some(recorded_at) = self.position.recorded_at else {
            return self.position.seq == 0;
        };
        let (log, seq) = (&self.log, self.position.seq);
        let found = log.message_of_any_server(self.stream, seq);
        matches!(found.await, Ok(Some(found)) if found.recorded_at == recorded_at)
    }

    async fn try_connect(&mut self, head: Head) -> LogResult<Batch> {
        let connection_number = self.log.connection_number();
        self.ask_about_hole().await?;
        self.note_connection(connection_number);
        let messages = self.read_singly(&head).await?;
        let last_seq = messages.last().map_or(self.position.seq, |last| last.seq);
        // The server is asked about a hole before any consumer delivers what is behind it.
        let is_before_hole = self.hole.is_some_and(|(_, is_confirmed)| !is_confirmed);
        // To create a consumer may take seconds where a server has just failed. These are delivered before.
        let is_delivered_first = self.reads_all() && !messages.is_empty();
        if self.single_reads.are_all() || is_before_hole || is_delivered_first {
            return Ok(self.single_batch(head, messages, last_seq).await);
        }
        let (arriving, pending) = match self.create_consumer(last_seq + 1).await {
            Err(error) if self.reads_all() && self.log.is_clustered() => {
                tracing::debug!(%error, "cannot create a consumer, reading messages one by one");
                self.single_reads.start(WITHOUT_CONSUMER);
                self.single_reads.is_after_loss = true;
                return Ok(self.single_batch(head, messages, last_seq).await);
            }
            created => created?,
        };
        self.consumer = Some(Consumer {
            messages: arriving,
            delivery: 0,
            connection_number,
        });
        self.checked_at = head.asked_at;
        self.behind_at = None;
        Ok(Batch {
            messages,
            pending: self.pending(pending, last_seq),
            head: self.reads_all().then_some(head),
        })
    }

    /// Asks the server whether it has the messages of a hole that the next message is behind.
    async fn ask_about_hole(&mut self) -> LogResult<()> {
        if let Some((hole, false)) = self.hole {
            let confirmed = self.log.confirm_hole(self.stream, hole).await?;
            self.hole = confirmed.then_some((hole, true));
            // A consumer that skips messages again and again is created ever more slowly.
            self.failures += u32::from(!confirmed);
        }
        Ok(())
    }

    fn note_connection(&mut self, connection_number: u64) {
        let now = Uptime::now();
        let period = self.single_reads.connected(connection_number, now);
        // A reader of some subjects does not see how far the others are.
        if let Some(period) = period.filter(|_| self.reads_all()) {
            self.single_reads.start(period);
            tracing::warn!(
                stream = self.stream.name,
                seq = self.position.seq,
                losses = self.single_reads.losses,
                ?period,
                "connections were lost one after the other, reading messages one by one"
            );
        }
    }

    fn check_interval(&self) -> Duration {
        match self.behind_at == Some(self.position.seq) {
            true => CHECK_INTERVAL_BEHIND,
            false => CHECK_INTERVAL,
        }
    }

    /// Whether it reads the messages on all subjects.
    fn reads_all(&self) -> bool {
        self.subjects.is_empty()
    }

    /// The messages of a new consumer from a sequence on, and how many there are.
    async fn create_consumer(&self, start_sequence: u64) -> LogResult<(Deliveries, u64)> {
        let (log, subjects) = (&self.log, self.subjects.clone());
        let creating = (log.server).consume(self.stream.name, start_sequence, subjects);
        creating.await.map_err(|error| log.jetstream_error(&*error))
    }

    /// The batch of messages that were read one by one, up to a sequence. Waits a moment if it is empty.
    async fn single_batch(&mut self, head: Head, messages: Vec<LogMessage>, seq: u64) -> Batch {
        if messages.is_empty() {
            sleep(SINGLY_POLL).await;
        }
        let is_due = !messages.is_empty() || self.checked_at.elapsed() >= CHECK_INTERVAL;
        if is_due {
            (self.checked_at, self.behind_at) = (head.asked_at, None);
        }
        Batch {
            pending: head.last_seq.saturating_sub(seq),
            messages,
            head: (is_due && self.reads_all()).then_some(head),
        }
    }

    /// The next messages before the end of the stream, read one by one without a consumer.
    async fn read_singly(&mut self, head: &Head) -> LogResult<Vec<LogMessage>> {
        let max = self.single_reads.count();
        let first = self.position.seq + 1;
        let mut reads = stream::iter(first..=head.last_seq.min(self.position.seq + max))
            .map(|seq| self.log.message_at(self.stream, seq))
            .buffered(SINGLE_READS_CONCURRENT);
        let mut messages = Vec::new();
        let mut bytes = 0;
        while let Some(message) = reads.try_next().await? {
            bytes += message.as_ref().map_or(0, |read| read.payload.len());
            messages.extend(message);
            if bytes >= BATCH_BYTES_MAX {
                break;
            }
        }
        drop(reads);
        self.cut_at_hole(&mut messages);
        messages.retain(|message| {
            let subjects = &self.subjects;
            subjects.is_empty() || subjects.iter().any(|s| matches(s, message.subject()))
        });
        Ok(messages)
    }

    /// Leaves out what is behind a hole that the server has not confirmed yet: another one may have answered that it
    /// does not have these messages.
    fn cut_at_hole(&mut self, messages: &mut Vec<LogMessage>) {
        let mut seq = self.position.seq;
        for (n, message) in messages.iter().enumerate() {
            let hole = Hole::between(seq, message.seq).filter(|_| self.stream.keeps_all());
            if hole.is_some() && self.hole != hole.map(|hole| (hole, true)) {
                self.hole = hole.map(|hole| (hole, false));
                messages.truncate(n);
                return;
            }
            seq = message.seq;
        }
    }

    /// Compares the stream with the position, and returns its end.
    ///
    /// # Errors
    /// Returns a [`LogError`] if the server does not answer, and within it [`LogReplaced`] if the stream is
    /// another one.
    async fn check_identity(&mut self) -> LogResult<Result<Head, LogReplaced>> {
        let asked_at = Uptime::now();
        let answer = self.log.compare(self.stream, &self.position).await;
        match answer {
            Ok(_) | Err(LogError::NoStream(_)) => self.answered_at = Uptime::now(),
            Err(_) => self.leave_isolated_server().await,
        }
        let state = self.suspicion.judge(&self.log, self.stream, answer)?;
        Ok(state.map(|state| {
            self.last_seq = state.last_seq;
            Head::new(&state, asked_at)
        }))
    }

    /// Connects to another server if this one has known no leader for too long: it may be cut off from the others.
    async fn leave_isolated_server(&mut self) {
        let is_isolated = self.answered_at.elapsed() >= ISOLATED_AFTER;
        if is_isolated && self.log.is_clustered() && self.log.connection().borrow().up {
            let stream = self.stream.name;
            tracing::warn!(stream, "the server knows no leader, trying another one");
            self.log.connect_elsewhere().await;
            self.answered_at = Uptime::now();
        }
    }

    /// Asks the server for the end of the stream, and whether it is still the one that was read. Drops a consumer that
    /// has delivered nothing since the last check although there is more. `None` if the server does not answer.
    ///
    /// # Errors
    /// Returns [`LogReplaced`].
    async fn check(&mut self) -> Result<Option<Batch>, LogReplaced> {
        let checked = self.check_identity().await;
        self.checked_at = Uptime::now();
        let mut head = match checked {
            Ok(head) => head?,
            Err(error) => {
                tracing::debug!(%error, stream = self.stream.name, "cannot check the log");
                return Ok(None);
            }
        };
        let seq = self.position.seq;
        let behind_at = (head.last_seq > seq).then_some(seq);
        if behind_at.is_some() && self.behind_at == behind_at {
            match self.log.next_seq(self.stream, seq + 1).await {
                // The last messages were deleted.
                Ok(None) => (head.last_seq, self.last_seq) = (seq, seq),
                _ => self.drop_consumer("it stalled"),
            }
        }
        self.behind_at = behind_at;
        let batch = Batch {
            messages: Vec::new(),
            pending: head.last_seq - seq,
            head: Some(head),
        };
        Ok(self.reads_all().then_some(batch))
    }
}

/// Whether a subject matches a filter with wildcards `*`.
fn matches(filter: &str, subject: &str) -> bool {
    let mut tokens = filter.split('.').zip(subject.split('.'));
    filter.split('.').count() == subject.split('.').count()
        && tokens.all(|(wanted, token)| wanted == "*" || wanted == token)
}

/// The message of a delivery, and how many messages follow it; or the reason why the consumer cannot be used any more.
fn check(
    arrived: Option<Result<ConsumerDelivery, String>>,
    last_number: &mut u64,
) -> Result<(LogMessage, u64), String> {
    let delivery = arrived.ok_or("the consumer ended")??;
    let number = delivery.number;
    if number != *last_number + 1 {
        return Err(format!("delivery {number} after {last_number}"));
    }
    *last_number = number;
    Ok((delivery.message, delivery.pending))
}
