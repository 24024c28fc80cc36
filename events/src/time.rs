//! [`Moment`]: a point in time on the wire.

use std::fmt;

use jiff::Timestamp;

use crate::ParseError;

/// A point in time: RFC 3339 with any offset on the way in, UTC with milliseconds on the way out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Moment(Timestamp);

impl Moment {
    /// Parses RFC 3339, such as `2026-11-21T14:32:00+08:00`.
    ///
    /// # Errors
    /// Any other form.
    pub fn parse(text: &str) -> Result<Self, ParseError> {
        text.parse::<Timestamp>()
            .map(Self)
            .map_err(|_| ParseError::new("a time is RFC 3339 with an offset", text))
    }

    /// The timestamp.
    #[must_use]
    pub fn timestamp(self) -> Timestamp {
        self.0
    }
}

impl From<Timestamp> for Moment {
    fn from(time: Timestamp) -> Self {
        Self(time)
    }
}

impl fmt::Display for Moment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:.3}", self.0)
    }
}

impl TryFrom<String> for Moment {
    type Error = ParseError;

    fn try_from(text: String) -> Result<Self, ParseError> {
        Self::parse(&text)
    }
}

impl From<Moment> for String {
    fn from(time: Moment) -> Self {
        time.to_string()
    }
}

impl schemars::JsonSchema for Moment {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Moment".into()
    }

    fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        schemars::json_schema!({
            "type": "string",
            "format": "date-time",
            "description": "RFC 3339 with an offset.",
            "examples": ["2026-11-21T14:32:00+08:00"],
        })
    }
}
