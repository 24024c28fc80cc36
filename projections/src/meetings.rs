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
            result: race.results.in_force.is_some(),
            amended_at: race.results.amended_at,
        };
        self.races.insert(key.race_number.get(), summary);
    }

    /// The name of the venue: that of the first race with another name than the code.
    fn venue<'a>(&'a self, code: &'a VenueCode) -> &'a str {
        let code = code.as_str();
        let mut names = self.races.values().map(|race| race.venue.as_str());
        names.find(|name| *name != code).unwrap_or(code)
    }

    fn status(&self) -> MeetingStatus {
        let all = |test: fn(RaceStatus) -> bool| self.races.values().all(|race| test(race.status));
        if all(|status| status == RaceStatus::Abandoned) {
            MeetingStatus::Abandoned
        } else if all(RaceStatus::is_over) {
            MeetingStatus::Finished
        } else {
            MeetingStatus::Scheduled
        }
    }
}

/// The status of a meeting.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum MeetingStatus {
    /// Some race is not over.
    Scheduled,
    /// Every race is over.
    Finished,
    /// Every race is abandoned.
    Abandoned,
}

/// A meeting: a row in the list of meetings.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "Meeting")]
pub(crate) struct MeetingView {
    /// The meeting's date.
    date: RacingDate,
    /// The racecourse's name.
    venue: String,
    /// The racecourse's code.
    venue_code: VenueCode,
    /// The status of the meeting.
    status: MeetingStatus,
    /// The number of known races.
    race_count: usize,
    /// The number of races with a card.
    card_count: usize,
    /// The number of races with a result.
    result_count: usize,
    /// The number of races whose result was amended or voided after it was official.
    amended_count: usize,
    /// When the log stored the latest of these amendments, RFC 3339 in UTC; empty without one.
    #[schemars(extend("pattern" = json::TIME_OR_EMPTY))]
    amended_at: String,
}

/// What readers need of a meeting, whichever version of the fold wrote it.
#[derive(Debug, Deserialize)]
pub struct MeetingFacts {
    /// The meeting's date.
    pub date: RacingDate,
    /// The racecourse's name.
    pub venue: String,
    /// The racecourse's code.
    pub venue_code: VenueCode,
    /// The status of the meeting.
    pub status: MeetingStatus,
}

/// The meeting of a response about its races or one of them: the fields before those of the races.
#[derive(Debug, Serialize, JsonSchema)]
pub struct ChosenMeeting<'a> {
    /// The meeting's date.
    pub date: RacingDate,
    /// The racecourse's name.
    pub venue: &'a str,
    /// The racecourse's code.
    pub venue_code: &'a VenueCode,
    /// The status of the meeting.
    pub meeting_status: MeetingStatus,
    /// The venue codes of the day's other meetings.
    pub other_venues: Vec<&'a VenueCode>,
}

pub(crate) fn render(date: RacingDate, venue: &VenueCode, meeting: &Meeting) -> Vec<u8> {
    let amendments = || meeting.races.values().filter_map(|race| race.amended_at);
    json::render(&MeetingView {
        date,
        venue: meeting.venue(venue).to_owned(),
        venue_code: venue.clone(),
        status: meeting.status(),
        race_count: meeting.races.len(),
        card_count: meeting.races.values().filter(|race| race.card).count(),
        result_count: meeting.races.values().filter(|race| race.result).count(),
        amended_count: amendments().count(),
        amended_at: json::text(amendments().max()),
    })
}
