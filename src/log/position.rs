//! [`ReadPosition`]: how far a stream was read, and whether a stream continues what was read.

use events::Moment;
use projections::{Checkpoint, LogIdentity};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::connection::Log;
use super::error::LogError;
use super::stream::{LogState, StreamName};

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
        Self(format!(
            "the log has no event {seq} any more, which was read"
        ))
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
        Self {
            log: state.identity.clone(),
            seq: 0,
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

impl Log {
    /// The state of a stream, if it still has the message that was read last.
    ///
    /// # Errors
    /// As [`Log::state`], and within it [`LogReplaced`] if the stream has another history.
    pub async fn compare(
        &self,
        stream: StreamName,
        read: &ReadPosition,
    ) -> Result<Result<LogState, LogReplaced>, LogError> {
        let state = self.state(stream).await?;
        let replaced = |what: String| {
            Ok(Err(LogReplaced(format!(
                "the stream {} {what}",
                stream.name
            ))))
        };
        if state.identity != read.log {
            let (found, expected) = (&state.identity.created, &read.log.created);
            return replaced(format!("was created at {found}, not at {expected}"));
        }
        let (last_seq, seq) = (state.last_seq, read.seq);
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
                    return replaced(format!(
                        "has another event {seq} than the one that was read"
                    ));
                }
                None => return Ok(Err(LogReplaced::without(seq))),
            }
        }
        Ok(Ok(state))
    }
}
