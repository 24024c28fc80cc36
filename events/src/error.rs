//! What can be wrong with a value or an event.

/// A value that does not parse: what was expected, and what stood there.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{expected}, not {found:?}")]
pub struct ParseError {
    /// What the value has to look like.
    pub expected: &'static str,
    /// What was given, cut to 40 characters.
    pub found: String,
}

impl ParseError {
    /// Says that `found` is not `expected`.
    pub fn new(expected: &'static str, found: impl ToString) -> Self {
        let found = found.to_string();
        let cut = match found.char_indices().nth(FOUND_CHARS_MAX) {
            Some((end, _)) => format!("{}…", &found[..end]),
            None => found,
        };
        Self {
            expected,
            found: cut,
        }
    }
}

/// A message quotes bad input only so far: a name of 1 MiB must not fill the logs.
const FOUND_CHARS_MAX: usize = 40;

/// Why a message of the log is not an event that this version understands.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DecodeError {
    /// The bytes are not one JSON object with the attributes of a CloudEvent.
    #[error("not a CloudEvents 1.0 JSON object: {0}")]
    NotCloudEvent(String),
    /// The event is larger than [`crate::EVENT_BYTES_MAX`].
    #[error("{bytes} bytes, at most {max} are taken", max = crate::EVENT_BYTES_MAX)]
    TooLarge {
        /// The size of the event.
        bytes: usize,
    },
    /// The `type` is none of [`crate::EVENT_TYPES`].
    #[error("unknown event type {0:?}")]
    UnknownType(String),
    /// A field of `data` is missing or has a wrong value.
    #[error("{path}: {reason}")]
    Invalid {
        /// The path to the field, such as `data.runners[3].win_odds`.
        path: String,
        /// What is wrong with it.
        reason: String,
    },
    /// The subject says something else than the data.
    #[error("published on {subject}, but the data belongs on {expected}")]
    SubjectMismatch {
        /// The subject that the event came on.
        subject: String,
        /// The subject that the data asks for.
        expected: String,
    },
}

impl DecodeError {
    /// A short, stable word for the kind of error: the label of a metric.
    #[must_use]
    pub fn code(&self) -> &'static str {
        match self {
            Self::NotCloudEvent(_) => "not_cloud_event",
            Self::TooLarge { .. } => "too_large",
            Self::UnknownType(_) => "unknown_type",
            Self::Invalid { .. } => "invalid_data",
            Self::SubjectMismatch { .. } => "subject_mismatch",
        }
    }
}
