//! The dividends of a race of a JSON file.

use events::{
    Amount, Dividend, DividendState, DividendStatus, Event, ParseError, PoolCode, RaceKey,
    race_event,
};

use super::hong_kong::currency;
use crate::input::fields::Fields;
use crate::input::race_heading::REVISION;
use crate::item::{Omitted, Result};

/// The stake of a dividend, in hundredths: ten dollars.
const UNIT_HUNDREDTHS: u64 = 1_000;

/// Reads the lists of lines by pool. Returns no dividend if the race has none.
pub(crate) fn dividends(race: &Fields<'_>, omitted: &mut Omitted) -> Result<Vec<Dividend>> {
    let mut dividends = Vec::new();
    let Some(pools) = race.object("dividends")? else {
        return Ok(dividends);
    };
    for pool in pools.names() {
        for line in pools.objects(pool)? {
            let dividend = line.number("dividendPer10", Amount::from_number)?;
            dividends.push(Dividend {
                pool: line.parsed("pool", pool_code)?,
                combination: line.wholes("combination")?,
                unit: Amount::from_hundredths(UNIT_HUNDREDTHS)?,
                dividend,
                state: dividend.is_none().then_some(DividendState::NoWinner),
            });
            line.omit(omitted);
        }
    }
    Ok(dividends)
}

/// `QUINELLA PLACE` is `quinella_place`.
fn pool_code(name: &str) -> Result<PoolCode, ParseError> {
    PoolCode::parse(&name.trim().to_lowercase().replace(' ', "_"))
}

/// The statement of the dividends of a race.
pub(crate) fn declared(key: RaceKey, dividends: Vec<Dividend>) -> Event {
    race_event!(key => DividendsDeclared {
        revision: REVISION,
        status: DividendStatus::Official,
        reason: None,
        currency: currency(),
        dividends,
    })
}
