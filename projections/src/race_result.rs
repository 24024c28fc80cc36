//! The result of a race, and every statement that was made of it.

use events::{
    DeclaredRunner, Envelope, Event, Outcome, RaceKey, RaceNumber, RaceStatus, ResultRunner,
    ResultStatus, Text,
};
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::value::RawValue;

use crate::race::Statement;
use crate::{Race, json};

/// A race's result, without the meeting's fields, which stand before it in an answer.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct RaceResult<'a> {
    /// The race's number.
    #[schemars(with = "RaceNumber")]
    race_number: u16,
    /// Empty where it is not known.
    race_name: &'a str,
    /// Metres; 0 where it is not known.
    distance: u32,
    /// Empty where it is not known.
    class: &'a str,
    /// Empty where it is not known.
    going: &'a str,
    /// How final it is; abandoned where the race was, and nobody said a result.
    #[schemars(extend("enum" = ["provisional", "official", "void", "abandoned"]))]
    status: &'a str,
    /// A later statement has a higher one; 0 without a statement.
    revision: u32,
    /// Why it was amended, voided or abandoned; empty where nobody said it.
    reason: &'a str,
    /// Placed runners, in the order of their positions. A dead heat repeats a position.
    runners: Vec<Placed<'a>>,
    /// Runners without an official placing.
    unplaced: Vec<Unplaced<'a>>,
}

#[derive(Debug, Serialize, JsonSchema)]
struct Placed<'a> {
    /// 1 for the winner.
    position: u16,
    #[serde(flatten)]
    runner: Runner<'a>,
}

#[derive(Debug, Serialize, JsonSchema)]
struct Unplaced<'a> {
    /// Why there is no placing: PU, UR, FE, DNF, DISQ, WV, ...
    outcome: &'a str,
    #[serde(flatten)]
    runner: Runner<'a>,
}

#[derive(Debug, Serialize, JsonSchema)]
struct Runner<'a> {
    /// The horse.
    horse_no: &'a str,
    /// Its name; empty where it is not known.
    horse_name: &'a str,
    /// Its saddle-cloth number; 0 where it is not known.
    number: u16,
    /// Who rode it; empty where it is not known.
    jockey: &'a str,
    /// Who trains it; empty where it is not known.
    trainer: &'a str,
    /// m:ss.cc; empty where it is not known.
    finish_time: String,
    /// Decimal; 0 where it is not known.
    #[schemars(with = "f64")]
    win_odds: Box<RawValue>,
    /// Whole units of the currency.
    stakes: u64,
}

/// The result of a race, once one was declared or voided, or the race was abandoned.
#[must_use]
pub fn render(key: &RaceKey, race: &Race) -> Option<Vec<u8>> {
    of(key, race).map(|result| json::render(&result))
}

pub(crate) fn of<'a>(key: &RaceKey, race: &'a Race) -> Option<RaceResult<'a>> {
    let (status, revision, reason) = match &race.result {
        Some(Statement::Declared(result)) => (
            status_word(result.status),
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
            (Some(position), _) => runners.push(Placed {
                position,
                runner: row(race, runner),
            }),
            (None, Some(outcome)) => unplaced.push(Unplaced {
                outcome: outcome.as_str(),
                runner: row(race, runner),
            }),
            (None, None) => {}
        }
    }
    unplaced.extend(race.scratched().map(|runner| scratched(race, runner)));
    runners.sort_by_key(|placed| placed.position);
    Some(RaceResult {
        race_number: key.race_number.get(),
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

fn status_word(status: ResultStatus) -> &'static str {
    match status {
        ResultStatus::Provisional => "provisional",
        ResultStatus::Official => "official",
    }
}

fn row<'a>(race: &'a Race, runner: &'a ResultRunner) -> Runner<'a> {
    let card = race.declared_runner(&runner.horse_no);
    let text = |said: &'a Text, on_card: Option<&'a Text>| {
        on_card.map_or(said, |on_card| said.or(on_card)).as_str()
    };
    Runner {
        horse_no: runner.horse_no.as_str(),
        horse_name: text(&runner.horse_name, card.map(|c| &c.horse_name)),
        number: runner
            .number
            .filter(|number| *number > 0)
            .or(card.map(|c| c.number))
            .unwrap_or(0),
        jockey: text(&runner.jockey, card.map(|c| race.rider(c).0)),
        trainer: text(&runner.trainer, card.map(|c| &c.trainer)),
        finish_time: finish_time(runner),
        win_odds: win_odds(runner),
        stakes: runner.stakes.unwrap_or(0),
    }
}

/// A withdrawn runner that the result leaves out.
fn scratched<'a>(race: &'a Race, runner: &'a DeclaredRunner) -> Unplaced<'a> {
    Unplaced {
        outcome: Outcome::SCRATCHED,
        runner: Runner {
            horse_no: runner.horse_no.as_str(),
            horse_name: runner.horse_name.as_str(),
            number: runner.number,
            jockey: race.rider(runner).0.as_str(),
            trainer: runner.trainer.as_str(),
            finish_time: String::new(),
            win_odds: number(0),
            stakes: 0,
        },
    }
}

pub(crate) fn finish_time(runner: &ResultRunner) -> String {
    runner
        .finish_time
        .map(|time| time.to_string())
        .unwrap_or_default()
}

/// The exact price as a JSON number; 0 where there is none.
pub(crate) fn win_odds(runner: &ResultRunner) -> Box<RawValue> {
    runner.win_odds.map_or_else(|| number(0), number)
}

fn number(number: impl ToString) -> Box<RawValue> {
    RawValue::from_string(number.to_string()).expect("a decimal number is JSON")
}

/// A statement of a result, in force or not.
#[derive(Debug, Serialize, JsonSchema)]
struct Revision<'a> {
    /// declared or voided
    statement: &'a str,
    revision: u32,
    /// provisional, official or void
    status: &'a str,
    reason: &'a str,
    /// When it was said, RFC 3339.
    time: String,
    source: &'a str,
    event_id: &'a str,
    /// A lower revision than the one that was in force: it changed nothing.
    stale: bool,
    runners: Vec<RevisionRunner<'a>>,
}

#[derive(Debug, Serialize, JsonSchema)]
struct RevisionRunner<'a> {
    horse_no: &'a str,
    /// 0 where there is none.
    position: u16,
    /// Empty where there is a position.
    outcome: &'a str,
    finish_time: String,
}

/// A statement as it stands in the list of revisions.
pub(crate) fn render_revision(envelope: &Envelope, in_force: bool) -> Vec<u8> {
    let (statement, revision, status, reason, runners) = match &envelope.event {
        Event::ResultDeclared(result) => (
            "declared",
            result.revision,
            status_word(result.status),
            &result.reason,
            &result.runners[..],
        ),
        Event::ResultVoided(void) => ("voided", void.revision, "void", &void.reason, &[][..]),
        _ => ("", 0, "", &None, &[][..]),
    };
    json::render(&Revision {
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
                outcome: runner
                    .outcome
                    .as_ref()
                    .map_or("", |outcome| outcome.as_str()),
                finish_time: finish_time(runner),
            })
            .collect(),
    })
}

pub(crate) fn schema(generator: &mut schemars::SchemaGenerator) -> schemars::Schema {
    RaceResult::<'_>::json_schema(generator)
}

pub(crate) fn revision_schema(generator: &mut schemars::SchemaGenerator) -> schemars::Schema {
    Revision::<'_>::json_schema(generator)
}
