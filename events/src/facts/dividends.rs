//! Facts about what pools pay.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{COMBINATION_NUMBERS_MAX, check_combination, require};
use crate::{
    Amount, Currency, DecodeError, PoolCode, RaceNumber, RacingDate, Text, VenueCode, object,
};

/// A full statement of the dividends of a race. A statement with a higher revision replaces it. Of two with the same
/// revision the later one in the log is in force.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct DividendsDeclared {
    /// The meeting's date.
    pub date: RacingDate,
    /// The meeting's venue.
    pub venue: VenueCode,
    /// The race.
    pub race_number: RaceNumber,
    /// The revision of this statement.
    pub revision: u32,
    /// How final it is.
    pub status: DividendStatus,
    /// The reason of an amendment or a refund.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<Text>,
    /// The currency of all amounts.
    pub currency: Currency,
    /// The dividends of all pools, at most 256. A dead heat makes several of a pool.
    #[serde(deserialize_with = "object::list")]
    #[schemars(length(max = 256))]
    pub dividends: Vec<Dividend>,
}

impl DividendsDeclared {
    /// The largest number of dividends of a race. Eight pools have a dozen, and dead heats some more.
    const DIVIDENDS_MAX: usize = 256;

    pub(crate) fn check(&self) -> Result<(), DecodeError> {
        let (count, max) = (self.dividends.len(), Self::DIVIDENDS_MAX);
        let reason = || format!("{count} dividends, a race has at most {max}");
        require(count <= max, || "data.dividends", reason)?;
        for (index, line) in self.dividends.iter().enumerate() {
            let path = |field| format!("data.dividends[{index}].{field}");
            check_combination(|| path("combination"), &line.combination)?;
            let is_stated = line.dividend.is_some() || line.state.is_some();
            let reason = || "a line without a dividend has a state";
            require(is_stated, || path("state"), reason)?;
        }
        Ok(())
    }
}

/// How final dividends are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum DividendStatus {
    /// Before they are paid.
    Provisional,
    /// Official.
    Official,
    /// All stakes are refunded.
    Refund,
}

/// What a pool pays for a combination.
#[serde_with::skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(extend(
    "if" = { "properties": { "dividend": { "type": "null" } } },
    "then" = { "required": ["state"], "properties": { "state": { "type": "string" } } },
))]
pub struct Dividend {
    /// The pool.
    pub pool: PoolCode,
    /// Saddle-cloth numbers, in the order of the finish where the pool asks for it. None if nobody won.
    #[serde(default, deserialize_with = "object::values")]
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(with = "Option<Vec<u16>>", length(max = COMBINATION_NUMBERS_MAX))]
    pub combination: Vec<u16>,
    /// The stake that the dividend is for.
    pub unit: Amount,
    /// What is paid for the unit, the stake included.
    pub dividend: Option<Amount>,
    /// Why there is no dividend, or what kind it is.
    pub state: Option<DividendState>,
}

/// Why there is no dividend, or what kind it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum DividendState {
    /// Nobody won.
    NoWinner,
    /// The stakes are refunded.
    Refund,
    /// Nobody won, and the pool is carried over.
    Jackpot,
    /// Paid for less than the whole combination.
    Consolation,
}
