//! The messages of the live channel about a race, as JSON.

use events::{Event, HorseNo, RaceKey, RaceNumber, RaceStatus, Recorded, Text};
use schemars::JsonSchema;
use serde::Serialize;

use super::kind::LiveKind;
use super::message_fields::{LogFields, MeetingFields};
use super::quote::QuoteMessage;
use crate::json::{self, JsonObject};
use crate::odds_board::{Board, OddsBoard};
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

/// The full image of a race's board, as in `/api/v1/odds/{date}/{race_number}`.
#[derive(JsonSchema)]
#[expect(
    dead_code,
    reason = "a schema only: the message is made of the stored bytes of the board"
)]
struct OddsUpdate<'a> {
    #[schemars(extend("const" = "odds_update"))]
    event: &'a str,
    /// Only in a snapshot: the image as it is, whatever was sent before.
    #[schemars(skip_serializing_if = "Option::is_none", extend("type" = "boolean", "const" = true))]
    snapshot: Option<bool>,
    /// Only in a conflated message: how many updates were merged. `prev_seq` is the last `seq` that this client was
    /// sent.
    #[schemars(skip_serializing_if = "Option::is_none", extend("type" = "integer"))]
    conflated: Option<u64>,
    /// Only in a conflated message: `client` (it asked for it) or `backpressure` (it was too slow).
    #[schemars(skip_serializing_if = "Option::is_none", extend("type" = "string", "enum" = ["client", "backpressure"]))]
    conflated_by: Option<&'a str>,
    #[schemars(flatten)]
    board: OddsBoard<'a>,
}

/// A rendered board as a message.
pub(crate) fn odds_update(board: &[u8]) -> Vec<u8> {
    let event = JsonObject::new().field("event", LiveKind::Odds.as_str());
    event.fields_of(board).finish()
}

/// The status of a race changed, or the reason for it.
#[derive(Debug, Serialize, JsonSchema)]
struct StatusUpdate<'a> {
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
struct RunnerUpdate<'a> {
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
struct CardUpdate<'a> {
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
struct ResultUpdate<'a> {
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
struct DividendsUpdate<'a> {
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

/// The name and the schema of every message about a race, for the AsyncAPI document. Shared definitions are added to
/// the generator.
pub fn live_schemas(
    generator: &mut schemars::SchemaGenerator,
) -> Vec<(&'static str, schemars::Schema)> {
    vec![
        ("OddsUpdate", OddsUpdate::<'_>::json_schema(generator)),
        ("StatusUpdate", StatusUpdate::<'_>::json_schema(generator)),
        ("RunnerUpdate", RunnerUpdate::<'_>::json_schema(generator)),
        ("ResultUpdate", ResultUpdate::<'_>::json_schema(generator)),
        (
            "DividendsUpdate",
            DividendsUpdate::<'_>::json_schema(generator),
        ),
        ("CardUpdate", CardUpdate::<'_>::json_schema(generator)),
        ("Quote", QuoteMessage::<'_>::json_schema(generator)),
    ]
}
