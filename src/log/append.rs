//! [`Appender`]: publishes to the log, many messages at a time, and loses no acknowledgement.

use std::collections::VecDeque;
use std::error::Error;
use std::fmt;
use std::time::Duration;

use async_nats::header::{
    NATS_BATCH_COMMIT, NATS_BATCH_COMMIT_FINAL, NATS_BATCH_ID, NATS_BATCH_SEQUENCE,
    NATS_EXPECTED_LAST_SUBJECT_SEQUENCE, NATS_MESSAGE_ID,
};
use async_nats::jetstream::context::{PublishError, PublishErrorKind};
use async_nats::jetstream::message::OutboundMessage;
use async_nats::jetstream::publish::PublishAck;
use async_nats::jetstream::{self, ErrorCode};
use async_nats::{HeaderMap, HeaderValue};
use events::Envelope;
use futures::FutureExt;
use tokio::task::unconstrained;
use uuid::Uuid;

use super::backoff::Attempts;
use super::server::Ack;
use super::{Backoff, Log, LogError, LogResult, RACING, StreamName};

/// How long a message is retried while the server is away or a cluster elects a leader.
const RETRY_FOR: Duration = Duration::from_secs(60);
const BACKOFF: Backoff = Backoff::new(Duration::from_millis(50), Duration::from_secs(5));

/// A server answers nothing where it cannot write to its disk.
const NOT_ACKNOWLEDGED: &str = "NATS did not acknowledge the message in time; its log has the reason, such as a full disk, or too few servers of a \
     cluster";

/// In the texts of nats-server for a limit of a stream: "maximum bytes exceeded", "maximum messages exceeded".
const AT_LIMIT: &str = "maximum";

/// Fewer messages are sent one at a time: nats-server takes longer for a small batch.
const BATCH_MESSAGES_MIN: usize = 16;
/// The messages of a batch: nats-server takes no more.
const BATCH_MESSAGES_MAX: usize = 1_000;
/// The payloads of a batch, in bytes: nats-server's default limit of one message. A larger message is sent by itself.
const BATCH_BYTES_MAX: usize = 1024 * 1024;

/// A message to append to the log.
#[derive(Debug, Clone)]
pub struct Outgoing {
    pub subject: String,
    /// The id: the server drops a second message with the same one within its window.
    pub id: String,
    pub payload: Vec<u8>,
}

impl Outgoing {
    /// A message of an event with the bytes that it was read from.
    pub fn new(envelope: &Envelope, payload: Vec<u8>) -> Self {
        Self {
            subject: envelope.event.subject().to_string(),
            id: envelope.message_id().to_string(),
            payload,
        }
    }

    /// A message with a new id: the server takes it for no repetition of another one.
    pub fn once(subject: String, payload: Vec<u8>) -> Self {
        Self {
            subject,
            id: Uuid::now_v7().to_string(),
            payload,
        }
    }

    fn headers(&self) -> HeaderMap {
        let mut headers = HeaderMap::new();
        headers.insert(NATS_MESSAGE_ID, self.id.as_str());
        headers
    }

    fn message(&self, headers: HeaderMap) -> OutboundMessage {
        OutboundMessage {
            subject: self.subject.as_str().into(),
            payload: self.payload.clone().into(),
            headers: Some(headers),
        }
    }
}

impl From<&Envelope> for Outgoing {
    fn from(envelope: &Envelope) -> Self {
        Self::new(envelope, envelope.encode())
    }
}

/// The acknowledgement of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Appended {
    /// The message's sequence.
    pub seq: u64,
    /// The log had a message with this id already; `seq` is that one's.
    pub duplicate: bool,
}

/// Appends messages in their order, in atomic batches (ADR-50 of NATS): while one is on its way, the next messages
/// wait. The server stores a batch whole or not at all, so no message overtakes an earlier one. Of messages that do not
/// wait, a cluster may reject one and accept the next, while it elects a leader.
///
/// Where the server does not acknowledge a batch, its messages are sent again, one at a time: because one of them is in
/// the log already, or because the stream takes no batches, or because the connection was lost. A message whose
/// acknowledgement was lost may be in the log twice, under one id. Every fold ignores the repetition.
///
/// What waits is sent, and a failure is noticed, in the next call: flush before a pause.
#[derive(Debug)]
pub struct Appender {
    log: Log,
    waiting: VecDeque<Outgoing>,
    /// Of their payloads.
    waiting_bytes: usize,
    /// What was sent and is not acknowledged.
    sent: VecDeque<Outgoing>,
    /// The acknowledgement of all in `sent`. Without it, they are sent one at a time.
    ack: Option<PendingAck>,
    acknowledged: Vec<Appended>,
}

/// The acknowledgement to come of a batch, and the connection that it was sent on.
pub(super) struct PendingAck {
    ack: Ack,
    log: Log,
    connection_number: u64,
}

impl Log {
    /// An appender.
    pub fn appender(&self) -> Appender {
        Appender {
            log: self.clone(),
            waiting: VecDeque::new(),
            waiting_bytes: 0,
            sent: VecDeque::new(),
            ack: None,
            acknowledged: Vec::new(),
        }
    }

    /// Sends a message, or several as a batch.
    pub(super) async fn publish(&self, messages: Vec<OutboundMessage>) -> LogResult<PendingAck> {
        let connection_number = self.connection_number();
        let sent = self.server.publish(messages).await;
        Ok(PendingAck {
            ack: sent.map_err(|error| failure(self, &error))?,
            log: self.clone(),
            connection_number,
        })
    }

    /// Appends one message and awaits its acknowledgement.
    ///
    /// # Errors
    /// As [`Appender::append`].
    pub async fn append(&self, outgoing: Outgoing) -> LogResult<Appended> {
        self.deliver(&outgoing, None).await
    }

    /// Appends one message and awaits its acknowledgement, without retries. `after` is the sequence that the last
    /// message on its subject must have, 0 for none.
    ///
    /// # Errors
    /// Returns the [`LogError`] of the first failure.
    pub async fn append_once(&self, message: &Outgoing, after: Option<u64>) -> LogResult<Appended> {
        let sent = self.send(message, after).await;
        await_ack(&message.subject, sent).await
    }

    /// Appends one message if the last one on its subject has the sequence `last_seq`, 0 for none, and awaits its
    /// acknowledgement. Of several writers that expect the same sequence, one succeeds.
    ///
    /// # Errors
    /// As [`Appender::append`], and [`LogError::Conflict`] if the subject has a later message.
    pub async fn append_expecting(
        &self,
        stream: StreamName,
        outgoing: Outgoing,
        last_seq: u64,
    ) -> LogResult<Appended> {
        let mut attempts = Attempts::new(BACKOFF, RETRY_FOR);
        loop {
            match self.deliver(&outgoing, Some(last_seq)).await {
                Err(LogError::Conflict) => {}
                outcome => return outcome,
            }
            // Where the first acknowledgement was lost, a retry conflicts with the message itself.
            match self.last_of_leader(stream, &outgoing.subject).await {
                Ok(Some(last)) if last.id() == outgoing.id => {
                    return Ok(Appended {
                        seq: last.seq,
                        duplicate: true,
                    });
                }
                Ok(Some(last)) if last.seq > last_seq => return Err(LogError::Conflict),
                Ok(_) if !self.is_clustered() => return Err(LogError::Conflict),
                Err(error) if error.is_permanent() => return Err(error),
                // A conflict with a message that is not there: one of both answers is that of a server of a cluster
                // that has not all messages. So the message may be in the log, or there may be room for it.
                answer => tracing::debug!(?answer, "the log does not explain a conflict"),
            }
            if !attempts.wait().await {
                return Err(LogError::Conflict);
            }
        }
    }
}

impl Appender {
    /// Sends a message with those that wait, unless others are on their way.
    ///
    /// # Errors
    /// Returns the error of this message or of an earlier one: [`LogError::TooLarge`] and [`LogError::Denied`] at once,
    /// any other after a minute of retries.
    pub async fn append(&mut self, outgoing: Outgoing) -> LogResult<()> {
        let bytes = outgoing.payload.len();
        while self.waiting.len() == BATCH_MESSAGES_MAX
            || !self.waiting.is_empty() && self.waiting_bytes + bytes > BATCH_BYTES_MAX
        {
            self.send_waiting().await?;
        }
        self.waiting_bytes += bytes;
        self.waiting.push_back(outgoing);
        // Unconstrained: tokio's cooperative budget would hide what has arrived.
        let answer = unconstrained(self.await_ack()).now_or_never();
        match answer {
            Some(()) => self.send_waiting().await,
            None => Ok(()),
        }
    }

    /// Takes the acknowledgements since the last call, in the order of the messages.
    pub fn take_done(&mut self) -> Vec<Appended> {
        std::mem::take(&mut self.acknowledged)
    }

    /// Waits until every message is acknowledged.
    ///
    /// # Errors
    /// As [`Appender::append`].
    pub async fn flush(&mut self) -> LogResult<()> {
        while !(self.sent.is_empty() && self.waiting.is_empty()) {
            self.send_waiting().await?;
        }
        Ok(())
    }

    /// Waits until every message is acknowledged, and returns the acknowledgements since the last
    /// [`take_done`](Self::take_done).
    ///
    /// # Errors
    /// As [`Appender::append`].
    pub async fn finish(mut self) -> LogResult<Vec<Appended>> {
        self.flush().await?;
        Ok(self.acknowledged)
    }

    /// Waits until what was sent is acknowledged, and sends what waits: all of it, or the first of a few messages.
    async fn send_waiting(&mut self) -> LogResult<()> {
        self.await_ack().await;
        while let Some(oldest) = self.sent.front() {
            let outcome = self.log.deliver(oldest, None).await;
            self.sent.pop_front();
            self.acknowledged.push(outcome?);
        }
        let count = match self.waiting.len() {
            few @ ..BATCH_MESSAGES_MIN => few.min(1),
            many => many,
        };
        self.sent = self.waiting.drain(..count).collect();
        self.waiting_bytes -= self.sent.iter().map(|m| m.payload.len()).sum::<usize>();
        if !self.sent.is_empty() {
            let sent = self.log.publish(batch(&self.sent)).await;
            self.ack = sent.inspect_err(|error| self.log_resend(error)).ok();
        }
        Ok(())
    }

    /// Waits for the acknowledgement of what was sent, if one is to come.
    async fn await_ack(&mut self) {
        let Some(ack) = &mut self.ack else { return };
        let sent = &self.sent;
        let is_sent = |denied: &str| sent.iter().any(|message| message.subject == denied);
        let outcome = ack.outcome(is_sent).await;
        self.ack = None;
        match outcome {
            // The sequences of a batch have no others between them.
            Ok(last) if !last.duplicate => {
                let first = (last.seq + 1).saturating_sub(self.sent.len() as u64);
                let acknowledged = self.sent.drain(..).zip(first..).map(|(_, seq)| Appended {
                    seq,
                    duplicate: false,
                });
                self.acknowledged.extend(acknowledged);
            }
            // It may be another message with its id.
            Ok(_) => {}
            Err(error) => self.log_resend(&error),
        }
    }

    fn log_resend(&self, error: &LogError) {
        let messages = self.sent.len();
        tracing::debug!(%error, messages, "resending unacknowledged messages");
    }
}

impl Log {
    /// Sends a message until it is acknowledged, for a minute; under another id if its own is taken.
    async fn deliver(&self, outgoing: &Outgoing, after: Option<u64>) -> LogResult<Appended> {
        let mut attempts = Attempts::new(BACKOFF, RETRY_FOR);
        let mut under_another_id = None;
        loop {
            let outgoing = under_another_id.as_ref().unwrap_or(outgoing);
            let sent = self.send(outgoing, after).await;
            match await_ack(&outgoing.subject, sent).await {
                Err(error @ LogError::IdTaken(_)) if under_another_id.is_none() => {
                    tracing::warn!(%error, "publishing under another id");
                    let other = outgoing.clone();
                    under_another_id = Some(Outgoing::once(other.subject, other.payload));
                }
                Err(error) if !error.is_permanent() && attempts.wait().await => {}
                outcome => return outcome,
            }
        }
    }

    async fn send(&self, outgoing: &Outgoing, after: Option<u64>) -> LogResult<PendingAck> {
        let mut headers = outgoing.headers();
        if let Some(seq) = after.map(HeaderValue::from) {
            headers.insert(NATS_EXPECTED_LAST_SUBJECT_SEQUENCE, seq);
        }
        self.publish(vec![outgoing.message(headers)]).await
    }
}

/// Messages that the server stores together, or one by itself.
fn batch(messages: &VecDeque<Outgoing>) -> Vec<OutboundMessage> {
    let id = Uuid::now_v7().simple().to_string();
    // Its random part: the log keeps the headers.
    let (_, id) = id.split_at(20);
    let in_batch = |(outgoing, number): (&Outgoing, usize)| {
        let mut headers = outgoing.headers();
        if messages.len() > 1 {
            headers.insert(NATS_BATCH_ID, id);
            headers.insert(NATS_BATCH_SEQUENCE, HeaderValue::from(number));
        }
        if messages.len() == number && number > 1 {
            headers.insert(NATS_BATCH_COMMIT, NATS_BATCH_COMMIT_FINAL);
        }
        outgoing.message(headers)
    };
    messages.iter().zip(1..).map(in_batch).collect()
}

impl fmt::Debug for PendingAck {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PendingAck").finish_non_exhaustive()
    }
}

impl PendingAck {
    /// Waits until the connection is lost, and the acknowledgement with it.
    async fn outcome(&mut self, is_sent: impl Fn(&str) -> bool) -> LogResult<Appended> {
        let log = &self.log;
        tokio::select! {
            biased;
            ack = &mut self.ack => acknowledged(log, ack),
            denied = log.permissions.denied(is_sent) => Err(denied),
            () = log.reconnected(self.connection_number) => {
                Err(LogError::Unreachable("the connection was lost".to_owned()))
            }
        }
    }
}

/// Waits for the acknowledgement of one message.
pub(super) async fn await_ack(subject: &str, sent: LogResult<PendingAck>) -> LogResult<Appended> {
    let mut pending = sent?;
    let outcome = pending.outcome(|denied| denied == subject).await;
    check_own(&pending.log, subject, outcome).await
}

/// Checks that the log has this message, and not another one under its id. The server looks for the id on all subjects,
/// and all feeders write to one stream.
///
/// # Errors
/// Returns [`LogError::IdTaken`], the error of the request, and that of the outcome.
async fn check_own(log: &Log, subject: &str, outcome: LogResult<Appended>) -> LogResult<Appended> {
    let appended = outcome?;
    let is_shared = subject.starts_with(events::SUBJECTS.trim_end_matches('>'));
    let may_be_other = appended.duplicate && is_shared;
    let is_own = !may_be_other || log.is_on(RACING, subject, appended.seq).await?;
    let id_taken = || LogError::IdTaken(subject.to_owned());
    is_own.then_some(appended).ok_or_else(id_taken)
}

fn acknowledged(log: &Log, ack: Result<PublishAck, PublishError>) -> LogResult<Appended> {
    let ack = ack.map_err(|error| failure(log, &error))?;
    Ok(Appended {
        seq: ack.sequence,
        duplicate: ack.duplicate,
    })
}

/// The failure of a message.
fn failure(log: &Log, error: &PublishError) -> LogError {
    match error.kind() {
        PublishErrorKind::MaxPayloadExceeded => LogError::TooLarge,
        PublishErrorKind::WrongLastSequence => LogError::Conflict,
        PublishErrorKind::TimedOut if log.status.borrow().up => {
            LogError::JetStream(NOT_ACKNOWLEDGED.to_owned())
        }
        _ => match full(error) {
            Some(reason) => LogError::Full(reason),
            None => log.jetstream_error(error),
        },
    }
}

/// Why a server has no room for a message, if that is the error.
fn full(error: &PublishError) -> Option<String> {
    let error: &jetstream::Error = error.source()?.downcast_ref()?;
    let is_full = match error.error_code() {
        ErrorCode::INSUFFICIENT_RESOURCES => true,
        // A server that shuts down fails to store, too, and another one of its cluster then stores the message.
        ErrorCode::STREAM_STORE_FAILED => error.to_string().contains(AT_LIMIT),
        _ => false,
    };
    is_full.then(|| error.to_string())
}
