//! [`Chart`]: a value of each minute of the last hour, as bars in SVG.

use std::fmt::Write;

use events::Moment;

use crate::health::{MINUTES_MAX, Minute};

/// A bar, and the gap after it.
const BAR_WIDTH: usize = 3;
const BAR_STEP: usize = 4;
pub(super) const WIDTH: usize = MINUTES_MAX * BAR_STEP;
pub(super) const HEIGHT: u64 = 40;
/// A minute with the value 0 has this height, so that it differs from one without a sample.
const ZERO_HEIGHT: u64 = 1;
/// The least height of any other value.
const HEIGHT_MIN: u64 = 3;

/// A chart of the last hour.
pub(super) struct Chart {
    pub(super) title: &'static str,
    /// What the bars add up to, or reach.
    pub(super) summary: String,
    /// The class of the bars.
    pub(super) class: &'static str,
    /// The bars, as data of an SVG path.
    pub(super) bars: String,
}

/// The bars of a value. The last minute is on the right; one without a sample is left out. The chart is as high as the
/// highest value, or as `scale_min` if that is more.
pub(super) fn bars(minutes: &[Minute], scale_min: u64, value: impl Fn(&Minute) -> u64) -> String {
    let index = |time: Moment| time.timestamp().as_second() / 60;
    let Some(last) = minutes.last() else {
        return String::new();
    };
    let highest = minutes.iter().map(&value).fold(scale_min, u64::max);
    let mut path = String::new();
    for minute in minutes {
        let minutes_ago = usize::try_from(index(last.time) - index(minute.time)).unwrap_or(0);
        let Some(slot) = (MINUTES_MAX - 1).checked_sub(minutes_ago) else {
            continue;
        };
        let x = slot * BAR_STEP;
        let height = height(value(minute), highest);
        // Writing to a string does not fail.
        let _ = write!(path, "M{x} {HEIGHT}v-{height}h{BAR_WIDTH}v{height}z");
    }
    path
}

/// The height of a value in a chart that is as high as the highest.
fn height(value: u64, highest: u64) -> u64 {
    match value {
        0 => ZERO_HEIGHT,
        value => u64::try_from(u128::from(value) * u128::from(HEIGHT) / u128::from(highest.max(1)))
            .unwrap_or(HEIGHT)
            .clamp(HEIGHT_MIN, HEIGHT),
    }
}

#[cfg(test)]
mod tests {
    use jiff::{SignedDuration, Timestamp};

    use super::*;

    fn minute(number: i64, requests: u64) -> Minute {
        let time = Timestamp::UNIX_EPOCH + SignedDuration::from_mins(number);
        Minute {
            requests,
            ..Minute::at(time.into())
        }
    }

    #[test]
    fn the_current_minute_is_on_the_right_and_a_minute_without_a_sample_is_a_gap() {
        let minutes = [minute(1_000, 10), minute(1_001, 0), minute(1_059, 40)];
        let bars = bars(&minutes, 0, |minute| minute.requests);
        assert_eq!(bars, "M0 40v-10h3v10zM4 40v-1h3v1zM236 40v-40h3v40z");
    }

    #[test]
    fn any_value_is_visible_and_none_is_higher_than_the_chart() {
        let minutes = [minute(1, 1), minute(2, u64::MAX), minute(3, u64::MAX - 1)];
        let of = |minutes: &[Minute]| bars(minutes, 0, |minute| minute.requests);
        assert_eq!(
            of(&minutes),
            "M228 40v-3h3v3zM232 40v-40h3v40zM236 40v-39h3v39z"
        );
        assert_eq!(of(&[minute(1, 0)]), "M236 40v-1h3v1z");
        assert_eq!(of(&[]), "");
        let scaled = bars(&[minute(1, 10)], 40, |minute| minute.requests);
        assert_eq!(scaled, "M236 40v-10h3v10z");
    }
}
