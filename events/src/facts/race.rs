//! Facts about a race before it is run.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{check_distance, check_runners};
use crate::{DecodeError, HorseNo, Moment, RaceNumber, RacingDate, Text, VenueCode, object};

/// A full race card. It replaces the earlier one, unless the two are equal.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct RaceDeclared {
    /// The meeting's date.
    pub date: RacingDate,
    /// The meeting's venue.
    pub venue: VenueCode,
    /// The race.
    pub race_number: RaceNumber,
    /// The racecourse's name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub venue_name: Option<Text>,
    /// The race's name.
    pub race_name: Text,
    /// Metres; 0 if unknown.
    #[schemars(range(max = 100_000))]
    pub distance: u32,
    /// The class; empty if there is none.
    pub class: Text,
    /// The going.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub going: Option<Text>,
    /// The scheduled off.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub off_time: Option<Moment>,
    /// The racecourse's time zone, a name of the IANA database such as `Europe/London`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub time_zone: Option<Text>,
    /// All runners, 1 to 64.
    #[serde(deserialize_with = "object::list")]
    #[schemars(length(min = 1, max = 64))]
    pub runners: Vec<DeclaredRunner>,
}

impl RaceDeclared {
    pub(crate) fn check(&self) -> Result<(), DecodeError> {
        check_runners(self.runners.iter().map(|r| &r.horse_no))?;
        check_distance(self.distance)
    }
}

/// A runner on a card.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct DeclaredRunner {
    /// The horse.
    pub horse_no: HorseNo,
    /// Its name.
    pub horse_name: Text,
    /// Its saddle-cloth number; 0 if unknown.
    pub number: u16,
    /// Its jockey.
    pub jockey: Text,
    /// Its trainer.
    pub trainer: Text,
    /// Its draw; 0 if unknown.
    pub draw: u16,
    /// Pounds carried; 0 if unknown.
    pub weight: u16,
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
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
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
        match self {
            Self::Scheduled => "scheduled",
            Self::Open => "open",
            Self::Closed => "closed",
            Self::Off => "off",
            Self::Finished => "finished",
            Self::Result => "result",
            Self::Abandoned => "abandoned",
        }
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
