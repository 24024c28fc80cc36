//! [`CloudEvent`]: the wire form of every event, in every stream.

use std::borrow::Cow;
use std::collections::HashMap;

use serde::de::IgnoredAny;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::error::cut_reason;
use crate::object::Object;
use crate::{DecodeError, Moment};

pub(crate) const SPECVERSION: &str = "1.0";

/// Why an object without attributes is rejected: in the binary mode of the NATS binding, the attributes are headers of
/// the message, and its bytes are `data` alone.
const NOT_STRUCTURED: &str = "it has no `specversion`, `id`, `source` or `type`. Events are in structured mode: the \
    attributes and `data` are one JSON object. Binary mode, with the attributes in headers, is not supported";

/// A CloudEvents 1.0 JSON object. Other attributes than these are ignored.
#[derive(Debug, Serialize, Deserialize)]
pub struct CloudEvent<'a> {
    #[serde(borrow)]
    specversion: Cow<'a, str>,
    /// The event's identity.
    #[serde(borrow)]
    pub id: Cow<'a, str>,
    /// The publisher.
    #[serde(borrow)]
    pub source: Cow<'a, str>,
    /// The type of `data`.
    #[serde(borrow, rename = "type")]
    pub type_name: Cow<'a, str>,
    /// When it happened.
    pub time: Moment,
    /// The fact, as JSON.
    pub data: &'a RawValue,
}

impl<'a> CloudEvent<'a> {
    /// An event with these attributes.
    pub fn new(
        id: &'a str,
        source: &'a str,
        type_name: &'a str,
        time: Moment,
        data: &'a RawValue,
    ) -> Self {
        Self {
            specversion: SPECVERSION.into(),
            id: id.into(),
            source: source.into(),
            type_name: type_name.into(),
            time,
            data,
        }
    }

    /// Parses an event. The caller checks the values of the attributes.
    ///
    /// # Errors
    /// Returns [`DecodeError::NotCloudEvent`] if the bytes are not a JSON object with all attributes, or if
    /// `specversion` is not 1.0.
    pub fn from_json(bytes: &'a [u8]) -> Result<Self, DecodeError> {
        let Object(event): Object<Self> = serde_json::from_slice(bytes).map_err(|error| {
            DecodeError::NotCloudEvent(match has_attributes(bytes) {
                Some(false) => NOT_STRUCTURED.to_owned(),
                _ => cut_reason(&error.to_string()),
            })
        })?;
        if event.specversion != SPECVERSION {
            return Err(DecodeError::NotCloudEvent(format!(
                "specversion is {:?}, not {SPECVERSION}",
                cut(&event.specversion)
            )));
        }
        Ok(event)
    }

    /// Renders the event.
    pub fn to_json(&self) -> Vec<u8> {
        serde_json::to_vec(self).expect("strings and raw JSON always serialise")
    }
}

/// Whether a JSON object has an attribute of a CloudEvent that `data` does not have; `None` if it is not an object.
fn has_attributes(bytes: &[u8]) -> Option<bool> {
    let object: HashMap<Cow<'_, str>, IgnoredAny> = serde_json::from_slice(bytes).ok()?;
    let mut names = ["specversion", "id", "source", "type"].into_iter();
    Some(names.any(|name| object.contains_key(name)))
}

/// The start of an attribute, as an error quotes it.
pub(crate) fn cut(text: &str) -> String {
    text.chars().take(40).collect()
}
