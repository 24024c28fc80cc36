//! [`Reader`]: every message of the log once and in order, through restarts of the server.
//!
//! The client library's ordered consumers begin at the first message again when the server restarts before they
//! have seen one, so this loop is our own: an ephemeral pull consumer from the next sequence, made anew at once when the
//! connection comes back, and on a missed heartbeat, an error, a gap, or a lack of progress.
//!
//! A connection that is lost may have been lost over the next message, see [`Log::stored`]. So the first messages behind such a
//! place are asked for one by one.

use std::future::ready;
use std::time::Duration;

use async_nats::jetstream::consumer::{AckPolicy, DeliverPolicy, pull};
use bytes::Bytes;
use events::Moment;
use futures::{FutureExt, StreamExt, TryStreamExt, stream};
use projections::{BATCH_MESSAGES_MAX, LogIdentity, StoredMessage};
use tokio::task::unconstrained;
use tokio::time::{sleep, timeout};

use super::{Log, LogError, StreamName, backoff, moment};

/// The server says this often that it is alive; twice without is a dead consumer.
const HEARTBEAT: Duration = Duration::from_secs(5);
/// How long one pull request stands.
const PULL_EXPIRES: Duration = Duration::from_secs(30);
/// How long the server keeps a consumer that nobody pulls from.
const INACTIVE_THRESHOLD: Duration = Duration::from_secs(30);
/// Without a message for this long, the log is asked whether it has one.
const WATCHDOG: Duration = Duration::from_secs(10);
/// Bytes in one batch at most.
const BATCH_BYTES_MAX: usize = 8 * 1024 * 1024;
/// A stream that is not found so many times in a row is gone; a server that was just started may not have it yet.
const GONE_AFTER_FAILURES: u32 = 6;
/// Messages that are asked for one by one where the connection was lost, and so many at a time. Where one ends a connection,
/// others may.
const ONE_BY_ONE: u64 = 32;
const AT_A_TIME: usize = 8;
/// The first wait after a failure; it doubles up to [`RETRY_MAX`].
const RETRY_MIN: Duration = Duration::from_millis(50);
const RETRY_MAX: Duration = Duration::from_secs(5);

/// A message of the log.
#[derive(Debug, Clone)]
pub struct LogMessage {
    /// Its place.
    pub seq: u64,
    /// When the log took it.
    pub recorded_at: Moment,
    pub(super) subject: async_nats::Subject,
    /// What it says.
    pub payload: Bytes,
}

impl LogMessage {
    /// Where it stands.
    #[must_use]
    pub fn subject(&self) -> &str {
        &self.subject
    }

    /// The message as the projections take it.
    #[must_use]
    pub fn as_message(&self) -> StoredMessage<'_> {
        StoredMessage {
            seq: self.seq,
            recorded_at: self.recorded_at,
            subject: &self.subject,
            payload: &self.payload,
        }
    }
}

/// Messages, in order.
#[derive(Debug)]
pub struct Batch {
    /// The messages; none where the log has some but does not hand them out.
    pub messages: Vec<LogMessage>,
    /// How many the log holds behind the last of them.
    pub pending: u64,
}

/// Why a reader cannot go on.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// The log is not the one that was read so far: it was made anew, or lost its tail.
    #[error("the log is another one: {0}")]
    AnotherLog(String),
}

/// A place in a log: which log, and the last message that was read.
#[derive(Debug, Clone)]
pub struct ReadPosition {
    /// The log.
    pub log: LogIdentity,
    /// The last message that was read; 0 before the first.
    pub seq: u64,
    /// When the log took it: a log that lost its tail and grew again has another time there.
    pub recorded_at: Option<Moment>,
}

/// Reads a stream from one message on.
#[derive(Debug)]
pub struct Reader {
    log: Log,
    stream: StreamName,
    subjects: Vec<String>,
    place: ReadPosition,
    pull: Option<Pull>,
    /// The connection was lost behind the last message.
    lost: bool,
    failures: u32,
}

struct Pull {
    messages: pull::Stream,
    consumer_seq: u64,
    epoch: u64,
    /// How many the log held when it was made.
    pending: u64,
}

impl std::fmt::Debug for Pull {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Pull")
            .field("consumer_seq", &self.consumer_seq)
            .finish_non_exhaustive()
    }
}

/// What the next message of a consumer turned out to be.
enum Next {
    Message(LogMessage, u64),
    /// At or below what was read: the server repeats itself after a restart.
    Old,
    /// The consumer is of no more use.
    Broken(String),
}

impl Reader {
    pub(super) fn new(
        log: Log,
        stream: StreamName,
        place: ReadPosition,
        subjects: Vec<String>,
    ) -> Self {
        Self {
            log,
            stream,
            subjects,
            place,
            pull: None,
            lost: false,
            failures: 0,
        }
    }

    /// Waits for the next messages. Safe to drop and call again.
    ///
    /// # Errors
    /// The log is another one. Anything else is tried again for ever, and logged.
    pub async fn next(&mut self) -> Result<Batch, ReadError> {
        loop {
            if self.pull.is_none() {
                let messages = self.connect().await?;
                let pending = self.pull.as_ref().map_or(0, |pull| pull.pending);
                if let Some(batch) = self.advance(Batch { messages, pending }) {
                    return Ok(batch);
                }
            }
            let Some(pull) = &mut self.pull else { continue };
            let first = tokio::select! {
                // What came before the connection was lost is not asked for again.
                biased;
                first = timeout(WATCHDOG, pull.messages.next()) => first,
                () = self.log.reconnected(pull.epoch) => {
                    self.pull = None;
                    self.lost = true;
                    continue;
                }
            };
            let Ok(first) = first else {
                match self.watch().await {
                    Some(pending) => {
                        return Ok(Batch {
                            messages: Vec::new(),
                            pending,
                        });
                    }
                    None => continue,
                }
            };
            let batch = self.collect(first);
            if let Some(batch) = self.advance(batch) {
                return Ok(batch);
            }
        }
    }

    /// Moves on behind a batch; `None` if it is empty.
    fn advance(&mut self, batch: Batch) -> Option<Batch> {
        let last = batch.messages.last()?;
        self.place.seq = last.seq;
        self.place.recorded_at = Some(last.recorded_at);
        self.lost = false;
        self.failures = 0;
        Some(batch)
    }

    /// Takes what has already arrived behind the first message.
    fn collect(
        &mut self,
        first: Option<Result<async_nats::jetstream::Message, pull::MessagesError>>,
    ) -> Batch {
        let mut batch = Batch {
            messages: Vec::new(),
            pending: 0,
        };
        let (mut next, mut bytes, mut seq) = (Some(first), 0, self.place.seq);
        while let (Some(arrived), Some(pull)) = (next, &mut self.pull) {
            match take(arrived, &mut pull.consumer_seq, seq) {
                Next::Message(message, pending) => {
                    bytes += message.payload.len();
                    seq = message.seq;
                    batch.pending = pending;
                    batch.messages.push(message);
                }
                Next::Old => {}
                Next::Broken(reason) => {
                    tracing::debug!(
                        reason,
                        stream = self.stream.name,
                        "the consumer is made anew"
                    );
                    self.pull = None;
                    self.lost = true;
                    break;
                }
            }
            let full = batch.messages.len() >= BATCH_MESSAGES_MAX || bytes >= BATCH_BYTES_MAX;
            next = if full {
                None
            } else {
                // Unconstrained: tokio's budget would end every batch after 128 messages.
                unconstrained(pull.messages.next()).now_or_never()
            };
        }
        batch
    }

    /// Makes a consumer from the next message on, of the same log, for as long as it takes. Returns what was read before it.
    async fn connect(&mut self) -> Result<Vec<LogMessage>, ReadError> {
        loop {
            if self.failures > 0 {
                let pause = backoff(RETRY_MIN, self.failures - 1, RETRY_MAX);
                let epoch = self.log.connection.borrow().epoch;
                tokio::select! {
                    () = sleep(pause) => {}
                    () = self.log.reconnected(epoch) => self.failures = 1,
                }
            }
            match self.check_identity().await {
                Ok(None) => {}
                Ok(Some(reason)) => return Err(ReadError::AnotherLog(reason)),
                Err(error @ LogError::NoStream(_)) if self.failures >= GONE_AFTER_FAILURES => {
                    return Err(ReadError::AnotherLog(error.to_string()));
                }
                Err(error) => {
                    self.failed(&error);
                    continue;
                }
            }
            match self.try_connect().await {
                Ok((messages, pull)) => {
                    self.pull = Some(pull);
                    return Ok(messages);
                }
                Err(error) => self.failed(&error),
            }
        }
    }

    fn failed(&mut self, error: &LogError) {
        self.failures += 1;
        tracing::debug!(%error, stream = self.stream.name, failures = self.failures, "the log cannot be read");
    }

    async fn try_connect(&self) -> Result<(Vec<LogMessage>, Pull), LogError> {
        let epoch = self.log.connection.borrow().epoch;
        let messages = if self.lost {
            self.one_by_one().await?
        } else {
            Vec::new()
        };
        let last_seq = messages.last().map_or(self.place.seq, |last| last.seq);
        let config = pull::Config {
            deliver_policy: DeliverPolicy::ByStartSequence {
                start_sequence: last_seq + 1,
            },
            filter_subjects: self.subjects.clone(),
            ack_policy: AckPolicy::None,
            inactive_threshold: INACTIVE_THRESHOLD,
            memory_storage: true,
            num_replicas: 1,
            ..pull::Config::default()
        };
        let consumer = self
            .log
            .jetstream
            .create_consumer_on_stream(config, self.stream.name)
            .await
            .map_err(|error| self.log.jetstream_error(&error))?;
        let pending = consumer.cached_info().num_pending;
        let arriving = consumer
            .stream()
            .max_messages_per_batch(BATCH_MESSAGES_MAX)
            .heartbeat(HEARTBEAT)
            .expires(PULL_EXPIRES)
            .messages()
            .await
            .map_err(|error| self.log.jetstream_error(&error))?;
        let pull = Pull {
            messages: arriving,
            consumer_seq: 0,
            epoch,
            pending,
        };
        Ok((messages, pull))
    }

    /// The first messages behind the place, without a consumer.
    async fn one_by_one(&self) -> Result<Vec<LogMessage>, LogError> {
        let places = self.place.seq + 1..=self.place.seq + ONE_BY_ONE;
        let messages = stream::iter(places)
            .map(|seq| self.log.stored(self.stream, seq))
            .buffered(AT_A_TIME)
            .try_take_while(|message| ready(Ok(message.is_some())));
        let mut messages: Vec<LogMessage> = messages
            .try_filter_map(|m| ready(Ok(m)))
            .try_collect()
            .await?;
        messages.retain(|message| {
            let subjects = &self.subjects;
            subjects.is_empty() || subjects.iter().any(|s| matches(s, message.subject()))
        });
        Ok(messages)
    }

    /// Says why the log is not the one that was read so far, if it is not.
    async fn check_identity(&self) -> Result<Option<String>, LogError> {
        let state = self.log.state(self.stream).await?;
        if state.identity != self.place.log {
            return Ok(Some(format!(
                "created {}, not {}",
                state.identity.created, self.place.log.created
            )));
        }
        if state.last_seq < self.place.seq {
            return Ok(Some(format!(
                "it ends at {}, and {} was read",
                state.last_seq, self.place.seq
            )));
        }
        if let Some(expected) = self.place.recorded_at {
            let found = self.log.stored(self.stream, self.place.seq).await?;
            if found.is_none_or(|found| found.recorded_at != expected) {
                return Ok(Some(format!("message {} is another one", self.place.seq)));
            }
        }
        Ok(None)
    }

    /// Nothing came for a while: if the log has more, the consumer has stalled. Returns by how much.
    async fn watch(&mut self) -> Option<u64> {
        match self.log.state(self.stream).await {
            Ok(state) if state.identity == self.place.log && state.last_seq == self.place.seq => {
                None
            }
            Ok(state) => {
                tracing::warn!(
                    seq = self.place.seq,
                    last_seq = state.last_seq,
                    "no progress: the consumer is made anew"
                );
                self.pull = None;
                Some(state.last_seq.saturating_sub(self.place.seq))
            }
            Err(LogError::NoStream(name)) => {
                tracing::warn!(stream = name, "the stream is not there");
                self.pull = None;
                None
            }
            Err(error) => {
                tracing::debug!(%error, "the log cannot be asked");
                None
            }
        }
    }
}

/// Whether a subject is one of those that a filter stands for. A filter of a reader has no `>`.
fn matches(filter: &str, subject: &str) -> bool {
    let mut tokens = filter.split('.').zip(subject.split('.'));
    filter.split('.').count() == subject.split('.').count()
        && tokens.all(|(wanted, token)| wanted == "*" || wanted == token)
}

fn take(
    arrived: Option<Result<async_nats::jetstream::Message, pull::MessagesError>>,
    consumer_seq: &mut u64,
    seq: u64,
) -> Next {
    let message = match arrived {
        Some(Ok(message)) => message,
        Some(Err(error)) => return Next::Broken(error.to_string()),
        None => return Next::Broken("the consumer ended".to_owned()),
    };
    let info = match message.info() {
        Ok(info) => info,
        Err(error) => return Next::Broken(error.to_string()),
    };
    if info.consumer_sequence != *consumer_seq + 1 {
        return Next::Broken(format!(
            "delivery {} came after {consumer_seq}",
            info.consumer_sequence
        ));
    }
    *consumer_seq = info.consumer_sequence;
    if info.stream_sequence <= seq {
        return Next::Old;
    }
    let (seq, recorded_at, pending) = (
        info.stream_sequence,
        moment(info.published.unix_timestamp_nanos()),
        info.pending,
    );
    let async_nats::Message {
        subject, payload, ..
    } = message.message;
    Next::Message(
        LogMessage {
            seq,
            recorded_at,
            subject,
            payload,
        },
        pending,
    )
}
