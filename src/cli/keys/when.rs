//! Parses times and durations from the command line.

use events::{Moment, RacingDate};
use jiff::tz::TimeZone;
use jiff::{SignedDuration, Span, SpanRelativeTo, Timestamp, ToSpan};

/// Parses a duration such as `24h`, `90m`, `30d` or `1w`. A day has 24 hours.
pub(in crate::cli) fn parse_duration(text: &str) -> Result<SignedDuration, &'static str> {
    let span = text.parse::<Span>().ok();
    let duration = span.and_then(|span| span.to_duration(SpanRelativeTo::days_are_24_hours()).ok());
    let duration = duration.filter(|duration| !duration.is_negative());
    duration.ok_or("a duration is like 30d, 24h, 90m or 10s")
}

/// Parses an end in the future: a date (its end, UTC), a time, or a duration from now.
pub(super) fn parse_end(text: &str) -> Result<Moment, &'static str> {
    let end = if let Ok(date) = RacingDate::parse(text) {
        let next_day = date.civil().checked_add(1.day()).ok();
        let end = next_day.and_then(|day| day.to_zoned(TimeZone::UTC).ok());
        end.map(|end| end.timestamp().into())
    } else if let Ok(time) = Moment::parse(text) {
        Some(time)
    } else {
        let duration = parse_duration(text).ok();
        let end = duration.and_then(|duration| Timestamp::now().checked_add(duration).ok());
        end.map(Moment::from)
    };
    let end = end.ok_or(
        "an end is a date like 2027-01-31, a time like 2027-01-31T12:00:00Z or a duration like 30d",
    )?;
    let is_ahead = end > Timestamp::now().into();
    is_ahead.then_some(end).ok_or("the end is in the past")
}

#[cfg(test)]
mod tests {
    use jiff::{SignedDuration, Timestamp};

    use super::{parse_duration, parse_end};

    #[test]
    fn a_duration_has_a_unit_and_is_not_negative() {
        for (text, seconds) in [
            ("0s", 0),
            ("10s", 10),
            ("90m", 5_400),
            ("24h", 86_400),
            ("1d12h", 129_600),
            ("2w", 1_209_600),
        ] {
            let expected = SignedDuration::from_secs(seconds);
            assert_eq!(parse_duration(text), Ok(expected), "{text}");
        }
        for text in ["", "24", "-1h", "1 month", "1y", "soon"] {
            assert!(parse_duration(text).is_err(), "{text:?}");
        }
    }

    #[test]
    fn an_end_is_a_date_a_time_or_a_duration_in_the_future() {
        for (text, end) in [
            ("2999-12-30", "2999-12-31T00:00:00Z"),
            ("2999-12-30T12:00:00+08:00", "2999-12-30T04:00:00Z"),
        ] {
            let found = parse_end(text).expect(text);
            assert_eq!(found.to_string(), end, "{text}");
        }
        let soon = parse_end("30d").expect("a duration").timestamp();
        let days = SignedDuration::from_hours(30 * 24);
        assert!(soon > Timestamp::now() + days - SignedDuration::from_mins(1));
        assert!(soon <= Timestamp::now() + days);
        for text in [
            "2020-01-01",
            "2020-01-01T00:00:00Z",
            "0s",
            "never",
            "30",
            "",
        ] {
            assert!(parse_end(text).is_err(), "{text:?}");
        }
    }
}
