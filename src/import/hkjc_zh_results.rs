//! Results of the Hong Kong Jockey Club in Chinese, CSV with a row a runner.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use events::{FinishTime, Odds, ParseError, RaceKey, RaceNumber, RacingDate};

use super::cells::Cells;
use super::files::{self, Kind};
use super::hkjc_json::{self, venue_name};
use super::hkjc_zh_words::{Words, venue};
use super::ids::Ids;
use super::names::name_and_brand;
use super::placing::Placing;
use super::race_rows::{Heading, RaceRows, Runner, Said};
use super::rows::{ReadRows, rows};
use super::{Item, Items, Place, hong_kong};

const FORMAT: &str = "hkjc-zh-results";

/// Reads results in Chinese: a result and a card for each race. The horses are those that `ids`, JSON of results or cards,
/// know by their brands; else the brand is the horse's number.
#[must_use]
pub fn hkjc_zh_results(paths: &[PathBuf], ids: &[PathBuf]) -> Items {
    let id_files = files::find(ids, &[Kind::Json]);
    let paths = paths.to_vec();
    let results = std::iter::once_with(move || {
        let mut ids = Ids::default();
        let said = hkjc_json::learn(&id_files.of(Kind::Json), &mut ids, |_| {});
        let said = id_files.said.into_iter().chain(said);
        said.chain(results(&paths, Arc::new(ids)))
    });
    Box::new(results.flatten())
}

/// The same, with ids that have been learnt.
pub(super) fn results(paths: &[PathBuf], ids: Arc<Ids>) -> Items {
    let found = files::find(paths, &[Kind::Csv]);
    let results = Results {
        ids,
        words: Words::default(),
        day: None,
        races: BTreeMap::new(),
        said: Said::default(),
    };
    let items = rows(found.of(Kind::Csv), results);
    Box::new(found.said.into_iter().chain(items))
}

struct Results {
    ids: Arc<Ids>,
    words: Words,
    /// The races of the day that is being read. In some files the rows of a race stand again behind those of the others.
    day: Option<RacingDate>,
    races: BTreeMap<RaceKey, RaceRows>,
    said: Said,
}

impl ReadRows for Results {
    const WANTED: &'static [&'static str] = &[
        "date",
        "venue",
        "race_no",
        "race_name",
        "place",
        "horse_name",
        "jockey",
        "trainer",
        "finish_time",
        "win_odds",
    ];

    fn row(&mut self, cells: &Cells, place: &Place, said: &mut Vec<Item>) -> Result<(), String> {
        let key = RaceKey {
            date: cells.parsed("date", RacingDate::parse)?,
            venue: cells.parsed("venue", venue)?,
            race_number: cells.parsed("race_no", RaceNumber::parse)?,
        };
        if self.day != Some(key.date) {
            self.end(said);
            self.day = Some(key.date);
        }
        let heading = self.heading(cells, &key)?;
        said.extend(self.words.note().map(|words| place.note(words)));
        let runner = self.runner(cells, key.date, place, said)?;
        let race = self
            .races
            .entry(key.clone())
            .or_insert_with(|| RaceRows::new(key, heading.clone(), place.clone()));
        race.add(&heading, runner, place, said)
    }

    /// Says the races of the day.
    fn end(&mut self, said: &mut Vec<Item>) {
        for (key, race) in std::mem::take(&mut self.races) {
            self.said.say(FORMAT, hong_kong(key.date, 0, 0), race, said);
        }
    }
}

impl Results {
    fn heading(&mut self, cells: &Cells, key: &RaceKey) -> Result<Heading, String> {
        let course = cells.text("course")?;
        let words = &mut self.words;
        let going = cells.parsed("going", |text| words.going(text, course.as_str()))?;
        let words = &mut self.words;
        Ok(Heading {
            venue_name: venue_name(&key.venue),
            race_name: cells.text("race_name")?,
            distance: cells.whole("distance_m")?.unwrap_or(0),
            class: cells.parsed("race_class", |text| words.class(text))?,
            going: (!going.is_empty()).then_some(going),
            off_time: None,
        })
    }

    fn runner(
        &self,
        cells: &Cells,
        day: RacingDate,
        place: &Place,
        said: &mut Vec<Item>,
    ) -> Result<Runner, String> {
        let (name, brand) = cells.parsed("horse_name", name_and_brand)?;
        let (horse_no, horse_name) = self.ids.horse_on(&brand, name, Some(day), place, said)?;
        Ok(Runner {
            horse_no,
            horse_name,
            number: cells.whole("horse_no")?.unwrap_or(0),
            placing: cells.parsed("place", placing)?,
            jockey: cells.text("jockey")?,
            trainer: cells.text("trainer")?,
            draw: cells.whole("draw")?.unwrap_or(0),
            weight: cells.whole("actual_wt_lbs")?.unwrap_or(0),
            finish_time: cells.optional("finish_time", FinishTime::parse)?,
            win_odds: cells.optional("win_odds", Odds::parse)?,
            stakes: None,
        })
    }
}

/// `3`, `3 平頭馬` (a dead heat), or a code such as `PU`.
fn placing(text: &str) -> Result<Placing, ParseError> {
    Placing::parse(&text.replace("平頭馬", "DH"))
}
