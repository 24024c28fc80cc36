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
}

/// A time of the server, in nanoseconds since the epoch. A time out of range, which no server sends, becomes the epoch.
pub(super) fn moment(nanoseconds: i128) -> Moment {
    let time = jiff::Timestamp::from_nanosecond(nanoseconds);
    time.unwrap_or_default().into()
}

#[cfg(test)]
mod testing {
    use bytes::Bytes;

    use super::LogMessage;

    impl LogMessage {
        pub(crate) fn of(seq: u64, at: jiff::Timestamp, subject: &str, payload: Bytes) -> Self {
            Self {
                seq,
                recorded_at: at.into(),
                subject: subject.into(),
                payload,
            }
        }

        /// A message that no fold accepts, stored a second after the one before.
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
}
