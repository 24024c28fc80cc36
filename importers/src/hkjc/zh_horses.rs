//! Horse profiles of the Hong Kong Jockey Club in Chinese, CSV with a row a horse.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::Arc;

use events::{
    Career, Event, HorseNo, HorseRegistered, ParseError, RaceKey, RacingDate, ResultDeclared,
    ResultRunner, Text,
};
use jiff::Timestamp;

use crate::hkjc::json;
use crate::hkjc::zh_results::results;
use crate::hkjc::zh_words::Words;
use crate::ids::Ids;
use crate::input::cells::Cells;
use crate::input::files::{self, Kind};
use crate::input::rows::{ReadRows, rows};
use crate::names::name_and_brand;
use crate::units::money;
use crate::{Item, Items, Location, hong_kong, sealed};

const FORMAT: &str = "hkjc-zh-horses";
const CURRENCY: &str = "HKD";

/// Reads horse profiles in Chinese: a registration for each, with its career.
///
/// `ids` are JSON files of results or cards that say which horse a brand means. `results_in_log` are the results in Chinese
/// that the log has: a career in the file includes them, and one in the log must not.
#[must_use]
pub fn hkjc_zh_horses(paths: &[PathBuf], ids: &[PathBuf], results_in_log: &[PathBuf]) -> Items {
    let found = files::find(paths, &[Kind::Csv]);
    let id_files = files::find(ids, &[Kind::Json]);
    let (files, id_paths) = (found.of(Kind::Csv), id_files.of(Kind::Json));
    let results_in_log = results_in_log.to_vec();
    let said = found.said.into_iter().chain(id_files.said);
    let horses = std::iter::once_with(move || {
        let mut ids = Ids::default();
        let mut said = json::learn(&id_paths, &mut ids, |_| {});
        let ids = Arc::new(ids);
        let raced = raced(&results_in_log, &ids, &mut said);
        let horses = Horses {
            ids,
            raced,
            words: Words::default(),
            seen: HashMap::new(),
        };
        said.into_iter().chain(rows(files, horses))
    });
    Box::new(said.chain(horses.flatten()))
}

/// What the races in the log tell of a horse.
#[derive(Debug, Clone, Default)]
struct Raced {
    career: Career,
    last: Option<RacingDate>,
    trainer: Text,
}

/// Counts the races in the log, each once: of two statements of a race the later stands, as in the log.
fn raced(paths: &[PathBuf], ids: &Arc<Ids>, said: &mut Vec<Item>) -> HashMap<HorseNo, Raced> {
    let mut races: HashMap<RaceKey, ResultDeclared> = HashMap::new();
    for item in results(paths, Arc::clone(ids)) {
        match item {
            Item::Event(envelope) => {
                if let Event::ResultDeclared(result) = envelope.event {
                    let key = RaceKey {
                        date: result.date,
                        venue: result.venue.clone(),
                        race_number: result.race_number,
                    };
                    races.insert(key, result);
                }
            }
            Item::Refused(_) => said.push(item),
            // These files were imported before, and the notes said then.
            Item::Note(_) => {}
        }
    }
    let mut horses: HashMap<HorseNo, Raced> = HashMap::new();
    for race in races.into_values() {
        for runner in race.runners {
            let horse = horses.entry(runner.horse_no.clone()).or_default();
            horse.add(race.date, runner);
        }
    }
    horses
}

impl Raced {
    fn add(&mut self, day: RacingDate, runner: ResultRunner) {
        let is_start = runner.outcome.is_none_or(|outcome| outcome.is_start());
        self.career.starts += u32::from(is_start);
        self.career.wins += u32::from(runner.position == Some(1));
        self.career.places += u32::from(matches!(runner.position, Some(2 | 3)));
        if self.last.is_none_or(|last| last < day) {
            (self.last, self.trainer) = (Some(day), runner.trainer);
        }
    }
}

struct Horses {
    ids: Arc<Ids>,
    raced: HashMap<HorseNo, Raced>,
    words: Words,
    /// The events said in this call: a horse that stands twice with different words is worth a note.
    seen: HashMap<HorseNo, String>,
}

/// The columns of horses that have retired, and those of horses in training.
const COUNTRY: [&str; 2] = ["出生地", "出生地___馬齡"];
const STAKES: [&str; 2] = ["總獎金", "總獎金*"];
const RECORD: [&str; 2] = ["冠-亞-季-總出賽次數", "冠-亞-季-總出賽次數*"];

impl ReadRows for Horses {
    const WANTED: &'static [&'static str] = &["name", "出生地", "毛色___性別", "馬主"];

    fn row(&mut self, cells: &Cells, place: &Location, said: &mut Vec<Item>) -> Result<(), String> {
        let as_of = cells.optional("profile_last_scraped", RacingDate::parse)?;
        let horse = self.horse(cells, as_of, place, said)?;
        said.extend(self.words.note().map(|words| place.note(words)));
        let at = match as_of {
            Some(day) => hong_kong(day, 0, 0).map_err(|error| error.to_string())?,
            // A fixed time keeps the identity of an event the same from run to run.
            None => Timestamp::UNIX_EPOCH.into(),
        };
        let horse_no = horse.horse_no.clone();
        let item = sealed(FORMAT, at, Event::HorseRegistered(horse), place);
        if let Item::Event(envelope) = &item {
            let earlier = self.seen.insert(horse_no, envelope.id.clone());
            match earlier {
                Some(earlier) if earlier == envelope.id => return Ok(()),
                Some(_) => said
                    .push(place.note("this horse was read before with other words: these stand")),
                None => {}
            }
        }
        said.push(item);
        Ok(())
    }

    fn end(&mut self, _said: &mut Vec<Item>) {}
}

impl Horses {
    fn horse(
        &mut self,
        cells: &Cells,
        as_of: Option<RacingDate>,
        place: &Location,
        said: &mut Vec<Item>,
    ) -> Result<HorseRegistered, String> {
        let (name, brand) = cells.parsed("name", name_brand_and_status)?;
        let last_race = cells.optional("last_race_date", RacingDate::parse)?;
        let last_race = last_race.or(as_of);
        let (horse_no, horse_name) = self.ids.horse_on(&brand, name, last_race, place, said)?;
        // A horse in training has its age behind the country.
        let country = either(cells, COUNTRY)?;
        let (country, age) = country
            .as_str()
            .split_once('/')
            .unwrap_or((country.as_str(), ""));
        let age: Option<u8> = age.trim().parse().ok();
        let looks = cells.text("毛色___性別")?;
        let (colour, sex) = looks.as_str().rsplit_once(" / ").unwrap_or(("", ""));
        let wrong = |error: ParseError| error.to_string();
        let words = &mut self.words;
        let raced = self.raced.get(&horse_no);
        Ok(HorseRegistered {
            horse_name,
            country_of_origin: words.country(country).map_err(wrong)?,
            colour: words.colour(colour).map_err(wrong)?,
            sex: words.sex(sex).map_err(wrong)?,
            foaled: None,
            age: age.filter(|_| as_of.is_some()),
            age_as_of: as_of.filter(|_| age.is_some()),
            trainer: raced.map(|r| r.trainer.clone()).unwrap_or_default(),
            owner: cells.text("馬主")?,
            stakes_currency: Text::parse(CURRENCY).ok(),
            career: career(cells, raced, place, said)?,
            horse_no,
        })
    }
}

/// The career before the first race in the log. Results in Chinese tell no stakes, so those are the file's.
fn career(
    cells: &Cells,
    raced: Option<&Raced>,
    place: &Location,
    said: &mut Vec<Item>,
) -> Result<Option<Career>, String> {
    let record = either(cells, RECORD)?;
    let stakes = either(cells, STAKES)?;
    if record.is_empty() {
        return Ok(None);
    }
    let stakes = match stakes.as_str() {
        "" => 0,
        text => {
            money(text)
                .map_err(|error| format!("{}: {error}", STAKES[0]))?
                .0
        }
    };
    let [wins, seconds, thirds, starts] = record_of(record.as_str())
        .ok_or_else(|| ParseError::new("a record is wins-seconds-thirds-starts", &record))
        .map_err(|error| format!("{}: {error}", RECORD[0]))?;
    let in_log = raced.map(|raced| raced.career).unwrap_or_default();
    let before = || {
        Some(Career {
            starts: starts.checked_sub(in_log.starts)?,
            wins: wins.checked_sub(in_log.wins)?,
            places: seconds.checked_add(thirds)?.checked_sub(in_log.places)?,
            total_stakes: stakes,
        })
    };
    let career = before();
    if career.is_none() {
        said.push(place.note(format!(
            "the results tell of more than the record {record}: the career is left out"
        )));
    }
    Ok(career)
}

fn record_of(text: &str) -> Option<[u32; 4]> {
    let counts: Option<Vec<u32>> = text.split('-').map(|count| count.parse().ok()).collect();
    counts?.try_into().ok()
}

/// The first of two columns that says anything.
fn either(cells: &Cells, [first, second]: [&str; 2]) -> Result<Text, String> {
    let text = cells.text(first)?;
    match text.is_empty() {
        true => cells.text(second),
        false => Ok(text),
    }
}

/// `福星 (A001) (已退役)`: behind the brand may stand what became of the horse.
fn name_brand_and_status(text: &str) -> Result<(Text, String), ParseError> {
    let status = text.rfind("(已").or_else(|| text.rfind("（已"));
    name_and_brand(status.map_or(text, |at| text[..at].trim_end()))
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::PathBuf;

    use events::Career;

    use super::hkjc_zh_horses;
    use crate::testing::Read;

    const HEADER: &str = "\u{feff}horse_no,name,last_race_date,status,profile_last_scraped,出生地,毛色___性別,總獎金,\
        冠-亞-季-總出賽次數,馬主,出生地___馬齡,總獎金*,冠-亞-季-總出賽次數*,\"最近十個賽馬日\n出賽場數\"\n";

    const IDS: &str = r#"[{"date": "2017-01-01", "racecourse": "ST", "raceNo": 1, "runners": [
        {"horseId": "HK_2016_A001", "brandNo": "A001", "horseName": "QUIET RIVER"}]}]"#;

    const RESULTS: &str = "date,venue,race_no,race_name,place,horse_no,horse_name,jockey,trainer,finish_time,win_odds\n\
        2017-02-02,沙田,1,燈籠讓賽,1,4,靜河 (A001),騎師,甲練馬師,1:09.35,9.4\n\
        2017-02-09,沙田,1,燈籠讓賽,2,4,靜河 (A001),騎師,乙練馬師,1:09.35,9.4\n\
        2017-02-16,沙田,1,燈籠讓賽,PU,4,靜河 (A001),騎師,丙練馬師,---,9.4\n\
        2017-02-23,沙田,1,燈籠讓賽,WV,4,靜河 (A001),騎師,丁練馬師,---,---\n";

    fn row(horse: &str, looks: &str, stakes: &str, record: &str) -> String {
        format!(
            "A001,{horse},2018-01-01,retired,2026-04-19,澳洲,{looks},\"{stakes}\",{record},馬主甲,,,,\n"
        )
    }

    fn read(text: &str, with_results: bool) -> Read {
        let folder = tempfile::tempdir().expect("a folder");
        let write = |name: &str, text: &str| -> PathBuf {
            let path = folder.path().join(name);
            fs::write(&path, text).expect("a file");
            path
        };
        let horses = write("horses.csv", &format!("{HEADER}{text}"));
        let (ids, results) = (write("ids.json", IDS), write("results.csv", RESULTS));
        let results: &[PathBuf] = if with_results { &[results] } else { &[] };
        Read::all(hkjc_zh_horses(&[horses], &[ids], results))
    }

    #[test]
    fn a_row_is_a_horse_with_its_career() {
        let text = row(
            "靜河 (A001) (已退役)",
            "深棗／棕 / 閹",
            "$493,000",
            "2-1-1-15",
        );
        let Read {
            horses,
            refused,
            notes,
            ..
        } = read(&text, false);
        assert_eq!((refused, notes), (vec![], vec![]));
        let horse = &horses[0];
        assert_eq!(
            (horse.horse_no.as_str(), horse.horse_name.as_str()),
            ("HK_2016_A001", "QUIET RIVER")
        );
        assert_eq!(
            (
                horse.country_of_origin.as_str(),
                horse.colour.as_str(),
                horse.sex.as_str()
            ),
            ("AUS", "Dark Bay / Brown", "Gelding")
        );
        assert_eq!(
            (horse.owner.as_str(), horse.trainer.as_str(), horse.age),
            ("馬主甲", "", None)
        );
        let whole = Career {
            starts: 15,
            wins: 2,
            places: 2,
            total_stakes: 493_000,
        };
        assert_eq!(horse.career, Some(whole));
        let horses = read(&text, true).horses;
        let before = Career {
            starts: 12,
            wins: 1,
            places: 1,
            total_stakes: 493_000,
        };
        assert_eq!(
            horses[0].career,
            Some(before),
            "without the races in the log"
        );
        assert_eq!(
            horses[0].trainer.as_str(),
            "丁練馬師",
            "that of its last race"
        );
    }

    #[test]
    fn a_horse_in_training_has_its_figures_in_other_columns() {
        let text = "B001,新星 (B001),2026-04-26,active,2026-05-18,,棗 / 雄,,,,紐西蘭 / 3,\"$1,500\",1-0-0-2,1\n";
        let Read {
            horses, refused, ..
        } = read(text, false);
        assert_eq!(refused, Vec::<String>::new());
        let horse = &horses[0];
        assert_eq!(
            (horse.horse_no.as_str(), horse.horse_name.as_str()),
            ("B001", "新星")
        );
        assert_eq!(
            (horse.country_of_origin.as_str(), horse.age),
            ("NZ", Some(3))
        );
        assert_eq!(horse.age_as_of.expect("a day").to_string(), "2026-05-18");
        assert_eq!(horse.career.expect("a career").total_stakes, 1_500);
    }

    #[test]
    fn what_is_wrong_is_refused_and_what_is_odd_is_noted() {
        let text = [
            row("靜河", "棗 / 閹", "$1", "0-0-0-1"),
            row("靜河 (A001)", "棗 / 閹", "much", "0-0-0-1"),
            row("靜河 (A001)", "棗 / 閹", "$1", "0-0-1"),
            row("靜河 (A001)", "紫 / 龍", "$1", "0-0-0-1"),
            row("靜河 (A001)", "棗 / 閹", "$1", "5-5-5-20"),
            row("靜河 (A001)", "棗 / 閹", "$1", "5-5-5-20"),
        ];
        let Read {
            horses,
            refused,
            notes,
            ..
        } = read(&text.concat(), true);
        assert_eq!(refused.len(), 3, "{refused:?}");
        for (said, part) in refused.iter().zip([
            "3: name: ",
            "4: 總獎金: ",
            "5: 冠-亞-季-總出賽次數: a record",
        ]) {
            assert!(said.starts_with(part), "{said}");
        }
        assert_eq!(
            notes,
            [
                "6: the results tell of more than the record 0-0-0-1: the career is left out",
                "6: no English word is known for colour 紫, sex 龍",
                "7: this horse was read before with other words: these stand",
            ]
        );
        assert_eq!(horses.len(), 2, "the same row again changes nothing");
        assert_eq!(
            (horses[0].colour.as_str(), horses[0].sex.as_str()),
            ("紫", "龍")
        );
        assert_eq!((horses[0].career, horses[1].career.is_some()), (None, true));
    }
}
