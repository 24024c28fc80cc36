//! Numbers, times and plans as words.

use events::Moment;

use crate::http::error::capitalized;

/// `1,234,567`.
pub(super) fn number(number: u64) -> String {
    let mut grouped = number.to_string();
    for at in (1..grouped.len()).rev().skip(2).step_by(3) {
        grouped.insert(at, ',');
    }
    grouped
}

/// `22 November 2026, 10:28 UTC`.
pub(super) fn date_time(moment: Moment) -> String {
    let time = moment.timestamp();
    time.strftime("%-d %B %Y, %H:%M UTC").to_string()
}

/// The name of a plan as a title.
pub(super) fn title(plan: &str) -> String {
    capitalized(plan.replace('-', " "))
}

#[cfg(test)]
mod tests {
    use super::number;

    #[test]
    fn thousands_are_grouped() {
        for (n, text) in [
            (0, "0"),
            (999, "999"),
            (1_000, "1,000"),
            (1_234_567, "1,234,567"),
        ] {
            assert_eq!(number(n), text);
        }
    }
}
