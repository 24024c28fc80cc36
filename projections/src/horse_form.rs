//! A horse's form: a row for each race with the horse on its card or in its result.

use std::collections::{BTreeMap, BTreeSet};

use events::{
    Career, HorseNo, Outcome, RaceKey, RaceNumber, RacingDate, ResultRunner, Text, VenueCode,
};
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::value::RawValue;

use crate::race::Race;
use crate::race_result::{self, RunnerDetails, RunnerFields};
use crate::rides::{self, RideEntries};
use crate::store::{Store, StoreResult};
use crate::{json, keys};

/// The list that a row belongs to: the first byte of its stored value, before the JSON. The names of the horse in other
/// languages come after the JSON, each on a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq, strum::FromRepr)]
#[repr(u8)]
pub enum RowKind {
    /// The list `form`.
    Placed = b'P',
    /// The list `unplaced`.
    Unplaced = b'U',
    /// None: the horse is on a card only. The row is not served; it has the name and the trainer of the horse.
    Declared = b'D',
    /// None: the horse was on a card or in a result, and no longer is. The row is empty: it tells which races an
    /// earlier form of the horse is of.
    Former = b'F',
}

impl RowKind {
    /// Splits a stored value into its kind and its JSON. `None` if it is not a form row.
    pub fn split(value: &[u8]) -> Option<(Self, &[u8])> {
        let (kind, row) = value.split_first()?;
        let row = row.split(|byte| *byte == b'\n').next()?;
        Some((Self::from_repr(*kind)?, row))
    }
}

/// The part of one horse in a race: its form row, and what it adds to the career.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Appearance {
    /// A [`RowKind`], then JSON, then names.
    pub(crate) row: Vec<u8>,
    pub(crate) career: Career,
    /// That of the stakes; empty if it is not stated.
    pub(crate) currency: String,
    /// Its entries in the index of rides, if it started.
    pub(crate) rides: RideEntries,
}

/// A race of the horse.
#[derive(Debug, Serialize)]
struct StoredFormRow<'a> {
    #[serde(flatten)]
    race: FormRace<'a>,
    #[serde(flatten)]
    placing: RowPlacing<'a>,
    #[serde(flatten)]
    runner: FormRunner<'a>,
}

/// The official placing of a runner, or why it has none.
#[derive(Debug, Serialize)]
#[serde(rename_all = "snake_case")]
enum RowPlacing<'a> {
    Position(u16),
    Outcome(&'a str),
}

#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct FormRace<'a> {
    /// The meeting's date.
    date: RacingDate,
    /// The racecourse's name.
    venue: &'a str,
    /// The racecourse's code.
    venue_code: &'a VenueCode,
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
}

#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct FormRunner<'a> {
    /// m:ss.cc; empty if unknown.
    #[schemars(extend("pattern" = json::FINISH_TIME_OR_EMPTY))]
    finish_time: String,
    /// Decimal; 0 if unknown.
    #[schemars(with = "f64", range(min = 0, max = 100_000))]
    win_odds: Box<RawValue>,
    /// Its draw; 0 if unknown.
    draw: u16,
    /// Pounds carried; 0 if unknown.
    weight: u16,
    /// The jockey in the race; empty if unknown.
    jockey: &'a str,
    /// The horse's name as of the race; empty if unknown.
    horse_name: &'a str,
    /// The trainer as of the race; empty if unknown.
    trainer: &'a str,
    /// Stakes won, in whole units of the currency.
    stakes: u64,
    /// Such as `HKD`; empty if the result does not state it.
    stakes_currency: &'a str,
    #[serde(flatten)]
    details: RunnerDetails<'a>,
}

#[derive(Serialize)]
struct DeclaredRow<'a> {
    horse_name: &'a str,
    trainer: &'a str,
}

/// The horses on the card or in the result of a race.
pub(crate) fn horses(race: &Race) -> impl Iterator<Item = &HorseNo> {
    let carded = race.card.iter().flat_map(|card| &card.runners);
    let declared = race.declared().into_iter();
    let placed = declared.flat_map(|result| &result.runners);
    let carded = carded.map(|runner| &runner.horse_no);
    carded.chain(placed.map(|runner| &runner.horse_no))
}

/// The horses that are or were in any race of a store.
///
/// # Errors
/// Returns a [`StoreError`](crate::StoreError) if a row cannot be read.
pub fn horses_in(store: &Store) -> StoreResult<BTreeSet<HorseNo>> {
    let horse_of = |key: &str| HorseNo::parse(key.split('/').nth(1)?).ok();
    let rows = store.scan(keys::FORMS);
    let horses = rows.filter_map(|row| row.map(|(key, _)| horse_of(&key)).transpose());
    horses.collect()
}

/// Whether a stored row is of a horse that is in the race.
pub(crate) fn is_current(row: &[u8]) -> bool {
    row.first() != Some(&(RowKind::Former as u8))
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
            row: tagged(RowKind::Declared, row),
            ..Appearance::default()
        };
        horses.insert(runner.horse_no.clone(), appearance);
    }
    for runner in race.declared().iter().flat_map(|result| &result.runners) {
        let placing = match (runner.position, &runner.outcome) {
            (Some(position), _) => RowPlacing::Position(position),
            (None, outcome) => RowPlacing::Outcome(outcome.as_ref().map_or("", Outcome::as_str)),
        };
        let fields = race_result::runner_fields(race, runner);
        let career = contribution(runner);
        let started = career.starts > 0;
        let rides = started.then(|| rides::entries(key, race, runner, &fields));
        let appearance = Appearance {
            row: form_row(key, race, placing, fields),
            career,
            currency: race_result::currency(runner).to_owned(),
            rides: rides.unwrap_or_default(),
        };
        horses.insert(runner.horse_no.clone(), appearance);
    }
    for runner in race.scratched() {
        let fields = race_result::scratched_fields(race, runner);
        let appearance = Appearance {
            row: form_row(key, race, RowPlacing::Outcome(Outcome::SCRATCHED), fields),
            ..Appearance::default()
        };
        horses.insert(runner.horse_no.clone(), appearance);
    }
    for (horse_no, name) in names_in_languages(race) {
        if let Some(appearance) = horses.get_mut(horse_no) {
            appearance.row.push(b'\n');
            appearance.row.extend(name.as_str().as_bytes());
        }
    }
    horses
}

/// The names of horses in other languages, each once.
fn names_in_languages(race: &Race) -> BTreeSet<(&HorseNo, &Text)> {
    let on_card = race.card.iter().flat_map(|card| &card.runners);
    let in_result = race.declared().into_iter().flat_map(|it| &it.runners);
    let on_card = on_card.map(|runner| (&runner.horse_no, &runner.names));
    let all = on_card.chain(in_result.map(|runner| (&runner.horse_no, &runner.names)));
    all.flat_map(|(horse_no, names)| names.all().map(move |name| (horse_no, name)))
        .collect()
}

fn form_row(
    key: &RaceKey,
    race: &Race,
    placing: RowPlacing<'_>,
    fields: RunnerFields<'_>,
) -> Vec<u8> {
    let kind = match placing {
        RowPlacing::Position(_) => RowKind::Placed,
        RowPlacing::Outcome(_) => RowKind::Unplaced,
    };
    let row = StoredFormRow {
        race: FormRace {
            date: key.date,
            venue: race.venue_name(key),
            venue_code: &key.venue,
            race_number: key.race_number,
            race_name: race.name(),
            distance: race.distance(),
            class: race.class(),
            going: race.going(),
        },
        placing,
        runner: FormRunner {
            finish_time: fields.finish_time,
            win_odds: fields.win_odds,
            draw: fields.draw,
            weight: fields.weight,
            jockey: fields.jockey,
            horse_name: fields.horse_name,
            trainer: fields.trainer,
            stakes: fields.stakes,
            stakes_currency: fields.stakes_currency,
            details: fields.details,
        },
    };
    tagged(kind, json::render(&row))
}

fn tagged(kind: RowKind, mut row: Vec<u8>) -> Vec<u8> {
    row.insert(0, kind as u8);
    row
}

/// The names of the horse of a stored row in other languages.
pub(crate) fn other_names(row: &[u8]) -> Vec<String> {
    let names = row.split(|byte| *byte == b'\n').skip(1);
    let names = names.map(|name| String::from_utf8_lossy(name).into_owned());
    names.collect()
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
