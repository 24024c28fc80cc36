//! [`Appender`]: publishes to the log, many messages at a time, and loses no acknowledgement.

use std::collections::VecDeque;
use std::error::Error;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use async_nats::header::{NATS_EXPECTED_LAST_SUBJECT_SEQUENCE, NATS_MESSAGE_ID};
use async_nats::jetstream::context::{PublishError, PublishErrorKind};
use async_nats::jetstream::publish::PublishAck;
use async_nats::jetstream::{self, ErrorCode};
use async_nats::{HeaderMap, HeaderValue};
use bytes::Bytes;
use events::{Envelope, Moment};
use futures::stream::FuturesOrdered;
use futures::{FutureExt, StreamExt};
use serde::Deserialize;
use serde::de::IgnoredAny;
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

/// Appends messages in order, with a bounded number in flight.
///
/// When one fails, the appender awaits all others in flight, then sends the failed ones again in their order, one at a
/// time. Nothing is sent while a message in flight has failed or may have: not after the first failure, and on no
/// other connection. A message whose acknowledgement was lost may be in the log twice, under one id. Every fold ignores
/// the repetition.
///
/// A failure is noticed, and repaired, in the next call: flush before a pause.
///
/// While a cluster elects a leader, the server may reject a message and accept the next one. So a message about a race
/// waits for the earlier messages about that race. Only quotes may be in flight together, each of a later time than the
/// one before and with all that it says: a fold orders them by their time, so the earlier one is then only history.
#[derive(Debug)]
pub struct Appender {
    log: Log,
    window: usize,
    in_flight: VecDeque<InFlight>,
    /// Their acknowledgements, in their order. Dropped before the connection, whose runtime answers them.
    acks: FuturesOrdered<Ack>,
    /// One of these is a failure.
    has_failed: Arc<AtomicBool>,
    /// Where messages are sent if more than one may be in flight: all of these.
    connection: Option<Log>,
    acknowledged: Vec<Appended>,
}

#[derive(Debug)]
struct InFlight {
    outgoing: Outgoing,
    quote: Option<QuoteContent>,
    /// The connection that it was sent on.
    connection_number: u64,
}

/// The acknowledgement to come of a message, and the connection that it was sent on.
pub(super) struct PendingAck {
    ack: Ack,
    log: Log,
    connection_number: u64,
}

impl Log {
    /// An appender with up to `window` messages in flight.
    pub fn appender(&self, window: usize) -> Appender {
        Appender {
            log: self.clone(),
            window,
            in_flight: VecDeque::with_capacity(window),
            acks: FuturesOrdered::new(),
            has_failed: Arc::default(),
            connection: None,
            acknowledged: Vec::new(),
        }
    }

    /// Sends a message.
    pub(super) async fn publish(
        &self,
        subject: String,
        headers: HeaderMap,
        payload: Bytes,
    ) -> LogResult<PendingAck> {
        let connection_number = self.connection_number();
        let sent = self.server.publish(subject, headers, payload).await;
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
        self.appender(1).deliver(&outgoing, None).await
    }

    /// Appends one message and awaits its acknowledgement, without retries. `after` is the sequence that the last
    /// message on its subject must have, 0 for none.
    ///
    /// # Errors
    /// Returns the [`LogError`] of the first failure.
    pub async fn append_once(&self, message: &Outgoing, after: Option<u64>) -> LogResult<Appended> {
        let sent = self.appender(1).send(message, after).await;
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
        let mut appender = self.appender(1);
        let mut attempts = Attempts::new(BACKOFF, RETRY_FOR);
        loop {
            match appender.deliver(&outgoing, Some(last_seq)).await {
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
    /// Sends a message, once there is room in the window and no earlier message about the same race is in flight.
    ///
    /// # Errors
    /// Returns the error of this message or of an earlier one: [`LogError::TooLarge`] and [`LogError::Denied`] at once,
    /// any other after a minute of retries.
    pub async fn append(&mut self, outgoing: Outgoing) -> LogResult<()> {
        let quote = QuoteContent::of(&outgoing);
        while self.in_flight.len() >= self.window
            || self.must_wait(&outgoing.subject, quote.as_ref())
        {
            self.await_oldest().await?;
        }
        while !self.in_flight.is_empty() {
            // Unconstrained: tokio's cooperative budget would hide what has arrived.
            let arrived = unconstrained(self.outcome_of_oldest()).now_or_never();
            let Some(outcome) = arrived else { break };
            self.complete_oldest(outcome).await?;
        }
        if self.has_failed.load(Ordering::Relaxed) {
            self.flush().await?;
        }
        match self.send(&outgoing, None).await {
            Ok(pending) => {
                let has_failed = Arc::clone(&self.has_failed);
                let ack = pending.ack.inspect(move |ack| {
                    has_failed.fetch_or(ack.is_err(), Ordering::Relaxed);
                });
                self.acks.push_back(Box::pin(ack));
                self.in_flight.push_back(InFlight {
                    outgoing,
                    quote,
                    connection_number: pending.connection_number,
                });
            }
            Err(error) => {
                self.flush().await?;
                if error.is_permanent() {
                    return Err(error);
                }
                let appended = self.deliver(&outgoing, None).await?;
                self.acknowledged.push(appended);
            }
        }
        Ok(())
    }

    /// The last message in flight about a race stands for all of them, as each may overtake the one before.
    fn must_wait(&self, subject: &str, quote: Option<&QuoteContent>) -> bool {
        let mut in_flight = self.in_flight.iter().rev();
        let last = in_flight.find(|other| entity(&other.outgoing.subject) == entity(subject));
        let may_overtake = |last: &InFlight| Some(quote?.has_all_of(last.quote.as_ref()?));
        last.is_some_and(|last| may_overtake(last) != Some(true))
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
        while !self.in_flight.is_empty() {
            self.await_oldest().await?;
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

    async fn await_oldest(&mut self) -> LogResult<()> {
        let outcome = self.outcome_of_oldest().await;
        self.complete_oldest(outcome).await
    }

    /// What becomes of the oldest message in flight. With a lost connection all of them are lost.
    async fn outcome_of_oldest(&mut self) -> LogResult<Appended> {
        let log = self.connection.as_ref().unwrap_or(&self.log);
        let oldest = self.in_flight.front();
        let connection_number = oldest.map_or(0, |oldest| oldest.connection_number);
        let is_sent = |denied: &str| {
            let mut in_flight = self.in_flight.iter();
            in_flight.any(|message| message.outgoing.subject == denied)
        };
        tokio::select! {
            biased;
            Some(ack) = self.acks.next() => acknowledged(log, ack),
            denied = log.permissions.denied(is_sent) => Err(denied),
            () = log.lost(connection_number) => {
                self.acks = FuturesOrdered::new();
                Err(connection_lost())
            }
        }
    }

    /// Takes the oldest message out of flight.
    async fn complete_oldest(&mut self, outcome: LogResult<Appended>) -> LogResult<()> {
        let Some(InFlight { outgoing, .. }) = self.in_flight.pop_front() else {
            return Ok(());
        };
        match check_own(&self.log, &outgoing.subject, outcome).await {
            Ok(appended) => self.acknowledged.push(appended),
            Err(error) if error.is_permanent() => return Err(error),
            Err(error) => self.resend(outgoing, error).await?,
        }
        Ok(())
    }

    /// Awaits everything in flight, then sends what failed again, in order.
    async fn resend(&mut self, first: Outgoing, error: LogError) -> LogResult<()> {
        // In the order of the messages, as their acknowledgements are returned.
        let mut outcomes = vec![Err(first)];
        while !self.in_flight.is_empty() {
            let outcome = self.outcome_of_oldest().await;
            let Some(InFlight { outgoing, .. }) = self.in_flight.pop_front() else {
                break;
            };
            match check_own(&self.log, &outgoing.subject, outcome).await {
                Err(error) if error.is_permanent() => return Err(error),
                outcome => outcomes.push(outcome.map_err(|_| outgoing)),
            }
        }
        self.has_failed.store(false, Ordering::Relaxed);
        let failed = outcomes.iter().filter(|outcome| outcome.is_err()).count();
        tracing::debug!(%error, messages = failed, "resending unacknowledged messages");
        for outcome in outcomes {
            let appended = match outcome {
                Ok(appended) => appended,
                Err(outgoing) => self.deliver(&outgoing, None).await?,
            };
            self.acknowledged.push(appended);
        }
        Ok(())
    }

    /// Sends a message until it is acknowledged, for a minute; under another id if its own is taken.
    async fn deliver(&mut self, outgoing: &Outgoing, after: Option<u64>) -> LogResult<Appended> {
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

    async fn send(&mut self, outgoing: &Outgoing, after: Option<u64>) -> LogResult<PendingAck> {
        let log = self.connected().await?;
        let mut headers = HeaderMap::new();
        headers.insert(NATS_MESSAGE_ID, outgoing.id.as_str());
        if let Some(seq) = after.map(HeaderValue::from) {
            headers.insert(NATS_EXPECTED_LAST_SUBJECT_SEQUENCE, seq);
        }
        let (subject, payload) = (outgoing.subject.clone(), outgoing.payload.clone());
        log.publish(subject, headers, payload.into()).await
    }

    /// The connection for the next message. With one message at a time nothing can be overtaken, so the log's own will
    /// do. A lost one is kept while messages are in flight: on another one, the next would overtake them.
    async fn connected(&mut self) -> LogResult<&Log> {
        if self.window == 1 {
            return Ok(&self.log);
        }
        let may_connect = self.in_flight.is_empty();
        // Taken out while it connects: the caller may drop this future.
        let usable = self.connection.take();
        let usable = usable.filter(|old| !may_connect || old.status.borrow().up);
        let connection = match usable {
            Some(connection) => connection,
            None => self.log.connect_one_shot().await?,
        };
        Ok(self.connection.insert(connection))
    }
}

/// The race or the horse of a subject: `2026-11-21.ST.3` in `racing.odds.2026-11-21.ST.3`.
fn entity(subject: &str) -> &str {
    subject.splitn(3, '.').last().unwrap_or(subject)
}

/// What decides whether a quote may overtake another one.
#[derive(Debug, Deserialize)]
struct QuoteContent {
    time: Moment,
    data: QuoteData,
}

#[derive(Debug, Deserialize)]
struct QuoteData {
    runners: Vec<QuoteRunner>,
}

#[derive(Debug, Deserialize)]
struct QuoteRunner {
    horse_no: String,
    horse_name: Option<IgnoredAny>,
    number: Option<IgnoredAny>,
    place: Option<IgnoredAny>,
}

impl QuoteContent {
    /// `None` of any other message.
    fn of(outgoing: &Outgoing) -> Option<Self> {
        let is_quote = outgoing.subject.starts_with("racing.odds.");
        let quote = is_quote.then(|| serde_json::from_slice(&outgoing.payload));
        quote?.ok()
    }

    /// Whether it is later than another one, and says something of all that the other one does.
    fn has_all_of(&self, earlier: &Self) -> bool {
        let runners = &self.data.runners;
        let mut earlier_runners = earlier.data.runners.iter();
        self.time > earlier.time
            && earlier_runners.all(|earlier| runners.iter().any(|later| later.has_all_of(earlier)))
    }
}

impl QuoteRunner {
    fn has_all_of(&self, earlier: &Self) -> bool {
        let values = |of: &Self| [&of.horse_name, &of.number, &of.place].map(Option::is_some);
        let mut pairs = values(self).into_iter().zip(values(earlier));
        self.horse_no == earlier.horse_no && pairs.all(|(later, earlier)| later || !earlier)
    }
}

/// Waits for an acknowledgement until the connection is lost, and the acknowledgement with it.
pub(super) async fn await_ack(subject: &str, sent: LogResult<PendingAck>) -> LogResult<Appended> {
    let pending = sent?;
    let log = &pending.log;
    let appended = tokio::select! {
        biased;
        ack = pending.ack => acknowledged(log, ack),
        denied = log.permissions.denied(|denied| denied == subject) => Err(denied),
        () = log.lost(pending.connection_number) => Err(connection_lost()),
    };
    check_own(log, subject, appended).await
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

fn connection_lost() -> LogError {
    LogError::Unreachable("the connection was lost".to_owned())
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

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::{Outgoing, QuoteContent};

    fn quote(second: u32, runners: Value) -> QuoteContent {
        let time = format!("2026-11-21T06:00:{second:02}Z");
        let outgoing = Outgoing {
            subject: "racing.odds.2026-11-21.ST.3".to_owned(),
            id: String::new(),
            payload: json!({ "time": time, "data": { "runners": runners } })
                .to_string()
                .into_bytes(),
        };
        QuoteContent::of(&outgoing).expect("a quote")
    }

    #[test]
    fn a_quote_may_overtake_only_what_it_says_as_well() {
        let both =
            json!([{ "horse_no": "A", "win": 2.0 }, { "horse_no": "B", "win": 3.0, "place": 1.2 }]);
        let earlier = quote(1, both.clone());
        assert!(quote(2, both.clone()).has_all_of(&earlier));
        assert!(!quote(1, both).has_all_of(&earlier), "of the same time");
        for part in [
            json!([{ "horse_no": "A", "win": 2.0 }]),
            json!([{ "horse_no": "A", "win": 2.0 }, { "horse_no": "B", "win": 3.0 }]),
        ] {
            assert!(!quote(2, part.clone()).has_all_of(&earlier), "{part}");
        }
    }
}
