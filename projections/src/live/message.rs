//! The messages of the live channel about a race, as JSON.

use events::{Event, HorseNo, RaceKey, RaceNumber, RaceStatus, Recorded, Text};
use schemars::JsonSchema;
use serde::Serialize;

use super::kind::LiveKind;
use super::message_fields::{LogFields, MeetingFields};
use crate::json::{self, JsonObject};
use crate::odds_board::Board;
use crate::race::Race;

/// The event that a message publishes, and the race after it.
pub(crate) struct MessageContext<'a> {
    pub(crate) key: &'a RaceKey,
    pub(crate) race: &'a Race,
    pub(crate) recorded: &'a Recorded,
    /// The sequence of the previous message of the same kind about the same race; 0 if there is none.
    pub(crate) prev_seq: u64,
}

impl MessageContext<'_> {
    /// A message of a kind.
    pub(crate) fn message(&self, kind: LiveKind, content: impl Serialize) -> Vec<u8> {
        let message = JsonObject::new().field("event", kind.as_str());
        let fields = json::render(&RaceMessage {
            meeting: MeetingFields::of(self.key, self.race),
            content,
            log: LogFields::of(self.recorded.into(), self.prev_seq),
        });
        message.fields_of(&fields).finish()
    }
}

/// The fields of a message after its `event`: what changed, and of which event.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct RaceMessage<'a, T> {
    #[serde(flatten)]
    meeting: MeetingFields<'a>,
    #[serde(flatten)]
    content: T,
    #[serde(flatten)]
    log: LogFields,
}

/// A rendered board as a message.
pub(crate) fn odds_update(board: &[u8]) -> Vec<u8> {
    let event = JsonObject::new().field("event", LiveKind::OddsUpdate.as_str());
    event.fields_of(board).finish()
}

/// The status of a race.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct ChangedStatus<'a> {
    /// The race's number.
    race_number: RaceNumber,
    /// The status of the race.
    status: RaceStatus,
    /// The reason; empty if none was given.
    reason: &'a str,
}

impl<'a> ChangedStatus<'a> {
    pub(crate) fn of(context: &MessageContext<'a>) -> Self {
        Self {
            race_number: context.key.race_number,
            status: context.race.status(),
            reason: context.race.status_reason.as_str(),
        }
    }
}

/// A runner after it was withdrawn or reinstated, or has another rider.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct ChangedRunner<'a> {
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
}

/// The change that an event makes to a runner, which one, and why; `None` if it changes no runner.
pub(crate) fn runner_change(event: &Event) -> Option<(&'static str, &HorseNo, Option<&Text>)> {
    match event {
        Event::RunnerWithdrawn(fact) => Some(("withdrawn", &fact.horse_no, fact.reason.as_ref())),
        Event::RunnerReinstated(fact) => Some(("reinstated", &fact.horse_no, fact.reason.as_ref())),
        Event::RiderChanged(fact) => Some(("rider_changed", &fact.horse_no, None)),
        _ => None,
    }
}

impl<'a> ChangedRunner<'a> {
    /// `None` if the event changes no runner.
    pub(crate) fn of(context: &MessageContext<'a>, board: &'a Board) -> Option<Self> {
        let (change, horse_no, reason) = runner_change(&context.recorded.envelope.event)?;
        let (horse_name, number) = board.name_and_number(context.race, horse_no);
        let (jockey, weight) = context.race.rider_of(horse_no);
        Some(Self {
            race_number: context.key.race_number,
            change,
            horse_no,
            horse_name,
            number,
            jockey,
            weight,
            reason: reason.map_or("", Text::as_str),
        })
    }
}
