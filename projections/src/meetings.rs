//! Meetings: the races of a venue on a day, and their status.

use std::collections::BTreeMap;

use events::{Moment, RaceKey, RaceStatus, RacingDate, VenueCode};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::json;
use crate::race::Race;

/// The races of a meeting, by race number.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Meeting {
    races: BTreeMap<u16, RaceSummary>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct RaceSummary {
    venue: String,
    status: RaceStatus,
    card: bool,
    result: bool,
    /// When the log stored the latest amendment of its official result.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    amended_at: Option<Moment>,
}

impl Meeting {
    /// Updates a race of the meeting. Callers leave out a race of which only odds are known.
    pub(crate) fn update(&mut self, key: &RaceKey, race: &Race) {
        let summary = RaceSummary {
            venue: race.venue_name(key).to_owned(),
            status: race.status(),
            card: race.card.is_some(),
            result: race.result.is_some(),
            amended_at: race.amended_at,
        };
        self.races.insert(key.race_number.get(), summary);
    }

    /// The name of the venue: that of the first race with another name than the code.
    fn venue<'a>(&'a self, code: &'a VenueCode) -> &'a str {
        self.races
            .values()
            .map(|race| race.venue.as_str())
            .find(|name| *name != code.as_str())
            .unwrap_or(code.as_str())
    }

    /// `abandoned` if every race is abandoned, `finished` if every race is over, else `scheduled`.
    fn status(&self) -> &'static str {
        let all = |test: fn(RaceStatus) -> bool| self.races.values().all(|race| test(race.status));
        if all(|status| status == RaceStatus::Abandoned) {
            "abandoned"
        } else if all(RaceStatus::is_over) {
            "finished"
        } else {
            "scheduled"
        }
    }
}

/// A meeting: a row in the list of meetings, and the fields before the races in a response.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct MeetingView {
    /// The meeting's date.
    date: String,
    /// The racecourse's name.
    venue: String,
    /// The racecourse's code.
    venue_code: String,
    /// scheduled, finished or abandoned
    status: String,
    /// The number of known races.
    race_count: usize,
    /// The number of races with a card.
    card_count: usize,
    /// The number of races with a result.
    result_count: usize,
    /// The number of races whose result was amended or voided after it was official.
    amended_count: usize,
    /// When the log stored the latest of these amendments, RFC 3339; empty if there is none.
    amended_at: String,
}

/// What readers need of a meeting, whichever version of the fold wrote it.
#[derive(Debug, Deserialize)]
pub struct MeetingFacts {
    /// The meeting's date.
    pub date: String,
    /// The racecourse's name.
    pub venue: String,
    /// The racecourse's code.
    pub venue_code: String,
    /// scheduled, finished or abandoned
    pub status: String,
}

pub(crate) fn render(date: RacingDate, venue: &VenueCode, meeting: &Meeting) -> Vec<u8> {
    let amendments = || meeting.races.values().filter_map(|race| race.amended_at);
    json::render(&MeetingView {
        date: date.to_string(),
        venue: meeting.venue(venue).to_owned(),
        venue_code: venue.to_string(),
        status: meeting.status().to_owned(),
        race_count: meeting.races.len(),
        card_count: meeting.races.values().filter(|race| race.card).count(),
        result_count: meeting.races.values().filter(|race| race.result).count(),
        amended_count: amendments().count(),
        amended_at: json::text(amendments().max()),
    })
}
