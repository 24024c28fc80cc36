//! [`CsvRace`]: the CSV rows about a race, and the result that they make alone.

use std::collections::BTreeMap;

use events::{FinishTime, Margin, Odds, RUNNERS_MAX, RaceKey, ResultRunner, Text};

use super::brand::same_name;
use super::hong_kong::{card_of_result, midnight};
use super::horse_ids::HorseIds;
use crate::input::race_heading::RaceHeading;
use crate::input::race_rows::{RaceRows, duplicate, full};
use crate::input::repeats::Repeats;
use crate::item::{InputError, Item, LineItems, Location};
use crate::placing::Placing;

/// Races by date.
pub(crate) type CsvRaces = BTreeMap<RaceKey, CsvRace>;

#[derive(Debug)]
pub(crate) struct CsvRace {
    /// Its first row.
    pub(crate) location: Location,
    pub(crate) heading: RaceHeading,
    pub(crate) rows: Vec<CsvRow>,
}

#[derive(Debug)]
pub(crate) struct CsvRow {
    pub(crate) location: Location,
    pub(crate) runner: CsvRunner,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct CsvRunner {
    pub(crate) brand: String,
    pub(crate) name: Text,
    pub(crate) placing: Placing,
    pub(crate) number: Option<u16>,
    pub(crate) jockey: Text,
    pub(crate) trainer: Text,
    /// An error counts only if the JSON does not have the runner.
    pub(crate) figures: Result<CsvFigures, InputError>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct CsvFigures {
    pub(crate) finish_time: Option<FinishTime>,
    pub(crate) win_odds: Option<Odds>,
    pub(crate) draw: Option<u16>,
    pub(crate) weight: Option<u16>,
    pub(crate) margin: Option<Margin>,
    pub(crate) running_positions: Vec<u16>,
    pub(crate) body_weight: Option<u16>,
}

/// Adds a row to its race. The heading of the first row is kept, and equal rows count once.
pub(crate) fn add(
    races: &mut CsvRaces,
    key: RaceKey,
    heading: RaceHeading,
    runner: CsvRunner,
    out: &mut LineItems,
) -> Result<(), InputError> {
    let location = out.location.clone();
    let race = races.entry(key.clone()).or_insert_with(|| CsvRace {
        location: location.clone(),
        heading: heading.clone(),
        rows: Vec::new(),
    });
    race.heading.compare(&heading, &key, &race.location, out);
    let row = CsvRow { location, runner };
    let is_full = race.rows.len() >= RUNNERS_MAX;
    let mut rows = race.rows.iter_mut();
    match rows.find(|r| r.runner.is_same_horse(&row.runner)) {
        Some(earlier) => out.items.extend(repeated(earlier, row, &key)),
        None if is_full => return Err(full(&key)),
        None => race.rows.push(row),
    }
    Ok(())
}

/// Compares two rows about a horse. One is kept, and the other is rejected unless they are equal.
fn repeated(earlier: &mut CsvRow, mut row: CsvRow, key: &RaceKey) -> Option<Item> {
    if earlier.runner == row.runner {
        return None;
    }
    if earlier.runner.figures.is_err() {
        std::mem::swap(earlier, &mut row);
    }
    let duplicate = || duplicate(&row.runner.name, key, &earlier.location);
    let reason = row.runner.figures.err().unwrap_or_else(duplicate);
    Some(row.location.rejected(reason))
}

impl CsvRace {
    /// The result and the card that the rows make alone.
    pub(crate) fn result(
        self,
        format: &str,
        key: RaceKey,
        ids: &HorseIds,
        repeats: &mut Repeats,
    ) -> Vec<Item> {
        let mut items = Vec::new();
        let mut race = RaceRows::new(key, self.heading, self.location);
        for CsvRow { location, runner } in self.rows {
            let mut out = LineItems::new(location);
            match runner.row(ids, &mut out) {
                Err(reason) => out.reject(reason),
                Ok(runner) if race.has(&runner.horse_no) => {
                    out.reject(format!("{} is in {} twice", runner.horse_no, race.key));
                }
                Ok(runner) => race.runners.push((out.location.clone(), runner)),
            }
            items.extend(out.items);
        }
        // Otherwise each row has been rejected.
        if !race.runners.is_empty() {
            let time = midnight(race.key.date);
            items.extend(race.items((format, time), card_of_result(), repeats));
        }
        items
    }
}

impl CsvRunner {
    fn is_same_horse(&self, other: &Self) -> bool {
        self.brand == other.brand && same_name(self.name.as_str(), other.name.as_str())
    }

    pub(crate) fn row(
        self,
        ids: &HorseIds,
        out: &mut LineItems,
    ) -> Result<ResultRunner, InputError> {
        let horse_no = ids.horse_no(&self.brand, self.name.as_str(), out)?;
        let figures = self.figures?;
        let (position, outcome) = self.placing.split();
        Ok(ResultRunner {
            horse_name: self.name,
            number: self.number,
            position,
            outcome,
            jockey: self.jockey,
            trainer: self.trainer,
            draw: figures.draw,
            weight: figures.weight,
            finish_time: figures.finish_time,
            win_odds: figures.win_odds,
            margin: figures.margin,
            running_positions: figures.running_positions,
            body_weight: figures.body_weight,
            ..ResultRunner::of(horse_no)
        })
    }
}
