//! [`Text`]: a short line of plain text.

use std::fmt;

use crate::ParseError;

/// One line of text, such as a name: trimmed, at most 256 bytes of UTF-8, no control characters. Empty means
/// not known.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize)]
#[serde(try_from = "String")]
pub struct Text(String);

impl Text {
    /// Names, colours and reasons are short; a bound keeps every view small.
    const BYTES_MAX: usize = 256;

    /// Parses a line of text.
    ///
    /// # Errors
    /// More than 256 bytes, or a control character.
    pub fn parse(text: &str) -> Result<Self, ParseError> {
        let text = text.trim();
        if text.len() > Self::BYTES_MAX {
            return Err(ParseError::new("at most 256 bytes of text", text));
        }
        if text.chars().any(char::is_control) {
            return Err(ParseError::new("text without control characters", text));
        }
        Ok(Self(text.to_owned()))
    }

    /// The text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Whether nothing is known.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// This text, or the other one where this is empty.
    #[must_use]
    pub fn or<'a>(&'a self, other: &'a Self) -> &'a Self {
        if self.is_empty() { other } else { self }
    }
}

impl fmt::Display for Text {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl TryFrom<String> for Text {
    type Error = ParseError;

    fn try_from(text: String) -> Result<Self, ParseError> {
        Self::parse(&text)
    }
}

impl schemars::JsonSchema for Text {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Text".into()
    }

    fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        schemars::json_schema!({
            "type": "string",
            "maxLength": Self::BYTES_MAX,
            "pattern": r"^[^\u0000-\u001f\u007f-\u009f]*$",
            "description": "One line of text, at most 256 bytes of UTF-8.",
        })
    }
}
