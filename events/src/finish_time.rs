//! [`FinishTime`]: the time of a runner from the start to the finish.

use derive_more::Display;
use schemars::JsonSchema;

use crate::ParseError;
use crate::string_form::string_form;

/// A finish time in integer hundredths of a second, under an hour. On the wire `m:ss.cc`: `1:40.79`, `0:56.47`.
#[derive(Debug, Display, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, JsonSchema)]
#[display("{}:{:02}.{:02}", _0 / 6000, _0 / 100 % 60, _0 % 100)]
#[schemars(with = "String")]
#[schemars(description = "Minutes, seconds and hundredths: m:ss.cc.")]
#[schemars(extend(
    // Without a negative lookahead for zero, which some generators' languages do not have.
    "pattern" = concat!(
        r"^(([1-9]|0[1-9]|[1-5][0-9]):[0-5][0-9]\.[0-9]{2}|0?0:(0[1-9]|[1-5][0-9])\.[0-9]{2}",
        r"|0?0:00\.(0[1-9]|[1-9][0-9]))$",
    ),
    "examples" = ["1:40.79"],
))]
pub struct FinishTime(u32);

string_form!(FinishTime);

impl FinishTime {
    const EXPECTED: &'static str = "a finish time is m:ss.cc";
    const HOUR: u32 = 60 * 60 * 100;

    /// A time of this many hundredths of a second.
    ///
    /// # Errors
    /// Returns [`ParseError`] for zero, and for an hour or more.
    pub fn from_hundredths(hundredths: u32) -> Result<Self, ParseError> {
        let is_in_range = (1..Self::HOUR).contains(&hundredths);
        let time = is_in_range.then_some(Self(hundredths));
        let expected = "a finish time is above 0 and under an hour";
        time.ok_or_else(|| ParseError::new(expected, hundredths))
    }

    /// Parses `m:ss.cc`.
    ///
    /// # Errors
    /// Returns [`ParseError`] for any other form, for zero, and for an hour or more.
    pub fn parse(text: &str) -> Result<Self, ParseError> {
        let wrong = || ParseError::new(Self::EXPECTED, text);
        let (minutes, rest) = text.split_once(':').ok_or_else(wrong)?;
        let (seconds, hundredths) = rest.split_once('.').ok_or_else(wrong)?;
        let digits = |t: &str, lens: std::ops::RangeInclusive<usize>| {
            let plain = lens.contains(&t.len()) && t.bytes().all(|b| b.is_ascii_digit());
            t.parse::<u32>().ok().filter(|_| plain).ok_or_else(wrong)
        };
        let minutes = digits(minutes, 1..=2)?;
        let seconds = digits(seconds, 2..=2)?;
        let hundredths = digits(hundredths, 2..=2)?;
        if seconds >= 60 {
            return Err(wrong());
        }
        Self::from_hundredths((minutes * 60 + seconds) * 100 + hundredths)
    }

    /// The time in hundredths of a second.
    pub fn hundredths(self) -> u32 {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::FinishTime;

    #[test]
    fn a_time_is_written_as_minutes_seconds_hundredths() {
        for (hundredths, text) in [
            (10_079, "1:40.79"),
            (5_647, "0:56.47"),
            (60_233, "10:02.33"),
            (1, "0:00.01"),
        ] {
            let time = FinishTime::from_hundredths(hundredths).expect("in range");
            assert_eq!(time.to_string(), text);
            assert_eq!(FinishTime::parse(text), Ok(time));
        }
    }

    #[test]
    fn an_invalid_finish_time_is_rejected() {
        for text in [
            "", "---", "56.47", "1:60.00", "1:40.7", "1:40.790", "-1:40.79", "1:40:79", "60:00.00",
            "0:00.00", "+1:40.79",
        ] {
            assert!(FinishTime::parse(text).is_err(), "{text}");
        }
    }
}
