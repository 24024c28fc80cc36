//! `/api/v1/odds/{date}/{race_number}` and its history.

use std::sync::Arc;

use axum::Router;
use axum::extract::State;
use axum::response::Response;
use axum::routing::get;
use events::RaceKey;
use projections::{Store, keys};

use super::call::{Args, Call, Params};
use super::error::ApiError;
use super::meetings::append_rows;
use crate::state::App;

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

/// The board of a race. A market may be quoted before any card or result makes its day a meeting, so boards are looked up
/// by themselves: in the configured order of venues, then by code.
fn find(
    app: &App,
    store: &Store,
    params: &Params,
    args: &Args,
) -> Result<(RaceKey, Vec<u8>), ApiError> {
    let (date, race_number) = (params.date()?, params.race_number()?);
    let wanted = args.get("venue");
    let mut found: Vec<(usize, RaceKey, Vec<u8>)> = Vec::new();
    for row in store.scan(&keys::boards_of(date)) {
        let (key, view) = row?;
        let Some(race) = keys::parse_race(&key).filter(|race| race.race_number == race_number)
        else {
            continue;
        };
        if wanted.is_none_or(|name| is_at(&view, &race, name)) {
            let rank = app.venue_rank(race.venue.as_str());
            found.push((rank, race, view.to_vec()));
        }
    }
    found.sort_by_key(|(rank, ..)| *rank);
    let first = found.into_iter().next();
    let none = || {
        ApiError::NotFound(format!(
            "No odds are known for race {race_number} on {date}"
        ))
    };
    first.map(|(_, race, view)| (race, view)).ok_or_else(none)
}

fn is_at(board: &[u8], race: &RaceKey, name: &str) -> bool {
    #[derive(serde::Deserialize)]
    struct At {
        venue: String,
    }
    race.venue.as_str().eq_ignore_ascii_case(name)
        || serde_json::from_slice::<At>(board).is_ok_and(|at| at.venue.eq_ignore_ascii_case(name))
}
