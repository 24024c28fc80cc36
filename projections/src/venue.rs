//! The names and the time zones of racecourses.

use events::{Text, VenueCode};

/// The codes whose names and time zones (IANA) feeders may leave out.
const KNOWN: [(&str, &str, &str); 3] = [
    ("HV", "Happy Valley", "Asia/Hong_Kong"),
    ("ST", "Sha Tin", "Asia/Hong_Kong"),
    ("CH", "Conghua", "Asia/Shanghai"),
];

/// A racecourse's name: the stated one, else the well-known name of the code, else the code itself.
pub(crate) fn venue_name<'a>(code: &'a VenueCode, stated: Option<&'a Text>) -> &'a str {
    let stated = stated.filter(|name| !name.is_empty()).map(Text::as_str);
    let known = || known(code).map(|(_, name, _)| *name);
    stated.or_else(known).unwrap_or(code.as_str())
}

/// A racecourse's time zone: the stated one, else the well-known one of the code; empty if unknown.
pub(crate) fn venue_time_zone<'a>(code: &VenueCode, stated: Option<&'a Text>) -> &'a str {
    let stated = stated.filter(|zone| !zone.is_empty()).map(Text::as_str);
    let known = || known(code).map(|(.., zone)| *zone);
    stated.or_else(known).unwrap_or_default()
}

fn known(code: &VenueCode) -> Option<&'static (&'static str, &'static str, &'static str)> {
    KNOWN.iter().find(|(known, ..)| *known == code.as_str())
}
