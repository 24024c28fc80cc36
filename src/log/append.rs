//! [`Appender`]: writes to the log, many at a time, and loses no acknowledgement.

use std::collections::VecDeque;
use std::time::Duration;

use async_nats::header::{NATS_EXPECTED_LAST_SUBJECT_SEQUENCE, NATS_MESSAGE_ID};
use async_nats::jetstream::context::{PublishAckFuture, PublishError, PublishErrorKind};
use async_nats::{HeaderMap, HeaderValue};
use events::Envelope;
use futures::future::join_all;
use tokio::time::{Instant, sleep};

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
/// When one fails, those behind it are awaited, and what failed is sent again in its order, one at a time. A message
/// whose acknowledgement was lost may stand in the log twice, under one id: a fact said twice is harmless.
#[derive(Debug)]
pub struct Appender {
    log: Log,
    window: usize,
    in_flight: VecDeque<InFlight>,
    done: Vec<Appended>,
}

#[derive(Debug)]
struct InFlight {
    outgoing: Outgoing,
    sent: Result<PublishAckFuture, PublishError>,
    /// The connection that it was sent on.
    epoch: u64,
}

/// Why a message is not acknowledged.
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
            done: Vec::new(),
        }
    }

    /// Sends a message, and waits for the oldest one if the window is full.
    ///
    /// # Errors
    /// A message was not taken within a minute, or never will be.
    pub async fn append(&mut self, outgoing: Outgoing) -> Result<(), LogError> {
        if self.in_flight.len() >= self.window {
            self.settle_oldest().await?;
        }
        let sent = send(&self.log, outgoing, None).await;
        self.in_flight.push_back(sent);
        Ok(())
    }

    /// What was acknowledged since the last call, in order.
    pub fn take_done(&mut self) -> Vec<Appended> {
        std::mem::take(&mut self.done)
    }

    /// Waits for every message.
    ///
    /// # Errors
    /// As [`Appender::append`].
    pub async fn settle(&mut self) -> Result<(), LogError> {
        while !self.in_flight.is_empty() {
            self.settle_oldest().await?;
        }
        Ok(())
    }

    /// Waits for every message, and hands out what was acknowledged since it was last asked.
    ///
    /// # Errors
    /// As [`Appender::append`].
    pub async fn finish(mut self) -> Result<Vec<Appended>, LogError> {
        self.settle().await?;
        Ok(self.done)
    }

    async fn settle_oldest(&mut self) -> Result<(), LogError> {
        let Some(oldest) = self.in_flight.pop_front() else {
            return Ok(());
        };
        match acknowledged(&self.log, oldest).await {
            (_, Ok(appended)) => self.done.push(appended),
            (_, Err(Failure::Final(error))) => return Err(error),
            (outgoing, Err(Failure::Passing(error))) => self.send_again(outgoing, error).await?,
        }
        Ok(())
    }

    async fn send_again(&mut self, first: Outgoing, error: LogError) -> Result<(), LogError> {
        tracing::debug!(%error, "sending again what was not acknowledged");
        let mut failed = vec![first];
        let behind = std::mem::take(&mut self.in_flight)
            .into_iter()
            .map(|sent| acknowledged(&self.log, sent));
        for (outgoing, outcome) in join_all(behind).await {
            match outcome {
                Ok(appended) => self.done.push(appended),
                Err(Failure::Final(error)) => return Err(error),
                Err(Failure::Passing(_)) => failed.push(outgoing),
            }
        }
        for outgoing in failed {
            let appended = insist(&self.log, outgoing, None).await?;
            self.done.push(appended);
        }
        Ok(())
    }
}

/// Appends a message behind a place on its subject, and nowhere else.
///
/// Its acknowledgement may be lost, and the message refused when it is sent again, behind itself.
pub(super) async fn append_behind(
    log: &Log,
    stream: StreamName,
    outgoing: Outgoing,
    last_seq: u64,
) -> Result<Appended, LogError> {
    let id = outgoing.id.clone();
    match insist(log, outgoing, Some(last_seq)).await {
        Err(LogError::Conflict(subject)) => match log.last(stream, &subject).await? {
            Some(last) if last.id == id => Ok(Appended {
                seq: last.seq,
                duplicate: true,
            }),
            _ => Err(LogError::Conflict(subject)),
        },
        outcome => outcome,
    }
}

/// Sends a message until it is taken, for a bounded time.
async fn insist(
    log: &Log,
    mut outgoing: Outgoing,
    behind: Option<u64>,
) -> Result<Appended, LogError> {
    let until = Instant::now() + RETRY_FOR;
    let mut attempt = 0;
    loop {
        let sent = send(log, outgoing, behind).await;
        match acknowledged(log, sent).await {
            (_, Ok(appended)) => return Ok(appended),
            (_, Err(Failure::Final(error))) => return Err(error),
            (_, Err(Failure::Passing(error))) if Instant::now() >= until => return Err(error),
            (again, Err(Failure::Passing(_))) => outgoing = again,
        }
        sleep(backoff(RETRY_MIN, attempt, RETRY_MAX)).await;
        attempt += 1;
    }
}

async fn send(log: &Log, outgoing: Outgoing, behind: Option<u64>) -> InFlight {
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
    InFlight {
        outgoing,
        sent,
        epoch,
    }
}

/// Waits for an acknowledgement, and not beyond a reconnect: the old connection took it along.
async fn acknowledged(log: &Log, in_flight: InFlight) -> (Outgoing, Result<Appended, Failure>) {
    let InFlight {
        outgoing,
        sent,
        epoch,
    } = in_flight;
    let failure = |error: PublishError| match error.kind() {
        PublishErrorKind::MaxPayloadExceeded => Failure::Final(LogError::TooLarge),
        PublishErrorKind::WrongLastSequence => {
            Failure::Final(LogError::Conflict(outgoing.subject.clone()))
        }
        _ => match log.jetstream_error(&error) {
            denied @ LogError::Denied(_) => Failure::Final(denied),
            error => Failure::Passing(error),
        },
    };
    let outcome = match sent {
        Err(error) => Err(failure(error)),
        Ok(ack) => tokio::select! {
            biased;
            ack = ack => ack.map(|ack| Appended { seq: ack.sequence, duplicate: ack.duplicate }).map_err(failure),
            denied = log.denied(&outgoing.subject) => Err(Failure::Final(LogError::Denied(denied))),
            () = log.reconnected(epoch) => Err(Failure::Passing(LogError::Unreachable("the connection was lost".to_owned()))),
        },
    };
    (outgoing, outcome)
}
