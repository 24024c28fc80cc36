//! The racecourses' names.

use events::{Text, VenueCode};

/// Codes whose name every feeder may leave out.
const NAMES: [(&str, &str); 3] = [("HV", "Happy Valley"), ("ST", "Sha Tin"), ("CH", "Conghua")];

/// A racecourse's name: what was said, else the well-known name of the code, else the code itself.
#[must_use]
pub fn venue_name<'a>(code: &'a VenueCode, said: Option<&'a Text>) -> &'a str {
    if let Some(said) = said.filter(|name| !name.is_empty()) {
        return said.as_str();
    }
    NAMES
        .iter()
        .find(|(known, _)| *known == code.as_str())
        .map_or(code.as_str(), |(_, name)| name)
}
