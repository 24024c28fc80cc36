//! [`Envelope`]: an event with its identity and its time, as on the wire.

use uuid::Uuid;

use crate::cloud_event::cut;
use crate::error::cut_reason;
use crate::one_pass;
use crate::{CloudEvent, DecodeError, Event, Moment, Subject};

/// The size of the largest event that is accepted, in bytes. A card of 64 runners has about 12 KiB.
pub const EVENT_BYTES_MAX: usize = 64 * 1024;

/// The size of the largest id or source, in bytes. The bound keeps every view small.
pub const ATTRIBUTE_BYTES_MAX: usize = 128;

/// An event with its identity and its time: a CloudEvents 1.0 JSON object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Envelope {
    /// The event's identity. Another event with the same id is the same event.
    pub id: String,
    pub source: String,
    /// When it happened.
    pub time: Moment,
    pub event: Event,
}

/// An envelope that was read from the log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Recorded {
    /// Its sequence in the log, from 1.
    pub seq: u64,
    /// When the log stored it.
    pub recorded_at: Moment,
    pub envelope: Envelope,
}

impl Envelope {
    /// Wraps an event under an identity that is derived from its content, so that the same event always has the same
    /// identity. The envelope is checked: [`Envelope::decode`] accepts its bytes.
    ///
    /// # Errors
    /// Returns a [`DecodeError`] of the same kind as [`Envelope::from_json`] would for the bytes of the envelope.
    pub fn derived(source: &str, time: Moment, event: Event) -> Result<Self, DecodeError> {
        /// The namespace of identities derived by railbird: a random UUID, which never changes.
        const NAMESPACE: Uuid = Uuid::from_u128(0x6f1b_0c1e_8a0f_4b52_9d55_7c1d_0a6b_3e91);
        let data = event.data();
        let content = format!("{source}\n{time}\n{}\n{data}", event.type_name());
        let id = Uuid::new_v5(&NAMESPACE, content.as_bytes()).to_string();
        check_size(&CloudEvent::new(&id, source, event.type_name(), time, &data).to_json())?;
        check_attribute("source", source)?;
        Moment::parse(&time.to_string())
            .map_err(|error| DecodeError::NotCloudEvent(error.to_string()))?;
        event.check_ranges()?;
        event.check()?;
        Ok(Self {
            id,
            source: source.to_owned(),
            time,
            event,
        })
    }

    /// The id under which the log recognises a repeated message. It is derived from subject, source and id, so that an
    /// id that a feeder uses for another race, or two feeders use, loses nothing.
    pub fn message_id(&self) -> Uuid {
        /// A random UUID, which never changes.
        const NAMESPACE: Uuid = Uuid::from_u128(0x0d9e_5c57_3b1e_4f6a_a1b4_52e7_c09d_8f13);
        let Self { id, source, .. } = self;
        // None of the three contains a line feed.
        let name = format!("{}\n{source}\n{id}", self.event.subject());
        Uuid::new_v5(&NAMESPACE, name.as_bytes())
    }

    /// Parses and checks a message: its bytes, and the subject that it was published on.
    ///
    /// # Errors
    /// Returns the [`DecodeError`] of [`Envelope::from_json`], or [`DecodeError::SubjectMismatch`] if the data belongs
    /// on another subject.
    pub fn decode(subject: &str, bytes: &[u8]) -> Result<Self, DecodeError> {
        let envelope = Self::from_json(bytes)?;
        let expected = envelope.event.subject();
        // A subject has one text, and is parsed in half of the instructions in which it is written.
        if Subject::parse(subject).as_ref() == Some(&expected) {
            return Ok(envelope);
        }
        let (subject, expected) = (cut_reason(subject), expected.to_string());
        Err(DecodeError::SubjectMismatch(subject, expected))
    }

    /// Parses and checks an event without a subject, such as a line of a file.
    ///
    /// # Errors
    /// Returns [`DecodeError::TooLarge`], [`DecodeError::NotCloudEvent`], [`DecodeError::UnknownType`] or
    /// [`DecodeError::Invalid`], in this order of checks.
    pub fn from_json(bytes: &[u8]) -> Result<Self, DecodeError> {
        check_size(bytes)?;
        if let Some(envelope) = one_pass::parse(bytes) {
            check_attribute("id", &envelope.id)?;
            check_attribute("source", &envelope.source)?;
            envelope.event.check()?;
            return Ok(envelope);
        }
        let wire = CloudEvent::from_json(bytes)?;
        check_attribute("id", &wire.id)?;
        check_attribute("source", &wire.source)?;
        let event = Event::parse(&wire.type_name, wire.data.get())?;
        event.check()?;
        Ok(Self {
            id: wire.id.into_owned(),
            source: wire.source.into_owned(),
            time: wire.time,
            event,
        })
    }

    /// Renders the bytes of a message.
    pub fn encode(&self) -> Vec<u8> {
        let data = self.event.data();
        let type_name = self.event.type_name();
        CloudEvent::new(&self.id, &self.source, type_name, self.time, &data).to_json()
    }
}

fn check_size(bytes: &[u8]) -> Result<(), DecodeError> {
    if bytes.len() > EVENT_BYTES_MAX {
        return Err(DecodeError::TooLarge(bytes.len()));
    }
    Ok(())
}

fn check_attribute(name: &str, value: &str) -> Result<(), DecodeError> {
    let is_plain = |byte| (b' '..=b'~').contains(&byte);
    let has_controls = !value.bytes().all(is_plain) && value.chars().any(char::is_control);
    if value.is_empty() || value.len() > ATTRIBUTE_BYTES_MAX || has_controls {
        return Err(DecodeError::NotCloudEvent(format!(
            "{name} is 1 to {ATTRIBUTE_BYTES_MAX} bytes of text, not {:?}",
            cut(value)
        )));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::Envelope;
    use crate::one_pass::parse;

    const DATA: &str = r#""data":{"date":"2026-11-21","venue":"ST","race_number":1,"runners":[{"horse_no":"H1","win":2.5}]}"#;
    const TYPE: &str = r#""type":"racing.odds.quoted.v1""#;
    const OTHERS: &str =
        r#""specversion":"1.0","id":"1","source":"s","time":"2026-11-21T06:32:00Z""#;

    #[test]
    fn an_event_is_the_same_in_one_pass_and_in_two() {
        let one = format!("{{{OTHERS},{TYPE},{DATA}}}");
        assert!(parse(one.as_bytes()).is_some());
        let two = format!("{{{OTHERS},{DATA},{TYPE}}}");
        assert_eq!(parse(two.as_bytes()), None);
        let [one, two] = [one, two].map(|text| Envelope::from_json(text.as_bytes()));
        assert_eq!(one, two);
        assert!(one.is_ok());
    }

    #[test]
    fn what_is_not_valid_is_left_to_two_passes() {
        let valid = format!("{{{OTHERS},{TYPE},{DATA}}}");
        for (from, to) in [
            ("\"1.0\"", "\"1.1\""),
            ("quoted", "asked"),
            (
                TYPE,
                r#""type":"racing.odds.quoted.v1","type":"racing.odds.quoted.v1""#,
            ),
            ("\"id\":\"1\",", ""),
            ("2.5", "0.5"),
            ("2026-11-21T", "2026-11-21 "),
            ("}}", "}} x"),
            ("[{", "[["),
        ] {
            let event = valid.replacen(from, to, 1);
            assert_eq!(parse(event.as_bytes()), None, "{event}");
            assert!(Envelope::from_json(event.as_bytes()).is_err(), "{event}");
        }
    }
}
