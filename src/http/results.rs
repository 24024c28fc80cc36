//! `/api/v1/results/{date}`, one race of it, and the revisions of a race's result.

use std::sync::Arc;

use axum::Router;
use axum::extract::State;
use axum::response::Response;
use axum::routing::get;
use events::{RaceKey, RaceNumber};
use projections::keys;

use super::call::{Args, Call, Params};
use super::error::ApiError;
use super::meetings::{Chosen, choose, races};
use crate::http::state::App;

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
    call: Call,
    State(app): State<Arc<App>>,
    params: Params,
    args: Args,
) -> Result<Response, ApiError> {
    let date = params.date()?;
    let path = format!("/api/v1/results/{date}");
    races(call, &app, date, &args, &path, keys::results)
}

async fn race(
    call: Call,
    State(app): State<Arc<App>>,
    params: Params,
    args: Args,
) -> Result<Response, ApiError> {
    let (chosen, key) = choose_race(&call, &app, &params, &args)?;
    let row = call
        .store
        .get(&keys::result(&key))?
        .ok_or_else(|| no_race(&chosen, key.race_number))?;
    let mut body = chosen.head()?;
    body.extend_from_slice(row.strip_prefix(b"{").unwrap_or_default());
    Ok(call.answer_with_links(body, chosen.links(&path_of(&key))))
}

async fn revisions(
    call: Call,
    State(app): State<Arc<App>>,
    params: Params,
    args: Args,
) -> Result<Response, ApiError> {
    let (chosen, key) = choose_race(&call, &app, &params, &args)?;
    let rows = call.store.scan(&keys::revisions(&key));
    // An abandoned race has a result of which nothing was stated.
    if call.store.get(&keys::result(&key))?.is_none() {
        return Err(no_race(&chosen, key.race_number));
    }
    let opening = format!("\"race_number\":{},\"revisions\":[", key.race_number);
    let body = chosen.with_list(&opening, rows)?;
    Ok(call.answer_with_links(body, chosen.links(&(path_of(&key) + "/revisions"))))
}

/// The race that a path is about, in the meeting that the query chooses.
fn choose_race(
    call: &Call,
    app: &App,
    params: &Params,
    args: &Args,
) -> Result<(Chosen, RaceKey), ApiError> {
    let (date, race_number) = (params.date()?, params.race_number()?);
    let chosen = choose(app, &call.store, date, args.get("venue"))?;
    let venue = chosen.code.clone();
    let key = RaceKey {
        date,
        venue,
        race_number,
    };
    Ok((chosen, key))
}

fn path_of(key: &RaceKey) -> String {
    format!("/api/v1/results/{}/{}", key.date, key.race_number)
}

/// The meeting is there, and that race of it is not.
fn no_race(chosen: &Chosen, race_number: RaceNumber) -> ApiError {
    let meeting = &chosen.meeting;
    ApiError::NotFound(format!(
        "No result of race {race_number} is known at {} on {}",
        meeting.venue, meeting.date
    ))
}
