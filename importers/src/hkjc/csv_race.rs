//! [`CsvRace`]: the CSV rows about a race, and the result that they make alone.

use std::collections::BTreeMap;

use events::{RUNNERS_MAX, RaceKey, ResultRunner};

use super::brand::same_name;
use super::hong_kong::{card_of_result, midnight};
use super::horse_ids::HorseIds;
use crate::input::race_heading::RaceHeading;
use crate::input::race_rows::{RaceRows, duplicate, full};
use crate::input::repeats::Repeats;
use crate::item::{InputError, Item, LineItems, Location, Result};
use crate::placing::Placing;

/// Races by date.
pub(crate) type CsvRaces = BTreeMap<RaceKey, CsvRace>;

pub(crate) struct CsvRace {
    /// Its first row.
    pub(crate) location: Location,
    pub(crate) heading: RaceHeading,
    pub(crate) rows: Vec<CsvRow>,
}

pub(crate) struct CsvRow {
    pub(crate) location: Location,
    pub(crate) placing: Placing,
    /// With the brand for its number.
    pub(crate) runner: ResultRunner,
    /// Why the runner has no figures. It counts only if the JSON does not have the runner.
    pub(crate) fault: Option<InputError>,
}

/// Adds a row to its race. The heading of the first row is kept, and equal rows count once.
pub(crate) fn add(
    races: &mut CsvRaces,
    key: RaceKey,
    heading: RaceHeading,
    row: CsvRow,
    out: &mut LineItems,
) -> Result<()> {
    let race = races.entry(key.clone()).or_insert_with(|| CsvRace {
        location: row.location.clone(),
        heading: heading.clone(),
        rows: Vec::new(),
    });
    race.heading.compare(&heading, &key, &race.location, out);
    let is_full = race.rows.len() >= RUNNERS_MAX;
    let mut rows = race.rows.iter_mut();
    match rows.find(|r| r.is_same_horse(&row)) {
        Some(earlier) => out.items.extend(repeated(earlier, row, &key)),
        None if is_full => return Err(full(&key)),
        None => race.rows.push(row),
    }
    Ok(())
}

/// Compares two rows about a horse. One is kept, and the other is rejected unless they are equal.
fn repeated(earlier: &mut CsvRow, mut row: CsvRow, key: &RaceKey) -> Option<Item> {
    if earlier.content() == row.content() {
        return None;
    }
    if earlier.fault.is_some() {
        std::mem::swap(earlier, &mut row);
    }
    let duplicate = || duplicate(&row.runner.horse_name, key, &earlier.location);
    Some(row.location.rejected(row.fault.unwrap_or_else(duplicate)))
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
        for row in self.rows {
            let mut out = LineItems::new(row.location.clone());
            match row.identified(ids, &mut out) {
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

impl CsvRow {
    fn content(&self) -> (&Placing, &ResultRunner, Option<&InputError>) {
        (&self.placing, &self.runner, self.fault.as_ref())
    }

    pub(crate) fn brand_and_name(&self) -> (&str, &str) {
        let runner = &self.runner;
        (runner.horse_no.as_str(), runner.horse_name.as_str())
    }

    fn is_same_horse(&self, other: &Self) -> bool {
        let (brand, name) = self.brand_and_name();
        let (other_brand, other_name) = other.brand_and_name();
        brand == other_brand && same_name(name, other_name)
    }

    /// The runner with the number of its horse.
    pub(crate) fn identified(&self, ids: &HorseIds, out: &mut LineItems) -> Result<ResultRunner> {
        let (brand, name) = self.brand_and_name();
        let horse_no = ids.horse_no(brand, name, out)?;
        let runner = self.runner.clone();
        let fault = self.fault.clone();
        fault.map_or(Ok(ResultRunner { horse_no, ..runner }), Err)
    }
}
