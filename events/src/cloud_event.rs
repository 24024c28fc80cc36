//! [`CloudEvent`]: the wire form of every event, in whichever stream it stands.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::event::cut_reason;
use crate::object::Object;
use crate::{DecodeError, Moment};

/// The version of CloudEvents that is written and read.
const SPECVERSION: &str = "1.0";

/// A CloudEvents 1.0 JSON object. Attributes that are not listed are ignored.
#[derive(Debug, Serialize, Deserialize)]
pub struct CloudEvent<'a> {
    #[serde(borrow)]
    specversion: Cow<'a, str>,
    /// The event's identity.
    #[serde(borrow)]
    pub id: Cow<'a, str>,
    /// Who says so.
    #[serde(borrow)]
    pub source: Cow<'a, str>,
    /// What `data` is.
    #[serde(borrow, rename = "type")]
    pub type_name: Cow<'a, str>,
    /// When it happened.
    pub time: Moment,
    /// What happened, as JSON.
    #[serde(borrow)]
    pub data: &'a RawValue,
}

impl<'a> CloudEvent<'a> {
    /// An event of these attributes.
    #[must_use]
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

    /// Reads an event. What its attributes say is the caller's to check.
    ///
    /// # Errors
    /// [`DecodeError::NotCloudEvent`].
    pub fn from_json(bytes: &'a [u8]) -> Result<Self, DecodeError> {
        let Object(event): Object<Self> = serde_json::from_slice(bytes)
            .map_err(|e| DecodeError::NotCloudEvent(cut_reason(&e.to_string())))?;
        if event.specversion != SPECVERSION {
            return Err(DecodeError::NotCloudEvent(format!(
                "specversion is {:?}, not {SPECVERSION}",
                cut(&event.specversion)
            )));
        }
        Ok(event)
    }

    /// The bytes of a message.
    #[must_use]
    pub fn to_json(&self) -> Vec<u8> {
        serde_json::to_vec(self).expect("strings and raw JSON always serialise")
    }
}

/// What is quoted of an attribute in an error.
pub(crate) fn cut(text: &str) -> String {
    text.chars().take(40).collect()
}
