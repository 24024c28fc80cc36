//! Results as the tool rpscrape writes them, CSV with a row for each runner: British, Irish and other racing.

mod horses;
mod meetings;
mod names;
#[cfg(test)]
mod tests;
mod values;

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use events::{DeclaredRunner, RaceDeclared, RaceKey, ResultRunner};

use self::horses::{RpscrapeHorse, RpscrapeHorses};
use self::meetings::{RaceSlot, RpscrapeMeetings, RpscrapeRace};
use self::values::{
    FORMAT, OFF, RACE_NAME, REQUIRED, class, date, distance, finish_time, margin, midnight, number,
    off_time, placing, time_zone_name, win_odds, zone,
};
use crate::input::cells::Cells;
use crate::input::csv_table::CsvTable;
use crate::input::files;
use crate::input::race_heading::{RaceHeading, known};
use crate::input::race_parts::RaceParts;
use crate::input::race_rows::{RaceRows, known_number};
use crate::input::repeats::Repeats;
use crate::input::rows::{self, ReadRows};
use crate::item::{Items, LineItems, Location, Result};
use crate::units;
use crate::venue_code::venue_code;

/// Reads results: a result and a card for each race, and at the end a registration for each horse.
///
/// The files are read twice: the number of a race is known when all races of its meeting are.
pub fn rpscrape(paths: &[PathBuf]) -> Items {
    files::import(paths, &["csv"], |paths| {
        let (meetings, horses, parts) = survey(&paths);
        let races = RpscrapeRaces {
            meetings,
            horses,
            parts,
            open: None,
            repeats: Repeats::default(),
        };
        rows::rows(paths, races)
    })
}

/// The parts of the races of each file.
type FileParts = HashMap<Arc<Path>, RaceParts<RpscrapeRace, RpscrapeRace>>;

/// Reads what has to be known before the first race. Invalid input is rejected by the second reading.
fn survey(paths: &[PathBuf]) -> (RpscrapeMeetings, RpscrapeHorses, FileParts) {
    let mut meetings = RpscrapeMeetings::default();
    let mut horses = RpscrapeHorses::default();
    let mut file_parts = FileParts::new();
    let tables = paths.iter().map(|path| rows::open(path, REQUIRED));
    for (file, mut table) in tables.flatten() {
        table.one_row_per_line = true;
        let mut parts = RaceParts::default();
        for (line, cells) in table {
            let Ok(cells) = cells else { continue };
            if let Ok(race) = race(&cells) {
                meetings.add(&race);
                parts.add(race.clone(), race, &cells, line);
            }
            if let Ok(horse) = RpscrapeHorse::read(&cells, &file.at(line)) {
                horses.add(horse);
            }
        }
        file_parts.insert(file.file, parts.finish());
    }
    meetings.number_races();
    (meetings, horses, file_parts)
}

struct RpscrapeRaces {
    meetings: RpscrapeMeetings,
    horses: RpscrapeHorses,
    parts: FileParts,
    /// The race that is being read: its rows are contiguous.
    open: Option<(RpscrapeRace, RaceRows)>,
    repeats: Repeats,
}

impl ReadRows for RpscrapeRaces {
    const REQUIRED: &'static [&'static str] = REQUIRED;

    fn begin(&mut self, _file: &Location, table: &mut CsvTable) {
        table.one_row_per_line = true;
    }

    fn row(&mut self, cells: &Cells, out: &mut LineItems) -> Result<()> {
        let race = race(cells)?;
        if !self.is_read(&race, &out.location)? {
            return Ok(());
        }
        let heading = self.heading(cells, &race)?;
        let (runner, card_runner) = runner(cells, out)?;
        if self.open.as_ref().is_none_or(|(open, _)| *open != race) {
            let key = self.key(&race)?;
            self.complete_race(out);
            if let Some(note) = self.meetings.note(&race) {
                out.note(note);
            }
            let rows = RaceRows::new(key, heading.clone(), out.location.clone());
            self.open = Some((race, rows));
        }
        let (_, rows) = self.open.as_mut().expect("a race is open");
        rows.add(&heading, runner, card_runner, out)
    }

    fn end(&mut self, out: &mut LineItems) {
        self.complete_race(out);
    }

    fn finish(&mut self) -> Items {
        Box::new(self.horses.register().into_iter())
    }
}

impl RpscrapeRaces {
    fn complete_race(&mut self, out: &mut LineItems) {
        if let Some((race, rows)) = self.open.take() {
            let stamp = (FORMAT, midnight(race.date));
            (out.items).extend(rows.items(stamp, stamp, &mut self.repeats));
        }
    }

    fn key(&self, race: &RpscrapeRace) -> Result<RaceKey> {
        Ok(RaceKey {
            date: race.date,
            venue: race.venue.clone(),
            race_number: self.meetings.number_of(race)?,
        })
    }

    /// Whether a row is to be read. The first row of a race whose rows are apart is an error.
    fn is_read(&self, race: &RpscrapeRace, row: &Location) -> Result<bool> {
        let Some(parts) = self.parts.get(&row.file) else {
            return Ok(true);
        };
        let is_read = parts.is_read(race, row.line);
        is_read.or_else(|reason| Err(format!("{}: {reason}", self.key(race)?).into()))
    }

    fn heading(&self, cells: &Cells, race: &RpscrapeRace) -> Result<RaceHeading> {
        let zone = zone(cells.text("region")?.as_str());
        Ok(RaceHeading::of(RaceDeclared {
            going: known(cells.text("going")?),
            surface: known(cells.text("surface")?),
            rating_band: known(cells.text("rating_band")?),
            venue_name: Some(cells.text("course")?),
            race_name: cells.text(RACE_NAME)?,
            distance: distance(cells)?,
            class: class(cells)?,
            time_zone: zone.as_ref().and_then(time_zone_name),
            off_time: zone.and_then(|zone| self.meetings.off_time(race, &zone)),
            ..RaceDeclared::of(self.key(race)?)
        }))
    }
}

/// What a result has of a runner, and what only a card has.
fn runner(cells: &Cells, out: &mut LineItems) -> Result<(ResultRunner, DeclaredRunner)> {
    let RpscrapeHorse { horse, prize, .. } = RpscrapeHorse::read(cells, &out.location)?;
    let (position, outcome) = cells.parsed("pos", placing)?.split();
    let (stakes, stakes_currency) = prize.unzip();
    let card_runner = DeclaredRunner {
        rating: cells.whole("or")?,
        age: horse.age,
        owner: known(horse.owner),
        jockey_id: known(cells.text("jockey_id")?),
        trainer_id: known(cells.text("trainer_id")?),
        ..DeclaredRunner::of(horse.horse_no.clone())
    };
    let runner = ResultRunner {
        number: known_number(cells.optional("num", number)?),
        position,
        outcome,
        jockey: cells.text("jockey")?,
        trainer: horse.trainer,
        draw: known_number(cells.whole("draw")?),
        weight: known_number(cells.first(&["lbs", "wgt", "weight"], units::pounds)?),
        finish_time: finish_time(cells)?,
        win_odds: win_odds(cells)?,
        stakes,
        stakes_currency,
        margin: margin(cells, out)?,
        gear: known(cells.text("hg")?),
        horse_name: horse.horse_name,
        ..ResultRunner::of(horse.horse_no)
    };
    Ok((runner, card_runner))
}

fn race(cells: &Cells) -> Result<RpscrapeRace> {
    let race_id = cells.whole::<u64>("race_id")?.unwrap_or(0);
    let race_name = match race_id {
        0 => cells.text(RACE_NAME)?.to_string(),
        _ => String::new(),
    };
    let (off, clock) = cells.parsed(OFF, off_time)?;
    Ok(RpscrapeRace {
        date: cells.parsed("date", date)?,
        venue: cells.parsed("course", venue_code)?,
        clock,
        slot: RaceSlot {
            off,
            race_id,
            race_name,
        },
    })
}
