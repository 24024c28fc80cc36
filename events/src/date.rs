//! [`RacingDate`]: the date of a meeting.

use std::fmt;
use std::ops::Range;

use jiff::civil::Date;
use schemars::JsonSchema;

use crate::ParseError;
use crate::string_form::string_form;

/// The date of a meeting, `YYYY-MM-DD`, from 1700 to 2999.
///
/// It is the date of the meeting, not of the clock: a race at 00:20 belongs to the meeting of the evening before.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, JsonSchema)]
#[schemars(with = "String", description = "The date of the meeting, YYYY-MM-DD.")]
#[schemars(extend(
    "format" = "date",
    "pattern" = "^(1[7-9]|2[0-9])[0-9]{2}-(0[1-9]|1[0-2])-(0[1-9]|[12][0-9]|3[01])$",
    "examples" = ["2026-11-21"],
))]
pub struct RacingDate(Date);

string_form!(RacingDate);

impl RacingDate {
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
        let (year, month, day) = (number(0..4)?, number(5..7)?, number(8..10)?);
        if !Self::YEARS.contains(&year) {
            return None;
        }
        let date = Date::new(year, i8::try_from(month).ok()?, i8::try_from(day).ok()?);
        date.ok().map(Self)
    }

    /// The calendar date.
    pub fn civil(self) -> Date {
        self.0
    }
}

impl From<Date> for RacingDate {
    fn from(date: Date) -> Self {
        Self(date)
    }
}

impl fmt::Display for RacingDate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{:04}-{:02}-{:02}",
            self.0.year(),
            self.0.month(),
            self.0.day()
        )
    }
}

#[cfg(test)]
mod tests {
    use super::RacingDate;

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
    fn dates_are_ordered_as_days_are() {
        let [a, b] = ["2026-09-30", "2026-10-01"].map(|t| RacingDate::parse(t).expect("a date"));
        assert!(a < b && a.to_string() < b.to_string());
    }
}
