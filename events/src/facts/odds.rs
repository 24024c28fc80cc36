//! Facts about prices.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{check_runners, invalid};
use crate::{DecodeError, HorseNo, Odds, RaceNumber, RacingDate, Text, VenueCode, object};

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
            if runner.win.is_none() && runner.state.is_none() {
                return Err(invalid(
                    format!("data.runners[{index}].state"),
                    "a runner without a win price has a state",
                ));
            }
        }
        Ok(())
    }
}

/// A runner's prices.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(extend(
    "if" = { "properties": { "win": { "type": "null" } } },
    "then" = { "required": ["state"], "properties": { "state": { "type": "string" } } },
))]
pub struct QuotedRunner {
    /// The horse.
    pub horse_no: HorseNo,
    /// Its name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub horse_name: Option<Text>,
    /// Its saddle-cloth number.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub number: Option<u16>,
    /// The win price; null with a `state` if there is none.
    pub win: Option<Odds>,
    /// The place price.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub place: Option<Odds>,
    /// Why there is no price.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub state: Option<PriceState>,
}

/// Why a runner has no price.
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
