//! The sources of a race's odds: which there are, and the board of each. Made of the state when they are read.

use events::{Moment, PoolCode, RaceKey, RaceNumber, RacingDate, Text, VenueCode};
use schemars::JsonSchema;
use serde::Serialize;

use crate::live::LiveRace;
use crate::markets::{self, MarketSource};
use crate::odds_board::{self, Board, OddsSource};
use crate::pools::PoolTotal;
use crate::store::{Store, StoreResult};
use crate::{json, keys};

/// The sources that have quoted a race, in the order of their first quotes.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct OddsSources<'a> {
    /// The meeting's date.
    date: RacingDate,
    /// The racecourse's name.
    venue: &'a str,
    /// The racecourse's code.
    venue_code: &'a VenueCode,
    /// The race's number.
    race_number: RaceNumber,
    /// The sources of its board, at most 16.
    sources: Vec<OddsSource<'a>>,
    /// The other markets, at most 16 of a source.
    markets: Vec<MarketSource<'a>>,
    /// What is invested in pools, at most 16 of a source.
    pools: Vec<PoolTotal<'a>>,
}

/// The sources of a race, as JSON.
///
/// # Errors
/// Returns a [`StoreError`](crate::StoreError) if the store fails or is damaged.
pub fn odds_sources(store: &Store, key: &RaceKey) -> StoreResult<Vec<u8>> {
    let (race, board) = read(store, key)?;
    let markets = markets::read(store, key, None)?;
    Ok(json::render(&OddsSources {
        date: key.date,
        venue: race.race.venue_name(key),
        venue_code: &key.venue,
        race_number: key.race_number,
        sources: board.sources().collect(),
        markets: markets.sources(&ranking(store)),
        pools: race.race.pools.totals(),
    }))
}

/// The board of a source, as JSON; `None` if the source has not quoted the race.
///
/// # Errors
/// Returns a [`StoreError`](crate::StoreError) if the store fails or is damaged.
pub fn board_of_source(store: &Store, key: &RaceKey, source: &str) -> StoreResult<Option<Vec<u8>>> {
    let (LiveRace { race, .. }, board) = read(store, key)?;
    Ok(odds_board::render_of_source(key, &race, &board, source))
}

/// A market of a source, or of the primary one of the market, as JSON; `None` if it was not quoted.
///
/// # Errors
/// Returns a [`StoreError`](crate::StoreError) if the store fails or is damaged.
pub fn odds_market(
    store: &Store,
    key: &RaceKey,
    market: &PoolCode,
    source: Option<&str>,
) -> StoreResult<Option<Vec<u8>>> {
    let race: LiveRace = store.read(&keys::race_state(key))?.unwrap_or_default();
    let markets = markets::read(store, key, Some(market))?;
    Ok(markets.render(key, &race.race, market, source, &ranking(store)))
}

/// The ranking of sources in force.
fn ranking(store: &Store) -> Vec<Text> {
    let checkpoint = store.checkpoint();
    checkpoint.map_or_else(Vec::new, |at| at.rankings.at(at.seq).to_vec())
}

/// When the log stored the latest quote or pool total of a race, of whatever source and market.
///
/// # Errors
/// Returns a [`StoreError`](crate::StoreError) if the store fails or is damaged.
pub fn last_quoted_at(store: &Store, key: &RaceKey) -> StoreResult<Option<Moment>> {
    let (LiveRace { race, .. }, board) = read(store, key)?;
    let of_board = board.last_quoted_at().max(race.pools.last_stated_at());
    Ok(of_board.max(markets::read(store, key, None)?.last_quoted_at()))
}

fn read(store: &Store, key: &RaceKey) -> StoreResult<(LiveRace, Board)> {
    let race = store.read(&keys::race_state(key))?.unwrap_or_default();
    let board = store.read(&keys::board_state(key))?.unwrap_or_default();
    Ok((race, board))
}
