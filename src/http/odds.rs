//! `/api/v1/odds/{date}/{race_number}` and its sources.

use events::{Moment, PoolCode, RaceKey};
use projections::{board_of_source, keys, last_quoted_at, odds_market, odds_sources};

use super::meeting_choice::MeetingChoice;
use super::{Answer, ApiError, ApiRequest, Routes, resource};

pub(super) fn router() -> Routes {
    let board = resource(&["market", "source", "venue"], board);
    let sources = resource(&["venue"], sources);
    Routes::default()
        .route("/api/v1/odds/{date}/{race_number}", board)
        .route("/api/v1/odds/{date}/{race_number}/sources", sources)
}

fn board(request: &ApiRequest) -> Result<Answer, ApiError> {
    request.require_odds(None)?;
    let (race, board) = find(request)?;
    Ok(chosen(request, &race, board)?.into())
}

/// The board of the market and the source that the query chooses, if it does.
pub(super) fn chosen(
    request: &ApiRequest,
    race: &RaceKey,
    board: Vec<u8>,
) -> Result<Vec<u8>, ApiError> {
    let source = request.query.get("source");
    let chosen = match (market(request)?, source) {
        (None, None) => Some(board),
        (None, Some(source)) => board_of_source(&request.store, race, source)?,
        (Some(market), _) => odds_market(&request.store, race, &market, source)?,
    };
    chosen.ok_or_else(|| {
        let sources = odds_path(race) + "/sources";
        let reason = format!("No such source or market has been quoted; {sources} lists them");
        ApiError::NotFound(reason)
    })
}

/// Another market than win and place, if the query chooses one.
pub(super) fn market(request: &ApiRequest) -> Result<Option<PoolCode>, ApiError> {
    let market = request.query.get("market").map(PoolCode::parse);
    market.transpose().map_err(ApiError::invalid)
}

/// The sources that have quoted the race.
fn sources(request: &ApiRequest) -> Result<Answer, ApiError> {
    request.require_odds(None)?;
    let (race, _) = find(request)?;
    Ok(odds_sources(&request.store, &race)?.into())
}

pub(super) fn odds_path(race: &RaceKey) -> String {
    format!("/api/v1/odds/{}/{}", race.date, race.race_number)
}

/// The fields of a board that the answer depends on.
#[derive(serde::Deserialize)]
struct BoardFields {
    venue: String,
    recorded_at: String,
}

/// The board of the race at the meeting that the query chooses, if the plan of the key includes the odds of the race.
pub(super) fn find(request: &ApiRequest) -> Result<(RaceKey, Vec<u8>), ApiError> {
    let (race, board) = choose_board(request)?;
    if !request.has_live_odds() {
        let fields = serde_json::from_slice::<BoardFields>(&board)?;
        let shown_at = fields.recorded_at.parse().ok();
        let quoted_at = last_quoted_at(&request.store, &race)?;
        request.require_odds(shown_at.max(quoted_at.map(Moment::timestamp)))?;
    }
    Ok((race, board))
}

/// The board of the race at the venue of the query, else at the primary meeting of the day.
///
/// A race may be quoted before any card or result makes its day a meeting. Until then it is the board at the first
/// venue that has one, in the configured order, then by code.
fn choose_board(request: &ApiRequest) -> Result<(RaceKey, Vec<u8>), ApiError> {
    let date = request.date()?;
    let race_number = request.path.race_number()?;
    let mut boards: Vec<(RaceKey, Vec<u8>)> = Vec::new();
    for row in request.store.scan(&keys::boards_of(date)) {
        let (key, view) = row?;
        let race = keys::parse_race(&key).filter(|race| race.race_number == race_number);
        boards.extend(race.map(|race| (race, view.to_vec())));
    }
    boards.sort_by_key(|(race, _)| request.app.venue_rank(race.venue.as_str()));
    let venue = request.query.get("venue");
    let choice = MeetingChoice::of_request(request, date);
    let is_chosen = |(race, board): &(RaceKey, Vec<u8>)| match (&choice, venue) {
        (Ok(choice), _) => race.venue == choice.meeting.venue_code,
        (Err(_), Some(venue)) => is_at(board, race, venue),
        (Err(_), None) => true,
    };
    let index = boards.iter().position(is_chosen);
    match (index, choice) {
        (Some(index), Ok(_) | Err(ApiError::NotFound(_))) => Ok(boards.swap_remove(index)),
        (_, Err(error)) => Err(error),
        (None, Ok(choice)) => {
            let mut message = choice.no_race(race_number);
            if !boards.is_empty() {
                let venues = boards.iter().map(|(race, _)| race.venue.as_str());
                message += "; there is such a race at ";
                message += &venues.collect::<Vec<_>>().join(", ");
            }
            Err(ApiError::NotFound(message))
        }
    }
}

fn is_at(board: &[u8], race: &RaceKey, venue: &str) -> bool {
    race.venue.as_str().eq_ignore_ascii_case(venue)
        || serde_json::from_slice(board)
            .is_ok_and(|board: BoardFields| board.venue.eq_ignore_ascii_case(venue))
}
