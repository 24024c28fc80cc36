//! [`ReadPosition`]: how far a stream was read, and [`Suspicion`]: whether the stream still continues that.

use std::time::Duration;

use events::Moment;
use projections::{Checkpoint, LogIdentity};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tokio::time::Instant;

use super::{Log, LogError, LogResult, LogState, StreamName};

/// A stream that is missing for this long is gone. A server that has just started may not have loaded it yet.
const GONE_AFTER: Duration = Duration::from_secs(3);
/// A stream of a cluster that is missing, or lacks what was read, for this long has lost it. A leader that was cut off
/// or paused notices within 10 s that it is none, and a new one may not have applied all that it has.
const GONE_AFTER_IN_CLUSTER: Duration = Duration::from_secs(15);

/// An error that retries cannot solve: the stream is not the one that was read so far, for this reason. It was created
/// again, or lost its last messages.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct LogReplaced(pub String);

impl LogReplaced {
    pub(super) fn missing(stream: StreamName) -> Self {
        Self(format!("the stream {} is missing", stream.name))
    }

    /// The log has lost a message that was read.
    pub fn without(seq: u64) -> Self {
        let reason = format!("the log has no event {seq} any more, which was read");
        Self(reason)
    }
}

/// A position in a log: the last message that was read.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ReadPosition {
    /// The identity of the log.
    pub log: LogIdentity,
    /// The sequence of the last message that was read; 0 before the first.
    pub seq: u64,
    /// When the log stored that message; null before the first. A log that lost its last messages and grew again has
    /// another time there.
    pub recorded_at: Option<Moment>,
}

impl ReadPosition {
    /// Before the first message of a stream.
    pub fn start_of(state: &LogState) -> Self {
        Self::at(&state.identity, 0)
    }

    /// At a sequence of a log. Whether it is the message that was read there is not known.
    pub(crate) fn at(log: &LogIdentity, seq: u64) -> Self {
        Self {
            log: log.clone(),
            seq,
            recorded_at: None,
        }
    }
}

impl From<Checkpoint> for ReadPosition {
    fn from(checkpoint: Checkpoint) -> Self {
        Self {
            log: checkpoint.log,
            seq: checkpoint.seq,
            recorded_at: checkpoint.recorded_at,
        }
    }
}

/// The state of a stream, unless it is not the one that was read.
pub(super) type Compared = LogResult<Result<LogState, LogReplaced>>;

/// Judges by several answers whether a stream is still the one that was read. One answer of a cluster is no proof: it
/// may come from a server that does not have the last messages.
/// It is the time of the first answer against the stream, of those that no other answer followed.
#[derive(Debug, Default)]
pub(super) struct Suspicion(Option<Instant>);

impl Suspicion {
    /// Judges an answer. Returns [`LogReplaced`] if the servers have answered so for long enough.
    ///
    /// # Errors
    /// Returns [`LogError::Unconfirmed`] until then, and any other [`LogError`] that is the answer.
    pub(super) fn judge(&mut self, log: &Log, stream: StreamName, answer: Compared) -> Compared {
        let (is_clustered, gone_after) = match log.is_clustered() {
            true => (true, GONE_AFTER_IN_CLUSTER),
            false => (false, GONE_AFTER),
        };
        let replaced = match answer {
            Ok(Err(replaced)) if !is_clustered => return Ok(Err(replaced)),
            Ok(Err(replaced)) => replaced,
            Err(LogError::NoStream(_)) => LogReplaced::missing(stream),
            other => {
                self.0 = None;
                return other;
            }
        };
        let since = *self.0.get_or_insert_with(Instant::now);
        if since.elapsed() < gone_after {
            return Err(LogError::Unconfirmed(replaced.0));
        }
        Ok(Err(replaced))
    }
}

impl Log {
    /// The state of a stream, if it still has the message that was read last. One answer of a cluster is no proof that
    /// it has not: see `Suspicion`.
    ///
    /// # Errors
    /// As [`Log::state`], and within it [`LogReplaced`] if the stream has another history.
    pub async fn compare(&self, stream: StreamName, read: &ReadPosition) -> Compared {
        let state = self.state(stream).await?;
        let name = stream.name;
        let replaced = |what: String| Ok(Err(LogReplaced(format!("the stream {name} {what}"))));
        if state.identity != read.log {
            let found = &state.identity.created;
            let expected = &read.log.created;
            return replaced(format!("was created at {found}, not at {expected}"));
        }
        let last_seq = state.last_seq;
        let seq = read.seq;
        if last_seq < seq {
            return replaced(format!(
                "is shorter than what was read: it ends at event {last_seq}, and {seq} was read"
            ));
        }
        // Where later messages replace earlier ones, the last that was read may be gone.
        let recorded_at = read.recorded_at.filter(|_| stream.keeps_all());
        if let Some(expected) = recorded_at {
            match self.message_at(stream, seq).await? {
                Some(found) if found.recorded_at == expected => {}
                Some(_) => {
                    let reason = format!("has another event {seq} than the one that was read");
                    return replaced(reason);
                }
                None => return Ok(Err(LogReplaced::without(seq))),
            }
        }
        Ok(Ok(state))
    }
}
