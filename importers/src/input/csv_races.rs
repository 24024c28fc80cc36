//! [`CsvRace`]: what the rows of CSV files say about a race, and the statement that they make alone.

use std::collections::BTreeMap;

use events::{
    Event, FinishTime, HorseNo, Odds, RUNNERS_MAX, RaceKey, ResultDeclared, ResultRunner,
    ResultStatus, Text,
};

use crate::hkjc::json::{REVISION, venue_name};
use crate::ids::Ids;
use crate::names::same_name;
use crate::placing::Placing;
use crate::{Item, Location, hong_kong, sealed};

/// Races in the order of their dates.
pub(crate) type Races = BTreeMap<RaceKey, CsvRace>;

/// What the rows of one race say.
#[derive(Debug)]
pub(crate) struct CsvRace {
    pub(crate) place: Location,
    pub(crate) heading: Heading,
    pub(crate) rows: Vec<CsvRow>,
}

/// What every row of a race says again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Heading {
    pub(crate) race_name: Option<Text>,
    pub(crate) distance: Option<u32>,
    pub(crate) going: Option<Text>,
}

/// A row: a runner.
#[derive(Debug)]
pub(crate) struct CsvRow {
    pub(crate) place: Location,
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
    /// Held back where it is wrong: it matters only where the JSON does not have the runner.
    pub(crate) figures: Result<Figures, String>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Figures {
    pub(crate) finish_time: Option<FinishTime>,
    pub(crate) win_odds: Option<Odds>,
}

/// Adds a row to its race. The first to say something stands; what stands in the files twice counts once.
pub(crate) fn add(
    races: &mut Races,
    key: RaceKey,
    heading: Heading,
    row: CsvRow,
    said: &mut Vec<Item>,
) {
    let shown = key.to_string();
    let race = races.entry(key).or_insert_with(|| CsvRace {
        place: row.place.clone(),
        heading: heading.clone(),
        rows: Vec::new(),
    });
    if race.heading != heading {
        let line = race.place.line;
        said.push(row.place.note(format!(
            "another name, distance or going of {shown} than line {line}: that one stands"
        )));
    }
    let full = race.rows.len() >= RUNNERS_MAX;
    match race
        .rows
        .iter_mut()
        .find(|r| r.runner.is_same_horse(&row.runner))
    {
        Some(earlier) => said.extend(said_twice(earlier, row, &shown)),
        None if full => said.push(
            row.place
                .refused(format!("{shown} has {RUNNERS_MAX} runners already")),
        ),
        None => race.rows.push(row),
    }
}

/// A horse that stands in its race twice: one row stands, and the other is refused unless it says the very same.
fn said_twice(earlier: &mut CsvRow, mut row: CsvRow, race: &str) -> Option<Item> {
    if earlier.runner == row.runner {
        return None;
    }
    if earlier.runner.figures.is_err() {
        std::mem::swap(earlier, &mut row);
    }
    let place = &row.place;
    Some(match row.runner.figures {
        Err(reason) => place.refused(reason),
        Ok(_) => {
            let line = earlier.place.line;
            place.refused(format!(
                "{} stands in {race} already, on line {line}, with other figures",
                row.runner.name
            ))
        }
    })
}

impl CsvRace {
    /// A statement made of the rows alone.
    pub(crate) fn statement(self, format: &str, key: &RaceKey, ids: &Ids) -> Vec<Item> {
        let mut said = Vec::new();
        let mut runners: Vec<ResultRunner> = Vec::new();
        for row in self.rows {
            let horse_no = row.horse_no(ids, &mut said);
            match horse_no.and_then(|horse_no| row.runner.result(horse_no)) {
                Err(reason) => said.push(row.place.refused(reason)),
                Ok(runner) if runners.iter().any(|r| r.horse_no == runner.horse_no) => {
                    said.push(
                        row.place
                            .refused(format!("{} stands in {key} twice", runner.horse_no)),
                    );
                }
                Ok(runner) => runners.push(runner),
            }
        }
        if runners.is_empty() {
            return said; // Each row has been refused.
        }
        // By placing, those without one last: the order in a file may be any.
        runners.sort_by_key(|runner| runner.position.unwrap_or(u16::MAX));
        let statement = ResultDeclared {
            date: key.date,
            venue: key.venue.clone(),
            race_number: key.race_number,
            venue_name: venue_name(&key.venue),
            race_name: self.heading.race_name,
            distance: self.heading.distance,
            going: self.heading.going,
            revision: REVISION,
            status: ResultStatus::Official,
            reason: None,
            runners,
        };
        said.push(match hong_kong(key.date, 0, 0) {
            Ok(midnight) => sealed(
                format,
                midnight,
                Event::ResultDeclared(statement),
                &self.place,
            ),
            Err(error) => self.place.refused(error),
        });
        said
    }
}

impl CsvRow {
    /// The horse's number: the one that the ids know for brand and name, else the brand.
    pub(crate) fn horse_no(&self, ids: &Ids, said: &mut Vec<Item>) -> Result<HorseNo, String> {
        let runner = &self.runner;
        ids.horse_no(&runner.brand, runner.name.as_str(), &self.place, said)
    }
}

impl CsvRunner {
    fn is_same_horse(&self, other: &Self) -> bool {
        self.brand == other.brand && same_name(self.name.as_str(), other.name.as_str())
    }

    pub(crate) fn result(self, horse_no: HorseNo) -> Result<ResultRunner, String> {
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
        })
    }
}
