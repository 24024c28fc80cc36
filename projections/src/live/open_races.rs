//! [`open_races`]: the images of all open races, read from the store.

use events::{HorseNo, RaceKey, RaceStatus, RacingDate};
use serde::Deserialize;

use super::race::LiveRace;
use super::update::{LiveBoard, LiveUpdate};
use crate::store::{self, Store, StoreResult};
use crate::{keys, markets};

/// The fields of a stored board that an update repeats.
#[derive(Deserialize)]
struct Image {
    venue: String,
    status: RaceStatus,
    seq: u64,
    runners: Vec<ImageRunner>,
}

#[derive(Deserialize)]
struct ImageRunner {
    horse_no: HorseNo,
}

/// The image of every open race as it is stored: updates without messages, each with the `seq` of its board. Ordered by
/// date, venue code and race number.
///
/// # Errors
/// Returns a [`StoreError`](crate::StoreError) if the store fails or a value in it is damaged.
pub fn open_races(store: &Store) -> StoreResult<Vec<LiveUpdate>> {
    let mut open = Vec::new();
    for mark in store.scan(keys::OPEN_RACES) {
        let (mark, _) = mark?;
        if let Some(race) = keys::parse_race(&mark) {
            open.extend(open_race(store, race)?);
        }
    }
    Ok(open)
}

/// The races from one date up to another one, which is excluded, that are open as they are stored.
pub(crate) fn races_open_between(
    store: &Store,
    from: RacingDate,
    to: RacingDate,
) -> StoreResult<Vec<RaceKey>> {
    let mut open = Vec::new();
    // There is none if `to` is before `from`.
    for board in store.range(&keys::boards_of(from), &keys::boards_of(to.max(from))) {
        let (key, board) = board?;
        let image: Image = store::parse(&key, &board)?;
        if image.seq > 0 && !image.status.is_over() {
            open.extend(keys::parse_race(&key));
        }
    }
    Ok(open)
}

/// The images of one race. A commit may happen between two reads, so the image of the board comes from one value.
fn open_race(store: &Store, race: RaceKey) -> StoreResult<Option<LiveUpdate>> {
    let key = keys::board(&race);
    let Some(board) = store.get(&key)? else {
        return Ok(None);
    };
    let image: Image = store::parse(&key, &board)?;
    if image.status.is_over() {
        return Ok(None);
    }
    let mut state: LiveRace = store.read(&keys::race_state(&race))?.unwrap_or_default();
    state.board = store.read(&keys::board_state(&race))?.unwrap_or_default();
    state.markets = markets::read(store, &race, None)?;
    let quoted = image.runners.iter().map(|runner| &runner.horse_no);
    Ok(Some(LiveUpdate {
        seq: image.seq,
        venue: image.venue,
        messages: Vec::new(),
        board: Some(LiveBoard {
            seq: image.seq,
            json: board.to_vec(),
        }),
        open: true,
        on_card: state.race.card.is_some(),
        off_time: state.race.off_time(),
        runners: state.race.horses(quoted),
        quote: None,
        markets: Some(state.quotes(&race)),
        race,
    }))
}
