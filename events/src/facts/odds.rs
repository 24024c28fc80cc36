//! Facts about prices.

use std::collections::HashSet;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{COMBINATION_NUMBERS_MAX, check_combination, check_runners, invalid, require};
use crate::{
    DecodeError, HorseNo, Odds, PoolCode, RaceNumber, RacingDate, Text, VenueCode, object,
};

/// Win and place prices of all or some runners of a race. A runner that is left out keeps its price.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct OddsQuoted {
    /// The meeting's date.
    pub date: RacingDate,
    /// The meeting's venue.
    pub venue: VenueCode,
    /// The race.
    pub race_number: RaceNumber,
    /// The quoted runners, 1 to 64.
    #[serde(deserialize_with = "object::list")]
    #[schemars(length(min = 1, max = 64))]
    pub runners: Vec<QuotedRunner>,
}

impl OddsQuoted {
    pub(crate) fn check(&self) -> Result<(), DecodeError> {
        check_runners(self.runners.iter().map(|r| &r.horse_no))?;
        for (index, runner) in self.runners.iter().enumerate() {
            let path = || format!("data.runners[{index}].state");
            let is_stated = runner.win.is_some() || runner.state.is_some();
            let reason = || "a runner without a win price has a state";
            require(is_stated, path, reason)?;
        }
        Ok(())
    }
}

/// A runner's prices.
#[serde_with::skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(extend(
    "if" = { "properties": { "win": { "type": "null" } } },
    "then" = { "required": ["state"], "properties": { "state": { "type": "string" } } },
))]
pub struct QuotedRunner {
    /// The horse.
    pub horse_no: HorseNo,
    /// Its name.
    pub horse_name: Option<Text>,
    /// Its saddle-cloth number.
    pub number: Option<u16>,
    /// The win price; null with a `state` if there is none.
    #[serialize_always]
    pub win: Option<Odds>,
    /// The place price.
    pub place: Option<Odds>,
    /// Why there is no price.
    pub state: Option<PriceState>,
}

/// Prices of a market beside win and place, such as of combinations. One that is left out keeps its price.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct MarketQuoted {
    /// The meeting's date.
    pub date: RacingDate,
    /// The meeting's venue.
    pub venue: VenueCode,
    /// The race.
    pub race_number: RaceNumber,
    /// The pool, such as `quinella` or `place_range`; not `win`, `place` or `win_place`.
    #[schemars(extend("not" = { "type": "string", "enum": MarketQuoted::MARKETS_OF_RUNNERS }))]
    pub market: PoolCode,
    /// The quoted prices, 1 to 1,024.
    #[serde(deserialize_with = "object::list")]
    #[schemars(length(min = 1, max = MarketQuoted::PRICES_MAX))]
    pub prices: Vec<QuotedPrice>,
}

impl MarketQuoted {
    /// The largest number of prices of a quote: they fit into an event.
    const PRICES_MAX: usize = 1_024;
    /// What [`OddsQuoted`] has.
    const MARKETS_OF_RUNNERS: [&str; 3] = ["win", "place", "win_place"];

    pub(crate) fn check(&self) -> Result<(), DecodeError> {
        if Self::MARKETS_OF_RUNNERS.contains(&self.market.as_str()) {
            return Err(invalid("data.market", "win and place are quoted by runner"));
        }
        let (count, max) = (self.prices.len(), Self::PRICES_MAX);
        let reason = || format!("{count} prices, a quote has 1 to {max}");
        require((1..=max).contains(&count), || "data.prices", reason)?;
        let mut seen = HashSet::new();
        for (index, price) in self.prices.iter().enumerate() {
            let path = |field| format!("data.prices[{index}].{field}");
            check_combination(|| path("combination"), &price.combination)?;
            let is_new = !price.combination.is_empty() && seen.insert(&price.combination);
            let reason = || "a combination has a number, and stands in a quote once";
            require(is_new, || path("combination"), reason)?;
            let is_range = price.low.is_some() && price.low <= price.high;
            let none = price.low.is_none() && price.high.is_none();
            let is_one_price = none || (is_range && price.odds.is_none());
            let reason = || "a range has a low and a high price, and no other";
            require(is_one_price, || path("low"), reason)?;
            let is_stated = !none || price.odds.is_some() || price.state.is_some();
            let reason = || "a line without a price has a state";
            require(is_stated, || path("state"), reason)?;
        }
        Ok(())
    }
}

/// The price of a combination of runners in a market.
#[serde_with::skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(extend(
    "if" = { "required": ["low"], "properties": { "low": { "type": "number" } } },
    "then" = {
        "required": ["high"],
        "properties": { "high": { "type": "number" }, "odds": { "type": "null" } },
    },
    "else" = {
        "properties": { "high": { "type": "null" } },
        "if": { "required": ["odds"], "properties": { "odds": { "type": "number" } } },
        "else": { "required": ["state"], "properties": { "state": { "type": "string" } } },
    },
))]
pub struct QuotedPrice {
    /// Saddle-cloth numbers, in the order of the finish where the pool asks for it.
    #[schemars(length(min = 1, max = COMBINATION_NUMBERS_MAX))]
    pub combination: Vec<u16>,
    /// The price.
    pub odds: Option<Odds>,
    /// The lowest price of a range, instead of `odds`.
    pub low: Option<Odds>,
    /// The highest price of a range.
    pub high: Option<Odds>,
    /// Why there is no price.
    pub state: Option<PriceState>,
}

/// Why a runner or a combination has no price.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum PriceState {
    /// It is withdrawn.
    Scratched,
    /// Betting on it is suspended.
    Suspended,
    /// Nobody makes a price.
    NoMarket,
}
