//! Facts about a horse.

use derive_more::Display;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{check_age, check_stakes, empty_but, invalid, merge_names};
use crate::string_form::string_form;
use crate::{DecodeError, HorseNo, Names, ParseError, RacingDate, Text, object};

/// A full statement of a horse's identity. It replaces the earlier one.
#[serde_with::skip_serializing_none]
#[serde_with::apply(Names => #[serde(default, skip_serializing_if = "Names::is_empty")])]
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(extend(
    "if" = { "properties": { "age": { "type": "null" } } },
    "then" = { "properties": { "age_as_of": { "type": "null" } } },
    "else" = { "required": ["age_as_of"], "properties": { "age_as_of": { "type": "string" } } },
))]
pub struct HorseRegistered {
    /// The horse.
    pub horse_no: HorseNo,
    /// Its name.
    pub horse_name: Text,
    /// Its name in other languages.
    pub names: Names,
    /// The country where it was bred: a short code such as `AUS`. It decides the birthday: 1 August in the southern
    /// hemisphere, 1 January elsewhere.
    pub country_of_origin: Text,
    /// Its colour.
    pub colour: Text,
    /// Its sex.
    pub sex: Text,
    /// When it was foaled, if that is known.
    pub foaled: Option<Foaled>,
    /// Its official age on `age_as_of`, if the foaling year is unknown. Years, 0 to 60.
    #[schemars(range(max = 60))]
    pub age: Option<u8>,
    /// The date of `age`.
    pub age_as_of: Option<RacingDate>,
    /// Its trainer.
    pub trainer: Text,
    /// The trainer's name in other languages.
    pub trainer_names: Names,
    /// Its owner.
    pub owner: Text,
    /// The owner's name in other languages.
    pub owner_names: Names,
    /// The currency of its stakes, such as `HKD`.
    pub stakes_currency: Option<Text>,
    /// Its career before the first race in this log.
    #[serde(default, deserialize_with = "object::option")]
    pub career: Option<Career>,
}

impl HorseRegistered {
    /// A horse of which nothing else is known.
    pub fn of(horse_no: HorseNo) -> Self {
        empty_but!(
            horse_no: horse_no;
            horse_name names country_of_origin colour sex foaled age age_as_of trainer trainer_names owner owner_names
            stakes_currency career
        )
    }

    pub(crate) fn check(&self) -> Result<(), DecodeError> {
        check_age(|| "data.age".to_owned(), self.age)?;
        if self.age.is_some() != self.age_as_of.is_some() {
            return Err(invalid("data.age_as_of", "age and age_as_of go together"));
        }
        let path = || "data.career.total_stakes".to_owned();
        check_stakes(path, self.career.unwrap_or_default().total_stakes)
    }
}

merge_names!(HorseRegistered: horse_name + names: merge, trainer + trainer_names: merge_person,
    owner + owner_names: merge_person);

/// Career figures. Each is a count but `total_stakes`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Career {
    /// Races that it started in.
    pub starts: u32,
    /// Races that it won, including dead heats for first place.
    pub wins: u32,
    /// Second and third places.
    pub places: u32,
    /// Stakes won, in whole units of the currency.
    #[schemars(range(max = 1_000_000_000_000_u64))]
    pub total_stakes: u64,
}

/// When a horse was foaled: a year (`2014`), or a day (`2014-09-03`).
///
/// A horse bred in the southern hemisphere has its birthday on 1 August, any other on 1 January (International
/// Federation of Horseracing Authorities, International Agreement, article 13). A year alone means, for a southern
/// horse, the season that begins in August of that year.
#[derive(Debug, Display, Clone, Copy, PartialEq, Eq, JsonSchema)]
#[schemars(with = "String")]
#[schemars(description = "The foaling year, YYYY, or day, YYYY-MM-DD.")]
#[schemars(extend(
    "pattern" = "^(1[7-9]|2[0-9])[0-9]{2}(-(0[1-9]|1[0-2])-(0[1-9]|[12][0-9]|3[01]))?$",
    "if" = { "minLength": 5 },
    "then" = { "format": "date" },
    "examples" = ["2014", "2014-09-03"],
))]
pub enum Foaled {
    /// Only the year is known.
    #[display("{_0:04}")]
    Year(i16),
    /// The day is known.
    Day(RacingDate),
}

string_form!(Foaled);

impl Foaled {
    /// Parses a year or a date.
    ///
    /// # Errors
    /// Returns [`ParseError`] for any other form.
    pub fn parse(text: &str) -> Result<Self, ParseError> {
        let year = text.parse().unwrap_or(0);
        let is_year = text.len() == 4 && text.bytes().all(|b| b.is_ascii_digit());
        if is_year && RacingDate::YEARS.contains(&year) {
            return Ok(Self::Year(year));
        }
        let day = RacingDate::parse(text).map(Self::Day);
        day.map_err(|_| ParseError::new("foaled is YYYY or YYYY-MM-DD", text))
    }
}

#[cfg(test)]
mod tests {
    use super::Foaled;

    #[test]
    fn foaled_is_a_year_or_a_day() {
        assert_eq!(Foaled::parse("2014"), Ok(Foaled::Year(2014)));
        for text in ["1700", "2999", "2014-09-03"] {
            assert_eq!(Foaled::parse(text).expect(text).to_string(), text);
        }
        for text in [
            "",
            "14",
            "1699",
            "3000",
            "20140",
            "2014-09",
            "2014-02-29",
            "201４",
            "+014",
            "2014-09-03T00:00:00Z",
        ] {
            assert!(Foaled::parse(text).is_err(), "{text:?}");
        }
    }
}
