//! Numbers, times and plans as words.

use events::Moment;
use jiff::SignedDuration;
use jiff::fmt::friendly::{Designator, Spacing, SpanPrinter};

use crate::http::error::capitalized;

/// `1,234,567`.
pub(in crate::http) fn number(number: u64) -> String {
    let mut grouped = number.to_string();
    for at in (1..grouped.len()).rev().skip(2).step_by(3) {
        grouped.insert(at, ',');
    }
    grouped
}

/// `1 request`, `10,000 requests`.
pub(super) fn counted(n: u32, noun: &str) -> String {
    let plural = if n == 1 { "" } else { "s" };
    format!("{} {noun}{plural}", number(n.into()))
}

/// `15 minutes`.
pub(in crate::http) fn duration(duration: &SignedDuration) -> String {
    let printer = SpanPrinter::new()
        .designator(Designator::Verbose)
        .spacing(Spacing::BetweenUnitsAndDesignators);
    printer.duration_to_string(duration)
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
