//! Columns, dates, placings and other values as rpscrape writes them.

use std::ops::Range;

use events::{FinishTime, Margin, Moment, Odds, Outcome, ParseError, RacingDate, Text};
use jiff::ToSpan;
use jiff::civil::{Date, Time};
use jiff::fmt::strtime;
use jiff::tz::{Offset, TimeZone};

use crate::input::cells::{Cells, first};
use crate::item::{LineItems, Result};
use crate::placing::Placing;
use crate::units;

pub(super) const FORMAT: &str = "rpscrape";

/// The tool has named columns in three ways, and lets people choose them.
pub(super) const OFF: &str = "off|time";
pub(super) const RACE_NAME: &str = "race_name|name";
pub(super) const HORSE: &str = "horse|horse_name|name";

pub(super) const REQUIRED: &[&str] = &[
    "date", "course", OFF, RACE_NAME, HORSE, "pos", "jockey", "trainer",
];

/// The tool has no races before 1987. A racing date is before 3000.
const DATES: Range<Date> = Date::constant(1987, 1, 1)..Date::constant(3000, 1, 1);

/// `2020-06-03`, or `3 Jun 2020` in the oldest files.
pub(super) fn date(text: &str) -> Result<RacingDate, ParseError> {
    let date = strtime::parse("%d %b %Y", text).and_then(|parsed| parsed.to_date());
    match date {
        Ok(date) if DATES.contains(&date) => Ok(date.into()),
        _ => RacingDate::parse(text),
    }
}

/// The clock that an off time was read from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum OffClock {
    /// An hour of one digit.
    Of12Hours,
    /// An hour that only this clock has, or `09`.
    Of24Hours,
    /// 10:00 to 12:59.
    Either,
}

/// `14:10`, or `2:10` on a 12-hour clock: an hour of one digit is after noon.
pub(super) fn off_time(text: &str) -> Result<(Time, OffClock), ParseError> {
    let text = text.trim();
    let time = units::time_of_day(text)
        .ok_or_else(|| ParseError::new("an off time is H:MM or HH:MM", text))?;
    Ok(match time.hour() {
        1.. if text.len() == "2:10".len() => (time + 12.hours(), OffClock::Of12Hours),
        10..=12 => (time, OffClock::Either),
        _ => (time, OffClock::Of24Hours),
    })
}

/// Midnight, Greenwich time.
pub(super) fn midnight(date: RacingDate) -> Moment {
    let time = Offset::UTC.to_timestamp(date.civil().into());
    time.expect("racing dates end with 2999").into()
}

/// The zone of the clock in a region. In other regions the files have either clock, so the off time is not known.
pub(super) fn zone(region: &str) -> Option<TimeZone> {
    let name = match region.to_uppercase().as_str() {
        "GB" => "Europe/London",
        "IRE" => "Europe/Dublin",
        _ => return None,
    };
    TimeZone::get(name).ok()
}

pub(super) fn time_zone_name(zone: &TimeZone) -> Option<Text> {
    Text::parse(zone.iana_name()?).ok()
}

/// A number, or a code of the tool's source. Codes that this service has under another name are renamed.
pub(super) fn placing(text: &str) -> Result<Placing, ParseError> {
    const CODES: [(&str, &str); 3] = [("F", "FE"), ("DSQ", "DISQ"), ("VOI", "VOID")];
    let text = text.trim().to_uppercase();
    match CODES.iter().find(|(code, _)| *code == text) {
        Some((_, code)) => Outcome::parse(code).map(Placing::Without),
        None => Placing::parse(&text),
    }
}

/// A saddle-cloth number. Runners that are coupled in the betting share one: `1A`.
pub(super) fn number(text: &str) -> Result<u16, ParseError> {
    let digits = text.trim_end_matches(".0");
    let digits = digits.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let number = digits.parse().ok();
    number.ok_or_else(|| ParseError::new("a saddle-cloth number", text))
}

/// Metres; 0 where it is not known. Exact columns come first: `dist` is rounded.
pub(super) fn distance(cells: &Cells) -> Result<u32> {
    let columns = [
        cells.whole("dist_m"),
        cells.optional("dist_y", units::yards),
        cells.first(&["dist", "distance"], units::distance),
        cells.first(&["dist_f", "dist(f)"], units::furlongs),
    ];
    Ok(first(columns)?.unwrap_or(0))
}

/// The starting price. The fraction is exact, and the decimal was computed from it.
pub(super) fn win_odds(cells: &Cells) -> Result<Option<Odds>> {
    let fraction = cells.optional("sp", units::starting_price);
    let decimal = cells.optional("dec", Odds::parse);
    first([fraction.map(Option::flatten), decimal])
}

/// Without the column `off`, `time` is the off time of the race.
pub(super) fn finish_time(cells: &Cells) -> Result<Option<FinishTime>> {
    let column = if cells.has("off") { "time" } else { "fin_time" };
    let clock = cells.optional(column, units::clock);
    first([clock, cells.optional("secs", units::seconds)])
}

/// How far a runner was behind the winner. The tool writes 0.05 for a nose, 0.1 for a short head, 0.3 for a neck; 0.2
/// for a head and a short neck, 30 for a distance and 30 lengths, which are counted, as are sums of these.
pub(super) fn margin(cells: &Cells, out: &mut LineItems) -> Result<Option<Margin>> {
    const COLUMN: &str = "ovr_btn";
    let lengths = cells.text(COLUMN)?;
    let margin = match lengths.as_str() {
        "" | "0" | "0.0" | "0.00" => return Ok(None),
        "0.05" => Margin::parse("NOSE").ok(),
        "0.1" => Margin::parse("SH").ok(),
        "0.3" => Margin::parse("N").ok(),
        "30" => None,
        lengths => units::lengths(lengths).ok(),
    };
    if margin.is_none() {
        out.omit([(COLUMN.to_owned(), 1)].into());
    }
    Ok(margin)
}

/// The class and the pattern of a race: `Class 1, Group 2`.
pub(super) fn class(cells: &Cells) -> Result<Text> {
    let class = cells.text("class")?;
    let pattern = cells.text("pattern")?;
    let class = match class.as_str() {
        // In the oldest files, a race without a class.
        "not found" => "",
        class => class,
    };
    let parts = [class, pattern.as_str()].into_iter();
    let parts: Vec<&str> = parts.filter(|part| !part.is_empty()).collect();
    Text::parse(&parts.join(", ")).map_err(|error| format!("class: {error}").into())
}
