//! Meetings: which races a venue has on a day, and how far they are.

use std::collections::BTreeMap;

use events::{RaceKey, RaceStatus, RacingDate, VenueCode};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{Race, json};

/// What a meeting knows of its races.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Meeting {
    races: BTreeMap<u16, RaceLine>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct RaceLine {
    venue: String,
    status: RaceStatus,
    card: bool,
    result: bool,
}

impl Meeting {
    /// Takes in how a race of the meeting stands now. A race of which nothing is known but odds is no race yet.
    pub(crate) fn note(&mut self, key: &RaceKey, race: &Race) {
        let line = RaceLine {
            venue: race.venue_name(key).to_owned(),
            status: race.status(),
            card: race.card.is_some(),
            result: race.result.is_some(),
        };
        self.races.insert(key.race_number.get(), line);
    }

    /// The name of the venue: the first race that knows more than the code says it.
    fn venue<'a>(&'a self, code: &'a VenueCode) -> &'a str {
        self.races
            .values()
            .map(|line| line.venue.as_str())
            .find(|name| *name != code.as_str())
            .unwrap_or(code.as_str())
    }

    /// abandoned when every race is, finished when every race is over, else scheduled.
    fn status(&self) -> &'static str {
        let all = |test: fn(RaceStatus) -> bool| self.races.values().all(|line| test(line.status));
        if all(|status| status == RaceStatus::Abandoned) {
            "abandoned"
        } else if all(RaceStatus::is_over) {
            "finished"
        } else {
            "scheduled"
        }
    }
}

/// A meeting, in the list of meetings and before the races of an answer.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub struct MeetingView {
    /// The meeting's date.
    pub date: String,
    /// The racecourse's name.
    pub venue: String,
    /// The racecourse's code.
    pub venue_code: String,
    /// scheduled, finished or abandoned
    pub status: String,
    /// How many races are known.
    pub race_count: usize,
    /// How many of them have a card.
    pub card_count: usize,
    /// How many of them have a result.
    pub result_count: usize,
}

/// A meeting's line.
#[must_use]
pub fn render(date: RacingDate, venue: &VenueCode, meeting: &Meeting) -> Vec<u8> {
    json::render(&MeetingView {
        date: date.to_string(),
        venue: meeting.venue(venue).to_owned(),
        venue_code: venue.to_string(),
        status: meeting.status().to_owned(),
        race_count: meeting.races.len(),
        card_count: meeting.races.values().filter(|line| line.card).count(),
        result_count: meeting.races.values().filter(|line| line.result).count(),
    })
}

pub(crate) fn schema(generator: &mut schemars::SchemaGenerator) -> schemars::Schema {
    MeetingView::json_schema(generator)
}
