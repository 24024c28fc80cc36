//! [`Envelope`]: an event with its identity and clocks, as it stands on the wire.

use uuid::Uuid;

use crate::cloud_event::cut;
use crate::event::cut_reason;
use crate::{CloudEvent, DecodeError, Event, Moment};

/// The largest event that is taken. A card of 64 runners is about 12 KiB.
pub const EVENT_BYTES_MAX: usize = 64 * 1024;

/// Identifiers and sources are short; a bound keeps every view small.
pub(crate) const ATTRIBUTE_BYTES_MAX: usize = 128;

/// An event with its identity and clocks: a CloudEvents 1.0 JSON object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Envelope {
    /// The event's identity: a second event with the same one is the same event.
    pub id: String,
    /// The feeder.
    pub source: String,
    /// When it happened.
    pub time: Moment,
    /// What happened.
    pub event: Event,
}

/// An envelope that came back from the log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Recorded {
    /// Its place in the log, from 1.
    pub seq: u64,
    /// When the log took it.
    pub recorded_at: Moment,
    /// The event.
    pub envelope: Envelope,
}

impl Envelope {
    /// Wraps an event under an identity that is derived from its content: said again, it is the same event.
    #[must_use]
    pub fn derived(source: &str, time: Moment, event: Event) -> Self {
        /// The namespace of identities derived by railbird (a random UUID, fixed for ever).
        const NAMESPACE: Uuid = Uuid::from_u128(0x6f1b_0c1e_8a0f_4b52_9d55_7c1d_0a6b_3e91);
        let data = event
            .data()
            .expect("facts have string keys and no failing field");
        let content = format!("{source}\n{time}\n{}\n{data}", event.type_name());
        let id = Uuid::new_v5(&NAMESPACE, content.as_bytes()).to_string();
        Self {
            id,
            source: source.to_owned(),
            time,
            event,
        }
    }

    /// Reads an event from the bytes of a message and the subject that it came on.
    ///
    /// # Errors
    /// [`DecodeError`] says what is wrong, and where.
    pub fn decode(subject: &str, bytes: &[u8]) -> Result<Self, DecodeError> {
        let envelope = Self::from_json(bytes)?;
        let expected = envelope.event.subject().to_string();
        if subject == expected {
            Ok(envelope)
        } else {
            Err(DecodeError::SubjectMismatch {
                subject: cut_reason(subject),
                expected,
            })
        }
    }

    /// Reads an event whose subject is not known yet, such as a line of a file.
    ///
    /// # Errors
    /// As [`Envelope::decode`], but for the subject.
    pub fn from_json(bytes: &[u8]) -> Result<Self, DecodeError> {
        if bytes.len() > EVENT_BYTES_MAX {
            return Err(DecodeError::TooLarge { bytes: bytes.len() });
        }
        let wire = CloudEvent::from_json(bytes)?;
        for (name, value) in [("id", &wire.id), ("source", &wire.source)] {
            if value.is_empty()
                || value.len() > ATTRIBUTE_BYTES_MAX
                || value.chars().any(char::is_control)
            {
                return Err(DecodeError::NotCloudEvent(format!(
                    "{name} is 1 to {ATTRIBUTE_BYTES_MAX} bytes of text, not {:?}",
                    cut(value)
                )));
            }
        }
        let event = Event::parse(&wire.type_name, wire.data.get())?;
        event.check()?;
        Ok(Self {
            id: wire.id.into_owned(),
            source: wire.source.into_owned(),
            time: wire.time,
            event,
        })
    }

    /// The bytes of a message.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let data = self
            .event
            .data()
            .expect("facts have string keys and no failing field");
        let type_name = self.event.type_name();
        CloudEvent::new(&self.id, &self.source, type_name, self.time, &data).to_json()
    }
}
