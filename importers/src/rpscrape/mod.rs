//! Results as the tool rpscrape writes them, CSV with a row for each runner: British, Irish and other racing.

mod horses;
mod meetings;
mod names;
#[cfg(test)]
mod tests;
mod values;

use std::path::PathBuf;

use events::RaceKey;

use self::horses::{RpscrapeHorse, RpscrapeHorses};
use self::meetings::{RaceSlot, RpscrapeMeetings, RpscrapeRace};
use self::values::{
    FORMAT, OFF, RACE_NAME, REQUIRED, class, date, distance, finish_time, midnight, number,
    off_time, placing, time_zone_name, win_odds, zone,
};
use crate::input::cells::Cells;
use crate::input::csv_table::CsvTable;
use crate::input::files;
use crate::input::race_heading::RaceHeading;
use crate::input::race_rows::{CompletedRaces, RaceRows, RunnerRow};
use crate::input::rows::{self, ReadRows};
use crate::item::{InputError, Item, Items, LineItems, Location};
use crate::units;
use crate::venue_code::venue_code;

/// Reads results: a result and a card for each race, and at the end a registration for each horse.
///
/// The files are read twice: the number of a race is known when all races of its meeting are.
#[must_use]
pub fn rpscrape(paths: &[PathBuf]) -> Items {
    files::import(paths, &["csv"], |paths| {
        let (meetings, horses) = survey(&paths);
        let races = RpscrapeRaces {
            meetings,
            horses,
            open: None,
            completed: CompletedRaces::default(),
        };
        rows::rows(paths, races)
    })
}

/// Reads what has to be known before the first race. Invalid input is rejected by the second reading.
fn survey(paths: &[PathBuf]) -> (RpscrapeMeetings, RpscrapeHorses) {
    let mut meetings = RpscrapeMeetings::default();
    let mut horses = RpscrapeHorses::default();
    let tables = paths
        .iter()
        .filter_map(|path| rows::open(path, REQUIRED).ok());
    for (file, table) in tables {
        for (line, cells) in table.one_row_per_line() {
            let Ok(cells) = cells else { continue };
            if let Ok(race) = race(&cells) {
                meetings.add(&race);
            }
            if let Ok(horse) = RpscrapeHorse::read(&cells, &file.at(line)) {
                horses.add(horse);
            }
        }
    }
    meetings.number_races();
    (meetings, horses)
}

struct RpscrapeRaces {
    meetings: RpscrapeMeetings,
    horses: RpscrapeHorses,
    /// The race that is being read: its rows are contiguous.
    open: Option<(RpscrapeRace, RaceRows)>,
    completed: CompletedRaces,
}

impl ReadRows for RpscrapeRaces {
    const REQUIRED: &'static [&'static str] = REQUIRED;

    fn begin(&mut self, table: CsvTable) -> CsvTable {
        table.one_row_per_line()
    }

    fn row(&mut self, cells: &Cells, out: &mut LineItems) -> Result<(), InputError> {
        let race = race(cells)?;
        let heading = self.heading(cells, &race)?;
        let runner = Self::runner(cells, &out.location)?;
        if self.open.as_ref().is_none_or(|(open, _)| *open != race) {
            let key = RaceKey {
                date: race.date,
                venue: race.venue.clone(),
                race_number: self.meetings.number_of(&race)?,
            };
            self.complete_race(out);
            let rows = RaceRows::new(key, heading.clone(), out.location.clone());
            self.open = Some((race, rows));
        }
        let (_, rows) = self.open.as_mut().expect("a race is open");
        rows.add(&heading, runner, out)
    }

    fn end(&mut self, out: &mut LineItems) {
        self.complete_race(out);
    }

    fn finish(&mut self) -> Vec<Item> {
        self.horses.register()
    }
}

impl RpscrapeRaces {
    fn complete_race(&mut self, out: &mut LineItems) {
        if let Some((race, rows)) = self.open.take() {
            let time = midnight(race.date);
            out.items.extend(self.completed.items(FORMAT, time, rows));
        }
    }

    fn heading(&self, cells: &Cells, race: &RpscrapeRace) -> Result<RaceHeading, InputError> {
        let zone = zone(cells.text("region")?.as_str());
        Ok(RaceHeading {
            going: cells.text("going")?,
            venue_name: Some(cells.text("course")?),
            race_name: cells.text(RACE_NAME)?,
            distance: distance(cells)?,
            class: class(cells)?,
            time_zone: zone.as_ref().and_then(time_zone_name),
            off_time: zone.and_then(|zone| self.meetings.off_time(race, &zone)),
        })
    }

    fn runner(cells: &Cells, location: &Location) -> Result<RunnerRow, InputError> {
        let horse = RpscrapeHorse::read(cells, location)?;
        Ok(RunnerRow {
            number: cells.optional("num", number)?.unwrap_or(0),
            placing: cells.parsed("pos", placing)?,
            jockey: cells.text("jockey")?,
            trainer: horse.trainer,
            draw: cells.whole("draw")?.unwrap_or(0),
            weight: cells
                .first(&["lbs", "wgt", "weight"], units::pounds)?
                .unwrap_or(0),
            finish_time: finish_time(cells)?,
            win_odds: win_odds(cells)?,
            stakes: horse.prize,
            horse_no: horse.horse_no,
            horse_name: horse.horse_name,
        })
    }
}

fn race(cells: &Cells) -> Result<RpscrapeRace, InputError> {
    let race_id = cells.whole::<u64>("race_id")?.unwrap_or(0);
    let race_name = match race_id {
        0 => cells.text(RACE_NAME)?.to_string(),
        _ => String::new(),
    };
    Ok(RpscrapeRace {
        date: cells.parsed("date", date)?,
        venue: cells.parsed("course", venue_code)?,
        slot: RaceSlot {
            off: cells.parsed(OFF, off_time)?,
            race_id,
            race_name,
        },
    })
}
