//! Times, numbers and reasons as words.

use std::time::Duration;

use events::Moment;

pub(super) use crate::http::pages::words::number;

/// A duration in its largest unit, such as `3 min`. `web/status.js` has the same function.
pub(super) fn duration(duration: Duration) -> String {
    match duration.as_secs() {
        seconds @ 0..60 => format!("{seconds} s"),
        seconds @ 60..3_600 => format!("{} min", seconds / 60),
        seconds @ 3_600..172_800 => format!("{} h", seconds / 3_600),
        seconds => format!("{} days", seconds / 86_400),
    }
}

/// The time from one moment to another; zero if the clock was set back.
pub(super) fn between(start: Moment, end: Moment) -> Duration {
    Duration::try_from(end.timestamp().duration_since(start.timestamp())).unwrap_or_default()
}

/// `22 Nov 2026, 10:28:30 UTC`.
pub(super) fn date_time(moment: Moment) -> String {
    let time = moment.timestamp();
    time.strftime("%-d %b %Y, %H:%M:%S UTC").to_string()
}

/// The end of a period: without its date if that is the date of the start.
pub(super) fn end(start: Moment, end: Moment) -> String {
    let day = |moment: Moment| moment.timestamp().strftime("%F").to_string();
    match day(start) == day(end) {
        true => end.timestamp().strftime("%H:%M:%S UTC").to_string(),
        false => date_time(end),
    }
}

/// The reason of a rejection, by its code.
pub(super) fn rejection(code: &'static str) -> &'static str {
    match code {
        "not_cloud_event" => "Not a CloudEvent",
        "too_large" => "Too large",
        "unknown_type" => "Unknown type of event",
        "invalid_data" => "Invalid data",
        "subject_mismatch" => "Subject and data disagree",
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use events::Moment;

    use super::{duration, end};

    #[test]
    fn the_end_of_a_period_has_a_date_only_if_it_is_another() {
        let moment = |time: &str| Moment::parse(time).expect("a time");
        let start = moment("2026-11-22T23:59:58Z");
        for (time, text) in [
            ("2026-11-22T23:59:59Z", "23:59:59 UTC"),
            ("2026-11-23T00:00:00Z", "23 Nov 2026, 00:00:00 UTC"),
        ] {
            assert_eq!(end(start, moment(time)), text);
        }
    }

    #[test]
    fn a_duration_is_in_its_largest_unit() {
        for (seconds, text) in [
            (0, "0 s"),
            (59, "59 s"),
            (60, "1 min"),
            (3_599, "59 min"),
            (3_600, "1 h"),
            (172_799, "47 h"),
            (172_800, "2 days"),
        ] {
            assert_eq!(duration(Duration::from_secs(seconds)), text);
        }
    }
}
