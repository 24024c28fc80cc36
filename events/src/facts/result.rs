//! Facts about how a race ended.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{check_distance, check_runners, check_stakes, invalid};
use crate::{
    DecodeError, FinishTime, HorseNo, Odds, Outcome, RaceNumber, RacingDate, Text, VenueCode,
    object,
};

/// A full statement of a result. One with a higher revision replaces it; of two with the same revision the later
/// in the log stands.
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
    /// The race's name; the card's where it is left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub race_name: Option<Text>,
    /// Metres; the card's where it is left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(max = 100_000))]
    pub distance: Option<u32>,
    /// The going; the card's where it is left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub going: Option<Text>,
    /// Which statement of this result this is.
    pub revision: u32,
    /// How final it is.
    pub status: ResultStatus,
    /// Why it was amended.
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
            let path = || format!("data.runners[{index}]");
            match (runner.position, &runner.outcome) {
                (Some(0), None) => {
                    return Err(invalid(
                        format!("{}.position", path()),
                        "positions begin at 1",
                    ));
                }
                (Some(_), None) | (None, Some(_)) => {}
                (Some(_), Some(_)) => {
                    return Err(invalid(path(), "has both a position and an outcome"));
                }
                (None, None) => {
                    return Err(invalid(path(), "has neither a position nor an outcome"));
                }
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
    /// Before weighing in, or while an objection is heard.
    Provisional,
    /// Official.
    Official,
}

/// A runner in a result: either `position` or `outcome`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(extend("oneOf" = [
    { "required": ["position"], "properties": { "position": { "type": "integer" }, "outcome": { "type": "null" } } },
    { "required": ["outcome"], "properties": { "outcome": { "type": "string" }, "position": { "type": "null" } } },
]))]
pub struct ResultRunner {
    /// The horse.
    pub horse_no: HorseNo,
    /// Its name.
    pub horse_name: Text,
    /// Its saddle-cloth number.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub number: Option<u16>,
    /// Its official placing. A dead heat repeats it, and the next is skipped.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub position: Option<u16>,
    /// Why it has no placing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub outcome: Option<Outcome>,
    /// Who rode it.
    pub jockey: Text,
    /// Who trained it.
    pub trainer: Text,
    /// How long it took.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub finish_time: Option<FinishTime>,
    /// Its final win price.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub win_odds: Option<Odds>,
    /// Stakes won, in whole units of the currency.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(max = 1_000_000_000_000_u64))]
    pub stakes: Option<u64>,
}

/// A result was said in error, or the race is void: it counts for nobody.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ResultVoided {
    /// The meeting's date.
    pub date: RacingDate,
    /// The meeting's venue.
    pub venue: VenueCode,
    /// The race.
    pub race_number: RaceNumber,
    /// Which statement of this result this is.
    pub revision: u32,
    /// Why.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<Text>,
}
