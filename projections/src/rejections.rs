//! Rejections: what could not be understood, kept and announced with its reason.

use events::{DecodeError, Moment};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{StoredMessage, json};

/// A refused message is kept so far; the log holds the rest.
const PAYLOAD_BYTES_KEPT: usize = 4096;

/// A subject is kept so far: NATS bounds it only by the size of a protocol line.
const SUBJECT_CHARS_KEPT: usize = 256;

/// An id or a source is kept so far. That of an event is no longer.
const ATTRIBUTE_CHARS_KEPT: usize = 128;

/// A message of the log that is no event, as its feeder is told.
#[derive(Debug, Serialize, JsonSchema)]
struct RejectionNotice<'a> {
    /// Its place in the log, as the acknowledgement said.
    seq: u64,
    /// When the log took it, RFC 3339.
    recorded_at: String,
    /// The subject that it came on, as far as 256 characters.
    subject: &'a str,
    /// The feeder, where the message names one.
    source: String,
    /// The event's id, where the message names one.
    id: String,
    /// A stable word: not_cloud_event, too_large, unknown_type, invalid_data or subject_mismatch.
    code: &'a str,
    /// What is wrong, and where.
    reason: String,
    /// How long the message is, in bytes.
    payload_bytes: usize,
}

/// A message of the log that is no event, as it is kept.
#[derive(Debug, Serialize, JsonSchema)]
struct Rejection<'a> {
    #[serde(flatten)]
    told: RejectionNotice<'a>,
    /// Its first 4 KiB, with a replacement character for what is not UTF-8.
    payload: String,
}

/// What feeders are told of a refused message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Announcement {
    /// Its place in the log.
    pub seq: u64,
    /// When the log took it.
    pub recorded_at: Moment,
    /// The subject that it came on, as far as it is kept.
    pub subject: String,
    /// All of it as JSON.
    pub json: Vec<u8>,
}

/// A refused message as it is kept, and as its feeder is told.
pub(crate) fn render(message: StoredMessage<'_>, error: &DecodeError) -> (Vec<u8>, Announcement) {
    let StoredMessage {
        seq,
        recorded_at,
        subject,
        payload,
    } = message;
    let subject_end = subject
        .char_indices()
        .nth(SUBJECT_CHARS_KEPT)
        .map_or(subject.len(), |(i, _)| i);
    let subject = &subject[..subject_end];
    let named = Named::of(payload);
    let told = RejectionNotice {
        seq,
        recorded_at: recorded_at.to_string(),
        subject,
        source: text(&named.source),
        id: text(&named.id),
        code: error.code(),
        reason: error.to_string(),
        payload_bytes: payload.len(),
    };
    let announcement = Announcement {
        seq,
        recorded_at,
        subject: subject.to_owned(),
        json: json::render(&told),
    };
    let kept = &payload[..payload.len().min(PAYLOAD_BYTES_KEPT)];
    let rejection = Rejection {
        told,
        payload: String::from_utf8_lossy(kept).into_owned(),
    };
    (json::render(&rejection), announcement)
}

/// What a message says of itself, if it is JSON enough to tell.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Named {
    source: Value,
    id: Value,
}

impl Named {
    fn of(payload: &[u8]) -> Self {
        serde_json::from_slice(payload).unwrap_or_default()
    }
}

fn text(attribute: &Value) -> String {
    let text = attribute.as_str().unwrap_or_default();
    text.chars().take(ATTRIBUTE_CHARS_KEPT).collect()
}

pub(crate) fn schema(generator: &mut schemars::SchemaGenerator) -> schemars::Schema {
    Rejection::<'_>::json_schema(generator)
}

/// The schema of [`Announcement::json`].
#[must_use]
pub fn announcement_schema(generator: &mut schemars::SchemaGenerator) -> schemars::Schema {
    RejectionNotice::<'_>::json_schema(generator)
}
