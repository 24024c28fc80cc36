//! Dates, placings and other values as rpscrape writes them.

use events::{Moment, Outcome, ParseError, RacingDate, Text};
use jiff::civil::Date;
use jiff::fmt::strtime;
use jiff::tz::{Offset, TimeZone};

use crate::input::cells::Cells;
use crate::item::InputError;
use crate::placing::Placing;

pub(super) const FORMAT: &str = "rpscrape";

/// The tool has no races before 1987.
const FIRST_DATE: Date = Date::constant(1987, 1, 1);

/// `2020-06-03`, or `3 Jun 2020` in the oldest files.
pub(super) fn date(text: &str) -> Result<RacingDate, ParseError> {
    let date = strtime::parse("%d %b %Y", text).and_then(|parsed| parsed.to_date());
    match date {
        Ok(date) if date >= FIRST_DATE => Ok(date.into()),
        _ => RacingDate::parse(text),
    }
}

/// Midnight, Greenwich time.
pub(super) fn midnight(date: RacingDate) -> Result<Moment, ParseError> {
    Offset::UTC
        .to_timestamp(date.civil().at(0, 0, 0, 0))
        .map(Moment::from)
        .map_err(|_| ParseError::new("a time that the clock can show", date))
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
    digits
        .parse()
        .map_err(|_| ParseError::new("a saddle-cloth number", text))
}

/// The class and the pattern of a race: `Class 1, Group 2`.
pub(super) fn class(cells: &Cells) -> Result<Text, InputError> {
    let (class, pattern) = (cells.text("class")?, cells.text("pattern")?);
    let class = match class.as_str() {
        // In the oldest files, a race without a class.
        "not found" => "",
        class => class,
    };
    let parts = [class, pattern.as_str()].into_iter();
    let parts: Vec<&str> = parts.filter(|part| !part.is_empty()).collect();
    Text::parse(&parts.join(", ")).map_err(|error| format!("class: {error}").into())
}
