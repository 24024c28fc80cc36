//! [`StoredMessage`]: one message of the log, as the log keeps it.

use events::{DecodeError, Envelope, Moment, Recorded};

/// A message of the log, not decoded.
#[derive(Debug, Clone, Copy)]
pub struct StoredMessage<'a> {
    /// Its sequence in the log, from 1.
    pub seq: u64,
    /// When the log stored it.
    pub recorded_at: Moment,
    /// The subject that it was published on.
    pub subject: &'a str,
    /// Its bytes.
    pub payload: &'a [u8],
}

impl StoredMessage<'_> {
    pub fn decode(self) -> Result<Recorded, DecodeError> {
        Ok(Recorded {
            seq: self.seq,
            recorded_at: self.recorded_at,
            envelope: Envelope::decode(self.subject, self.payload)?,
        })
    }
}
