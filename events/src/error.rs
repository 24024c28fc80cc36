//! [`ParseError`] and [`DecodeError`]: why a value or an event is invalid.

/// A value that does not parse: the expected form, and the value.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{expected}, not {found:?}")]
pub struct ParseError {
    /// The expected form of the value.
    pub expected: &'static str,
    /// The value, cut to 40 characters.
    pub found: String,
}

impl ParseError {
    /// The error of a value that does not have the expected form.
    pub fn new(expected: &'static str, found: impl ToString) -> Self {
        let found = found.to_string();
        let found = match found.char_indices().nth(FOUND_CHARS_MAX) {
            Some((end, _)) => format!("{}…", &found[..end]),
            None => found,
        };
        Self { expected, found }
    }
}

/// The number of characters of the longest reason. A reason may quote bad input.
const REASON_CHARS_MAX: usize = 300;

/// Cuts a reason, or a part of one, and escapes control characters: bad input must not control a terminal.
pub fn cut_reason(reason: &str) -> String {
    let mut cut = String::new();
    for c in reason.chars().take(REASON_CHARS_MAX) {
        match c.is_control() {
            true => cut.extend(c.escape_debug()),
            false => cut.push(c),
        }
    }
    // An escape is longer than its character.
    cut.chars().take(REASON_CHARS_MAX).collect()
}

/// The number of characters that an error quotes of a value. A value of 1 MiB must not fill the logs.
const FOUND_CHARS_MAX: usize = 40;

/// Why a message of the log is not an event of this version.
#[derive(strum::IntoStaticStr, strum::VariantNames)]
#[strum(serialize_all = "snake_case")]
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DecodeError {
    /// The bytes are not a JSON object with the attributes of a CloudEvent.
    #[error("not a CloudEvents 1.0 JSON object: {0}")]
    NotCloudEvent(String),
    /// The event, whose size this is, is larger than [`crate::EVENT_BYTES_MAX`].
    #[error("{0} bytes, at most {max} are accepted", max = crate::EVENT_BYTES_MAX)]
    TooLarge(usize),
    /// The `type` is not one of [`crate::EVENT_TYPES`].
    #[error("unknown event type {0:?}")]
    UnknownType(String),
    /// A field of `data` is missing or invalid: its path, such as `data.runners[3].win_odds`, and what is wrong.
    #[error("{0}: {1}")]
    #[strum(serialize = "invalid_data")]
    Invalid(String, String),
    /// The event was published on another subject than the one that its data belong on.
    #[error("published on {0}, but the data belongs on {1}")]
    SubjectMismatch(String, String),
}

impl DecodeError {
    /// Every code.
    pub const CODES: &'static [&'static str] = <Self as strum::VariantNames>::VARIANTS;

    /// The stable code of the kind of error. It is also the label of a metric.
    pub fn code(&self) -> &'static str {
        self.into()
    }
}

#[cfg(test)]
mod tests {
    use super::{DecodeError, cut_reason};

    #[test]
    fn a_reason_is_cut_and_has_no_control_characters() {
        assert_eq!(cut_reason("a\u{1b}[31m\n沙田"), "a\\u{1b}[31m\\n沙田");
        assert_eq!(cut_reason(&"\u{1b}".repeat(1 << 20)).len(), 300);
    }

    #[test]
    fn every_code_is_listed() {
        let text = String::new;
        let errors = [
            DecodeError::NotCloudEvent(text()),
            DecodeError::TooLarge(0),
            DecodeError::UnknownType(text()),
            DecodeError::Invalid(text(), text()),
            DecodeError::SubjectMismatch(text(), text()),
        ];
        for error in &errors {
            // Does not compile with a variant that is not above.
            match error {
                DecodeError::NotCloudEvent(_)
                | DecodeError::TooLarge { .. }
                | DecodeError::UnknownType(_)
                | DecodeError::Invalid { .. }
                | DecodeError::SubjectMismatch { .. } => {}
            }
        }
        let codes = errors.each_ref().map(DecodeError::code);
        assert_eq!(codes, DecodeError::CODES);
        let stable = "not_cloud_event too_large unknown_type invalid_data subject_mismatch";
        assert_eq!(codes.join(" "), stable);
    }
}
