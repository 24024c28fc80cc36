//! `/api/v1/results/{date}`, one race of it, and the revisions of a race's result.

use std::sync::Arc;

use axum::Router;
use axum::extract::State;
use axum::response::Response;
use axum::routing::get;
use events::{RaceKey, RaceNumber};
use projections::keys;

use super::error::ApiError;
use super::meeting_choice::{MeetingChoice, respond_with_races};
use super::params::{PathParams, QueryParams};
use super::request::{ApiRequest, views};
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

async fn meeting(
    request: ApiRequest,
    State(app): State<Arc<App>>,
    path: PathParams,
    query: QueryParams,
) -> Result<Response, ApiError> {
    let date = path.date()?;
    let path = format!("/api/v1/results/{date}");
    respond_with_races(request, &app, date, &query, &path, keys::results)
}

async fn race(
    request: ApiRequest,
    State(app): State<Arc<App>>,
    path: PathParams,
    query: QueryParams,
) -> Result<Response, ApiError> {
    let (choice, race) = choose_race(&request, &app, &path, &query)?;
    let result = request
        .store
        .get(&keys::result(&race))?
        .ok_or_else(|| no_result(&choice, race.race_number))?;
    let body = choice.object().fields_of(&result).finish();
    Ok(request.respond_with_links(body, choice.links(&path_of(&race))))
}

async fn revisions(
    request: ApiRequest,
    State(app): State<Arc<App>>,
    path: PathParams,
    query: QueryParams,
) -> Result<Response, ApiError> {
    let (choice, race) = choose_race(&request, &app, &path, &query)?;
    let rows = request.store.scan(&keys::revisions(&race));
    // An abandoned race has a result without any revision.
    if request.store.get(&keys::result(&race))?.is_none() {
        return Err(no_result(&choice, race.race_number));
    }
    let body = choice
        .object()
        .field("race_number", &race.race_number)
        .try_list("revisions", views(rows))?
        .finish();
    let links = choice.links(&(path_of(&race) + "/revisions"));
    Ok(request.respond_with_links(body, links))
}

/// The race of the path, in the meeting that the query chooses.
fn choose_race(
    request: &ApiRequest,
    app: &App,
    path: &PathParams,
    query: &QueryParams,
) -> Result<(MeetingChoice, RaceKey), ApiError> {
    let (date, race_number) = (path.date()?, path.race_number()?);
    let choice = MeetingChoice::find(app, &request.store, date, query.get("venue"))?;
    let venue = choice.code.clone();
    let race = RaceKey {
        date,
        venue,
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
