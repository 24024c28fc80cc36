//! [`Appender`]: writes to the log, many at a time, and loses no acknowledgement.

use std::collections::VecDeque;
use std::time::Duration;

use async_nats::HeaderMap;
use async_nats::jetstream::context::{PublishAckFuture, PublishError, PublishErrorKind};
use events::Envelope;
use futures::future::join_all;
use tokio::time::{Instant, sleep};

use super::{Log, LogError, backoff};

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

/// Appends messages, with a bounded number under way at a time, and one at a time about each race or horse.
///
/// While the server is away or elects a leader, a message may be lost and the next one taken. So what is said of a race
/// waits for what was said of it before: it stands in the log in that order. When a message fails, the others under way
/// are awaited, and what failed is sent again. A message whose acknowledgement was lost may stand in the log twice, under
/// one id: a fact said twice is harmless.
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

    /// Sends a message, and waits for the oldest ones while the window is full or one of them is about the same race.
    ///
    /// # Errors
    /// A message was not taken within a minute, or never will be.
    pub async fn append(&mut self, outgoing: Outgoing) -> Result<(), LogError> {
        while self.in_flight.len() >= self.window || self.is_under_way(about(&outgoing.subject)) {
            self.settle_oldest().await?;
        }
        let sent = send(&self.log, outgoing).await;
        self.in_flight.push_back(sent);
        Ok(())
    }

    fn is_under_way(&self, about: &str) -> bool {
        let mut subjects = self.in_flight.iter().map(|sent| &sent.outgoing.subject);
        subjects.any(|subject| self::about(subject) == about)
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
            let appended = insist(&self.log, outgoing).await?;
            self.done.push(appended);
        }
        Ok(())
    }
}

/// The race or the horse that a subject is about: `2026-11-21.ST.3` in `racing.odds.2026-11-21.ST.3`.
fn about(subject: &str) -> &str {
    subject.splitn(3, '.').last().unwrap_or(subject)
}

/// Sends a message until it is taken, for a bounded time.
async fn insist(log: &Log, mut outgoing: Outgoing) -> Result<Appended, LogError> {
    let until = Instant::now() + RETRY_FOR;
    let mut attempt = 0;
    loop {
        let sent = send(log, outgoing).await;
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

async fn send(log: &Log, outgoing: Outgoing) -> InFlight {
    let mut headers = HeaderMap::new();
    headers.insert("Nats-Msg-Id", outgoing.id.as_str());
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
