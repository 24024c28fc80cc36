//! Rejections: the messages of the log that are not events, stored and announced with the reason.

use std::borrow::Cow;

use events::{DecodeError, Moment};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::json::{self, beginning};
use crate::store::{StoreResult, parse};
use crate::{Store, StoreError, StoredMessage, keys};

/// The maximum of a rejected message that is stored, in bytes of JSON, as all of these: a feeder's text may be rendered
/// as six times as many bytes. The log has all of it.
const PAYLOAD_BYTES_MAX: usize = 4096;

/// The maximum of a subject. NATS bounds a subject only by the size of a protocol line.
const SUBJECT_BYTES_MAX: usize = 768;

/// The maximum of an id or a source: three times that of an event's.
const ATTRIBUTE_BYTES_MAX: usize = 384;

/// The maximum of a reason: four bytes for each character that it may have.
const REASON_BYTES_MAX: usize = 1200;

/// A rejected message, as it is announced to its feeder.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub(crate) struct RejectionNotice<'a> {
    /// Its log sequence, as in the acknowledgement.
    seq: u64,
    /// When the log stored it, RFC 3339, to the microsecond.
    recorded_at: Moment,
    /// The subject that it was published on. Of a long text, here and below, the beginning.
    subject: Cow<'a, str>,
    /// The feeder, if the message names one.
    source: String,
    /// The event's id, if the message names one.
    id: String,
    /// The kind of error.
    #[schemars(extend("enum" = DecodeError::CODES))]
    code: Cow<'a, str>,
    /// What is wrong, and in which field.
    reason: String,
    /// The size of the message in bytes.
    payload_bytes: usize,
}

/// A rejected message, as it is stored.
#[derive(Debug, Serialize)]
pub(crate) struct Rejection<'a> {
    #[serde(flatten)]
    notice: RejectionNotice<'a>,
    /// Its beginning, at most 4 KiB of JSON, with a replacement character for bytes that are not UTF-8.
    payload: String,
}

/// The announcement of a rejected message to feeders.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Announcement {
    /// Its log sequence.
    pub seq: u64,
    /// When the log stored it.
    pub recorded_at: Moment,
    /// The subject that it was published on, as far as it is stored.
    pub subject: String,
    /// The feeder, if the message names one.
    pub source: String,
    /// The whole announcement as JSON.
    pub json: Vec<u8>,
}

/// Renders a rejected message as it is stored, and its announcement.
pub(crate) fn render(message: StoredMessage<'_>, error: &DecodeError) -> (Vec<u8>, Announcement) {
    let payload = message.payload;
    let attributes: Attributes = serde_json::from_slice(payload).unwrap_or_default();
    let notice = RejectionNotice {
        seq: message.seq,
        recorded_at: message.recorded_at,
        subject: beginning(message.subject, SUBJECT_BYTES_MAX).into(),
        source: text(&attributes.source),
        id: text(&attributes.id),
        code: error.code().into(),
        reason: beginning(&error.to_string(), REASON_BYTES_MAX).to_owned(),
        payload_bytes: payload.len(),
    };
    let announcement = announcement(&notice);
    // A character at the end of what is stored may take four bytes.
    let stored = &payload[..payload.len().min(PAYLOAD_BYTES_MAX + 4)];
    let rejection = Rejection {
        notice,
        payload: beginning(&String::from_utf8_lossy(stored), PAYLOAD_BYTES_MAX).to_owned(),
    };
    (json::render(&rejection), announcement)
}

fn announcement(notice: &RejectionNotice<'_>) -> Announcement {
    Announcement {
        seq: notice.seq,
        recorded_at: notice.recorded_at,
        subject: notice.subject.clone().into_owned(),
        source: notice.source.clone(),
        json: json::render(notice),
    }
}

/// The announcements of the latest rejected messages of a store, in the order of the log.
///
/// # Errors
/// Returns a [`StoreError`] if one is damaged, or cannot be read.
pub fn latest(store: &Store, max: usize) -> StoreResult<Vec<Announcement>> {
    let latest = store.scan(keys::REJECTIONS).rev().take(max).map(|entry| {
        let (key, value) = entry?;
        let notice: RejectionNotice<'_> = parse(&key, &value)?;
        Ok::<_, StoreError>(announcement(&notice))
    });
    let mut latest = latest.collect::<Result<Vec<_>, _>>()?;
    latest.reverse();
    Ok(latest)
}

/// The attributes of a message that is a JSON object but not an event.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Attributes {
    source: Value,
    id: Value,
}

fn text(attribute: &Value) -> String {
    beginning(attribute.as_str().unwrap_or_default(), ATTRIBUTE_BYTES_MAX).to_owned()
}
