//! [`Text`]: a short line of plain text, such as a name.

use schemars::JsonSchema;

use crate::ParseError;
use crate::string_form::string_newtype;

/// One line of text: trimmed, at most 256 bytes of UTF-8, without control characters. Empty means unknown.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Hash, JsonSchema)]
#[schemars(
    description = "One line of text, at most 256 bytes of UTF-8. White space around it is cut off.",
    extend("pattern" = r"^[\s\u0085]*[^\u0000-\u001f\u007f-\u009f]{0,256}[\s\u0085]*$")
)]
pub struct Text(String);

string_newtype!(Text);

impl Text {
    /// The bound keeps every view small. Names, colours and reasons are shorter.
    const BYTES_MAX: usize = 256;

    /// Parses a line of text.
    ///
    /// # Errors
    /// Returns [`ParseError`] for more than 256 bytes, and for a control character.
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

    /// Whether the text is empty, which means unknown.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// This text, or the other one if this one is empty.
    pub fn or<'a>(&'a self, other: &'a Self) -> &'a Self {
        if self.is_empty() { other } else { self }
    }
}

#[cfg(test)]
mod tests {
    use super::Text;

    #[test]
    fn text_is_trimmed_and_bounded_in_bytes() {
        let text = |text: &str| Text::parse(text).map(|text| text.as_str().to_owned());
        assert_eq!(text("").as_deref(), Ok(""));
        assert_eq!(text("\t a  b\u{3000}\r\n").as_deref(), Ok("a  b"));
        assert_eq!(text("沙田").as_deref(), Ok("沙田"));
        assert!(text(&"é".repeat(128)).is_ok());
        assert!(text(&"é".repeat(129)).is_err());
        assert!(text(&format!(" {} ", "x".repeat(256))).is_ok());
        assert!(text(&"x".repeat(1024 * 1024)).is_err());
    }

    #[test]
    fn control_characters_are_rejected() {
        for control in ["a\nb", "a\0b", "a\u{7f}b", "a\u{9f}b", "\0"] {
            assert!(Text::parse(control).is_err(), "{control:?}");
        }
    }

    #[test]
    fn an_error_quotes_at_most_40_characters() {
        let error = Text::parse(&"é".repeat(200)).expect_err("too long");
        assert_eq!(error.found, format!("{}…", "é".repeat(40)));
    }

    #[test]
    fn the_other_text_replaces_an_empty_one() {
        let [empty, said, card] = ["", "said", "card"].map(|t| Text::parse(t).expect("text"));
        assert_eq!(said.or(&card).as_str(), "said");
        assert_eq!(empty.or(&card).as_str(), "card");
        assert!(empty.is_empty());
    }
}
