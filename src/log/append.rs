//! [`Appender`]: writes to the log, many at a time, and loses no acknowledgement.

use std::collections::VecDeque;
use std::time::Duration;

use async_nats::HeaderMap;
use async_nats::jetstream::context::{PublishAckFuture, PublishError, PublishErrorKind};
use events::Envelope;
use tokio::time::{Instant, sleep};

use super::{Log, LogError, backoff};

/// How long a message is tried again while the server is away or elects a leader.
const RETRY_FOR: Duration = Duration::from_secs(60);

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
        Self { subject: envelope.event.subject().to_string(), id: envelope.id.clone(), payload: envelope.encode() }
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
/// When one fails, those behind it are awaited, and what failed is sent again in its order, one at a time.
#[derive(Debug)]
pub struct Appender {
    log: Log,
    window: usize,
    in_flight: VecDeque<(Outgoing, Result<PublishAckFuture, PublishError>)>,
    done: Vec<Appended>,
}

impl Appender {
    pub(super) fn new(log: Log, window: usize) -> Self {
        Self { log, window, in_flight: VecDeque::with_capacity(window), done: Vec::new() }
    }

    /// Sends a message, and waits for the oldest one if the window is full.
    ///
    /// # Errors
    /// A message was not taken within [`RETRY_FOR`], or never will be.
    pub async fn append(&mut self, outgoing: Outgoing) -> Result<(), LogError> {
        if self.in_flight.len() >= self.window {
            self.settle_oldest().await?;
        }
        let sent = send(&self.log, &outgoing).await;
        self.in_flight.push_back((outgoing, sent));
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
        let Some((outgoing, sent)) = self.in_flight.pop_front() else { return Ok(()) };
        match acknowledged(sent).await {
            Ok(appended) => self.done.push(appended),
            Err(error) => self.send_again(outgoing, error).await?,
        }
        Ok(())
    }

    async fn send_again(&mut self, first: Outgoing, error: PublishError) -> Result<(), LogError> {
        let mut failed = vec![(first, error)];
        for (outgoing, sent) in std::mem::take(&mut self.in_flight) {
            match acknowledged(sent).await {
                Ok(appended) => self.done.push(appended),
                Err(error) => failed.push((outgoing, error)),
            }
        }
        for (outgoing, error) in failed {
            let appended = self.insist(&outgoing, error).await?;
            self.done.push(appended);
        }
        Ok(())
    }

    async fn insist(&self, outgoing: &Outgoing, mut error: PublishError) -> Result<Appended, LogError> {
        let until = Instant::now() + RETRY_FOR;
        for attempt in 0.. {
            if let Some(denied) = self.log.take_denied() {
                return Err(LogError::Denied(denied));
            }
            match error.kind() {
                PublishErrorKind::MaxPayloadExceeded => return Err(LogError::TooLarge),
                _ if Instant::now() >= until => return Err(self.log.jetstream_error(&error)),
                _ => sleep(backoff(Duration::from_millis(100), attempt, Duration::from_secs(5))).await,
            }
            match acknowledged(send(&self.log, outgoing).await).await {
                Ok(appended) => return Ok(appended),
                Err(again) => error = again,
            }
        }
        Err(self.log.jetstream_error(&error))
    }
}

async fn send(log: &Log, outgoing: &Outgoing) -> Result<PublishAckFuture, PublishError> {
    let mut headers = HeaderMap::new();
    headers.insert("Nats-Msg-Id", outgoing.id.as_str());
    log.jetstream.publish_with_headers(outgoing.subject.clone(), headers, outgoing.payload.clone().into()).await
}

async fn acknowledged(sent: Result<PublishAckFuture, PublishError>) -> Result<Appended, PublishError> {
    let ack = sent?.await?;
    Ok(Appended { seq: ack.sequence, duplicate: ack.duplicate })
}
