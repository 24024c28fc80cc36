//! `/api/v1/results/{date}`, one race of it, and the revisions of a race's result.

use std::sync::Arc;

use axum::Router;
use axum::response::Response;
use axum::routing::get;
use events::{RaceKey, RaceNumber};
use projections::keys;

use super::error::ApiError;
use super::meeting_choice::{MeetingChoice, races_of_meeting};
use super::request::{Answer, ApiRequest, views};
use super::state::App;

pub(super) fn router() -> Router<Arc<App>> {
    Router::new()
        .route("/api/v1/results/{date}", get(meeting))
        .route("/api/v1/results/{date}/{race_number}", get(race))
        .route(
            "/api/v1/results/{date}/{race_number}/revisions",
            get(revisions),
        )
}

async fn meeting(request: ApiRequest) -> Result<Response, ApiError> {
    let date = request.path.date()?;
    let path = format!("/api/v1/results/{date}");
    request.answer(|request| races_of_meeting(request, date, &path, keys::results))
}

async fn race(request: ApiRequest) -> Result<Response, ApiError> {
    request.answer(|request| {
        let (choice, race) = choose_race(request)?;
        let result = request.store.get(&keys::result(&race))?;
        let result = result.ok_or_else(|| no_result(&choice, race.race_number))?;
        let json = choice.object().fields_of(&result).finish();
        let links = choice.links(&path_of(&race));
        Ok(Answer { json, links })
    })
}

async fn revisions(request: ApiRequest) -> Result<Response, ApiError> {
    request.answer(|request| {
        let (choice, race) = choose_race(request)?;
        let rows = request.store.scan(&keys::revisions(&race));
        // An abandoned race has a result without any revision.
        if request.store.get(&keys::result(&race))?.is_none() {
            return Err(no_result(&choice, race.race_number));
        }
        let body = choice.object().field("race_number", &race.race_number);
        let json = body.try_list("revisions", views(rows))?.finish();
        let links = choice.links(&(path_of(&race) + "/revisions"));
        Ok(Answer { json, links })
    })
}

/// The race of the path, in the meeting that the query chooses.
fn choose_race(request: &ApiRequest) -> Result<(MeetingChoice, RaceKey), ApiError> {
    let (date, race_number) = (request.path.date()?, request.path.race_number()?);
    let venue = request.query.get("venue");
    let choice = MeetingChoice::find(&request.app, &request.store, date, venue)?;
    let race = RaceKey {
        date,
        venue: choice.code.clone(),
        race_number,
    };
    Ok((choice, race))
}

fn path_of(race: &RaceKey) -> String {
    format!("/api/v1/results/{}/{}", race.date, race.race_number)
}

fn no_result(choice: &MeetingChoice, race_number: RaceNumber) -> ApiError {
    let meeting = &choice.meeting;
    ApiError::NotFound(format!(
        "No result of race {race_number} is known at {} on {}",
        meeting.venue, meeting.date
    ))
}
