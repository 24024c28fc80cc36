//! [`Filter`]: which races are watched.

use std::collections::BTreeSet;
use std::str::FromStr;

use events::{ParseError, RaceKey, RaceNumber, RacingDate, Text};

/// Which races are watched: those that match one of each list that is not empty.
#[derive(Debug, Clone, Default)]
pub(super) struct Filter {
    pub(super) races: Vec<RaceChoice>,
    pub(super) venues: Vec<Venue>,
    pub(super) dates: Vec<RacingDate>,
}

impl Filter {
    /// Whether a race is watched. The channel is only asked for what the lists have in common, so each race is looked at.
    pub(super) fn passes(&self, race: &RaceKey, venue_name: &Text) -> bool {
        let any = |venue: &Venue| venue.is(race, venue_name);
        (self.races.is_empty() || self.races.iter().any(|choice| choice.is(race, venue_name)))
            && (self.venues.is_empty() || self.venues.iter().any(any))
            && (self.dates.is_empty() || self.dates.contains(&race.date))
    }

    /// The parameters that keep back as much as the channel can tell apart: a list each for dates, venues and numbers.
    pub(super) fn parameters(&self) -> Vec<(&'static str, String)> {
        let races = &self.races;
        let dates = wanted(&self.dates, races.iter().map(|race| race.date.as_ref()));
        let venues = wanted(&self.venues, races.iter().map(|race| race.venue.as_ref()));
        let numbers = wanted(&[], races.iter().map(|race| Some(&race.number)));
        [("date", dates), ("venue", venues), ("race", numbers)]
            .into_iter()
            .filter(|(_, values)| !values.is_empty())
            .map(|(name, values)| (name, Vec::from_iter(values).join(",")))
            .collect()
    }
}

/// The values of a list; where there is none, those that all races name.
fn wanted<'a, T: ToString + 'a>(
    list: &[T],
    of_races: impl Iterator<Item = Option<&'a T>>,
) -> BTreeSet<String> {
    if list.is_empty() {
        // A race that leaves it open lets every value pass.
        let all: Option<BTreeSet<String>> = of_races.map(|v| v.map(T::to_string)).collect();
        return all.unwrap_or_default();
    }
    list.iter().map(T::to_string).collect()
}

/// A venue by its code or its name, in either case.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Venue(Text);

impl Venue {
    fn is(&self, race: &RaceKey, venue_name: &Text) -> bool {
        let Self(given) = self;
        let same = |known: &str| known.to_lowercase() == given.as_str().to_lowercase();
        same(race.venue.as_str()) || same(venue_name.as_str())
    }
}

impl FromStr for Venue {
    type Err = ParseError;

    fn from_str(text: &str) -> Result<Self, ParseError> {
        let venue = Text::parse(text)?;
        // A comma would make two of it in the address.
        if venue.is_empty() || venue.as_str().contains(',') {
            return Err(ParseError::new("a venue is a code or a name", text));
        }
        Ok(Self(venue))
    }
}

impl std::fmt::Display for Venue {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.as_str().fmt(f)
    }
}

/// A race as people name it: `3`, `ST/3` or `2026-11-21/ST/3`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct RaceChoice {
    date: Option<RacingDate>,
    venue: Option<Venue>,
    number: RaceNumber,
}

impl RaceChoice {
    fn is(&self, race: &RaceKey, venue_name: &Text) -> bool {
        self.number == race.race_number
            && self.date.is_none_or(|date| date == race.date)
            && self
                .venue
                .as_ref()
                .is_none_or(|venue| venue.is(race, venue_name))
    }
}

impl FromStr for RaceChoice {
    type Err = ParseError;

    fn from_str(text: &str) -> Result<Self, ParseError> {
        let parts: Vec<&str> = text.split('/').collect();
        let (date, venue, number) = match parts[..] {
            [number] => (None, None, number),
            [venue, number] => (None, Some(venue), number),
            [date, venue, number] => (Some(date), Some(venue), number),
            _ => {
                let expected = "a race is 3, ST/3 or 2026-11-21/ST/3";
                return Err(ParseError::new(expected, text));
            }
        };
        Ok(Self {
            date: date.map(RacingDate::parse).transpose()?,
            venue: venue.map(Venue::from_str).transpose()?,
            number: RaceNumber::parse(number)?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn race(date: &str, venue: &str, number: u16) -> RaceKey {
        RaceKey {
            date: RacingDate::parse(date).unwrap(),
            venue: events::VenueCode::parse(venue).unwrap(),
            race_number: number.try_into().unwrap(),
        }
    }

    fn races(choices: &[&str]) -> Filter {
        Filter {
            races: choices.iter().map(|text| text.parse().unwrap()).collect(),
            ..Filter::default()
        }
    }

    #[test]
    fn a_race_is_named_by_number_by_venue_and_number_or_in_full() {
        let name = Text::parse("Sha Tin").unwrap();
        let third = race("2026-11-21", "ST", 3);
        for text in ["3", "ST/3", "st/3", "sha tin/3", "2026-11-21/ST/3"] {
            assert!(races(&[text]).passes(&third, &name), "{text}");
        }
        for text in ["4", "HV/3", "2026-11-22/ST/3"] {
            assert!(!races(&[text]).passes(&third, &name), "{text}");
        }
        for text in ["", "0", "x", "/3", "ST/", "21/ST/3", "1/2/3/4", "a,b/3"] {
            assert!(text.parse::<RaceChoice>().is_err(), "{text}");
        }
    }

    #[test]
    fn two_races_of_two_venues_are_not_four() {
        let filter = races(&["ST/3", "HV/4"]);
        let name = Text::default();
        assert!(filter.passes(&race("2026-11-21", "ST", 3), &name));
        assert!(filter.passes(&race("2026-11-21", "HV", 4), &name));
        assert!(!filter.passes(&race("2026-11-21", "ST", 4), &name));
        assert_eq!(
            filter.parameters(),
            [("venue", "HV,ST".to_owned()), ("race", "3,4".to_owned())]
        );
    }

    #[test]
    fn the_channel_keeps_back_nothing_that_passes() {
        assert!(Filter::default().parameters().is_empty());
        assert_eq!(
            races(&["3", "ST/4"]).parameters(),
            [("race", "3,4".to_owned())],
            "race 3 may be anywhere"
        );
        let filter = Filter {
            venues: vec!["Sha Tin".parse().unwrap()],
            dates: vec![RacingDate::parse("2026-11-21").unwrap()],
            races: Vec::new(),
        };
        assert_eq!(
            filter.parameters(),
            [
                ("date", "2026-11-21".to_owned()),
                ("venue", "Sha Tin".to_owned())
            ]
        );
    }
}
