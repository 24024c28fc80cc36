//! [`RaceKey`]: the identity of a race, and its parts.

use derive_more::Display;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::string_form::{code, string_newtype};
use crate::{ParseError, RacingDate};

/// A venue's short code, such as `ST`, `HV`, `S1`: 1 to 8 of `A-Z 0-9`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, JsonSchema)]
#[schemars(description = "A venue's short code.")]
#[schemars(extend("pattern" = "^[A-Z0-9]{1,8}$", "examples" = ["ST"]))]
pub struct VenueCode(String);

string_newtype!(VenueCode);

impl VenueCode {
    /// Parses a venue code.
    ///
    /// # Errors
    /// Returns [`ParseError`] for an empty text, more than 8 characters, or any other character.
    pub fn parse(text: &str) -> Result<Self, ParseError> {
        let known = |(_, b): (_, u8)| b.is_ascii_uppercase() || b.is_ascii_digit();
        code(text, 1..=8, known, "a venue code is 1 to 8 of A-Z 0-9").map(Self)
    }
}

/// A race's number within its meeting: 1 to 999. The numbers of a meeting may have gaps.
#[derive(Debug, Display, Serialize, Deserialize, JsonSchema)]
#[serde(try_from = "u16")]
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[schemars(with = "serde_json::Number")]
#[schemars(description = "The race's number within its meeting.")]
#[schemars(extend("type" = "integer", "minimum" = 1, "maximum" = 999))]
pub struct RaceNumber(u16);

impl RaceNumber {
    /// Parses decimal digits without sign or leading zero.
    ///
    /// # Errors
    /// Returns [`ParseError`] for any other text than 1 to 999.
    pub fn parse(text: &str) -> Result<Self, ParseError> {
        let plain = text.bytes().all(|b| b.is_ascii_digit()) && !text.starts_with('0');
        let number = text.parse::<u16>().ok().filter(|_| plain);
        let number = number.and_then(|number| Self::try_from(number).ok());
        number.ok_or_else(|| ParseError::new("a race number is 1 to 999", text))
    }

    pub fn get(self) -> u16 {
        self.0
    }
}

impl TryFrom<u16> for RaceNumber {
    type Error = ParseError;

    fn try_from(number: u16) -> Result<Self, ParseError> {
        let known = (1..1000).contains(&number).then_some(Self(number));
        known.ok_or_else(|| ParseError::new("a race number is 1 to 999", number))
    }
}

/// The identity of a race: date, venue and number. Date and number are not enough, because two meetings may share a
/// date. Displayed as in a subject: `2026-11-21.ST.3`.
#[derive(Debug, Display, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[display("{date}.{venue}.{race_number}")]
pub struct RaceKey {
    /// The meeting's date.
    pub date: RacingDate,
    /// The meeting's venue.
    pub venue: VenueCode,
    /// The race within the meeting.
    pub race_number: RaceNumber,
}

#[cfg(test)]
mod tests {
    use super::{RaceNumber, VenueCode};

    #[test]
    fn a_race_number_is_1_to_999() {
        for (text, number) in [("1", 1), ("11", 11), ("999", 999)] {
            assert_eq!(RaceNumber::parse(text).map(RaceNumber::get), Ok(number));
        }
        for text in [
            "",
            "0",
            "01",
            "1000",
            "65537",
            "99999999999999999999",
            "-1",
            "+1",
            "1.0",
            " 1",
            "x",
            "１",
        ] {
            assert!(RaceNumber::parse(text).is_err(), "{text:?}");
        }
        assert!(serde_json::from_str::<RaceNumber>("0").is_err());
        assert!(serde_json::from_str::<RaceNumber>("\"1\"").is_err());
        assert!(serde_json::from_str::<RaceNumber>("1000").is_err());
    }

    #[test]
    fn a_venue_code_is_1_to_8_capitals_and_digits() {
        for text in ["ST", "S1", "1", "ABCDEFGH"] {
            assert_eq!(VenueCode::parse(text).expect(text).as_str(), text);
        }
        for text in ["", "st", "S T", "S.T", "S/T", "S-T", "ABCDEFGHI", "É"] {
            assert!(VenueCode::parse(text).is_err(), "{text:?}");
        }
    }
}
