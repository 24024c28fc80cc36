//! Facts about a race before it is run.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{
    check_age, check_distance, check_runners, check_stakes, empty_but, invalid, merge_names,
};
use crate::{
    Currency, DecodeError, HorseNo, Moment, Names, RaceKey, RaceNumber, RacingDate, Text,
    VenueCode, object,
};

/// A full race card. It replaces the earlier one, unless the two are equal.
#[serde_with::skip_serializing_none]
#[serde_with::apply(Names => #[serde(default, skip_serializing_if = "Names::is_empty")])]
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct RaceDeclared {
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
    /// The race's name.
    pub race_name: Text,
    /// The race's name in other languages.
    pub names: Names,
    /// Metres; 0 if unknown.
    #[schemars(range(max = 100_000))]
    pub distance: u32,
    /// The class; empty if there is none.
    pub class: Text,
    /// The going.
    pub going: Option<Text>,
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
    /// The terms of each-way bets.
    #[serde(default, deserialize_with = "object::option")]
    pub each_way: Option<EachWayTerms>,
    /// The scheduled off.
    pub off_time: Option<Moment>,
    /// The racecourse's time zone, a name of the IANA database such as `Europe/London`.
    pub time_zone: Option<Text>,
    /// All runners, 1 to 64.
    #[serde(deserialize_with = "object::list")]
    #[schemars(length(min = 1, max = 64))]
    pub runners: Vec<DeclaredRunner>,
}

impl RaceDeclared {
    /// The card of a race of which nothing is known, without runners.
    pub fn of(race: RaceKey) -> Self {
        empty_but!(
            date: race.date, venue: race.venue, race_number: race.race_number;
            venue_name venue_names race_name names distance class going surface course rating_band prize
            prize_currency each_way off_time time_zone runners
        )
    }

    pub(crate) fn check(&self) -> Result<(), DecodeError> {
        check_runners(self.runners.iter().map(|r| &r.horse_no))?;
        check_distance(self.distance)?;
        check_stakes(|| "data.prize".to_owned(), self.prize.unwrap_or(0))?;
        if let Some(EachWayTerms { places, divisor }) = self.each_way
            && (places == 0 || divisor == 0)
        {
            return Err(invalid("data.each_way", "places and divisor are 1 or more"));
        }
        for (index, runner) in self.runners.iter().enumerate() {
            check_age(|| format!("data.runners[{index}].age"), runner.age)?;
        }
        Ok(())
    }
}

merge_names!(RaceDeclared: race_name + names: merge, venue_name + venue_names: merge_known; runners);
merge_names!(DeclaredRunner: horse_name + names: merge, jockey + jockey_names: merge_person,
    trainer + trainer_names: merge_person);

/// The terms of each-way bets.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct EachWayTerms {
    /// The number of places that are paid.
    #[schemars(range(min = 1))]
    pub places: u8,
    /// A place pays this part of the win odds: 5 for a fifth.
    #[schemars(range(min = 1))]
    pub divisor: u8,
}

/// A runner on a card.
#[serde_with::skip_serializing_none]
#[serde_with::apply(Names => #[serde(default, skip_serializing_if = "Names::is_empty")])]
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct DeclaredRunner {
    /// The horse.
    pub horse_no: HorseNo,
    /// Its name.
    pub horse_name: Text,
    /// Its name in other languages.
    pub names: Names,
    /// Its saddle-cloth number; 0 if unknown.
    pub number: u16,
    /// Its jockey.
    pub jockey: Text,
    /// The jockey's name in other languages.
    pub jockey_names: Names,
    /// Its trainer.
    pub trainer: Text,
    /// The trainer's name in other languages.
    pub trainer_names: Names,
    /// Its draw; 0 if unknown.
    pub draw: u16,
    /// Pounds carried; 0 if unknown.
    pub weight: u16,
    /// Its rating.
    pub rating: Option<u16>,
    /// Its own weight, in pounds.
    pub body_weight: Option<u16>,
    /// Its gear, as the authority writes it, such as `B/TT`.
    pub gear: Option<Text>,
    /// Its age on the day, 0 to 60.
    #[schemars(range(max = 60))]
    pub age: Option<u8>,
    /// Whether it is a reserve.
    pub reserve: Option<bool>,
    /// The jockey's identifier.
    pub jockey_id: Option<Text>,
    /// The trainer's identifier.
    pub trainer_id: Option<Text>,
    /// Its owner.
    pub owner: Option<Text>,
}

impl DeclaredRunner {
    /// A runner of which nothing else is known.
    pub fn of(horse_no: HorseNo) -> Self {
        empty_but!(
            horse_no: horse_no;
            horse_name names number jockey jockey_names trainer trainer_names draw weight rating body_weight gear age
            reserve jockey_id trainer_id owner
        )
    }
}

/// A runner is withdrawn.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct RunnerWithdrawn {
    /// The meeting's date.
    pub date: RacingDate,
    /// The meeting's venue.
    pub venue: VenueCode,
    /// The race.
    pub race_number: RaceNumber,
    /// The horse.
    pub horse_no: HorseNo,
    /// The reason.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<Text>,
}

/// A withdrawn runner is reinstated.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct RunnerReinstated {
    /// The meeting's date.
    pub date: RacingDate,
    /// The meeting's venue.
    pub venue: VenueCode,
    /// The race.
    pub race_number: RaceNumber,
    /// The horse.
    pub horse_no: HorseNo,
    /// The reason.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<Text>,
}

/// A runner has another jockey. The change is in force until the next different card.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct RiderChanged {
    /// The meeting's date.
    pub date: RacingDate,
    /// The meeting's venue.
    pub venue: VenueCode,
    /// The race.
    pub race_number: RaceNumber,
    /// The horse.
    pub horse_no: HorseNo,
    /// The new jockey.
    pub jockey: Text,
    /// Pounds carried with the new jockey.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub weight: Option<u16>,
}

/// The going has changed. The change is in force until the next different card.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct GoingChanged {
    /// The meeting's date.
    pub date: RacingDate,
    /// The meeting's venue.
    pub venue: VenueCode,
    /// The race.
    pub race_number: RaceNumber,
    /// The new going.
    pub going: Text,
}

/// The status of a race.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, strum::IntoStaticStr)]
#[strum(serialize_all = "snake_case")]
#[derive(Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum RaceStatus {
    /// On the card, before betting.
    #[default]
    Scheduled,
    /// Betting is open.
    Open,
    /// Betting is closed.
    Closed,
    /// The race has started.
    Off,
    /// The race has been run.
    Finished,
    /// A result has been declared.
    Result,
    /// The race is not run.
    Abandoned,
}

impl RaceStatus {
    /// The value on the wire.
    pub fn as_str(self) -> &'static str {
        self.into()
    }

    /// Whether the race is over, so that its odds do not change again.
    pub fn is_over(self) -> bool {
        matches!(self, Self::Finished | Self::Result | Self::Abandoned)
    }
}

/// The status of a race has changed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct RaceStatusChanged {
    /// The meeting's date.
    pub date: RacingDate,
    /// The meeting's venue.
    pub venue: VenueCode,
    /// The race.
    pub race_number: RaceNumber,
    /// The new status.
    pub status: RaceStatus,
    /// The reason.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<Text>,
}
