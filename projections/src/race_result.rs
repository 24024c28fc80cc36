//! The result of a race, and the revisions of it.

use events::{
    DeclaredRunner, Envelope, Event, Outcome, RaceKey, RaceNumber, RaceStatus, ResultRunner,
    ResultStatus, Text,
};
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::value::RawValue;

use crate::json;
use crate::race::{Race, Statement};

/// A race's result. The meeting's fields are put before these in a response.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct RaceResult<'a> {
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
    /// How final it is; abandoned if the race was abandoned and has no result.
    #[schemars(extend("enum" = ["provisional", "official", "void", "abandoned"]))]
    status: &'a str,
    /// A later statement has a higher revision; 0 without a statement.
    revision: u32,
    /// Why it was amended, voided or abandoned; empty if no reason was given.
    reason: &'a str,
    /// Placed runners, ordered by position. A dead heat repeats a position.
    runners: Vec<PlacedRunner<'a>>,
    /// Runners without an official placing.
    unplaced: Vec<UnplacedRunner<'a>>,
}

#[derive(Debug, Serialize, JsonSchema)]
struct PlacedRunner<'a> {
    /// 1 for the winner.
    position: u16,
    #[serde(flatten)]
    runner: RunnerFields<'a>,
}

#[derive(Debug, Serialize, JsonSchema)]
struct UnplacedRunner<'a> {
    /// Why there is no placing: PU, UR, FE, DNF, DISQ, WV, ...
    outcome: &'a str,
    #[serde(flatten)]
    runner: RunnerFields<'a>,
}

#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct RunnerFields<'a> {
    /// The horse.
    horse_no: &'a str,
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
    pub(crate) finish_time: String,
    /// Decimal; 0 if unknown.
    #[schemars(with = "f64")]
    pub(crate) win_odds: Box<RawValue>,
    /// Stakes won, in whole units of the currency.
    pub(crate) stakes: u64,
}

/// The result of a race; `None` until one is declared or voided, or the race is abandoned.
pub(crate) fn render(key: &RaceKey, race: &Race) -> Option<Vec<u8>> {
    of(key, race).map(|result| json::render(&result))
}

/// The result of a race, before it is rendered.
pub(crate) fn of<'a>(key: &RaceKey, race: &'a Race) -> Option<RaceResult<'a>> {
    let (status, revision, reason) = match &race.result {
        Some(Statement::Declared(result)) => (
            status_name(result.status),
            result.revision,
            result.reason.as_ref(),
        ),
        Some(Statement::Voided(void)) => ("void", void.revision, void.reason.as_ref()),
        None if race.status() == RaceStatus::Abandoned => {
            ("abandoned", 0, Some(&race.status_reason))
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
    Some(RaceResult {
        race_number: key.race_number,
        race_name: race.name(),
        distance: race.distance(),
        class: race.class(),
        going: race.going(),
        status,
        revision,
        reason: reason.map_or("", Text::as_str),
        runners,
        unplaced,
    })
}

fn status_name(status: ResultStatus) -> &'static str {
    match status {
        ResultStatus::Provisional => "provisional",
        ResultStatus::Official => "official",
    }
}

pub(crate) fn runner_fields<'a>(race: &'a Race, runner: &'a ResultRunner) -> RunnerFields<'a> {
    let card = race.declared_runner(&runner.horse_no);
    let text = |stated: &'a Text, on_card: Option<&'a Text>| {
        on_card
            .map_or(stated, |on_card| stated.or(on_card))
            .as_str()
    };
    RunnerFields {
        horse_no: runner.horse_no.as_str(),
        horse_name: text(&runner.horse_name, card.map(|c| &c.horse_name)),
        number: runner
            .number
            .filter(|number| *number > 0)
            .or(card.map(|c| c.number))
            .unwrap_or(0),
        draw: card.map_or(0, |c| c.draw),
        weight: race.rider_of(&runner.horse_no).1,
        jockey: text(&runner.jockey, card.map(|c| race.rider(c).0)),
        trainer: text(&runner.trainer, card.map(|c| &c.trainer)),
        finish_time: json::text(runner.finish_time),
        win_odds: win_odds(runner),
        stakes: runner.stakes.unwrap_or(0),
    }
}

/// A withdrawn runner that the result leaves out.
pub(crate) fn scratched_fields<'a>(race: &'a Race, runner: &'a DeclaredRunner) -> RunnerFields<'a> {
    RunnerFields {
        horse_no: runner.horse_no.as_str(),
        horse_name: runner.horse_name.as_str(),
        number: runner.number,
        draw: runner.draw,
        weight: race.rider(runner).1,
        jockey: race.rider(runner).0.as_str(),
        trainer: runner.trainer.as_str(),
        finish_time: String::new(),
        win_odds: number(0),
        stakes: 0,
    }
}

/// The exact price as a JSON number; 0 if there is none.
fn win_odds(runner: &ResultRunner) -> Box<RawValue> {
    runner.win_odds.map_or_else(|| number(0), number)
}

fn number(number: impl ToString) -> Box<RawValue> {
    RawValue::from_string(number.to_string()).expect("a decimal number is JSON")
}

/// A statement of a result, in force or not.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct ResultRevision<'a> {
    /// declared or voided
    statement: &'a str,
    revision: u32,
    /// provisional, official or void
    status: &'a str,
    reason: &'a str,
    /// When it was stated, RFC 3339.
    time: String,
    source: &'a str,
    event_id: &'a str,
    /// Whether a higher revision was already in force, so that this one changed nothing.
    stale: bool,
    runners: Vec<RevisionRunner<'a>>,
}

#[derive(Debug, Serialize, JsonSchema)]
struct RevisionRunner<'a> {
    horse_no: &'a str,
    /// 0 if there is none.
    position: u16,
    /// Empty if there is a position.
    outcome: &'a str,
    finish_time: String,
}

/// A row of the list of revisions.
pub(crate) fn render_revision(envelope: &Envelope, in_force: bool) -> Vec<u8> {
    let (statement, revision, status, reason, runners) = match &envelope.event {
        Event::ResultDeclared(result) => (
            "declared",
            result.revision,
            status_name(result.status),
            &result.reason,
            &result.runners[..],
        ),
        Event::ResultVoided(void) => ("voided", void.revision, "void", &void.reason, &[][..]),
        _ => ("", 0, "", &None, &[][..]),
    };
    json::render(&ResultRevision {
        statement,
        revision,
        status,
        reason: reason.as_ref().map_or("", Text::as_str),
        time: envelope.time.to_string(),
        source: &envelope.source,
        event_id: &envelope.id,
        stale: !in_force,
        runners: runners
            .iter()
            .map(|runner| RevisionRunner {
                horse_no: runner.horse_no.as_str(),
                position: runner.position.unwrap_or(0),
                outcome: runner.outcome.as_ref().map_or("", Outcome::as_str),
                finish_time: json::text(runner.finish_time),
            })
            .collect(),
    })
}
