//! Results of the Hong Kong Jockey Club in Chinese, CSV with a row a runner.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use events::{FinishTime, Odds, ParseError, RaceKey, RaceNumber, RacingDate};

use crate::hkjc::json::{self, venue_name};
use crate::hkjc::zh_words::{Words, venue};
use crate::ids::Ids;
use crate::input::cells::Cells;
use crate::input::files::{self, Kind};
use crate::input::race_rows::{Heading, RaceRows, Runner, Said};
use crate::input::rows::{ReadRows, rows};
use crate::names::name_and_brand;
use crate::placing::Placing;
use crate::{Item, Items, Location, hong_kong};

const FORMAT: &str = "hkjc-zh-results";

/// Reads results in Chinese: a result and a card for each race. The horses are those that `ids`, JSON of results or cards,
/// know by their brands; else the brand is the horse's number.
#[must_use]
pub fn hkjc_zh_results(paths: &[PathBuf], ids: &[PathBuf]) -> Items {
    let id_files = files::find(ids, &[Kind::Json]);
    let paths = paths.to_vec();
    let results = std::iter::once_with(move || {
        let mut ids = Ids::default();
        let said = json::learn(&id_files.of(Kind::Json), &mut ids, |_| {});
        let said = id_files.said.into_iter().chain(said);
        said.chain(results(&paths, Arc::new(ids)))
    });
    Box::new(results.flatten())
}

/// The same, with ids that have been learnt.
pub(crate) fn results(paths: &[PathBuf], ids: Arc<Ids>) -> Items {
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

    fn row(&mut self, cells: &Cells, place: &Location, said: &mut Vec<Item>) -> Result<(), String> {
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
        place: &Location,
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

#[cfg(test)]
mod tests {
    use std::fs;

    use super::hkjc_zh_results;
    use crate::testing::Read;

    const HEADER: &str = "\u{feff}date,venue,race_no,race_name,race_class,distance_m,going,course,prize_hkd,place,horse_no,\
        horse_name,jockey,trainer,actual_wt_lbs,draw,finish_time,win_odds\n";

    const IDS: &str = r#"[{"date": "2017-01-01", "racecourse": "ST", "raceNo": 1, "runners": [
        {"horseId": "HK_2016_A001", "brandNo": "A001", "horseName": "QUIET RIVER"}]}]"#;

    fn row(race: u16, place: &str, number: &str, horse: &str, rest: &str) -> String {
        format!(
            "2017-02-02,沙田,{race},燈籠讓賽,第四班,1200,快地,全天候跑道,630000,{place},{number},{horse},騎師,練馬師,{rest}\n"
        )
    }

    fn read(files: &[String]) -> Read {
        let folder = tempfile::tempdir().expect("a folder");
        let ids = folder.path().join("ids.json");
        fs::write(&ids, IDS).expect("a file");
        let mut paths = Vec::new();
        for (index, text) in files.iter().enumerate() {
            let path = folder.path().join(format!("{index}.csv"));
            fs::write(&path, text).expect("a file");
            paths.push(path);
        }
        Read::all(hkjc_zh_results(&paths, &[ids]))
    }

    #[test]
    fn rows_become_a_result_and_a_card_a_race() {
        let winner = row(1, "1 平頭馬", "4", "靜河 (A001)", "125,10,1:09.35,9.4");
        let text = [
            HEADER,
            &row(1, "WV", "", "遲鳥 (A003)", "118,---,---,---"),
            &row(1, "WV-A", "9", "晚鳥 (A004)", "119,---,---,---"),
            &winner,
            &row(1, "1 平頭馬", "5", "高浪 (CM401)", "120,11,1:09.35,12"),
            &row(2, "1", "1", "獨行 (V001)", "133,1,0:57.05,1.5"),
            &winner,
        ];
        let read = read(&[text.concat()]);
        assert_eq!((&read.refused, &read.notes), (&vec![], &vec![]));
        assert_eq!(
            (read.results.len(), read.cards.len()),
            (2, 2),
            "each race once"
        );
        let (result, card) = (&read.results[0], &read.cards[0]);
        assert_eq!(
            result.venue_name.as_ref().expect("a name").as_str(),
            "Sha Tin"
        );
        assert_eq!(result.going.as_ref().expect("a going").as_str(), "FAST");
        let shown = result.runners.iter().map(|r| {
            let outcome = r
                .outcome
                .as_ref()
                .map(ToString::to_string)
                .unwrap_or_default();
            (
                r.horse_no.as_str(),
                r.horse_name.as_str(),
                r.position,
                outcome,
            )
        });
        assert_eq!(
            shown.collect::<Vec<_>>(),
            [
                ("HK_2016_A001", "QUIET RIVER", Some(1), String::new()),
                ("CM401", "高浪", Some(1), String::new()),
                ("A003", "遲鳥", None, "WV".to_owned()),
                ("A004", "晚鳥", None, "WV-A".to_owned()),
            ]
        );
        assert_eq!((card.class.as_str(), card.distance), ("4", 1_200));
        let on_card = card.runners.iter().map(|r| (r.number, r.draw, r.weight));
        assert_eq!(
            on_card.collect::<Vec<_>>(),
            [(9, 0, 119), (4, 10, 125), (5, 11, 120)],
            "a reserve that was not called up is not on the card"
        );
    }

    #[test]
    fn a_bad_row_is_refused_with_its_line_and_the_rest_goes_in() {
        let good = row(1, "1", "4", "靜河 (A001)", "125,10,1:09.35,9.4");
        let text = [
            HEADER,
            &good,
            &good.replace("2017-02-02", "2017-02-30"),
            &good.replace("沙田", "火星"),
            &good.replace(",1,燈籠", ",01,燈籠"),
            &row(1, "第二", "5", "高浪 (M401)", "120,11,1:09.35,12"),
            &row(1, "2", "5", "高浪", "120,11,1:09.35,12"),
            &row(1, "2", "5", "高浪 (M401)", "120,11,69.35,12"),
            &row(1, "2", "5", "高浪 (M401)", "120,11,1:09.35,0.5"),
            &row(1, "2", "4", "靜河 (A001)", "125,10,1:09.35,9.4"),
            "2017-02-02,沙田\n",
        ];
        let read = read(&[text.concat()]);
        let parts = [
            "3: date: ",
            "4: venue: ",
            "5: race_no: ",
            "6: place: ",
            "7: horse_name: ",
            "8: finish_time: ",
            "9: win_odds: ",
            "10: HK_2016_A001 stands in 2017-02-02.ST.1 already, on line 2",
            "11: 2 columns",
        ];
        assert_eq!(read.refused.len(), parts.len(), "{:#?}", read.refused);
        for (said, part) in read.refused.iter().zip(parts) {
            assert!(said.starts_with(part), "{said}");
        }
        assert_eq!(read.results[0].runners.len(), 1);
    }

    #[test]
    fn a_word_without_an_english_one_is_kept_with_one_note() {
        let text = [
            HEADER,
            &row(1, "1", "4", "靜河 (A001)", "125,10,1:09.35,9.4"),
            &row(1, "2", "5", "高浪 (M401)", "120,11,1:09.36,12"),
        ];
        let read = read(&[text.concat().replace("快地", "沼澤")]);
        assert_eq!(read.notes, ["2: no English word is known for going 沼澤"]);
        assert_eq!(
            read.results[0].going.as_ref().expect("a going").as_str(),
            "沼澤"
        );
    }

    #[test]
    fn a_race_that_comes_again_is_the_same_or_a_note() {
        let one = [
            HEADER,
            &row(1, "1", "4", "靜河 (A001)", "125,10,1:09.35,9.4"),
        ]
        .concat();
        let other = one.replace("9.4", "9.5");
        let same = read(&[one.clone(), one.clone()]);
        assert_eq!((same.results.len(), same.notes.len()), (2, 0));
        assert_eq!(same.results[0], same.results[1]);
        let differing = read(&[one, other]);
        assert_eq!(
            differing.notes,
            ["2: this race was read before with other words: these stand"]
        );
    }
}
