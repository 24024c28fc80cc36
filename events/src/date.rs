//! [`RacingDate`]: the date of a meeting.

use std::ops::Range;

use derive_more::{Display, From};
use jiff::civil::Date;
use jiff::tz::Offset;
use schemars::JsonSchema;

use crate::string_form::string_form;
use crate::{Moment, ParseError};

/// The date of a meeting, `YYYY-MM-DD`, from 1700 to 2999.
///
/// It is the date of the meeting, not of the clock: a race at 00:20 belongs to the meeting of the evening before.
#[derive(Debug, Display, From, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, JsonSchema)]
#[display("{:04}-{:02}-{:02}", _0.year(), _0.month(), _0.day())]
#[schemars(with = "String", description = "The date of the meeting, YYYY-MM-DD.")]
#[schemars(extend("format" = "date", "pattern" = RacingDate::PATTERN))]
#[schemars(extend("examples" = ["2026-11-21"]))]
pub struct RacingDate(Date);

string_form!(RacingDate);

impl RacingDate {
    /// The regular expression of every text that [`parse`](Self::parse) accepts, and of no other, in the published
    /// schemas.
    ///
    /// The last alternative is 29 February: of years that 4 divides, but of those that 100 divides only 2000, 2400 and
    /// 2800.
    pub const PATTERN: &'static str = concat!(
        "^((1[7-9]|2[0-9])[0-9]{2}-((0[13578]|1[02])-(0[1-9]|[12][0-9]|3[01])",
        "|(0[469]|11)-(0[1-9]|[12][0-9]|30)|02-(0[1-9]|1[0-9]|2[0-8]))",
        "|((1[7-9]|2[0-9])(0[48]|[2468][048]|[13579][26])|2[048]00)-02-29)$",
    );

    /// The years that the wire form can hold.
    pub(crate) const YEARS: Range<i16> = 1700..3000;

    /// Parses exactly `YYYY-MM-DD`.
    ///
    /// # Errors
    /// Returns [`ParseError`] for any other form, a day that is not in the calendar, and a year outside 1700 to 2999.
    pub fn parse(text: &str) -> Result<Self, ParseError> {
        Self::from_text(text).ok_or_else(|| ParseError::new("a date is YYYY-MM-DD", text))
    }

    fn from_text(text: &str) -> Option<Self> {
        let bytes = text.as_bytes();
        if bytes.len() != 10 || bytes[4] != b'-' || bytes[7] != b'-' {
            return None;
        }
        let number = |range: Range<usize>| {
            bytes[range].iter().try_fold(0_i16, |n, b| {
                b.is_ascii_digit().then(|| n * 10 + i16::from(b - b'0'))
            })
        };
        let year = number(0..4)?;
        let month = number(5..7)?;
        let day = number(8..10)?;
        let date = Date::new(year, i8::try_from(month).ok()?, i8::try_from(day).ok()?);
        date.ok().filter(|_| Self::YEARS.contains(&year)).map(Self)
    }

    /// The earliest date that has not ended everywhere at a time: at UTC-12, the last time zone.
    pub fn earliest_at(time: Moment) -> Self {
        Self(Offset::constant(-12).to_datetime(time.timestamp()).date())
    }

    /// The date at a time, in UTC.
    pub fn at(time: Moment) -> Self {
        Self(Offset::UTC.to_datetime(time.timestamp()).date())
    }

    /// The calendar date.
    pub fn civil(self) -> Date {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::{Moment, RacingDate};

    /// Checks that the published pattern and the parser agree on a text.
    fn check(pattern: &jsonschema::Validator, text: &str) {
        let parsed = RacingDate::parse(text).is_ok();
        assert_eq!(pattern.is_valid(&json!(text)), parsed, "{text:?}");
    }

    fn pattern() -> jsonschema::Validator {
        let schema = json!({ "type": "string", "pattern": RacingDate::PATTERN });
        jsonschema::validator_for(&schema).expect("a schema")
    }

    #[test]
    fn the_pattern_accepts_the_days_of_the_calendar() {
        let pattern = pattern();
        check(&pattern, "0195-05-26");
        for year in (0..=9_999).filter(|year| year % 97 == 0 || (1_690..3_010).contains(year)) {
            for month in 0..=13 {
                for day in [0, 1, 10, 28, 29, 30, 31, 32] {
                    check(&pattern, &format!("{year:04}-{month:02}-{day:02}"));
                }
            }
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn what_the_pattern_accepts_is_parsed(
            text in proptest::string::string_regex(RacingDate::PATTERN.trim_matches(['^', '$'])).expect("a pattern"),
        ) {
            prop_assert!(RacingDate::parse(&text).is_ok(), "{}", text);
        }

        #[test]
        fn the_pattern_accepts_what_is_parsed(text in "[0-9]{3,4}-?[0-2]?[0-9]-[0-3][0-9]|[12][0-9]{3}-[01][0-9]-[0-3][0-9]\\PC?|\\PC*") {
            check(&pattern(), &text);
        }
    }

    #[test]
    fn a_date_is_a_day_of_the_calendar() {
        for text in [
            "1700-01-01",
            "2024-02-29",
            "2000-02-29",
            "2026-11-21",
            "2999-12-31",
        ] {
            assert_eq!(RacingDate::parse(text).expect(text).to_string(), text);
        }
        for text in [
            "",
            "2026-02-29",
            "1900-02-29",
            "2026-13-01",
            "2026-00-01",
            "2026-01-00",
            "2026-04-31",
            "0000-13-99",
            "1699-12-31",
            "3000-01-01",
            "2026-1-1",
            "26-11-21",
            "2026/11/21",
            "20261121",
            "2026-11-21 ",
            " 2026-11-2",
            "2026-11-+1",
            "-026-11-21",
            "2026-11-21T00:00:00Z",
            "２０２６-11",
        ] {
            assert!(RacingDate::parse(text).is_err(), "{text:?}");
        }
    }

    #[test]
    fn a_date_has_ended_everywhere_36_hours_after_it_began_in_utc() {
        for (time, earliest) in [
            ("2026-11-22T11:59:59.999999Z", "2026-11-21"),
            ("2026-11-22T12:00:00Z", "2026-11-22"),
            ("2027-01-01T11:00:00Z", "2026-12-31"),
        ] {
            let time = Moment::parse(time).expect("a time");
            assert_eq!(RacingDate::earliest_at(time).to_string(), earliest);
        }
        for time in ["0001-01-01T00:00:00Z", "9998-12-31T23:59:59Z"] {
            RacingDate::earliest_at(Moment::parse(time).expect("a time"));
        }
    }

    #[test]
    fn dates_are_ordered_as_days_are() {
        let [a, b] = ["2026-09-30", "2026-10-01"].map(|t| RacingDate::parse(t).expect("a date"));
        assert!(a < b && a.to_string() < b.to_string());
    }
}
