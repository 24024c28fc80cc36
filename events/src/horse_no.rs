//! [`HorseNo`]: the lasting identifier of a horse.

use std::fmt;

use crate::ParseError;

/// A horse's lasting identifier, such as `HK_2016_A123`: 1 to 32 of `A-Z a-z 0-9 _ -`.
///
/// Hong Kong reuses the short brand (`A123`) after some years, so the year is part of the number.
#[derive(
    Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize,
)]
#[serde(try_from = "String")]
pub struct HorseNo(String);

impl HorseNo {
    const LEN_MAX: usize = 32;

    /// Parses a horse number.
    ///
    /// # Errors
    /// Returns [`ParseError`] for an empty text, more than 32 characters, or any other character.
    pub fn parse(text: &str) -> Result<Self, ParseError> {
        Self::check(text)?;
        Ok(Self(text.to_owned()))
    }

    fn check(text: &str) -> Result<(), ParseError> {
        let known = |b: u8| b.is_ascii_alphanumeric() || b == b'_' || b == b'-';
        if text.is_empty() || text.len() > Self::LEN_MAX || !text.bytes().all(known) {
            return Err(ParseError::new(
                "a horse number is 1 to 32 of A-Z a-z 0-9 _ -",
                text,
            ));
        }
        Ok(())
    }

    /// The number as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for HorseNo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl TryFrom<String> for HorseNo {
    type Error = ParseError;

    fn try_from(text: String) -> Result<Self, ParseError> {
        Self::check(&text)?;
        Ok(Self(text))
    }
}

impl schemars::JsonSchema for HorseNo {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "HorseNo".into()
    }

    fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        schemars::json_schema!({
            "type": "string",
            "pattern": "^[A-Za-z0-9_-]{1,32}$",
            "description": "A horse's lasting identifier, such as HK_2016_A123.",
            "examples": ["HK_2016_A123"],
        })
    }
}

#[cfg(test)]
mod tests {
    use super::HorseNo;

    #[test]
    fn a_horse_number_is_1_to_32_of_its_characters() {
        for text in ["A", "HK_2016_A123", "a-Z_0", "-", &"x".repeat(32)] {
            assert_eq!(HorseNo::parse(text).expect(text).as_str(), text);
        }
        // A dot, a blank, a star and an angle bracket have a meaning in a subject, a slash has one in a key of the store.
        for text in [
            "",
            " A",
            "A B",
            "A.B",
            "A/B",
            "*",
            ">",
            "Ä",
            "A\0",
            &"x".repeat(33),
        ] {
            assert!(HorseNo::parse(text).is_err(), "{text:?}");
        }
    }
}
