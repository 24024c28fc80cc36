//! `/api/v1/odds/{date}/{race_number}` and its history.

use std::sync::Arc;

use axum::Router;
use axum::response::Response;
use axum::routing::get;
use events::{RaceKey, RaceNumber, RacingDate, VenueCode};
use projections::json::JsonObject;
use projections::keys;

use super::error::ApiError;
use super::meeting_choice::MeetingChoice;
use super::page::{PageRows, next_link, read_page};
use super::request::{Answer, ApiRequest};
use super::state::App;

pub(super) fn router() -> Router<Arc<App>> {
    Router::new()
        .route("/api/v1/odds/{date}/{race_number}", get(board))
        .route("/api/v1/odds/{date}/{race_number}/history", get(history))
}

async fn board(request: ApiRequest) -> Result<Response, ApiError> {
    request.answer(|request| Ok(find(request)?.1))
}

async fn history(request: ApiRequest) -> Result<Response, ApiError> {
    read_page(request, history_page).await
}

/// The board with its quotes after the `after`th one, in the order of the log.
fn history_page(request: &ApiRequest) -> Result<Answer, ApiError> {
    let mut page = PageRows::of(&request.query)?;
    let after = request.query.number("after")?.unwrap_or(0);
    let (race, board) = find(request)?;
    let (first, skip) = keys::ticks_from(&race, after);
    let chunks = request.store.range(&first, &(keys::ticks(&race) + "~"));
    let more = page.fill(chunks, skip)?;
    let path = format!("/api/v1/odds/{}/{}/history", race.date, race.race_number);
    let next = page.next(more, after, &path, &request.query);
    let json = JsonObject::from_rendered(board).list("history", page.list());
    let json = json.field("next", &next).finish();
    let links = next_link(&next).into_iter().collect();
    Ok(Answer { json, links })
}

/// The board of the race at the venue of the query, else at the primary meeting of the day.
///
/// A race may be quoted before any card or result makes its day a meeting. Until then it is the board at the first
/// venue that has one, in the configured order, then by code.
fn find(request: &ApiRequest) -> Result<(RaceKey, Vec<u8>), ApiError> {
    let (date, race_number) = (request.path.date()?, request.path.race_number()?);
    let mut boards: Vec<(RaceKey, Vec<u8>)> = Vec::new();
    for row in request.store.scan(&keys::boards_of(date)) {
        let (key, view) = row?;
        let race = keys::parse_race(&key).filter(|race| race.race_number == race_number);
        boards.extend(race.map(|race| (race, view.to_vec())));
    }
    boards.sort_by_key(|(race, _)| request.app.venue_rank(race.venue.as_str()));
    let venue = request.query.get("venue");
    let primary = match venue {
        Some(_) => None,
        None => primary(request, date)?,
    };
    let is_wanted = |(race, board): &(RaceKey, Vec<u8>)| match (venue, &primary) {
        (Some(venue), _) => is_at(board, race, venue),
        (None, Some(code)) => race.venue == *code,
        (None, None) => true,
    };
    match boards.iter().position(is_wanted) {
        Some(index) => Ok(boards.swap_remove(index)),
        None => Err(no_board(date, race_number, &boards)),
    }
}

/// The venue of the primary meeting of a day, if the day has a meeting.
fn primary(request: &ApiRequest, date: RacingDate) -> Result<Option<VenueCode>, ApiError> {
    match MeetingChoice::find(&request.app, &request.store, date, None) {
        Ok(choice) => Ok(Some(choice.code)),
        Err(ApiError::NotFound(_)) => Ok(None),
        Err(error) => Err(error),
    }
}

/// The race has no board there. The message names the venues where it has one.
fn no_board(date: RacingDate, number: RaceNumber, elsewhere: &[(RaceKey, Vec<u8>)]) -> ApiError {
    let mut message = format!("No odds are known for race {number} on {date}");
    if !elsewhere.is_empty() {
        let venues = elsewhere.iter().map(|(race, _)| race.venue.as_str());
        message += " there; there are at ";
        message += &venues.collect::<Vec<_>>().join(", ");
    }
    ApiError::NotFound(message)
}

fn is_at(board: &[u8], race: &RaceKey, venue: &str) -> bool {
    #[derive(serde::Deserialize)]
    struct BoardVenue {
        venue: String,
    }
    race.venue.as_str().eq_ignore_ascii_case(venue)
        || serde_json::from_slice::<BoardVenue>(board)
            .is_ok_and(|board| board.venue.eq_ignore_ascii_case(venue))
}
