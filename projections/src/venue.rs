//! The names of racecourses.

use events::{Text, VenueCode};

/// Codes whose names feeders may leave out.
const NAMES: [(&str, &str); 3] = [("HV", "Happy Valley"), ("ST", "Sha Tin"), ("CH", "Conghua")];

/// A racecourse's name: the stated one, else the well-known name of the code, else the code itself.
pub(crate) fn venue_name<'a>(code: &'a VenueCode, stated: Option<&'a Text>) -> &'a str {
    if let Some(name) = stated.filter(|name| !name.is_empty()) {
        return name.as_str();
    }
    NAMES
        .iter()
        .find(|(known, _)| *known == code.as_str())
        .map_or(code.as_str(), |(_, name)| name)
}
