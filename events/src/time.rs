//! [`Moment`]: a point in time.

use std::ops::Range;
use std::time::Duration;

use derive_more::Display;
use jiff::Timestamp;
use schemars::JsonSchema;

use crate::ParseError;
use crate::string_form::string_form;

/// A point in time, to the microsecond. It is parsed from RFC 3339 with any offset, and rendered in UTC.
///
/// Smaller units are cut off when it is made, so that a moment survives a round trip unchanged.
#[derive(Debug, Display, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, JsonSchema)]
#[schemars(with = "String", description = "RFC 3339 with an offset.")]
#[schemars(extend(
    "format" = "date-time",
    "pattern" = r"^[0-9]{4}-(0[1-9]|1[0-2])-(0[1-9]|[12][0-9]|3[01])[Tt]([01][0-9]|2[0-3]):[0-5][0-9]:([0-5][0-9]|60)(\.[0-9]{1,9})?([Zz]|[+-]([01][0-9]|2[0-3]):[0-5][0-9])$",
    "examples" = ["2026-11-21T14:32:00+08:00"],
))]
pub struct Moment(Timestamp);

string_form!(Moment);

impl Moment {
    /// Parses RFC 3339, such as `2026-11-21T14:32:00+08:00`.
    ///
    /// # Errors
    /// Returns [`ParseError`] for any other form, and for a year in UTC outside 1 to 9998.
    pub fn parse(text: &str) -> Result<Self, ParseError> {
        let time = text.parse::<Timestamp>().ok();
        time.filter(|_| is_rfc_3339(text.as_bytes()))
            .filter(|time| !has_leap_second(text) || is_end_of_day(*time))
            .map(Self::from)
            .filter(|time| YEARS.contains(&time.0))
            .ok_or_else(|| ParseError::new("a time is RFC 3339 with an offset", text))
    }

    pub fn timestamp(self) -> Timestamp {
        self.0
    }

    /// The microseconds since 1970.
    pub fn microseconds(self) -> i64 {
        self.0.as_microsecond()
    }

    /// The moment so many microseconds after the beginning of 1970. `None` where a timestamp cannot be.
    pub fn from_microseconds(microseconds: i64) -> Option<Self> {
        Timestamp::from_microsecond(microseconds).ok().map(Self)
    }

    /// The latest multiple of a length since 1970 that is not after it.
    pub fn floor(self, length: Duration) -> Self {
        let time = self.microseconds();
        let length = i64::try_from(length.as_micros()).unwrap_or(i64::MAX).max(1);
        Self::from_microseconds(time - time.rem_euclid(length)).unwrap_or(self)
    }
}

impl From<Timestamp> for Moment {
    fn from(time: Timestamp) -> Self {
        Self(Timestamp::from_microsecond(time.as_microsecond()).unwrap_or(time))
    }
}

/// The years of RFC 3339 in UTC but the last, whose end a timestamp cannot hold.
const YEARS: Range<Timestamp> =
    Timestamp::constant(-62_135_596_800, 0)..Timestamp::constant(253_370_764_800, 0);

/// Whether a text in the form of RFC 3339 has a second 60.
fn has_leap_second(text: &str) -> bool {
    text.get(17..19) == Some("60")
}

/// Whether a time is the last second of a day in UTC, as leap seconds are. jiff parses them as the second before.
fn is_end_of_day(time: Timestamp) -> bool {
    time.as_second().rem_euclid(86_400) == 86_399
}

/// Whether a text has the form of RFC 3339, `YYYY-MM-DDThh:mm:ss[.f](Z|+hh:mm)`. jiff accepts other forms, which
/// neither the schema nor other validators accept.
fn is_rfc_3339(text: &[u8]) -> bool {
    let like = |text: &[u8], form: &[u8]| {
        text.len() == form.len()
            && text.iter().zip(form).all(|(byte, form)| match form {
                b'0' => byte.is_ascii_digit(),
                b'T' => matches!(byte, b'T' | b't'),
                other => byte == other,
            })
    };
    let Some((seconds, tail)) = text.split_at_checked(SECONDS.len()) else {
        return false;
    };
    let digits = |text: &[u8]| text.iter().take_while(|b| b.is_ascii_digit()).count();
    let offset = match tail.strip_prefix(b".") {
        Some(fraction) if digits(fraction) > 0 => &fraction[digits(fraction)..],
        _ => tail,
    };
    let numeric = like(offset, b"+00:00") || like(offset, b"-00:00");
    like(seconds, SECONDS)
        && (matches!(offset, b"Z" | b"z") || numeric && &offset[1..3] < b"24".as_slice())
}

const SECONDS: &[u8] = b"0000-00-00T00:00:00";

#[cfg(test)]
mod tests {
    use super::Moment;

    #[test]
    fn a_time_is_converted_to_utc_and_truncated_to_the_microsecond() {
        for (text, utc) in [
            ("2026-11-21T14:32:00+08:00", "2026-11-21T06:32:00Z"),
            ("2026-11-21T00:20:00.5-10:30", "2026-11-21T10:50:00.5Z"),
            ("2026-11-21t06:32:00z", "2026-11-21T06:32:00Z"),
            ("2026-11-21T06:32:00-00:00", "2026-11-21T06:32:00Z"),
            (
                "2026-11-21T06:32:00.123456999Z",
                "2026-11-21T06:32:00.123456Z",
            ),
            ("1969-12-31T23:59:59.5Z", "1969-12-31T23:59:59.5Z"),
            ("0001-01-01T00:00:00Z", "0001-01-01T00:00:00Z"),
            ("9998-12-31T23:59:59-00:00", "9998-12-31T23:59:59Z"),
            ("2016-12-31T23:59:60Z", "2016-12-31T23:59:59Z"),
            ("2017-01-01T07:59:60+08:00", "2016-12-31T23:59:59Z"),
        ] {
            let moment = Moment::parse(text).expect(text);
            assert_eq!(moment.to_string(), utc, "{text}");
            assert_eq!(
                Moment::parse(utc),
                Ok(moment),
                "what is written is read as the same"
            );
        }
    }

    #[test]
    fn a_time_that_is_not_rfc_3339_is_rejected() {
        for text in [
            "",
            "2026-11-21",
            "14:32:00Z",
            "2026-11-21T14:32:00",
            "2026-11-21T14:32Z",
            "2026-11-21 14:32:00Z",
            "20261121T143200Z",
            "2026-11-21T14:32:00+08",
            "2026-11-21T14:32:00+0800",
            "2026-11-21T14:32:00+24:00",
            "2026-11-21T14:32:00+08:60",
            "2026-11-21T14:32:00.Z",
            "2026-11-21T14:32:00,5Z",
            "2026-11-21T24:00:00Z",
            "2026-02-29T00:00:00Z",
            "+002026-11-21T14:32:00Z",
            "2026-11-21T14:32:00+08:00[Asia/Hong_Kong]",
            "2026-11-21T14:32:00Z ",
            "0000-01-01T00:00:00Z",
            "0001-01-01T00:00:00+08:00",
            "9998-12-31T23:59:59-00:01",
            "9999-12-31T23:59:59-12:00",
            "2026-11-21T14:32:60Z",
            "2016-12-31T23:59:60+08:00",
            "2026-11-21T14:32:00.1234567890Z",
            "１",
        ] {
            assert!(Moment::parse(text).is_err(), "{text:?}");
        }
    }
}
