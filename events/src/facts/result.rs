//! Facts about the result of a race.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{check_distance, check_runners, check_stakes, empty_but, invalid, merge_names};
use crate::{
    Currency, DecodeError, FinishTime, HorseNo, Margin, Names, Odds, Outcome, RaceKey, RaceNumber,
    RacingDate, Text, VenueCode, object,
};

/// A full statement of a result. A statement with a higher revision replaces it. Of two with the same revision the
/// later one in the log is in force.
#[serde_with::skip_serializing_none]
#[serde_with::apply(Names => #[serde(default, skip_serializing_if = "Names::is_empty")])]
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ResultDeclared {
    /// The meeting's date.
    pub date: RacingDate,
    /// The meeting's venue.
    pub venue: VenueCode,
    /// The race.
    pub race_number: RaceNumber,
    /// The racecourse's name.
    pub venue_name: Option<Text>,
    /// The racecourse's name in other languages.
    pub venue_names: Names,
    /// The race's name; that of the card if it is left out.
    pub race_name: Option<Text>,
    /// The race's name in other languages.
    pub names: Names,
    /// Metres; that of the card if it is left out.
    #[schemars(range(max = 100_000))]
    pub distance: Option<u32>,
    /// The going; that of the card if it is left out.
    pub going: Option<Text>,
    /// The class; that of the card if it is left out.
    pub class: Option<Text>,
    /// The surface, such as `TURF`.
    pub surface: Option<Text>,
    /// The course on it, by the position of the rail, such as `C+3`.
    pub course: Option<Text>,
    /// The ratings that the race is for, such as `60-40`.
    pub rating_band: Option<Text>,
    /// The prize money, in whole units of its currency.
    #[schemars(range(max = 1_000_000_000_000_u64))]
    pub prize: Option<u64>,
    /// The currency of the prize money.
    pub prize_currency: Option<Currency>,
    /// The times of the sections of the race, in the order of the race.
    #[serde(default, deserialize_with = "object::values")]
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(with = "Option<Vec<FinishTime>>", length(max = 32))]
    pub sectionals: Vec<FinishTime>,
    /// The revision of this statement.
    pub revision: u32,
    /// How final it is.
    pub status: ResultStatus,
    /// The reason of an amendment.
    pub reason: Option<Text>,
    /// All runners, 1 to 64.
    #[serde(deserialize_with = "object::list")]
    #[schemars(length(min = 1, max = 64))]
    pub runners: Vec<ResultRunner>,
}

impl ResultDeclared {
    /// The official result of a race of which nothing is known, without runners.
    pub fn of(race: RaceKey, revision: u32) -> Self {
        empty_but!(
            date: race.date, venue: race.venue, race_number: race.race_number, revision: revision,
            status: ResultStatus::Official;
            venue_name venue_names race_name names distance going class surface course rating_band prize
            prize_currency sectionals reason runners
        )
    }

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
        check_stakes(|| "data.prize".to_owned(), self.prize.unwrap_or(0))?;
        check_points(|| "data.sectionals".to_owned(), self.sectionals.len())?;
        for (index, runner) in self.runners.iter().enumerate() {
            let path = |field| move || format!("data.runners[{index}].{field}");
            check_stakes(path("stakes"), runner.stakes.unwrap_or(0))?;
            check_points(path("running_positions"), runner.running_positions.len())?;
            check_points(path("sectionals"), runner.sectionals.len())?;
        }
        Ok(())
    }
}

merge_names!(ResultDeclared: race_name + names: merge_known, venue_name + venue_names: merge_known;
    runners);
merge_names!(ResultRunner: horse_name + names: merge, jockey + jockey_names: merge_person,
    trainer + trainer_names: merge_person);

/// The largest number of points of a race at which positions or times are taken: furlongs of the longest races.
const POINTS_MAX: usize = 32;

fn check_points(path: impl FnOnce() -> String, count: usize) -> Result<(), DecodeError> {
    let reason = || format!("{count} values, at most {POINTS_MAX}");
    super::require(count <= POINTS_MAX, path, reason)
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
#[serde_with::skip_serializing_none]
#[serde_with::apply(Names => #[serde(default, skip_serializing_if = "Names::is_empty")])]
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
    /// Its name in other languages.
    pub names: Names,
    /// Its saddle-cloth number.
    pub number: Option<u16>,
    /// Its official placing. A dead heat repeats a position, and the next position is skipped.
    #[schemars(range(min = 1))]
    pub position: Option<u16>,
    /// Why it has no official placing.
    pub outcome: Option<Outcome>,
    /// Its jockey.
    pub jockey: Text,
    /// The jockey's name in other languages.
    pub jockey_names: Names,
    /// Its trainer.
    pub trainer: Text,
    /// The trainer's name in other languages.
    pub trainer_names: Names,
    /// Its finish time.
    pub finish_time: Option<FinishTime>,
    /// Its final win price.
    pub win_odds: Option<Odds>,
    /// Stakes won, in whole units of the currency.
    #[schemars(range(max = 1_000_000_000_000_u64))]
    pub stakes: Option<u64>,
    /// The currency of the stakes; that of the horse's registration if it is left out.
    pub stakes_currency: Option<Currency>,
    /// How far it was behind the winner; left out for the winner.
    pub margin: Option<Margin>,
    /// Its positions at the points of the race, in the order of the race.
    #[serde(default, deserialize_with = "object::values")]
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(with = "Option<Vec<u16>>", length(max = 32))]
    pub running_positions: Vec<u16>,
    /// Its times of the sections of the race, in the order of the race.
    #[serde(default, deserialize_with = "object::values")]
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(with = "Option<Vec<FinishTime>>", length(max = 32))]
    pub sectionals: Vec<FinishTime>,
    /// Its draw; that of the card if it is left out.
    pub draw: Option<u16>,
    /// Pounds carried; that of the card if it is left out.
    pub weight: Option<u16>,
    /// Its own weight, in pounds; that of the card if it is left out.
    pub body_weight: Option<u16>,
    /// Its gear, as the authority writes it; that of the card if it is left out.
    pub gear: Option<Text>,
}

impl ResultRunner {
    /// A runner of which nothing else is known: neither its position nor its outcome.
    pub fn of(horse_no: HorseNo) -> Self {
        empty_but!(
            horse_no: horse_no;
            horse_name names number position outcome jockey jockey_names trainer trainer_names finish_time win_odds
            stakes stakes_currency margin running_positions sectionals draw weight body_weight gear
        )
    }
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
