//! The result of a race, and the revisions of it.

use events::{
    Currency, DeclaredRunner, Envelope, Event, FinishTime, HorseNo, Margin, Moment, Names, Outcome,
    RaceKey, RaceNumber, RaceStatus, ResultRunner, ResultStatus, Text,
};
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::value::RawValue;

use crate::conditions::Conditions;
use crate::json;
use crate::race::Race;
use crate::statements::ResultStatement;

/// How final the result of a race is.
#[derive(Debug, Clone, Copy, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum RaceResultStatus {
    /// Before weighing in, or during an objection.
    Provisional,
    /// Official.
    Official,
    /// The race or its result is void.
    Void,
    /// The race was abandoned and has no result.
    Abandoned,
}

/// A race's result. The meeting's fields are put before these in a response.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct MeetingRaceResult<'a> {
    /// The race's number.
    race_number: RaceNumber,
    /// Empty if unknown.
    race_name: &'a str,
    /// Metres; 0 if unknown.
    distance: u32,
    /// Empty if unknown.
    class: &'a str,
    /// Empty if unknown.
    going: &'a str,
    /// How final it is.
    status: RaceResultStatus,
    /// A later statement has a higher revision; 0 without a statement.
    revision: u32,
    /// Why it was amended, voided or abandoned; empty if no reason was given.
    reason: &'a str,
    #[serde(flatten)]
    conditions: Conditions<'a>,
    /// The times of the sections of the race, m:ss.cc; left out if unknown.
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    sectionals: &'a [FinishTime],
    /// Placed runners, ordered by position. A dead heat repeats a position.
    runners: Vec<PlacedRunner<'a>>,
    /// Runners without an official placing.
    unplaced: Vec<UnplacedRunner<'a>>,
}

/// A runner with an official placing.
#[derive(Debug, Serialize, JsonSchema)]
struct PlacedRunner<'a> {
    /// 1 for the winner.
    #[schemars(range(min = 1))]
    position: u16,
    #[serde(flatten)]
    runner: RunnerFields<'a>,
}

/// A runner without an official placing.
#[derive(Debug, Serialize, JsonSchema)]
struct UnplacedRunner<'a> {
    /// Why there is no placing: PU, UR, FE, DNF, DISQ, WV, ...
    #[schemars(with = "Outcome")]
    outcome: &'a str,
    #[serde(flatten)]
    runner: RunnerFields<'a>,
}

#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct RunnerFields<'a> {
    /// The horse.
    horse_no: &'a HorseNo,
    /// Its name; empty if unknown.
    pub(crate) horse_name: &'a str,
    /// Its saddle-cloth number; 0 if unknown.
    number: u16,
    /// Its draw; 0 if unknown.
    pub(crate) draw: u16,
    /// Pounds carried; 0 if unknown.
    pub(crate) weight: u16,
    /// Its jockey; empty if unknown.
    pub(crate) jockey: &'a str,
    /// Its trainer; empty if unknown.
    pub(crate) trainer: &'a str,
    /// m:ss.cc; empty if unknown.
    #[schemars(extend("pattern" = json::FINISH_TIME_OR_EMPTY))]
    pub(crate) finish_time: String,
    /// Decimal; 0 if unknown.
    #[schemars(with = "f64", range(min = 0, max = 100_000))]
    pub(crate) win_odds: Box<RawValue>,
    /// Stakes won, in whole units of the currency.
    pub(crate) stakes: u64,
    /// Such as `HKD`; empty if the result does not state it.
    pub(crate) stakes_currency: &'a str,
    #[serde(flatten)]
    pub(crate) details: RunnerDetails<'a>,
}

/// What is known of a runner beside that. Each is left out if it is unknown.
#[serde_with::skip_serializing_none]
#[derive(Debug, Default, Serialize, JsonSchema)]
pub(crate) struct RunnerDetails<'a> {
    /// How many runners share the position, if it is a dead heat.
    #[schemars(range(min = 2))]
    dead_heat: Option<u16>,
    /// How far it was behind the winner.
    margin: Option<Margin>,
    /// Its positions at the points of the race.
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    running_positions: &'a [u16],
    /// Its times of the sections of the race, m:ss.cc.
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    sectionals: &'a [FinishTime],
    /// Its own weight, in pounds.
    body_weight: Option<u16>,
    /// Its gear, as the authority writes it.
    gear: Option<&'a str>,
}

/// The result of a race; `None` until one is declared or voided, or the race is abandoned.
pub(crate) fn render(key: &RaceKey, race: &Race) -> Option<Vec<u8>> {
    of(key, race).map(|result| json::render(&result))
}

/// The result of a race, before it is rendered.
pub(crate) fn of<'a>(key: &RaceKey, race: &'a Race) -> Option<MeetingRaceResult<'a>> {
    let (status, revision, reason) = match &race.results.in_force {
        Some(ResultStatement::Declared(result)) => (
            result.status.into(),
            result.revision,
            result.reason.as_ref(),
        ),
        Some(ResultStatement::Voided(void)) => {
            (RaceResultStatus::Void, void.revision, void.reason.as_ref())
        }
        None if race.status() == RaceStatus::Abandoned => {
            (RaceResultStatus::Abandoned, 0, Some(&race.status_reason))
        }
        None => return None,
    };
    let mut runners = Vec::new();
    let mut unplaced = Vec::new();
    for runner in race.declared().iter().flat_map(|result| &result.runners) {
        match (runner.position, &runner.outcome) {
            (Some(position), _) => runners.push(PlacedRunner {
                position,
                runner: runner_fields(race, runner),
            }),
            (None, Some(outcome)) => unplaced.push(UnplacedRunner {
                outcome: outcome.as_str(),
                runner: runner_fields(race, runner),
            }),
            (None, None) => {}
        }
    }
    unplaced.extend(race.scratched().map(|runner| UnplacedRunner {
        outcome: Outcome::SCRATCHED,
        runner: scratched_fields(race, runner),
    }));
    runners.sort_by_key(|placed| placed.position);
    Some(MeetingRaceResult {
        race_number: key.race_number,
        race_name: race.name(),
        distance: race.distance(),
        class: race.class(),
        going: race.going(),
        status,
        revision,
        reason: reason.map_or("", Text::as_str),
        conditions: Conditions::of(race),
        sectionals: race.declared().map_or(&[], |result| &result.sectionals),
        runners,
        unplaced,
    })
}

impl From<ResultStatus> for RaceResultStatus {
    fn from(status: ResultStatus) -> Self {
        match status {
            ResultStatus::Provisional => Self::Provisional,
            ResultStatus::Official => Self::Official,
        }
    }
}

pub(crate) fn runner_fields<'a>(race: &'a Race, runner: &'a ResultRunner) -> RunnerFields<'a> {
    let card = race.declared_runner(&runner.horse_no);
    let name = |stated, on_card: Option<(&'a Text, &'a Names)>| {
        Names::best([Some(stated), on_card].into_iter().flatten()).map_or("", Text::as_str)
    };
    let jockey = card.map_or(&runner.jockey, |card| runner.jockey.or(race.rider(card).0));
    let card_gear = card.and_then(|card| card.gear.as_ref());
    let no_odds = || json::number(0);
    RunnerFields {
        horse_no: &runner.horse_no,
        horse_name: name(
            (&runner.horse_name, &runner.names),
            card.map(|c| (&c.horse_name, &c.names)),
        ),
        number: known(runner.number).or(card.map(|c| c.number)).unwrap_or(0),
        draw: known(runner.draw).or(card.map(|c| c.draw)).unwrap_or(0),
        weight: known(runner.weight).unwrap_or_else(|| race.rider_of(&runner.horse_no).1),
        jockey: jockey.as_str(),
        trainer: name(
            (&runner.trainer, &runner.trainer_names),
            card.map(|c| (&c.trainer, &c.trainer_names)),
        ),
        finish_time: json::text(runner.finish_time),
        win_odds: runner.win_odds.map_or_else(no_odds, json::number),
        stakes: runner.stakes.unwrap_or(0),
        stakes_currency: currency(runner),
        details: RunnerDetails {
            dead_heat: dead_heat(race, runner.position),
            margin: runner.margin,
            running_positions: &runner.running_positions,
            sectionals: &runner.sectionals,
            body_weight: known(runner.body_weight).or(card.and_then(|c| c.body_weight)),
            gear: json::known(runner.gear.as_ref()).or(json::known(card_gear)),
        },
    }
}

/// How many runners of the result share a position, if there are several.
fn dead_heat(race: &Race, position: Option<u16>) -> Option<u16> {
    let placed = &race.declared().filter(|_| position.is_some())?.runners;
    let shared = placed.iter().filter(|other| other.position == position);
    let shared = u16::try_from(shared.count()).ok();
    shared.filter(|shared| *shared > 1)
}

/// A number that is not 0.
fn known(number: Option<u16>) -> Option<u16> {
    number.filter(|number| *number > 0)
}

/// A withdrawn runner that the result leaves out.
pub(crate) fn scratched_fields<'a>(race: &'a Race, runner: &'a DeclaredRunner) -> RunnerFields<'a> {
    RunnerFields {
        horse_no: &runner.horse_no,
        horse_name: runner.horse_name.as_str(),
        number: runner.number,
        draw: runner.draw,
        weight: race.rider(runner).1,
        jockey: race.rider(runner).0.as_str(),
        trainer: runner.trainer.as_str(),
        finish_time: String::new(),
        win_odds: json::number(0),
        stakes: 0,
        stakes_currency: "",
        details: RunnerDetails::default(),
    }
}

/// The stated currency of a runner's stakes; empty if there is none.
pub(crate) fn currency(runner: &ResultRunner) -> &str {
    runner.stakes_currency.as_ref().map_or("", Currency::as_str)
}

/// What a revision of a result states.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum RevisionStatement {
    /// A result was declared.
    Declared,
    /// The result was voided.
    Voided,
}

/// How final a revision of a result is.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum RevisionStatus {
    /// Before weighing in, or during an objection.
    Provisional,
    /// Official.
    Official,
    /// The race or its result is void.
    Void,
}

/// A statement of a result, in force or not.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct ResultRevision<'a> {
    /// Whether a result was declared or voided.
    statement: RevisionStatement,
    /// A later statement has a higher revision.
    revision: u32,
    /// How final it is.
    status: RevisionStatus,
    /// Why it was amended or voided; empty if no reason was given.
    reason: &'a str,
    /// When it was stated, RFC 3339.
    time: Moment,
    /// The feeder.
    source: &'a str,
    /// The event's identity.
    event_id: &'a str,
    /// Whether a higher revision was already in force, so that this one changed nothing.
    stale: bool,
    /// The runners as stated; none if the result was voided.
    runners: Vec<RevisionRunner<'a>>,
}

/// A runner in a revision of a result.
#[derive(Debug, Serialize, JsonSchema)]
struct RevisionRunner<'a> {
    /// The horse.
    horse_no: &'a HorseNo,
    /// 0 if there is none.
    position: u16,
    /// Empty if there is a position.
    outcome: &'a str,
    /// m:ss.cc; empty if unknown.
    #[schemars(extend("pattern" = json::FINISH_TIME_OR_EMPTY))]
    finish_time: String,
}

/// A row of the list of revisions; `None` if the event does not state a result.
pub(crate) fn render_revision(envelope: &Envelope, in_force: bool) -> Option<Vec<u8>> {
    let (statement, revision, status, reason, runners) = match &envelope.event {
        Event::ResultDeclared(result) => (
            RevisionStatement::Declared,
            result.revision,
            match result.status {
                ResultStatus::Provisional => RevisionStatus::Provisional,
                ResultStatus::Official => RevisionStatus::Official,
            },
            &result.reason,
            &result.runners[..],
        ),
        Event::ResultVoided(void) => (
            RevisionStatement::Voided,
            void.revision,
            RevisionStatus::Void,
            &void.reason,
            &[][..],
        ),
        _ => return None,
    };
    Some(json::render(&ResultRevision {
        statement,
        revision,
        status,
        reason: reason.as_ref().map_or("", Text::as_str),
        time: envelope.time,
        source: &envelope.source,
        event_id: &envelope.id,
        stale: !in_force,
        runners: runners
            .iter()
            .map(|runner| RevisionRunner {
                horse_no: &runner.horse_no,
                position: runner.position.unwrap_or(0),
                outcome: runner.outcome.as_ref().map_or("", Outcome::as_str),
                finish_time: json::text(runner.finish_time),
            })
            .collect(),
    }))
}
