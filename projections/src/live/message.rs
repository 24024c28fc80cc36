//! The messages of the live channel about a race, as JSON.

use events::{Event, HorseNo, RaceKey, RaceNumber, RaceStatus, Recorded, Text};
use schemars::JsonSchema;
use serde::Serialize;

use super::kind::LiveKind;
use super::message_fields::{LogFields, MeetingFields};
use crate::json::{self, JsonObject};
use crate::odds_board::Board;
use crate::race::Race;
use crate::race_card::RacecardRace;
use crate::race_dividends::MeetingRaceDividends;
use crate::race_result::MeetingRaceResult;

/// The event that a message publishes, and the race after it.
pub(crate) struct MessageContext<'a> {
    pub(crate) key: &'a RaceKey,
    pub(crate) race: &'a Race,
    pub(crate) recorded: &'a Recorded,
    /// The sequence of the previous message of the same kind about the same race; 0 if there is none.
    pub(crate) prev_seq: u64,
}

impl MessageContext<'_> {
    fn meeting(&self) -> MeetingFields<'_> {
        MeetingFields::of(self.key, self.race)
    }

    fn log(&self) -> LogFields {
        LogFields::of(self.recorded.into(), self.prev_seq)
    }
}

/// A rendered board as a message.
pub(crate) fn odds_update(board: &[u8]) -> Vec<u8> {
    let event = JsonObject::new().field("event", LiveKind::Odds.as_str());
    event.fields_of(board).finish()
}

/// The status of a race changed, or the reason for it.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct StatusUpdate<'a> {
    #[schemars(extend("const" = "status_update"))]
    event: &'a str,
    #[serde(flatten)]
    meeting: MeetingFields<'a>,
    /// The race's number.
    race_number: RaceNumber,
    /// The status of the race.
    status: RaceStatus,
    /// The reason; empty if none was given.
    reason: &'a str,
    #[serde(flatten)]
    log: LogFields,
}

pub(crate) fn status_update(context: &MessageContext<'_>) -> Vec<u8> {
    json::render(&StatusUpdate {
        event: LiveKind::Status.as_str(),
        meeting: context.meeting(),
        race_number: context.key.race_number,
        status: context.race.status(),
        reason: context.race.status_reason.as_str(),
        log: context.log(),
    })
}

/// A runner was withdrawn or reinstated, or has another rider.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct RunnerUpdate<'a> {
    #[schemars(extend("const" = "runner_update"))]
    event: &'a str,
    #[serde(flatten)]
    meeting: MeetingFields<'a>,
    /// The race's number.
    race_number: RaceNumber,
    /// What changed.
    #[schemars(extend("enum" = ["withdrawn", "reinstated", "rider_changed"]))]
    change: &'a str,
    /// The horse.
    horse_no: &'a HorseNo,
    /// Its name; empty if unknown.
    horse_name: &'a str,
    /// Its saddle-cloth number; 0 if unknown.
    number: u16,
    /// Its jockey after the change; empty if unknown.
    jockey: &'a str,
    /// Pounds carried after the change; 0 if unknown.
    weight: u16,
    /// The reason; empty if none was given.
    reason: &'a str,
    #[serde(flatten)]
    log: LogFields,
}

/// The change that an event makes to a runner.
pub(crate) struct RunnerChange<'a> {
    change: &'static str,
    horse_no: &'a HorseNo,
    reason: Option<&'a Text>,
}

impl<'a> RunnerChange<'a> {
    /// The change of an event; `None` if it changes no runner.
    pub(crate) fn of(event: &'a Event) -> Option<Self> {
        let (change, horse_no, reason) = match event {
            Event::RunnerWithdrawn(fact) => ("withdrawn", &fact.horse_no, fact.reason.as_ref()),
            Event::RunnerReinstated(fact) => ("reinstated", &fact.horse_no, fact.reason.as_ref()),
            Event::RiderChanged(fact) => ("rider_changed", &fact.horse_no, None),
            _ => return None,
        };
        Some(Self {
            change,
            horse_no,
            reason,
        })
    }
}

pub(crate) fn runner_update(
    context: &MessageContext<'_>,
    board: &Board,
    change: &RunnerChange<'_>,
) -> Vec<u8> {
    let (horse_name, number) = board.name_and_number(context.race, change.horse_no);
    let (jockey, weight) = context.race.rider_of(change.horse_no);
    json::render(&RunnerUpdate {
        event: LiveKind::Runner.as_str(),
        meeting: context.meeting(),
        race_number: context.key.race_number,
        change: change.change,
        horse_no: change.horse_no,
        horse_name,
        number,
        jockey,
        weight,
        reason: change.reason.map_or("", Text::as_str),
        log: context.log(),
    })
}

/// The card of a race after it was declared or replaced, or its going changed. Withdrawals, riders and statuses have
/// messages of their own.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct CardUpdate<'a> {
    #[schemars(extend("const" = "card_update"))]
    event: &'a str,
    #[serde(flatten)]
    meeting: MeetingFields<'a>,
    #[serde(flatten)]
    card: RacecardRace<'a>,
    #[serde(flatten)]
    log: LogFields,
}

pub(crate) fn card_update(context: &MessageContext<'_>, card: RacecardRace<'_>) -> Vec<u8> {
    json::render(&CardUpdate {
        event: LiveKind::Card.as_str(),
        meeting: context.meeting(),
        card,
        log: context.log(),
    })
}

/// The result in force, after it was declared, amended or voided.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct ResultUpdate<'a> {
    #[schemars(extend("const" = "result_update"))]
    event: &'a str,
    #[serde(flatten)]
    meeting: MeetingFields<'a>,
    #[serde(flatten)]
    result: MeetingRaceResult<'a>,
    #[serde(flatten)]
    log: LogFields,
}

pub(crate) fn result_update(
    context: &MessageContext<'_>,
    result: MeetingRaceResult<'_>,
) -> Vec<u8> {
    json::render(&ResultUpdate {
        event: LiveKind::Result.as_str(),
        meeting: context.meeting(),
        result,
        log: context.log(),
    })
}

/// The dividends in force, after they were declared or amended.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct DividendsUpdate<'a> {
    #[schemars(extend("const" = "dividends_update"))]
    event: &'a str,
    #[serde(flatten)]
    meeting: MeetingFields<'a>,
    #[serde(flatten)]
    dividends: MeetingRaceDividends<'a>,
    #[serde(flatten)]
    log: LogFields,
}

pub(crate) fn dividends_update(
    context: &MessageContext<'_>,
    dividends: MeetingRaceDividends<'_>,
) -> Vec<u8> {
    json::render(&DividendsUpdate {
        event: LiveKind::Dividends.as_str(),
        meeting: context.meeting(),
        dividends,
        log: context.log(),
    })
}
