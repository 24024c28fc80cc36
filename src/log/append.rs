//! [`Appender`]: writes to the log, many at a time, and loses no acknowledgement.

use std::collections::VecDeque;
use std::time::Duration;

use async_nats::header::{NATS_EXPECTED_LAST_SUBJECT_SEQUENCE, NATS_MESSAGE_ID};
use async_nats::jetstream::context::{PublishAckFuture, PublishError, PublishErrorKind};
use async_nats::{HeaderMap, HeaderValue};
use events::Envelope;
use futures::future::join_all;
use tokio::time::{Instant, sleep};

use super::one_shot::OneShotConnection;
use super::{Log, LogError, StreamName, backoff};

/// How long a message is tried again while the server is away or elects a leader.
const RETRY_FOR: Duration = Duration::from_secs(60);
/// The first wait before a message is sent again; it doubles up to [`RETRY_MAX`].
const RETRY_MIN: Duration = Duration::from_millis(50);
const RETRY_MAX: Duration = Duration::from_secs(5);

/// A message on its way to the log.
#[derive(Debug, Clone)]
pub struct Outgoing {
    /// Where it belongs.
    pub subject: String,
    /// Its identity: the server drops a second one with the same within its window.
    pub id: String,
    /// What it says.
    pub payload: Vec<u8>,
}

impl From<&Envelope> for Outgoing {
    fn from(envelope: &Envelope) -> Self {
        Self {
            subject: envelope.event.subject().to_string(),
            id: envelope.id.clone(),
            payload: envelope.encode(),
        }
    }
}

/// A message that the log has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Appended {
    /// Its place.
    pub seq: u64,
    /// The log had it already.
    pub duplicate: bool,
}

/// Appends messages in order, with a bounded number under way at a time.
///
/// When one fails, the others under way are awaited, and what failed is sent again in its order, one at a time. A message
/// whose acknowledgement was lost may stand in the log twice, under one id: a fact said twice is harmless.
///
/// While a cluster elects a leader, a message may be refused and the next one taken. So what is said of a race waits for what
/// was said of it before. Only quotes are under way together: they have a time that puts them right.
#[derive(Debug)]
pub struct Appender {
    log: Log,
    window: usize,
    /// Dropped before the line, which answers what is under way.
    in_flight: VecDeque<InFlight>,
    /// Where messages are sent, if more than one may be under way.
    line: Option<OneShotConnection>,
    done: Vec<Appended>,
}

#[derive(Debug)]
struct InFlight {
    outgoing: Outgoing,
    sent: Result<Sent, Failure>,
}

/// A message that was sent, and on which connection.
#[derive(Debug)]
struct Sent {
    ack: PublishAckFuture,
    log: Log,
    epoch: u64,
}

/// Why a message is not acknowledged.
#[derive(Debug)]
enum Failure {
    /// It will never be.
    Final(LogError),
    /// It may be, when it is sent again.
    Passing(LogError),
}

impl Appender {
    pub(super) fn new(log: Log, window: usize) -> Self {
        Self {
            log,
            window,
            in_flight: VecDeque::with_capacity(window),
            line: None,
            done: Vec::new(),
        }
    }

    /// Sends a message, and waits for the oldest ones while the window is full or one of them is about the same race.
    ///
    /// # Errors
    /// A message was not taken within a minute, or never will be.
    pub async fn append(&mut self, outgoing: Outgoing) -> Result<(), LogError> {
        while self.in_flight.len() >= self.window || self.has_to_wait(&outgoing.subject) {
            self.await_oldest().await?;
        }
        if self.line.as_ref().is_some_and(OneShotConnection::is_lost) {
            // What was sent on it comes first.
            self.flush().await?;
        }
        let sent = self.send(&outgoing, None).await;
        self.in_flight.push_back(InFlight { outgoing, sent });
        Ok(())
    }

    fn has_to_wait(&self, subject: &str) -> bool {
        let is_quote = is_quote(subject);
        let mut under_way = self.in_flight.iter().map(|sent| &*sent.outgoing.subject);
        under_way
            .any(|other| !(is_quote && self::is_quote(other)) && about(other) == about(subject))
    }

    /// What was acknowledged since the last call, in order.
    pub fn take_done(&mut self) -> Vec<Appended> {
        std::mem::take(&mut self.done)
    }

    /// Waits for every message.
    ///
    /// # Errors
    /// As [`Appender::append`].
    pub async fn flush(&mut self) -> Result<(), LogError> {
        while !self.in_flight.is_empty() {
            self.await_oldest().await?;
        }
        Ok(())
    }

    /// Waits for every message, and hands out what was acknowledged since it was last asked.
    ///
    /// # Errors
    /// As [`Appender::append`].
    pub async fn finish(mut self) -> Result<Vec<Appended>, LogError> {
        self.flush().await?;
        Ok(self.done)
    }

    async fn await_oldest(&mut self) -> Result<(), LogError> {
        let Some(InFlight { outgoing, sent }) = self.in_flight.pop_front() else {
            return Ok(());
        };
        match acknowledged(&outgoing, sent).await {
            Ok(appended) => self.done.push(appended),
            Err(Failure::Final(error)) => return Err(error),
            Err(Failure::Passing(error)) => self.send_again(outgoing, error).await?,
        }
        Ok(())
    }

    async fn send_again(&mut self, first: Outgoing, error: LogError) -> Result<(), LogError> {
        tracing::debug!(%error, "sending again what was not acknowledged");
        let mut failed = vec![first];
        let behind = std::mem::take(&mut self.in_flight).into_iter().map(
            |InFlight { outgoing, sent }| async move {
                let outcome = acknowledged(&outgoing, sent).await;
                (outgoing, outcome)
            },
        );
        for (outgoing, outcome) in join_all(behind).await {
            match outcome {
                Ok(appended) => self.done.push(appended),
                Err(Failure::Final(error)) => return Err(error),
                Err(Failure::Passing(_)) => failed.push(outgoing),
            }
        }
        for outgoing in failed {
            let appended = self.insist(&outgoing, None).await?;
            self.done.push(appended);
        }
        Ok(())
    }

    /// Appends a message behind a place on its subject, and nowhere else.
    ///
    /// Its acknowledgement may be lost, and the message refused when it is sent again, behind itself.
    pub(super) async fn append_expecting(
        &mut self,
        stream: StreamName,
        outgoing: &Outgoing,
        last_seq: u64,
    ) -> Result<Appended, LogError> {
        match self.insist(outgoing, Some(last_seq)).await {
            Err(LogError::Conflict) => match self.log.last(stream, &outgoing.subject).await? {
                Some(last) if last.id == outgoing.id => Ok(Appended {
                    seq: last.seq,
                    duplicate: true,
                }),
                _ => Err(LogError::Conflict),
            },
            outcome => outcome,
        }
    }

    /// Sends a message until it is taken, for a bounded time.
    async fn insist(
        &mut self,
        outgoing: &Outgoing,
        behind: Option<u64>,
    ) -> Result<Appended, LogError> {
        let until = Instant::now() + RETRY_FOR;
        let mut attempt = 0;
        loop {
            let sent = self.send(outgoing, behind).await;
            match acknowledged(outgoing, sent).await {
                Ok(appended) => return Ok(appended),
                Err(Failure::Final(error)) => return Err(error),
                Err(Failure::Passing(error)) if Instant::now() >= until => return Err(error),
                Err(Failure::Passing(_)) => {}
            }
            sleep(backoff(RETRY_MIN, attempt, RETRY_MAX)).await;
            attempt += 1;
        }
    }

    async fn send(&mut self, outgoing: &Outgoing, behind: Option<u64>) -> Result<Sent, Failure> {
        let log = self.way().await.map_err(Failure::Passing)?.clone();
        let mut headers = HeaderMap::new();
        headers.insert(NATS_MESSAGE_ID, outgoing.id.as_str());
        if let Some(last_seq) = behind {
            headers.insert(
                NATS_EXPECTED_LAST_SUBJECT_SEQUENCE,
                HeaderValue::from(last_seq),
            );
        }
        let epoch = log.connection.borrow().epoch;
        let payload = outgoing.payload.clone().into();
        let sent = log
            .jetstream
            .publish_with_headers(outgoing.subject.clone(), headers, payload)
            .await;
        match sent {
            Ok(ack) => Ok(Sent { ack, log, epoch }),
            Err(error) => Err(failure(&log, &error)),
        }
    }

    /// The connection for the next message. One message at a time needs none of its own: it overtakes nothing.
    async fn way(&mut self) -> Result<&Log, LogError> {
        if self.window == 1 {
            return Ok(&self.log);
        }
        if self.line.as_ref().is_none_or(OneShotConnection::is_lost) {
            self.line = None;
        }
        let line = match self.line.take() {
            Some(line) => line,
            None => OneShotConnection::open(&self.log).await?,
        };
        Ok(self.line.insert(line).log())
    }
}

/// The race or the horse that a subject is about: `2026-11-21.ST.3` in `racing.odds.2026-11-21.ST.3`.
fn about(subject: &str) -> &str {
    subject.splitn(3, '.').last().unwrap_or(subject)
}

fn is_quote(subject: &str) -> bool {
    subject.starts_with("racing.odds.")
}

/// Waits for an acknowledgement, and not beyond the end of the connection, which took it along.
async fn acknowledged(
    outgoing: &Outgoing,
    sent: Result<Sent, Failure>,
) -> Result<Appended, Failure> {
    let Sent { ack, log, epoch } = sent?;
    tokio::select! {
        biased;
        ack = ack => match ack {
            Ok(ack) => Ok(Appended { seq: ack.sequence, duplicate: ack.duplicate }),
            Err(error) => Err(failure(&log, &error)),
        },
        denied = log.denials.of_subject(|subject| subject == outgoing.subject) => Err(Failure::Final(denied)),
        () = log.lost(epoch) => Err(Failure::Passing(LogError::Unreachable("the connection was lost".to_owned()))),
    }
}

fn failure(log: &Log, error: &PublishError) -> Failure {
    match error.kind() {
        PublishErrorKind::MaxPayloadExceeded => Failure::Final(LogError::TooLarge),
        PublishErrorKind::WrongLastSequence => Failure::Final(LogError::Conflict),
        _ => Failure::Passing(log.jetstream_error(error)),
    }
}
