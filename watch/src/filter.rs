//! [`RaceFilter`]: selects the races to watch.

use std::collections::BTreeSet;
use std::str::FromStr;

use client::message::Race;
use events::{ParseError, RaceNumber, RacingDate, Text};

const RACE_FORM: &str = "a race is 3, ST/3 or 2026-11-21/ST/3";

/// Selects the races to watch: a race must match one entry of each list that is not empty.
#[derive(Debug, Clone, Default)]
pub struct RaceFilter {
    pub races: Vec<RaceSelector>,
    pub venues: Vec<VenueSelector>,
    pub dates: Vec<RacingDate>,
}

impl RaceFilter {
    /// Whether a race is selected. The query parameters select a superset, so each message is checked.
    pub(crate) fn matches(&self, race: &Race, venue_name: &str) -> bool {
        let is_race = |selector: &RaceSelector| selector.matches(race, venue_name);
        let is_venue = |selector: &VenueSelector| selector.matches(race, venue_name);
        (self.races.is_empty() || self.races.iter().any(is_race))
            && (self.venues.is_empty() || self.venues.iter().any(is_venue))
            && (self.dates.is_empty()
                || self.dates.iter().any(|date| date.to_string() == race.date))
    }

    /// The query parameters that select the smallest superset that the live channel can express: a list each of dates,
    /// venues and race numbers.
    pub(crate) fn query(&self) -> Vec<(&'static str, String)> {
        let races = &self.races;
        let dates = values(&self.dates, races.iter().map(|race| race.date.as_ref()));
        let venues = values(&self.venues, races.iter().map(|race| race.venue.as_ref()));
        let numbers = values(&[], races.iter().map(|race| Some(&race.number)));
        [("date", dates), ("venue", venues), ("race", numbers)]
            .into_iter()
            .filter(|(_, values)| !values.is_empty())
            .map(|(name, values)| (name, Vec::from_iter(values).join(",")))
            .collect()
    }
}

/// The values of a list; if it is empty, those of the races, provided that each race names one.
fn values<'a, T: ToString + 'a>(
    list: &[T],
    of_races: impl Iterator<Item = Option<&'a T>>,
) -> BTreeSet<String> {
    if list.is_empty() {
        // A race without a value matches every value.
        let all: Option<BTreeSet<String>> = of_races.map(|v| v.map(T::to_string)).collect();
        return all.unwrap_or_default();
    }
    list.iter().map(T::to_string).collect()
}

/// A venue, by code or name, in upper or lower case.
#[derive(Debug, derive_more::Display, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct VenueSelector(Text);

impl VenueSelector {
    fn matches(&self, race: &Race, venue_name: &str) -> bool {
        let Self(given) = self;
        let same = |known: &str| known.to_lowercase() == given.as_str().to_lowercase();
        same(&race.venue_code) || same(venue_name)
    }
}

impl FromStr for VenueSelector {
    type Err = ParseError;

    fn from_str(text: &str) -> Result<Self, ParseError> {
        let venue = Text::parse(text)?;
        // The query parameter separates venues by commas.
        if venue.is_empty() || venue.as_str().contains(',') {
            return Err(ParseError::new("a venue is a code or a name", text));
        }
        Ok(Self(venue))
    }
}

/// A race, by number and optionally date and venue: `3`, `ST/3` or `2026-11-21/ST/3`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RaceSelector {
    date: Option<RacingDate>,
    venue: Option<VenueSelector>,
    number: RaceNumber,
}

impl RaceSelector {
    fn matches(&self, race: &Race, venue_name: &str) -> bool {
        let venue = self.venue.as_ref();
        self.number.get() == race.race_number
            && self.date.is_none_or(|date| date.to_string() == race.date)
            && venue.is_none_or(|venue| venue.matches(race, venue_name))
    }
}

impl FromStr for RaceSelector {
    type Err = ParseError;

    fn from_str(text: &str) -> Result<Self, ParseError> {
        let parts: Vec<&str> = text.split('/').collect();
        let (date, venue, number) = match parts[..] {
            [number] => (None, None, number),
            [venue, number] => (None, Some(venue), number),
            [date, venue, number] => (Some(date), Some(venue), number),
            _ => return Err(ParseError::new(RACE_FORM, text)),
        };
        Ok(Self {
            date: date.map(RacingDate::parse).transpose()?,
            venue: venue.map(VenueSelector::from_str).transpose()?,
            number: RaceNumber::parse(number)?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn race(date: &str, venue: &str, number: u16) -> Race {
        Race {
            date: date.to_owned(),
            venue_code: venue.to_owned(),
            race_number: number,
        }
    }

    fn races(selectors: &[&str]) -> RaceFilter {
        RaceFilter {
            races: selectors.iter().map(|text| text.parse().unwrap()).collect(),
            ..RaceFilter::default()
        }
    }

    #[test]
    fn a_race_is_selected_by_number_by_venue_and_number_or_in_full() {
        let name = "Sha Tin";
        let third = race("2026-11-21", "ST", 3);
        for text in ["3", "ST/3", "st/3", "sha tin/3", "2026-11-21/ST/3"] {
            assert!(races(&[text]).matches(&third, name), "{text}");
        }
        for text in ["4", "HV/3", "2026-11-22/ST/3"] {
            assert!(!races(&[text]).matches(&third, name), "{text}");
        }
        for text in ["", "0", "x", "/3", "ST/", "21/ST/3", "1/2/3/4", "a,b/3"] {
            assert!(text.parse::<RaceSelector>().is_err(), "{text}");
        }
    }

    #[test]
    fn a_race_number_is_matched_only_at_its_own_venue() {
        let filter = races(&["ST/3", "HV/4"]);
        let name = "";
        assert!(filter.matches(&race("2026-11-21", "ST", 3), name));
        assert!(filter.matches(&race("2026-11-21", "HV", 4), name));
        assert!(!filter.matches(&race("2026-11-21", "ST", 4), name));
        assert_eq!(
            filter.query(),
            [("venue", "HV,ST".to_owned()), ("race", "3,4".to_owned())]
        );
    }

    #[test]
    fn the_query_selects_every_matching_race() {
        assert!(RaceFilter::default().query().is_empty());
        assert_eq!(
            races(&["3", "ST/4"]).query(),
            [("race", "3,4".to_owned())],
            "race 3 may be anywhere"
        );
        let filter = RaceFilter {
            venues: vec!["Sha Tin".parse().unwrap()],
            dates: vec![RacingDate::parse("2026-11-21").unwrap()],
            races: Vec::new(),
        };
        assert_eq!(
            filter.query(),
            [
                ("date", "2026-11-21".to_owned()),
                ("venue", "Sha Tin".to_owned())
            ]
        );
    }
}
