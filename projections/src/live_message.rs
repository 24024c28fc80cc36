//! The messages of the live channel about a race, as JSON.

use events::{Event, HorseNo, RaceKey, RaceNumber, RaceStatus, Recorded, Text};
use schemars::JsonSchema;
use serde::Serialize;

use crate::Race;
use crate::json::{self, JsonObject};
use crate::live::LiveKind;
use crate::odds_board::{Board, OddsBoard};
use crate::race_result::RaceResult;

/// What every message tells of its event.
pub(crate) struct MessageContext<'a> {
    pub(crate) key: &'a RaceKey,
    pub(crate) recorded: &'a Recorded,
    /// The place of the last message of the same kind about the same race; 0 if there is none.
    pub(crate) prev_seq: u64,
}

/// Which meeting a message is about.
#[derive(Debug, Serialize, JsonSchema)]
struct Meeting<'a> {
    /// The meeting's date.
    #[schemars(extend("format" = "date"))]
    date: String,
    /// The racecourse's name.
    venue: &'a str,
    /// The racecourse's code.
    venue_code: &'a str,
}

/// When something happened, and where it stands in the log.
#[derive(Debug, Serialize, JsonSchema)]
struct Place {
    /// When it happened, as the feeder said, RFC 3339.
    #[schemars(extend("format" = "date-time"))]
    timestamp: String,
    /// When the log took it, RFC 3339, to the microsecond.
    #[schemars(extend("format" = "date-time"))]
    recorded_at: String,
    /// The place in the log of the change.
    seq: u64,
    /// The place of the last message of the same `event` about the same race; 0 if there is none.
    prev_seq: u64,
}

impl MessageContext<'_> {
    fn meeting<'a>(&'a self, race: &'a Race) -> Meeting<'a> {
        Meeting {
            date: self.key.date.to_string(),
            venue: race.venue_name(self.key),
            venue_code: self.key.venue.as_str(),
        }
    }

    fn place(&self) -> Place {
        Place {
            timestamp: self.recorded.envelope.time.to_string(),
            recorded_at: self.recorded.recorded_at.to_string(),
            seq: self.recorded.seq,
            prev_seq: self.prev_seq,
        }
    }
}

/// The full image of a race's board: that of `/api/v1/odds/{date}/{race_number}`.
#[derive(JsonSchema)]
#[expect(
    dead_code,
    reason = "the board is encoded once, for the store, and the rest is put before those bytes"
)]
struct OddsUpdate<'a> {
    #[schemars(extend("const" = "odds_update"))]
    event: &'a str,
    /// Only in a snapshot: the image as it is, whatever came before.
    #[schemars(skip_serializing_if = "Option::is_none", extend("type" = "boolean", "const" = true))]
    snapshot: Option<bool>,
    /// Only in a conflated message: how many updates it stands for. Its `prev_seq` is the last that this client was sent.
    #[schemars(skip_serializing_if = "Option::is_none", extend("type" = "integer"))]
    conflated: Option<u64>,
    /// Only in a conflated message: `client` (it asked for it) or `backpressure` (it was too slow).
    #[schemars(skip_serializing_if = "Option::is_none", extend("type" = "string", "enum" = ["client", "backpressure"]))]
    conflated_by: Option<&'a str>,
    #[schemars(flatten)]
    board: OddsBoard<'a>,
}

/// A board as a message.
pub(crate) fn odds_update(board: &[u8]) -> Vec<u8> {
    let event = JsonObject::new().field("event", LiveKind::Odds.as_str());
    event.fields_of(board).finish()
}

/// Where a race stands now, or why, has changed.
#[derive(Debug, Serialize, JsonSchema)]
struct StatusUpdate<'a> {
    #[schemars(extend("const" = "status_update"))]
    event: &'a str,
    #[serde(flatten)]
    meeting: Meeting<'a>,
    /// The race's number.
    #[schemars(with = "RaceNumber")]
    race_number: u16,
    /// Where the race stands now.
    #[schemars(with = "RaceStatus")]
    status: &'a str,
    /// Why; empty where nobody said it.
    reason: &'a str,
    #[serde(flatten)]
    place: Place,
}

/// Where a race stands.
pub(crate) fn status_update(telling: &MessageContext<'_>, race: &Race) -> Vec<u8> {
    json::render(&StatusUpdate {
        event: LiveKind::Status.as_str(),
        meeting: telling.meeting(race),
        race_number: telling.key.race_number.get(),
        status: race.status().as_str(),
        reason: race.status_reason.as_str(),
        place: telling.place(),
    })
}

/// A runner was withdrawn or reinstated, or has another rider.
#[derive(Debug, Serialize, JsonSchema)]
struct RunnerUpdate<'a> {
    #[schemars(extend("const" = "runner_update"))]
    event: &'a str,
    #[serde(flatten)]
    meeting: Meeting<'a>,
    /// The race's number.
    #[schemars(with = "RaceNumber")]
    race_number: u16,
    /// What became of it.
    #[schemars(extend("enum" = ["withdrawn", "reinstated", "rider_changed"]))]
    change: &'a str,
    /// The horse.
    horse_no: &'a str,
    /// Its name; empty where it is not known.
    horse_name: &'a str,
    /// Its saddle-cloth number; 0 where it is not known.
    number: u16,
    /// Who rides it now; empty where it is not known.
    jockey: &'a str,
    /// Pounds carried now; 0 where it is not known.
    weight: u16,
    /// Why; empty where nobody said it.
    reason: &'a str,
    #[serde(flatten)]
    place: Place,
}

/// What an event says of a runner.
pub(crate) struct RunnerChange<'a> {
    change: &'static str,
    horse_no: &'a HorseNo,
    reason: Option<&'a Text>,
}

impl<'a> RunnerChange<'a> {
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

/// A runner as it is now.
pub(crate) fn runner_update(
    telling: &MessageContext<'_>,
    race: &Race,
    board: &Board,
    change: &RunnerChange<'_>,
) -> Vec<u8> {
    let (horse_name, number) = board.name_and_number(race, change.horse_no);
    let (jockey, weight) = race.rider_of(change.horse_no);
    json::render(&RunnerUpdate {
        event: LiveKind::Runner.as_str(),
        meeting: telling.meeting(race),
        race_number: telling.key.race_number.get(),
        change: change.change,
        horse_no: change.horse_no.as_str(),
        horse_name,
        number,
        jockey,
        weight,
        reason: change.reason.map_or("", Text::as_str),
        place: telling.place(),
    })
}

/// A statement of the result that is in force.
#[derive(Debug, Serialize, JsonSchema)]
struct ResultUpdate<'a> {
    #[schemars(extend("const" = "result_update"))]
    event: &'a str,
    #[serde(flatten)]
    meeting: Meeting<'a>,
    #[serde(flatten)]
    result: RaceResult<'a>,
    #[serde(flatten)]
    place: Place,
}

/// The result of a race.
pub(crate) fn result_update(
    telling: &MessageContext<'_>,
    race: &Race,
    result: RaceResult<'_>,
) -> Vec<u8> {
    json::render(&ResultUpdate {
        event: LiveKind::Result.as_str(),
        meeting: telling.meeting(race),
        result,
        place: telling.place(),
    })
}

/// Names the schema of every message about a race, for the description of the live channel. What they share goes to the
/// generator.
#[must_use]
pub fn live_schemas(
    generator: &mut schemars::SchemaGenerator,
) -> Vec<(&'static str, schemars::Schema)> {
    vec![
        ("OddsUpdate", OddsUpdate::<'_>::json_schema(generator)),
        ("StatusUpdate", StatusUpdate::<'_>::json_schema(generator)),
        ("RunnerUpdate", RunnerUpdate::<'_>::json_schema(generator)),
        ("ResultUpdate", ResultUpdate::<'_>::json_schema(generator)),
    ]
}
