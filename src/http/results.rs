//! `/api/v1/results/{date}`, one race of it, and the revisions of its result and its dividends.

use events::{RaceKey, RaceNumber};
use projections::{keys, pending_dividends};

use super::error::ApiError;
use super::meeting_choice::{MeetingChoice, races_of_meeting};
use super::paging::{PageRows, pages};
use super::request::{Answer, ApiRequest, resource};
use super::routes::Routes;

pub(super) fn router() -> Routes {
    Routes::default()
        .route(
            "/api/v1/results/{date}",
            resource(&["venue"], |request| {
                races_of_meeting(request, keys::results)
            }),
        )
        .route(
            "/api/v1/results/{date}/{race_number}",
            resource(&["venue"], result),
        )
        .route(
            "/api/v1/results/{date}/{race_number}/revisions",
            pages(&["after", "limit", "venue"], revisions),
        )
        .route(
            "/api/v1/results/{date}/{race_number}/dividends",
            resource(&["venue"], dividends),
        )
}

/// The result of a race, behind the fields of its meeting.
fn result(request: &ApiRequest) -> Result<Answer, ApiError> {
    let (choice, race) = choose_race(request)?;
    let json = request.store.get(&keys::result(&race))?;
    let json = json.ok_or_else(|| unknown_result(&choice, race.race_number))?;
    let json = choice.object().fields_of(&json).finish();
    let links = choice.links(request.uri.path());
    Ok(Answer { json, links })
}

/// What the pools of a race pay: pending if it has a result, and no dividends yet.
fn dividends(request: &ApiRequest) -> Result<Answer, ApiError> {
    let (choice, race) = choose_race(request)?;
    let json = match request.store.get(&keys::dividends(&race))? {
        Some(declared) => choice.object().fields_of(&declared),
        None if request.store.get(&keys::result(&race))?.is_none() => {
            return Err(unknown_result(&choice, race.race_number));
        }
        None => choice
            .object()
            .fields_of(&pending_dividends(race.race_number)),
    };
    let links = choice.links(request.uri.path());
    Ok(Answer {
        json: json.finish(),
        links,
    })
}

/// The revisions after the `after`th one, in the order of the log.
fn revisions(request: &ApiRequest) -> Result<Answer, ApiError> {
    let mut page = PageRows::of(&request.query)?;
    let after = request.query.number("after")?.unwrap_or(0);
    let (choice, race) = choose_race(request)?;
    // An abandoned race has a result without any revision.
    if request.store.get(&keys::result(&race))?.is_none() {
        return Err(unknown_result(&choice, race.race_number));
    }
    let first = keys::revisions_from(&race, after);
    let end = keys::revisions(&race);
    let more = page.fill(request.store.range(&first, &(end + "~")), 0)?;
    // The date of `today` would be another one on the next page.
    let date = race.date;
    let race_number = race.race_number;
    let path = format!("/api/v1/results/{date}/{race_number}/revisions");
    let next = page.next(more, after, &path, &request.query);
    let json = choice.object().field("race_number", &race.race_number);
    let mut page = Answer::page(json.list("revisions", page.list()), &next);
    page.links.splice(0..0, choice.links(request.uri.path()));
    Ok(page)
}

/// The race of the path, in the meeting that the query chooses.
pub(super) fn choose_race(request: &ApiRequest) -> Result<(MeetingChoice, RaceKey), ApiError> {
    let date = request.date()?;
    let race_number = request.path.race_number()?;
    let choice = MeetingChoice::of_request(request, date)?;
    let race = RaceKey {
        date,
        venue: choice.code.clone(),
        race_number,
    };
    Ok((choice, race))
}

fn unknown_result(choice: &MeetingChoice, race_number: RaceNumber) -> ApiError {
    let meeting = &choice.meeting;
    ApiError::NotFound(format!(
        "No result of race {race_number} is known at {} on {}",
        meeting.venue, meeting.date
    ))
}
