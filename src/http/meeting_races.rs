//! `/api/v1/results` and `/api/v1/racecards`: the races of all meetings of some days; and the cards of one meeting.

use events::{RacingDate, VenueCode};
use projections::json::JsonObject;
use projections::keys;
use projections::meetings::MeetingFacts;

use super::meeting_choice::{is_at, races_of_meeting};
use super::meetings::meetings_of_days;
use super::paging::{INVALID_AFTER, pages};
use super::params::quoted;
use super::{Answer, ApiError, ApiRequest, PageRows, Routes, resource};

const PARAMETERS: &[&str] = &["after", "from", "limit", "to", "venue"];

pub(super) fn router() -> Routes {
    let results = pages(PARAMETERS, |request| races(request, keys::results));
    let cards = pages(PARAMETERS, |request| races(request, keys::cards));
    let of_meeting = resource(&["venue"], |request| races_of_meeting(request, keys::cards));
    Routes::default()
        .route("/api/v1/results", results)
        .route("/api/v1/racecards", cards)
        .route("/api/v1/racecards/{date}", of_meeting)
}

/// The races of the days, after the position of an earlier page, by date, venue code and race number. `views_of`
/// returns the key prefix of the views of a meeting's races.
fn races(
    request: &ApiRequest,
    views_of: fn(RacingDate, &VenueCode) -> String,
) -> Result<Answer, ApiError> {
    let mut page = PageRows::of(&request.query)?;
    let invalid = || ApiError::invalid(INVALID_AFTER);
    let after = request.query.get("after");
    let after = after.map(|after| keys::parse_race(after).ok_or_else(invalid));
    let mut after = after.transpose()?;
    let venue = request.query.get("venue");
    let mut is_venue_known = venue.is_none();
    'meetings: for meeting in meetings_of_days(request)? {
        let meeting = meeting?;
        if venue.is_some_and(|venue| !is_at(&meeting, venue)) {
            continue;
        }
        is_venue_known = true;
        let (date, code) = (meeting.date, &meeting.venue_code);
        let all = views_of(date, code);
        let of_page_before = after.take_if(|race| race.date == date && race.venue == *code);
        let first = of_page_before.map(|race| format!("{all}{:03}\0", race.race_number.get()));
        let first = first.as_ref().unwrap_or(&all);
        for row in request.store.range(first, &format!("{all}~")) {
            let (key, race) = row?;
            let (_, position) = key.split_once('/').unwrap_or_default();
            if !page.take(position, &race_of_meeting(&meeting, &race)) {
                break 'meetings;
            }
        }
    }
    if let (false, Some(venue)) = (is_venue_known, venue.map(quoted)) {
        let message = format!("No meeting is known at {venue} on these days");
        return Err(ApiError::NotFound(message));
    }
    let json = JsonObject::new().list("races", page.list());
    Ok(Answer::page(
        json,
        &page.next(request.uri.path(), &request.query),
    ))
}

/// A race behind the fields of its meeting.
pub(super) fn race_of_meeting(meeting: &MeetingFacts, race: &[u8]) -> Vec<u8> {
    JsonObject::new()
        .field("date", &meeting.date)
        .field("venue", &meeting.venue)
        .field("venue_code", &meeting.venue_code)
        .fields_of(race)
        .finish()
}
