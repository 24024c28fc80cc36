//! A horse's form: a row for each race that it stood in.

use std::collections::BTreeMap;

use events::{Career, DeclaredRunner, HorseNo, Outcome, RaceKey, ResultRunner, Text};
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::value::RawValue;

use crate::race_result::{finish_time, win_odds};
use crate::{Race, json};

/// Where a row belongs, the first byte of its value in the store; the JSON follows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum RowKind {
    /// Under `form`.
    Placed = b'P',
    /// Under `unplaced`.
    Unplaced = b'U',
    /// On a card only: not served, but it tells the horse's name and trainer.
    Declared = b'D',
}

impl RowKind {
    /// Splits a value of the store into its kind and its JSON.
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

/// What a race means for one horse: its row, and what it adds to the career.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Appearance {
    /// [`RowKind`], then JSON.
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
    /// Metres; 0 where it is not known.
    distance: u32,
    going: &'a str,
    /// The official placing; stands in rows of `form` alone.
    #[serde(skip_serializing_if = "Option::is_none")]
    position: Option<u16>,
    /// Why there is no placing; stands in rows of `unplaced` alone.
    #[serde(skip_serializing_if = "Option::is_none")]
    outcome: Option<&'a str>,
    /// m:ss.cc; empty where it is not known.
    finish_time: String,
    /// Decimal; 0 where it is not known.
    #[schemars(with = "f64")]
    win_odds: Box<RawValue>,
    jockey: &'a str,
    horse_name: &'a str,
    trainer: &'a str,
    /// Whole units of the currency.
    stakes: u64,
}

#[derive(Serialize)]
struct DeclaredRow<'a> {
    horse_name: &'a str,
    trainer: &'a str,
}

/// What a race means for each horse that stands in its result or on its card.
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
        let line = scratched(runner);
        horses.insert(line.horse_no.clone(), ran(key, race, &line));
    }
    horses
}

/// The line that a result leaves out of a withdrawn runner; the card has the rest of it.
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
    let text = |said: &Text, on_card: Option<&Text>| {
        on_card.map_or(said, |on_card| said.or(on_card)).to_string()
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

/// What a line of a result adds to a career. A withdrawn runner has not started; second and third are places; what is
/// void adds nothing.
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
