//! [`MeetingChoice`]: the meeting of a day that a response is about, and its fields in the response.

use events::{RaceKey, RaceNumber, RacingDate, VenueCode};
use projections::json::JsonObject;
use projections::meetings::{ChosenMeeting, MeetingFacts};
use projections::{Store, keys};

use super::params::quoted;
use super::{Answer, ApiError, ApiRequest, App, QueryParams};

/// The meeting that a response is about, and the other meetings of its day.
pub(super) struct MeetingChoice {
    pub(super) meeting: MeetingFacts,
    others: Vec<MeetingFacts>,
}

impl MeetingChoice {
    /// Chooses a meeting of a day: the one at `venue`, a code or a name in any case, else the first in the configured
    /// order of venues, then by code. Returns [`ApiError::NotFound`] if the day has no meeting, or none at `venue`.
    pub(super) fn find(
        app: &App,
        store: &Store,
        today: RacingDate,
        date: RacingDate,
        venue: Option<&str>,
    ) -> Result<Self, ApiError> {
        let mut meetings = Vec::new();
        for view in store.views(&keys::meetings_of(date))? {
            meetings.push(serde_json::from_slice::<MeetingFacts>(&view)?);
        }
        if meetings.is_empty() {
            let zone = &app.clock.zone;
            return Err(ApiError::NotFound(match date == today {
                true => format!("No meeting is scheduled for {date} ({zone})"),
                false => format!("No meeting is known for {date}"),
            }));
        }
        meetings.sort_by_key(|meeting| app.venue_rank(meeting.venue_code.as_str()));
        let is_chosen = |meeting: &MeetingFacts| venue.is_none_or(|venue| is_at(meeting, venue));
        let Some(index) = meetings.iter().position(is_chosen) else {
            return Err(no_meeting_at(venue.unwrap_or_default(), date, &meetings));
        };
        Ok(Self {
            meeting: meetings.remove(index),
            others: meetings,
        })
    }

    /// The meeting of a day that a request is about.
    pub(super) fn of_request(request: &ApiRequest, date: RacingDate) -> Result<Self, ApiError> {
        let venue = request.query.get("venue");
        Self::find(&request.app, &request.store, request.today(), date, venue)
    }

    /// A race of the meeting.
    pub(super) fn race(&self, race_number: RaceNumber) -> RaceKey {
        RaceKey {
            date: self.meeting.date,
            venue: self.meeting.venue_code.clone(),
            race_number,
        }
    }

    /// An object with the meeting's fields, open for those of its races.
    pub(super) fn object(&self) -> JsonObject {
        let others = self.others.iter();
        JsonObject::of(&ChosenMeeting {
            date: self.meeting.date,
            venue: &self.meeting.venue,
            venue_code: &self.meeting.venue_code,
            meeting_status: self.meeting.status,
            other_venues: others.map(|other| &other.venue_code).collect(),
        })
    }

    /// The message that the meeting has no such race.
    pub(super) fn no_race(&self, race_number: RaceNumber) -> String {
        let MeetingFacts { venue, date, .. } = &self.meeting;
        format!("No race {race_number} is known at {venue} on {date}")
    }

    /// An answer about the meeting, and the links to those about the others.
    pub(super) fn answer(&self, request: &ApiRequest, json: JsonObject) -> Answer {
        let links = self.links(request.uri.path());
        let json = json.finish();
        Answer { json, links }
    }

    /// A `Link` to the same path for each other meeting of the day.
    pub(super) fn links(&self, path: &str) -> Vec<String> {
        let link = |other: &MeetingFacts| {
            format!("<{path}?venue={}>; rel=\"alternate\"", other.venue_code)
        };
        self.others.iter().map(link).collect()
    }
}

/// Whether a meeting is at a venue: a code or a name in any case.
pub(crate) fn is_at(meeting: &MeetingFacts, venue: &str) -> bool {
    meeting.venue_code.as_str().eq_ignore_ascii_case(venue)
        || meeting.venue.eq_ignore_ascii_case(venue)
}

fn no_meeting_at(venue: &str, date: RacingDate, meetings: &[MeetingFacts]) -> ApiError {
    let codes = meetings.iter().map(|meeting| meeting.venue_code.as_str());
    let codes = codes.collect::<Vec<_>>().join(", ");
    let venue = quoted(venue);
    let message = format!("No meeting is known for {date} at {venue}; there is one at {codes}");
    ApiError::NotFound(message)
}

/// The races of a meeting. `views_of` returns the key prefix of their views.
pub(super) fn races_of_meeting(
    request: &ApiRequest,
    views_of: fn(RacingDate, &VenueCode) -> String,
) -> Result<Answer, ApiError> {
    let date = request.date()?;
    let choice = MeetingChoice::of_request(request, date)?;
    let prefix = views_of(date, &choice.meeting.venue_code);
    let json = choice.object().list("races", request.store.views(&prefix)?);
    Ok(choice.answer(request, json))
}

/// A race of today's primary meeting, or of today's meeting at the `venue` of the query. Returns
/// [`ApiError::NotFound`] if there is no such race today.
pub(super) fn race_of_today(
    app: &App,
    race_number: RaceNumber,
    query: &QueryParams,
) -> Result<RaceKey, ApiError> {
    let was_caught_up = app.is_caught_up();
    let find = || {
        let date = app.clock.today();
        let store = app.store()?;
        let choice = MeetingChoice::find(app, &store, date, date, query.get("venue"))?;
        let race = choice.race(race_number);
        for view in [keys::card(&race), keys::board(&race), keys::result(&race)] {
            if store.get(&view)?.is_some() {
                return Ok(race);
            }
        }
        Err(ApiError::NotFound(choice.no_race(race_number)))
    };
    find().map_err(|error| app.unless_caught_up(was_caught_up, error))
}
