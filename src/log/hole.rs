//! [`Hole`]: sequences that the log has no messages for.
//!
//! The streams deny that messages are deleted, so there is no hole unless an operator or the server made one. Delivery
//! numbers do not show it: they count what a consumer sent. So a reader asks the server about each hole before it goes
//! on behind it.

use async_nats::jetstream::stream::ClusterInfo;
use serde::Deserialize;
use serde_json::json;

use super::stream::is_led;
use super::{Log, LogError, LogResult, StreamName};
use crate::metrics;

/// Sequences without messages, as a consumer delivered them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Hole {
    /// The first sequence that is missing.
    pub(super) first: u64,
    /// The sequence of the message behind it.
    pub(super) end: u64,
}

impl Hole {
    /// The hole between a message and the next one that was delivered, if there is one.
    pub(super) fn between(last: u64, next: u64) -> Option<Self> {
        let first = last + 1;
        (next > first).then_some(Self { first, end: next })
    }
}

#[derive(Deserialize)]
struct InfoResponse {
    state: HoleState,
    cluster: Option<ClusterInfo>,
}

/// What the state of a stream says about missing messages.
#[derive(Deserialize)]
struct HoleState {
    first_seq: u64,
    #[serde(default)]
    num_deleted: u64,
    /// Messages that the server lost, by its own account.
    lost: Option<serde::de::IgnoredAny>,
}

impl HoleState {
    /// Whether deletions explain a hole: it is before the first message, or among so many deleted ones.
    fn explains(&self, hole: Hole) -> bool {
        let inside = hole.end.saturating_sub(hole.first.max(self.first_seq));
        self.lost.is_none() && inside <= self.num_deleted
    }
}

impl Log {
    /// Asks the server about a hole, and logs it. False if the server has a message there: the consumer skipped it.
    ///
    /// # Errors
    /// Returns a [`LogError`] if the server does not answer, and [`LogError::Unconfirmed`] if it has nothing behind the
    /// hole: it is not the one that the message behind it came from, or not up to date.
    pub(super) async fn confirm_hole(&self, stream: StreamName, hole: Hole) -> LogResult<bool> {
        let Hole { first, end } = hole;
        let next = self.next_seq(stream, first).await?;
        if next.is_none_or(|next| next > end) {
            let name = stream.name;
            let missing = format!("the stream {name} has no event {end}, which was read");
            return Err(LogError::Unconfirmed(missing));
        }
        if next != Some(end) {
            let skipped = "the consumer skipped messages of the log";
            tracing::error!(stream = stream.name, first, end, "{skipped}");
            return Ok(false);
        }
        let info: InfoResponse = self.api("STREAM.INFO", stream, &json!({})).await?;
        let stream = stream.name;
        if !is_led(info.cluster.as_ref()) {
            return Err(LogError::NoLeader(format!("the stream {stream}")));
        }
        let is_explained = info.state.explains(hole);
        metrics::hole(stream, is_explained);
        let lost = "the server has lost messages of the log";
        match is_explained {
            true => tracing::warn!(stream, first, end, "messages were deleted from the log"),
            false => tracing::error!(stream, first, end, "{lost}"),
        }
        Ok(true)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::{Hole, HoleState};

    fn explains(state: Value, first: u64, end: u64) -> bool {
        let state: HoleState = serde_json::from_value(state).expect("a state");
        state.explains(Hole { first, end })
    }

    #[test]
    fn deletions_explain_a_hole_and_losses_do_not() {
        let purged = json!({ "first_seq": 10 });
        assert!(explains(purged.clone(), 1, 10));
        assert!(!explains(purged, 11, 13));
        let deleted = json!({ "first_seq": 1, "num_deleted": 2 });
        assert!(explains(deleted.clone(), 4, 6));
        assert!(!explains(deleted, 4, 7));
        let lost = json!({ "first_seq": 1, "num_deleted": 2, "lost": { "msgs": [4], "bytes": 9 } });
        assert!(!explains(lost, 4, 6));
    }
}
