//! [`UseLog`]: writes the use of keys to the stream `KEY_USE`, and reads what other processes have written.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use events::Moment;
use futures::{StreamExt, TryStreamExt, stream};
use jiff::Timestamp;
use jiff::tz::TimeZone;
use tokio::time::{sleep, timeout};

use super::key_uses::{KeyUses, UsesByProcess};
use super::now;
use crate::log::{Batch, KEY_USE, Log, LogError, LogReplaced, LogState, ReadPosition, Reader};
use crate::metrics;

/// How often the use of keys is written. A process that is killed loses what it counted since; one message for each key
/// that is in use costs the log little.
pub const WRITE_USE_EVERY: Duration = Duration::from_secs(5 * 60);
/// Messages that await their acknowledgement.
const WRITES_CONCURRENT: usize = 64;
/// The time for the last write, at the shutdown.
const LAST_WRITE_TIMEOUT: Duration = Duration::from_secs(2);
/// How long after a failure the stream is opened again.
const REOPEN_AFTER: Duration = Duration::from_secs(60);
/// How often a stream is looked up that is about to be created.
const CREATED_WITHIN: Duration = Duration::from_secs(1);
/// The subjects of the stream, by key and process.
const SUBJECTS: &str = "key_use.*.*";

/// Writes the use of keys, and reads what other processes have written. Without the stream, each process knows its own.
#[derive(Debug, Clone)]
pub struct UseLog {
    log: Log,
    uses: Arc<KeyUses>,
    every: Duration,
    writing: Arc<Failures>,
    reading: Arc<Failures>,
}

impl UseLog {
    /// The use of keys in a stream, written at an interval.
    pub fn new(log: Log, uses: Arc<KeyUses>, every: Duration) -> Self {
        Self {
            log,
            uses,
            every,
            writing: Arc::default(),
            reading: Arc::default(),
        }
    }

    /// Writes and reads for as long as the service runs.
    pub async fn run(self) {
        tokio::join!(self.keep_writing(), self.keep_reading());
    }

    /// Writes what is not written, once there are no more requests.
    pub async fn finish(&self) {
        let writing = timeout(LAST_WRITE_TIMEOUT, self.write(now()));
        if writing.await.is_err() {
            tracing::warn!("the last use of keys was not written in time");
        }
    }

    async fn keep_writing(&self) {
        loop {
            let begun = now();
            let end = end_of_day(begun);
            let left = end.timestamp().duration_since(begun.timestamp());
            sleep(self.every.min(left.unsigned_abs())).await;
            // What was counted until midnight belongs to the day that has ended.
            self.write(now().min(end)).await;
        }
    }

    /// Writes what was counted until a moment.
    async fn write(&self, until: Moment) {
        let unwritten = self.uses.unwritten(until);
        if unwritten.is_empty() {
            return;
        }
        let writes = stream::iter(unwritten).map(async |(key_id, found)| {
            let message = self.uses.message(key_id, &found);
            self.log.append_once(&message, None).await?;
            self.uses.written(key_id, &found);
            Ok(())
        });
        // At the first failure the others wait for the next time.
        let written = writes.buffer_unordered(WRITES_CONCURRENT).try_collect();
        self.writing.note("write", written.await);
    }

    async fn keep_reading(&self) {
        let mut connection = self.log.connection();
        loop {
            // An error means that the connection is closed, and the service ends.
            let _ = connection.wait_for(|status| status.up).await;
            match self.log.state(KEY_USE).await {
                Ok(state) => {
                    self.reading.note("read", Ok(()));
                    let LogReplaced(reason) = self.read(&state).await;
                    tracing::info!(reason, "the use of keys is read from the start");
                }
                // It is created at the start.
                Err(LogError::NoStream(_)) => sleep(CREATED_WITHIN).await,
                Err(error) => {
                    self.reading.note("read", Err(error));
                    sleep(REOPEN_AFTER).await;
                }
            }
        }
    }

    /// Reads the stream until it is replaced. What was read stays known.
    async fn read(&self, state: &LogState) -> LogReplaced {
        let mut reader = reader(&self.log, state);
        loop {
            match reader.next().await {
                Ok(batch) => self.uses.fold(parts(&batch)),
                Err(replaced) => return replaced,
            }
        }
    }
}

/// Reads the use of keys to the end of the stream; nothing if there is no stream.
///
/// # Errors
/// Returns the [`LogError`] if this user may not read the stream or JetStream does not respond, or the [`LogReplaced`]
/// if the stream was replaced meanwhile.
pub async fn read_uses(log: &Log) -> anyhow::Result<UsesByProcess> {
    let mut uses = UsesByProcess::default();
    let state = match log.state(KEY_USE).await {
        Err(LogError::NoStream(_)) => return Ok(uses),
        state => state?,
    };
    let mut reader = reader(log, &state);
    let mut pending = state.messages;
    while pending > 0 {
        let batch = reader.next().await?;
        for (subject, payload) in parts(&batch) {
            uses.fold_message(subject, payload);
        }
        pending = batch.pending;
    }
    Ok(uses)
}

fn parts(batch: &Batch) -> impl Iterator<Item = (&str, &[u8])> {
    let messages = batch.messages.iter();
    messages.map(|message| (message.subject(), &*message.payload))
}

/// A reader of some subjects: these are all, but it takes no notice of messages that later ones have replaced.
fn reader(log: &Log, state: &LogState) -> Reader {
    let from = ReadPosition::start_of(state);
    log.reader_of(KEY_USE, from, vec![SUBJECTS.to_owned()])
}

/// The last moment of a day in UTC.
fn end_of_day(moment: Moment) -> Moment {
    let end = moment.timestamp().to_zoned(TimeZone::UTC).end_of_day();
    end.map_or(Timestamp::MAX, |end| end.timestamp()).into()
}

/// Counts failures, and warns of the first of those in a row: whether the last outcome was one.
#[derive(Debug, Default)]
struct Failures(AtomicBool);

impl Failures {
    fn note(&self, task: &'static str, outcome: Result<(), LogError>) {
        let was_failing = self.0.swap(outcome.is_err(), Ordering::Relaxed);
        match outcome {
            Ok(()) if was_failing => tracing::info!(task, "the use of keys is kept again"),
            Ok(()) => {}
            Err(error) => {
                metrics::count("railbird_key_use_failures_total");
                if was_failing {
                    tracing::debug!(%error, task, "the use of keys is not kept");
                } else {
                    tracing::warn!(%error, task, "the use of keys is not kept; requests go on");
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use events::Moment;

    use super::end_of_day;

    #[test]
    fn a_day_ends_before_midnight_in_utc() {
        for (moment, end) in [
            ("2026-11-21T00:00:00Z", "2026-11-21T23:59:59.999999Z"),
            ("2026-11-21T23:59:59.999999Z", "2026-11-21T23:59:59.999999Z"),
            ("2028-02-29T07:30:00+08:00", "2028-02-28T23:59:59.999999Z"),
        ] {
            let moment = Moment::parse(moment).expect(moment);
            assert_eq!(end_of_day(moment).to_string(), end);
        }
    }
}
