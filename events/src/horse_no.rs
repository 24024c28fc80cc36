//! [`HorseNo`]: the lasting identifier of a horse.

use schemars::JsonSchema;

use crate::ParseError;
use crate::string_form::{code, string_newtype};

/// A horse's lasting identifier, such as `HK_2016_A123`: 1 to 32 of `A-Z a-z 0-9 _ -`.
///
/// Hong Kong reuses the short brand (`A123`) after some years, so the year is part of the number.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, JsonSchema)]
#[schemars(description = "A horse's lasting identifier, such as HK_2016_A123.")]
#[schemars(extend("pattern" = "^[A-Za-z0-9_-]{1,32}$", "examples" = ["HK_2016_A123"]))]
pub struct HorseNo(String);

string_newtype!(HorseNo);

impl HorseNo {
    /// Parses a horse number.
    ///
    /// # Errors
    /// Returns [`ParseError`] for an empty text, more than 32 characters, or any other character.
    pub fn parse(text: &str) -> Result<Self, ParseError> {
        let known = |(_, b): (_, u8)| b.is_ascii_alphanumeric() || b == b'_' || b == b'-';
        let expected = "a horse number is 1 to 32 of A-Z a-z 0-9 _ -";
        code(text, 1..=32, known, expected).map(Self)
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
        // A dot, a blank, a star and an angle bracket have a meaning in a subject, a slash has one in a key of the
        // store.
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
