//! [`LogMessage`]: a message as the log stores it.

use bytes::Bytes;
use events::Moment;
use projections::StoredMessage;

/// A message of the log.
#[derive(Debug, Clone)]
pub struct LogMessage {
    pub seq: u64,
    /// When the log stored it.
    pub recorded_at: Moment,
    pub(super) subject: async_nats::Subject,
    pub payload: Bytes,
}

impl LogMessage {
    pub fn subject(&self) -> &str {
        &self.subject
    }

    /// The message in the form that the projections take.
    pub fn as_message(&self) -> StoredMessage<'_> {
        StoredMessage {
            seq: self.seq,
            recorded_at: self.recorded_at,
            subject: &self.subject,
            payload: &self.payload,
        }
    }

    /// A message that no fold accepts, stored a second after the one before.
    #[cfg(test)]
    pub(crate) fn garbage(seq: u64) -> Self {
        let second = jiff::Timestamp::from_second(seq.cast_signed()).expect("a small sequence");
        Self {
            seq,
            recorded_at: second.into(),
            subject: "racing.garbage".into(),
            payload: Bytes::new(),
        }
    }
}
