//! Messages of the log: a subject on the first line, and the bytes.

use events::Envelope;

use crate::check_text;

pub(crate) fn event(input: &[u8]) {
    let (subject, bytes) = split_line(input);
    let subject = String::from_utf8_lossy(subject);
    if let Err(error) = Envelope::decode(&subject, bytes) {
        check_text(&error.to_string());
    }
    match Envelope::from_json(bytes) {
        Ok(envelope) => check_envelope(&envelope),
        Err(error) => check_text(&error.to_string()),
    }
}

/// Checks that an event can be sent, and is received as it was.
pub(crate) fn check_envelope(envelope: &Envelope) {
    let subject = envelope.event.subject().to_string();
    let valid = |c: char| c.is_ascii_graphic() && !"*>".contains(c);
    assert!(subject.chars().all(valid), "not a subject: {subject:?}");
    let decoded = Envelope::decode(&subject, &envelope.encode());
    assert_eq!(decoded.as_ref(), Ok(envelope));
}

/// The first line and the rest.
pub(crate) fn split_line(input: &[u8]) -> (&[u8], &[u8]) {
    let end = input.iter().position(|byte| *byte == b'\n');
    end.map_or((input, &[]), |end| (&input[..end], &input[end + 1..]))
}
