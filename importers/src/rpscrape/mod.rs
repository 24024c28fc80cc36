//! Results as the tool rpscrape writes them, CSV with a row a runner: British, Irish and other racing.

mod columns;
mod horses;
mod meetings;
mod names;
#[cfg(test)]
mod tests;

use std::path::PathBuf;

use events::{Outcome, ParseError, RaceKey, RacingDate, Text};
use jiff::civil::Date;
use jiff::fmt::strtime;
use jiff::tz::TimeZone;

use self::columns::Columns;
use self::horses::{Horse, Horses, midnight};
use self::meetings::{Meetings, Off, RaceName, Slot};
use crate::input::cells::Cells;
use crate::input::csv_table::Table;
use crate::input::files::{self, Kind};
use crate::input::race_rows::{Heading, RaceRows, Runner, Said};
use crate::input::rows::{self, ReadRows};
use crate::placing::Placing;
use crate::{Item, Items, Location};

const FORMAT: &str = "rpscrape";

/// Reads results: a result and a card for each race, and at the end a registration for each horse.
///
/// The files are read twice: the numbers of races are known when all races of their meeting are.
#[must_use]
pub fn rpscrape(paths: &[PathBuf]) -> Items {
    let found = files::find(paths, &[Kind::Csv]);
    let paths = found.of(Kind::Csv);
    let races = std::iter::once_with(move || {
        let (meetings, horses) = learn(&paths);
        let races = Races {
            columns: None,
            meetings,
            horses,
            open: None,
            said: Said::default(),
            left_out: None,
        };
        rows::rows(paths, races)
    });
    Box::new(found.said.into_iter().chain(races.flatten()))
}

/// What has to be known before the first race is said. What is wrong with the files is said when they are read again.
fn learn(paths: &[PathBuf]) -> (Meetings, Horses) {
    let (mut meetings, mut horses) = (Meetings::default(), Horses::default());
    for path in paths {
        let Ok((file, table)) = rows::open(path, Columns::WANTED) else {
            continue;
        };
        let columns = Columns::of(&table);
        for (line, cells) in table.a_line_each() {
            let Ok(cells) = cells else { continue };
            if let Ok(race) = race_name(&cells, columns) {
                meetings.learn(&race);
            }
            if let Ok(horse) = Horse::read(&cells, columns, &file.at(line)) {
                horses.learn(horse);
            }
        }
    }
    meetings.number();
    (meetings, horses)
}

struct Races {
    columns: Option<Columns>,
    meetings: Meetings,
    horses: Horses,
    /// The race whose rows are being read: they stand together.
    open: Option<(RaceName, RaceRows)>,
    said: Said,
    left_out: Option<LeftOut>,
}

/// Prizes in another currency than that of their horse's stakes.
struct LeftOut {
    first: Location,
    count: u64,
}

impl ReadRows for Races {
    const WANTED: &'static [&'static str] = Columns::WANTED;

    fn begin(&mut self, table: Table) -> Table {
        self.columns = Some(Columns::of(&table));
        table.a_line_each()
    }

    fn row(&mut self, cells: &Cells, place: &Location, said: &mut Vec<Item>) -> Result<(), String> {
        let columns = self.columns.expect("a file began");
        let race = race_name(cells, columns)?;
        let heading = self.heading(cells, columns, &race)?;
        let runner = self.runner(cells, columns, place)?;
        if self.open.as_ref().is_none_or(|(open, _)| *open != race) {
            let number = self.meetings.number_of(&race);
            let key = RaceKey {
                date: race.date,
                venue: race.venue.clone(),
                race_number: number.map_err(|error| error.to_string())?,
            };
            self.end(said);
            let rows = RaceRows::new(key, heading.clone(), place.clone());
            self.open = Some((race, rows));
        }
        match &mut self.open {
            Some((_, rows)) => rows.add(&heading, runner, place, said),
            None => Ok(()),
        }
    }

    fn end(&mut self, said: &mut Vec<Item>) {
        if let Some((race, rows)) = self.open.take() {
            self.said.say(FORMAT, midnight(race.date), rows, said);
        }
    }

    fn finish(&mut self, said: &mut Vec<Item>) {
        self.horses.registered(said);
        if let Some(LeftOut { first, count }) = self.left_out.take() {
            said.push(first.note(format!(
                "{count} prizes, this one first, are left out: most of what their horses won is in another currency"
            )));
        }
    }
}

impl Races {
    fn heading(&self, cells: &Cells, columns: Columns, race: &RaceName) -> Result<Heading, String> {
        let going = cells.text("going")?;
        let zone = zone(cells.text("region")?.as_str());
        Ok(Heading {
            venue_name: Some(cells.text("course")?),
            race_name: cells.text(columns.race_name)?,
            distance: Columns::distance(cells)?,
            class: class(cells)?,
            going: (!going.is_empty()).then_some(going),
            off_time: zone.and_then(|zone| self.meetings.off_time(race, &zone)),
        })
    }

    fn runner(
        &mut self,
        cells: &Cells,
        columns: Columns,
        place: &Location,
    ) -> Result<Runner, String> {
        let horse = Horse::read(cells, columns, place)?;
        let placing = cells.parsed("pos", placing)?;
        let stakes_in = self.horses.currency(&horse.horse_no);
        Ok(Runner {
            number: cells.optional("num", number)?.unwrap_or(0),
            placing,
            jockey: cells.text("jockey")?,
            trainer: horse.trainer,
            draw: cells.whole("draw")?.unwrap_or(0),
            weight: Columns::weight(cells)?,
            finish_time: columns.finish_time(cells)?,
            win_odds: Columns::win_odds(cells)?,
            stakes: match horse.prize {
                Some(prize) if prize.currency == stakes_in => Some(prize.amount),
                Some(_) => {
                    self.leave_out(place);
                    None
                }
                None => None,
            },
            horse_no: horse.horse_no,
            horse_name: horse.horse_name,
        })
    }

    fn leave_out(&mut self, place: &Location) {
        let first = || LeftOut {
            first: place.clone(),
            count: 0,
        };
        self.left_out.get_or_insert_with(first).count += 1;
    }
}

fn race_name(cells: &Cells, columns: Columns) -> Result<RaceName, String> {
    let race_id = cells.whole::<u64>("race_id")?.unwrap_or(0);
    let race_name = match race_id {
        0 => cells.text(columns.race_name)?.to_string(),
        _ => String::new(),
    };
    Ok(RaceName {
        date: cells.parsed("date", date)?,
        venue: cells.parsed("course", names::venue_code)?,
        slot: Slot {
            off: cells.parsed(columns.off, Off::parse)?,
            race_id,
            race_name,
        },
    })
}

/// `2020-06-03`, or `3 Jun 2020` in the oldest files.
fn date(text: &str) -> Result<RacingDate, ParseError> {
    let date = strtime::parse("%d %b %Y", text).and_then(|parsed| parsed.to_date());
    match date {
        Ok(date) if date >= FIRST_DATE => Ok(date.into()),
        _ => RacingDate::parse(text),
    }
}

/// The tool knows no races before 1987.
const FIRST_DATE: Date = Date::constant(1987, 1, 1);

/// A number, or a code of the tool's source. Where this service has another code for the same, that one is taken.
fn placing(text: &str) -> Result<Placing, ParseError> {
    const CODES: [(&str, &str); 3] = [("F", "FE"), ("DSQ", "DISQ"), ("VOI", "VOID")];
    let text = text.trim().to_uppercase();
    match CODES.iter().find(|(code, _)| *code == text) {
        Some((_, code)) => Outcome::parse(code).map(Placing::Without),
        None => Placing::parse(&text),
    }
}

/// A saddle-cloth number. Runners that are coupled in the betting share one: `1A`.
fn number(text: &str) -> Result<u16, ParseError> {
    let digits = text.trim_end_matches(".0");
    let digits = digits.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    digits
        .parse()
        .map_err(|_| ParseError::new("a saddle-cloth number", text))
}

/// The class and the pattern of a race: `Class 1, Group 2`.
fn class(cells: &Cells) -> Result<Text, String> {
    let (class, pattern) = (cells.text("class")?, cells.text("pattern")?);
    // What the oldest files say for a race without a class.
    let class = Some(class.as_str()).filter(|class| *class != "not found");
    let said = class.into_iter().chain([pattern.as_str()]);
    let said: Vec<&str> = said.filter(|text| !text.is_empty()).collect();
    Text::parse(&said.join(", ")).map_err(|error| format!("class: {error}"))
}

/// The zone of the clock in a region. In others the tool's source has the clock of either, so nothing is made of it.
fn zone(region: &str) -> Option<TimeZone> {
    let name = match region.to_uppercase().as_str() {
        "GB" => "Europe/London",
        "IRE" => "Europe/Dublin",
        _ => return None,
    };
    TimeZone::get(name).ok()
}
