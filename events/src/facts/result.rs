//! Facts about the result of a race.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{check_distance, check_runners, check_stakes, invalid};
use crate::{
    Currency, DecodeError, FinishTime, HorseNo, Odds, Outcome, RaceNumber, RacingDate, Text,
    VenueCode, object,
};

/// A full statement of a result. A statement with a higher revision replaces it. Of two with the same revision the
/// later one in the log is in force.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ResultDeclared {
    /// The meeting's date.
    pub date: RacingDate,
    /// The meeting's venue.
    pub venue: VenueCode,
    /// The race.
    pub race_number: RaceNumber,
    /// The racecourse's name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub venue_name: Option<Text>,
    /// The race's name; that of the card if it is left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub race_name: Option<Text>,
    /// Metres; that of the card if it is left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(max = 100_000))]
    pub distance: Option<u32>,
    /// The going; that of the card if it is left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub going: Option<Text>,
    /// The revision of this statement.
    pub revision: u32,
    /// How final it is.
    pub status: ResultStatus,
    /// The reason of an amendment.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<Text>,
    /// All runners, 1 to 64.
    #[serde(deserialize_with = "object::list")]
    #[schemars(length(min = 1, max = 64))]
    pub runners: Vec<ResultRunner>,
}

impl ResultDeclared {
    pub(crate) fn check(&self) -> Result<(), DecodeError> {
        check_runners(self.runners.iter().map(|r| &r.horse_no))?;
        for (index, runner) in self.runners.iter().enumerate() {
            let error =
                |field, reason| Err(invalid(format!("data.runners[{index}]{field}"), reason));
            match (runner.position, &runner.outcome) {
                (Some(0), None) => return error(".position", "positions begin at 1"),
                (Some(_), None) | (None, Some(_)) => {}
                (Some(_), Some(_)) => return error("", "has both a position and an outcome"),
                (None, None) => return error("", "has neither a position nor an outcome"),
            }
        }
        check_distance(self.distance.unwrap_or(0))?;
        for (index, runner) in self.runners.iter().enumerate() {
            let path = || format!("data.runners[{index}].stakes");
            check_stakes(path, runner.stakes.unwrap_or(0))?;
        }
        Ok(())
    }
}

/// How final a result is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ResultStatus {
    /// Before weighing in, or during an objection.
    Provisional,
    /// Official.
    Official,
}

/// A runner in a result: either `position` or `outcome`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(extend(
    "if" = { "properties": { "position": { "type": "null" } } },
    "then" = { "required": ["outcome"], "properties": { "outcome": { "type": "string" } } },
    "else" = { "properties": { "outcome": { "type": "null" } } },
))]
pub struct ResultRunner {
    /// The horse.
    pub horse_no: HorseNo,
    /// Its name.
    pub horse_name: Text,
    /// Its saddle-cloth number.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub number: Option<u16>,
    /// Its official placing. A dead heat repeats a position, and the next position is skipped.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub position: Option<u16>,
    /// Why it has no official placing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub outcome: Option<Outcome>,
    /// Its jockey.
    pub jockey: Text,
    /// Its trainer.
    pub trainer: Text,
    /// Its finish time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub finish_time: Option<FinishTime>,
    /// Its final win price.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub win_odds: Option<Odds>,
    /// Stakes won, in whole units of the currency.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(max = 1_000_000_000_000_u64))]
    pub stakes: Option<u64>,
    /// The currency of the stakes; that of the horse's registration if it is left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stakes_currency: Option<Currency>,
}

/// A result is void: it was declared in error, or the race is void. It counts for nobody.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ResultVoided {
    /// The meeting's date.
    pub date: RacingDate,
    /// The meeting's venue.
    pub venue: VenueCode,
    /// The race.
    pub race_number: RaceNumber,
    /// The revision of this statement.
    pub revision: u32,
    /// The reason.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<Text>,
}
