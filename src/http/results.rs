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
use super::meetings::{Chosen, choose};
use crate::state::App;

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
    let chosen = choose(&app, &call.store, date, args.get("venue"))?;
    let rows = call.store.scan(&keys::results(date, &chosen.code));
    let body = chosen.with_list("\"races\":[", rows)?;
    Ok(call.answer_with_links(body, chosen.links(&format!("/api/v1/results/{date}"))))
}

async fn race(
    call: Call,
    State(app): State<Arc<App>>,
    params: Params,
    args: Args,
) -> Result<Response, ApiError> {
    let (date, race_number) = (params.date()?, params.race_number()?);
    let chosen = choose(&app, &call.store, date, args.get("venue"))?;
    let key = RaceKey {
        date,
        venue: chosen.code.clone(),
        race_number,
    };
    let row = call
        .store
        .get(&keys::result(&key))?
        .ok_or_else(|| no_race(&chosen, race_number))?;
    let mut body = chosen.head()?;
    body.extend_from_slice(row.strip_prefix(b"{").unwrap_or_default());
    Ok(call.answer_with_links(
        body,
        chosen.links(&format!("/api/v1/results/{date}/{race_number}")),
    ))
}

async fn revisions(
    call: Call,
    State(app): State<Arc<App>>,
    params: Params,
    args: Args,
) -> Result<Response, ApiError> {
    let (date, race_number) = (params.date()?, params.race_number()?);
    let chosen = choose(&app, &call.store, date, args.get("venue"))?;
    let key = RaceKey {
        date,
        venue: chosen.code.clone(),
        race_number,
    };
    let mut rows = call.store.scan(&keys::revisions(&key)).peekable();
    if rows.peek().is_none() {
        return Err(no_race(&chosen, race_number));
    }
    let opening = format!("\"race_number\":{race_number},\"revisions\":[");
    let body = chosen.with_list(&opening, rows)?;
    Ok(call.answer_with_links(
        body,
        chosen.links(&format!("/api/v1/results/{date}/{race_number}/revisions")),
    ))
}

/// The meeting is there, and that race of it is not.
fn no_race(chosen: &Chosen, race_number: RaceNumber) -> ApiError {
    let meeting = &chosen.meeting;
    ApiError::NotFound(format!(
        "No result of race {race_number} is known at {} on {}",
        meeting.venue, meeting.date
    ))
}
