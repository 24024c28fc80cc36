//! Rejections: what could not be understood, kept with its reason.

use events::{DecodeError, Moment};
use schemars::JsonSchema;
use serde::Serialize;

use crate::json;

/// A refused message is kept so far; the log holds the rest.
const PAYLOAD_BYTES_KEPT: usize = 4096;

/// A subject is kept so far: NATS bounds it only by the size of a protocol line.
const SUBJECT_CHARS_KEPT: usize = 256;

/// A message of the log that is no event.
#[derive(Debug, Serialize, JsonSchema)]
struct Rejection<'a> {
    seq: u64,
    /// When the log took it, RFC 3339.
    recorded_at: String,
    subject: &'a str,
    /// The feeder, where the message names one.
    source: String,
    /// A stable word: not_cloud_event, too_large, unknown_type, invalid_data or subject_mismatch.
    code: &'a str,
    /// What is wrong, and where.
    reason: String,
    /// How long the message is, in bytes.
    payload_bytes: usize,
    /// Its first 4 KiB, with a replacement character for what is not UTF-8.
    payload: String,
}

/// A refused message as it is kept.
pub(crate) fn render(
    seq: u64,
    recorded_at: Moment,
    subject: &str,
    payload: &[u8],
    error: &DecodeError,
) -> Vec<u8> {
    let kept = &payload[..payload.len().min(PAYLOAD_BYTES_KEPT)];
    let subject_end = subject
        .char_indices()
        .nth(SUBJECT_CHARS_KEPT)
        .map_or(subject.len(), |(i, _)| i);
    json(&Rejection {
        seq,
        recorded_at: recorded_at.to_string(),
        subject: &subject[..subject_end],
        source: source(payload),
        code: error.code(),
        reason: error.to_string(),
        payload_bytes: payload.len(),
        payload: String::from_utf8_lossy(kept).into_owned(),
    })
}

/// The feeder's name, if the message is JSON enough to tell it.
fn source(payload: &[u8]) -> String {
    #[derive(serde::Deserialize)]
    struct Sourced {
        source: String,
    }
    let named = serde_json::from_slice::<Sourced>(payload)
        .map(|sourced| sourced.source)
        .unwrap_or_default();
    named.chars().take(128).collect()
}

pub(crate) fn schema(generator: &mut schemars::SchemaGenerator) -> schemars::Schema {
    Rejection::<'_>::json_schema(generator)
}
