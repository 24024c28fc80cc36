//! [`CsvRace`]: the CSV rows about a race, and the result that they make alone.

use std::collections::BTreeMap;

use events::{Event, FinishTime, Odds, RUNNERS_MAX, RaceKey, ResultRunner, Text};

use super::brand::same_name;
use super::hong_kong::midnight;
use super::horse_ids::HorseIds;
use crate::input::race_heading::RaceHeading;
use crate::input::race_rows::{duplicate, full};
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
    /// The result that the rows make alone.
    pub(crate) fn result(self, format: &str, key: RaceKey, ids: &HorseIds) -> Vec<Item> {
        let mut items = Vec::new();
        let mut runners: Vec<ResultRunner> = Vec::new();
        for CsvRow { location, runner } in self.rows {
            let mut out = LineItems::new(location);
            match runner.result(ids, &mut out) {
                Err(reason) => out.reject(reason),
                Ok(runner) if runners.iter().any(|r| r.horse_no == runner.horse_no) => {
                    out.reject(format!("{} is in {key} twice", runner.horse_no));
                }
                Ok(runner) => runners.push(runner),
            }
            items.extend(out.items);
        }
        if runners.is_empty() {
            return items; // Each row has been rejected.
        }
        runners.sort_by_key(|runner| runner.position.unwrap_or(u16::MAX));
        let time = midnight(key.date);
        let result = Event::ResultDeclared(self.heading.result(key, runners));
        items.push(self.location.event(format, time, result));
        items
    }
}

impl CsvRunner {
    fn is_same_horse(&self, other: &Self) -> bool {
        self.brand == other.brand && same_name(self.name.as_str(), other.name.as_str())
    }

    pub(crate) fn result(
        self,
        ids: &HorseIds,
        out: &mut LineItems,
    ) -> Result<ResultRunner, InputError> {
        let horse_no = ids.horse_no(&self.brand, self.name.as_str(), out)?;
        let figures = self.figures?;
        Ok(ResultRunner {
            horse_no,
            horse_name: self.name,
            number: self.number,
            position: self.placing.position(),
            outcome: self.placing.outcome().cloned(),
            jockey: self.jockey,
            trainer: self.trainer,
            finish_time: figures.finish_time,
            win_odds: figures.win_odds,
            stakes: None,
            stakes_currency: None,
        })
    }
}
