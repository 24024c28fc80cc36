//! The dividends of a race.

use events::{
    Amount, Dividend, DividendState, DividendStatus, PoolCode, RaceKey, RaceNumber, Text,
};
use schemars::JsonSchema;
use serde::Serialize;

use crate::json;
use crate::race::Race;

/// What the pools of a race pay. The meeting's fields are put before these in a response.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct MeetingRaceDividends<'a> {
    /// The race's number.
    race_number: RaceNumber,
    /// How final they are.
    status: RaceDividendsStatus,
    /// A later statement has a higher revision.
    revision: u32,
    /// Why they were amended or refunded; empty if no reason was given.
    reason: &'a str,
    /// When the log stored the latest statement that replaced a final one, RFC 3339 in UTC; empty without one.
    #[schemars(extend("pattern" = json::TIME_OR_EMPTY))]
    amended_at: String,
    /// The currency of all amounts; empty while they are pending.
    currency: &'a str,
    /// By pool, and as stated within a pool.
    dividends: Vec<DividendLine<'a>>,
}

/// How final the dividends of a race are.
#[derive(Clone, Copy, Debug, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
enum RaceDividendsStatus {
    /// None are declared yet.
    Pending,
    /// They may change.
    Provisional,
    /// What is paid.
    Official,
    /// All stakes are returned.
    Refund,
}

/// What a pool pays for a combination.
#[serde_with::skip_serializing_none]
#[derive(Debug, Serialize, JsonSchema)]
struct DividendLine<'a> {
    /// The code of the pool.
    pool: &'a PoolCode,
    /// Saddle-cloth numbers; none if nobody won.
    combination: &'a [u16],
    /// The stake that the dividend is for.
    unit: Amount,
    /// What is paid for the unit; left out if there is no dividend.
    dividend: Option<Amount>,
    /// Why there is no dividend, or what kind it is; left out for a plain one.
    state: Option<DividendState>,
}

/// The dividends of a race; `None` until they are declared.
pub(crate) fn render(key: &RaceKey, race: &Race) -> Option<Vec<u8>> {
    of(key, race).map(|dividends| json::render(&dividends))
}

/// The dividends of a race while none are declared.
pub fn pending(race_number: RaceNumber) -> Vec<u8> {
    json::render(&MeetingRaceDividends {
        race_number,
        status: RaceDividendsStatus::Pending,
        revision: 0,
        reason: "",
        amended_at: String::new(),
        currency: "",
        dividends: Vec::new(),
    })
}

/// The dividends of a race, before they are rendered.
pub(crate) fn of<'a>(key: &RaceKey, race: &'a Race) -> Option<MeetingRaceDividends<'a>> {
    let declared = race.dividends.in_force.as_ref()?;
    let mut lines: Vec<&Dividend> = declared.dividends.iter().collect();
    lines.sort_by_key(|line| (rank(&line.pool), &line.pool));
    Some(MeetingRaceDividends {
        race_number: key.race_number,
        status: declared.status.into(),
        revision: declared.revision,
        reason: declared.reason.as_ref().map_or("", Text::as_str),
        amended_at: json::text(race.dividends.amended_at),
        currency: declared.currency.as_str(),
        dividends: lines.into_iter().map(DividendLine::of).collect(),
    })
}

impl From<DividendStatus> for RaceDividendsStatus {
    fn from(status: DividendStatus) -> Self {
        match status {
            DividendStatus::Provisional => Self::Provisional,
            DividendStatus::Official => Self::Official,
            DividendStatus::Refund => Self::Refund,
        }
    }
}

/// The usual order of the pools; others follow, by their codes.
#[rustfmt::skip]
const POOLS: [&str; 9] = [
    "win", "place", "quinella", "quinella_place", "forecast", "tierce", "trio", "first_4", "quartet",
];

fn rank(pool: &PoolCode) -> usize {
    let rank = POOLS.iter().position(|usual| *usual == pool.as_str());
    rank.unwrap_or(POOLS.len())
}

impl<'a> DividendLine<'a> {
    fn of(line: &'a Dividend) -> Self {
        Self {
            pool: &line.pool,
            combination: &line.combination,
            unit: line.unit,
            dividend: line.dividend,
            state: line.state,
        }
    }
}
