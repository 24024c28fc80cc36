//! A horse's form: a row for each race with the horse on its card or in its result.

use std::collections::BTreeMap;

use events::{Career, HorseNo, Outcome, RaceKey, ResultRunner};
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::value::RawValue;

use crate::json;
use crate::race::Race;
use crate::race_result::{self, RunnerFields};

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
pub(crate) struct FormRow<'a> {
    date: String,
    venue: &'a str,
    venue_code: &'a str,
    race_number: u16,
    race_name: &'a str,
    /// Metres; 0 if unknown.
    distance: u32,
    class: &'a str,
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
    /// 0 if unknown.
    draw: u16,
    /// Pounds carried; 0 if unknown.
    weight: u16,
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
        let outcome = runner.outcome.as_ref().map(Outcome::as_str);
        let fields = race_result::runner_fields(race, runner);
        let appearance = Appearance {
            row: form_row(key, race, runner.position, outcome, fields),
            career: contribution(runner),
        };
        horses.insert(runner.horse_no.clone(), appearance);
    }
    for runner in race.scratched() {
        let fields = race_result::scratched_fields(race, runner);
        let appearance = Appearance {
            row: form_row(key, race, None, Some(Outcome::SCRATCHED), fields),
            career: Career::default(),
        };
        horses.insert(runner.horse_no.clone(), appearance);
    }
    horses
}

fn form_row(
    key: &RaceKey,
    race: &Race,
    position: Option<u16>,
    outcome: Option<&str>,
    fields: RunnerFields<'_>,
) -> Vec<u8> {
    let row = json::render(&FormRow {
        date: key.date.to_string(),
        venue: race.venue_name(key),
        venue_code: key.venue.as_str(),
        race_number: key.race_number.get(),
        race_name: race.name(),
        distance: race.distance(),
        class: race.class(),
        going: race.going(),
        position,
        outcome,
        finish_time: fields.finish_time,
        win_odds: fields.win_odds,
        draw: fields.draw,
        weight: fields.weight,
        jockey: fields.jockey,
        horse_name: fields.horse_name,
        trainer: fields.trainer,
        stakes: fields.stakes,
    });
    let kind = match position {
        Some(_) => RowKind::Placed,
        None => RowKind::Unplaced,
    };
    tagged(kind, &row)
}

fn tagged(kind: RowKind, row: &[u8]) -> Vec<u8> {
    [&[kind as u8], row].concat()
}

/// What a runner of a result adds to its career. A withdrawn runner is not a start, second and third are places, and a
/// void result adds nothing.
fn contribution(runner: &ResultRunner) -> Career {
    if runner.outcome.as_ref().is_some_and(Outcome::is_void) {
        return Career::default();
    }
    let started = runner.outcome.as_ref().is_none_or(Outcome::is_start);
    Career {
        starts: u32::from(started),
        wins: u32::from(runner.position == Some(1)),
        places: u32::from(matches!(runner.position, Some(2 | 3))),
        total_stakes: runner.stakes.unwrap_or(0),
    }
}
