//! `/api/v1/odds/{date}/{race_number}` and its history.

use std::sync::Arc;

use axum::Router;
use axum::extract::State;
use axum::response::Response;
use axum::routing::get;
use events::{RaceKey, RaceNumber, RacingDate, VenueCode};
use projections::{Store, keys};

use super::call::{Args, Call, Params};
use super::error::ApiError;
use super::meetings::{append_rows, choose};
use crate::http::state::App;

pub(super) fn router() -> Router<Arc<App>> {
    Router::new()
        .route("/api/v1/odds/{date}/{race_number}", get(board))
        .route("/api/v1/odds/{date}/{race_number}/history", get(history))
}

async fn board(
    call: Call,
    State(app): State<Arc<App>>,
    params: Params,
    args: Args,
) -> Result<Response, ApiError> {
    let (_, view) = find(&app, &call.store, &params, &args)?;
    Ok(call.answer(view))
}

async fn history(
    call: Call,
    State(app): State<Arc<App>>,
    params: Params,
    args: Args,
) -> Result<Response, ApiError> {
    let (race, board) = find(&app, &call.store, &params, &args)?;
    let mut body = board;
    body.pop();
    body.extend_from_slice(b",\"history\":[");
    append_rows(&mut body, call.store.scan(&keys::ticks(&race)))?;
    body.extend_from_slice(b"]}");
    Ok(call.answer(body))
}

/// The board of a race: at the venue that the query names, else at the primary meeting of the day, as everywhere. A market
/// may be quoted before any card or result makes its day a meeting: until then it is the first venue with such a board, in
/// the configured order, then by code.
fn find(
    app: &App,
    store: &Store,
    params: &Params,
    args: &Args,
) -> Result<(RaceKey, Vec<u8>), ApiError> {
    let (date, race_number) = (params.date()?, params.race_number()?);
    let mut boards: Vec<(RaceKey, Vec<u8>)> = Vec::new();
    for row in store.scan(&keys::boards_of(date)) {
        let (key, view) = row?;
        let race = keys::parse_race(&key).filter(|race| race.race_number == race_number);
        boards.extend(race.map(|race| (race, view.to_vec())));
    }
    boards.sort_by_key(|(race, _)| app.venue_rank(race.venue.as_str()));
    let named = args.get("venue");
    let primary = match named {
        Some(_) => None,
        None => primary(app, store, date)?,
    };
    let is_wanted = |(race, view): &(RaceKey, Vec<u8>)| match (named, &primary) {
        (Some(name), _) => is_at(view, race, name),
        (None, Some(code)) => race.venue == *code,
        (None, None) => true,
    };
    match boards.iter().position(is_wanted) {
        Some(index) => Ok(boards.swap_remove(index)),
        None => Err(no_board(date, race_number, &boards)),
    }
}

/// The venue of the primary meeting of a day, if there is any meeting.
fn primary(app: &App, store: &Store, date: RacingDate) -> Result<Option<VenueCode>, ApiError> {
    match choose(app, store, date, None) {
        Ok(chosen) => Ok(Some(chosen.code)),
        Err(ApiError::NotFound(_)) => Ok(None),
        Err(error) => Err(error),
    }
}

/// Nobody quoted that race there; perhaps elsewhere.
fn no_board(
    date: RacingDate,
    race_number: RaceNumber,
    elsewhere: &[(RaceKey, Vec<u8>)],
) -> ApiError {
    let mut message = format!("No odds are known for race {race_number} on {date}");
    if !elsewhere.is_empty() {
        let venues: Vec<&str> = elsewhere
            .iter()
            .map(|(race, _)| race.venue.as_str())
            .collect();
        message += &format!(" there; there are at {}", venues.join(", "));
    }
    ApiError::NotFound(message)
}

fn is_at(board: &[u8], race: &RaceKey, name: &str) -> bool {
    #[derive(serde::Deserialize)]
    struct At {
        venue: String,
    }
    race.venue.as_str().eq_ignore_ascii_case(name)
        || serde_json::from_slice::<At>(board).is_ok_and(|at| at.venue.eq_ignore_ascii_case(name))
}
