//! `/api/v1/results/{date}`, one race of it, and the revisions of its result and its dividends.

use std::sync::Arc;

use axum::extract::{Request, State};
use axum::response::Response;
use axum::routing::get;
use events::RaceKey;
use projections::{View, keys, pending_dividends};

use super::meeting_choice::{MeetingChoice, races_of_meeting};
use super::odds_history::moves;
use super::paging::{pages, read_page};
use super::{Answer, ApiError, ApiRequest, App, PageRows, Routes, resource};

pub(super) fn router() -> Routes {
    let of_meeting = resource(&["venue"], |it| races_of_meeting(it, keys::results));
    let revisions = pages(&["after", "limit", "venue"], revisions);
    let dividends = resource(&["venue"], dividends);
    Routes::default()
        .route("/api/v1/results/{date}", of_meeting)
        .route("/api/v1/results/{date}/{race_number}", get(result))
        .route("/api/v1/results/{date}/{race_number}/revisions", revisions)
        .route("/api/v1/results/{date}/{race_number}/dividends", dividends)
}

async fn result(State(app): State<Arc<App>>, request: Request) -> Result<Response, ApiError> {
    let request = ApiRequest::read(request, &app, &["moves", "venue"]).await?;
    let has_moves = (request.query).parsed("moves", "true or false", |it| it.parse().ok())?;
    if has_moves != Some(true) {
        return request.rewound().await?.answer(|it| race_result(it, None));
    }
    request.require_odds(None)?;
    let request = request.rewound().await?;
    let race = choose_race(&request);
    let (_, race) = race.map_err(|error| app.unless_caught_up(request.was_caught_up, error))?;
    let off = Some(request.end_of_moves(&race).await?);
    read_page(request, move |it| race_result(it, off)).await
}

/// The result of a race, behind the fields of its meeting; with the moves of its prices until an event if there is one.
fn race_result(request: &ApiRequest, off: Option<u64>) -> Result<Answer, ApiError> {
    let (choice, race) = choose_race(request)?;
    let json = find(request, &choice, &race)?;
    let json = choice.object().fields_of(&json);
    let json = match off {
        Some(off) => json.list("moves", moves(request, off)?.list()),
        None => json,
    };
    Ok(choice.answer(request, json))
}

/// What the pools of a race pay: pending if it has a result, and no dividends yet.
fn dividends(request: &ApiRequest) -> Result<Answer, ApiError> {
    let (choice, race) = choose_race(request)?;
    let json = choice.object();
    let json = match request.store.get(&keys::dividends(&race))? {
        Some(declared) => json.fields_of(&declared),
        None => {
            find(request, &choice, &race)?;
            json.fields_of(&pending_dividends(race.race_number))
        }
    };
    Ok(choice.answer(request, json))
}

/// The revisions after the `after`th one, in the order of the log.
fn revisions(request: &ApiRequest) -> Result<Answer, ApiError> {
    let mut page = PageRows::of(&request.query)?;
    let after = request.query.number("after")?.unwrap_or(0);
    let (choice, race) = choose_race(request)?;
    // An abandoned race has a result without any revision.
    find(request, &choice, &race)?;
    let first = keys::revisions_from(&race, after);
    let end = keys::revisions(&race);
    // The date of `today` would be another one on the next page.
    let rows = request.store.range(&first, &(end + "~"));
    for (row, position) in rows.zip(after.saturating_add(1)..) {
        if !page.take(&position.to_string(), &row?.1) {
            break;
        }
    }
    let (date, number) = (race.date, race.race_number);
    let path = format!("/api/v1/results/{date}/{number}/revisions");
    let next = page.next(&path, &request.query);
    let json = choice.object().field("race_number", &number);
    let mut page = Answer::page(json.list("revisions", page.list()), &next);
    page.links.splice(0..0, choice.links(request.uri.path()));
    Ok(page)
}

/// The race of the path, in the meeting that the query chooses.
pub(super) fn choose_race(request: &ApiRequest) -> Result<(MeetingChoice, RaceKey), ApiError> {
    let choice = MeetingChoice::of_request(request, request.date()?)?;
    let race = choice.race(request.path.race_number()?);
    Ok((choice, race))
}

/// The result of a race.
fn find(request: &ApiRequest, choice: &MeetingChoice, race: &RaceKey) -> Result<View, ApiError> {
    let found = request.store.get(&keys::result(race))?;
    let (number, venue, date) = (race.race_number, &choice.meeting.venue, race.date);
    let unknown = || format!("No result of race {number} is known at {venue} on {date}");
    found.ok_or_else(|| ApiError::NotFound(unknown()))
}
