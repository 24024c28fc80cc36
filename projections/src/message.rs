//! [`Message`]: what stands at one place of the log.

use events::{DecodeError, Envelope, Moment, Recorded};

/// A message of the log, as it came.
#[derive(Debug, Clone, Copy)]
pub struct Message<'a> {
    /// Its place in the log, from 1.
    pub seq: u64,
    /// When the log took it.
    pub recorded_at: Moment,
    /// Where it stands.
    pub subject: &'a str,
    /// What it says.
    pub payload: &'a [u8],
}

impl Message<'_> {
    pub(crate) fn decode(self) -> Result<Recorded, DecodeError> {
        Ok(Recorded {
            seq: self.seq,
            recorded_at: self.recorded_at,
            envelope: Envelope::decode(self.subject, self.payload)?,
        })
    }
}
