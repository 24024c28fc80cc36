//! [`MeetingChoice`]: the meeting of a day that a response is about, and its fields in the response.

use events::{RaceKey, RaceNumber, RacingDate, VenueCode};
use projections::json::JsonObject;
use projections::meetings::{ChosenMeeting, MeetingFacts};
use projections::{Store, keys};

use super::error::ApiError;
use super::params::QueryParams;
use super::request::{Answer, ApiRequest, views};
use super::state::App;

/// Characters of an unknown venue's name that an error message quotes.
const QUOTED_CHARS_MAX: usize = 40;

/// The meeting that a response is about, and the other meetings of its day.
pub(super) struct MeetingChoice {
    pub(super) code: VenueCode,
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
        for row in store.scan(&keys::meetings_of(date)) {
            let meeting = serde_json::from_slice::<MeetingFacts>(&row?.1);
            meetings.push(meeting.map_err(ApiError::internal)?);
        }
        if meetings.is_empty() {
            let zone = app.clock.zone();
            return Err(ApiError::NotFound(if date == today {
                format!("No meeting is scheduled for {date} ({zone})")
            } else {
                format!("No meeting is known for {date}")
            }));
        }
        meetings.sort_by_key(|meeting| app.venue_rank(meeting.venue_code.as_str()));
        let index = match venue {
            None => 0,
            Some(venue) => meetings
                .iter()
                .position(|meeting| is_at(meeting, venue))
                .ok_or_else(|| no_meeting_at(venue, date, &meetings))?,
        };
        let meeting = meetings.remove(index);
        Ok(Self {
            code: meeting.venue_code.clone(),
            meeting,
            others: meetings,
        })
    }

    /// The meeting of a day that a request is about.
    pub(super) fn of_request(request: &ApiRequest, date: RacingDate) -> Result<Self, ApiError> {
        let ApiRequest { app, store, .. } = request;
        Self::find(
            app,
            store,
            request.today(),
            date,
            request.query.get("venue"),
        )
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
    ApiError::NotFound(format!(
        "No meeting is known for {date} at {venue}; there is one at {codes}"
    ))
}

/// An unknown venue, as an error message quotes it.
pub(super) fn quoted(venue: &str) -> String {
    format!(
        "{:?}",
        venue.chars().take(QUOTED_CHARS_MAX).collect::<String>()
    )
}

/// The races of a meeting. `views_of` returns the key prefix of their views.
pub(super) fn races_of_meeting(
    request: &ApiRequest,
    views_of: fn(RacingDate, &VenueCode) -> String,
) -> Result<Answer, ApiError> {
    let date = request.date()?;
    let choice = MeetingChoice::of_request(request, date)?;
    let rows = request.store.scan(&views_of(date, &choice.code));
    let json = choice.object().try_list("races", views(rows))?.finish();
    let links = choice.links(request.uri.path());
    Ok(Answer { json, links })
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
        let venue = choice.code.clone();
        let race = RaceKey {
            date,
            venue,
            race_number,
        };
        for view in [keys::card(&race), keys::board(&race), keys::result(&race)] {
            if store.get(&view)?.is_some() {
                return Ok(race);
            }
        }
        Err(ApiError::NotFound(choice.no_race(race_number)))
    };
    find().map_err(|error| app.unless_caught_up(was_caught_up, error))
}
