//! A horse's form: a row for each race with the horse on its card or in its result.

use std::collections::BTreeMap;

use events::{Career, DeclaredRunner, HorseNo, Outcome, RaceKey, ResultRunner, Text};
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::value::RawValue;

use crate::json;
use crate::race::Race;
use crate::race_result::{finish_time, win_odds};

/// The list that a row belongs to: the first byte of its stored value, before the JSON.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum RowKind {
    /// The list `form`.
    Placed = b'P',
    /// The list `unplaced`.
    Unplaced = b'U',
    /// None: the horse is on a card only. The row is not served; it has the name and the trainer of the horse.
    Declared = b'D',
}

impl RowKind {
    /// Splits a stored value into its kind and its JSON. `None` if it is not a form row.
    #[must_use]
    pub fn split(value: &[u8]) -> Option<(Self, &[u8])> {
        let (kind, row) = value.split_first()?;
        match kind {
            b'P' => Some((Self::Placed, row)),
            b'U' => Some((Self::Unplaced, row)),
            b'D' => Some((Self::Declared, row)),
            _ => None,
        }
    }
}

/// The part of one horse in a race: its form row, and what it adds to the career.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Appearance {
    /// A [`RowKind`], then JSON.
    pub(crate) row: Vec<u8>,
    pub(crate) career: Career,
}

/// A race in a horse's form. Name, jockey and trainer are as of the race.
#[derive(Debug, Serialize, JsonSchema)]
struct FormRow<'a> {
    date: String,
    venue: &'a str,
    venue_code: &'a str,
    race_number: u16,
    race_name: &'a str,
    /// Metres; 0 if unknown.
    distance: u32,
    going: &'a str,
    /// The official placing; only in rows of `form`.
    #[serde(skip_serializing_if = "Option::is_none")]
    position: Option<u16>,
    /// Why there is no placing; only in rows of `unplaced`.
    #[serde(skip_serializing_if = "Option::is_none")]
    outcome: Option<&'a str>,
    /// m:ss.cc; empty if unknown.
    finish_time: String,
    /// Decimal; 0 if unknown.
    #[schemars(with = "f64")]
    win_odds: Box<RawValue>,
    jockey: &'a str,
    horse_name: &'a str,
    trainer: &'a str,
    /// Stakes won, in whole units of the currency.
    stakes: u64,
}

#[derive(Serialize)]
struct DeclaredRow<'a> {
    horse_name: &'a str,
    trainer: &'a str,
}

/// The appearance of each horse on the card or in the result of a race.
pub(crate) fn appearances(key: &RaceKey, race: &Race) -> BTreeMap<HorseNo, Appearance> {
    let mut horses = BTreeMap::new();
    for runner in race.card.iter().flat_map(|card| &card.runners) {
        let row = json::render(&DeclaredRow {
            horse_name: runner.horse_name.as_str(),
            trainer: runner.trainer.as_str(),
        });
        let appearance = Appearance {
            row: tagged(RowKind::Declared, &row),
            career: Career::default(),
        };
        horses.insert(runner.horse_no.clone(), appearance);
    }
    for runner in race.declared().iter().flat_map(|result| &result.runners) {
        horses.insert(runner.horse_no.clone(), ran(key, race, runner));
    }
    for runner in race.scratched() {
        let runner = scratched(runner);
        horses.insert(runner.horse_no.clone(), ran(key, race, &runner));
    }
    horses
}

/// The result of a withdrawn runner that the declared result leaves out. The card has its jockey and trainer.
fn scratched(runner: &DeclaredRunner) -> ResultRunner {
    ResultRunner {
        horse_no: runner.horse_no.clone(),
        horse_name: runner.horse_name.clone(),
        number: None,
        position: None,
        outcome: Some(Outcome::scratched()),
        jockey: Text::default(),
        trainer: Text::default(),
        finish_time: None,
        win_odds: None,
        stakes: None,
    }
}

fn ran(key: &RaceKey, race: &Race, runner: &ResultRunner) -> Appearance {
    let card = race.declared_runner(&runner.horse_no);
    let text = |stated: &Text, on_card: Option<&Text>| {
        on_card
            .map_or(stated, |on_card| stated.or(on_card))
            .to_string()
    };
    let row = json::render(&FormRow {
        date: key.date.to_string(),
        venue: race.venue_name(key),
        venue_code: key.venue.as_str(),
        race_number: key.race_number.get(),
        race_name: race.name(),
        distance: race.distance(),
        going: race.going(),
        position: runner.position,
        outcome: runner.outcome.as_ref().map(|outcome| outcome.as_str()),
        finish_time: finish_time(runner),
        win_odds: win_odds(runner),
        jockey: &text(&runner.jockey, card.map(|c| race.rider(c).0)),
        horse_name: &text(&runner.horse_name, card.map(|c| &c.horse_name)),
        trainer: &text(&runner.trainer, card.map(|c| &c.trainer)),
        stakes: runner.stakes.unwrap_or(0),
    });
    let kind = if runner.position.is_some() {
        RowKind::Placed
    } else {
        RowKind::Unplaced
    };
    Appearance {
        row: tagged(kind, &row),
        career: contribution(runner),
    }
}

fn tagged(kind: RowKind, row: &[u8]) -> Vec<u8> {
    let mut value = Vec::with_capacity(row.len() + 1);
    value.push(kind as u8);
    value.extend_from_slice(row);
    value
}

/// What a runner of a result adds to its career. A withdrawn runner is not a start, second and third are places, and a void
/// result adds nothing.
fn contribution(runner: &ResultRunner) -> Career {
    if runner.outcome.as_ref().is_some_and(Outcome::is_void) {
        return Career::default();
    }
    let started = runner
        .outcome
        .as_ref()
        .is_none_or(|outcome| outcome.is_start());
    Career {
        starts: u32::from(started),
        wins: u32::from(runner.position == Some(1)),
        places: u32::from(matches!(runner.position, Some(2 | 3))),
        total_stakes: runner.stakes.unwrap_or(0),
    }
}

pub(crate) fn schema(generator: &mut schemars::SchemaGenerator) -> schemars::Schema {
    FormRow::<'_>::json_schema(generator)
}
