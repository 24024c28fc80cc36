//! Facts about what is invested in pools.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{Amount, Currency, PoolCode, RaceNumber, RacingDate, VenueCode};

/// The total of a pool. A later one of its source replaces it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PoolInvested {
    /// The meeting's date.
    pub date: RacingDate,
    /// The meeting's venue.
    pub venue: VenueCode,
    /// The race.
    pub race_number: RaceNumber,
    /// The pool.
    pub pool: PoolCode,
    /// The currency of the amount.
    pub currency: Currency,
    /// What is invested in the pool, before any deduction.
    pub invested: Amount,
}
