//! Horse profiles in Chinese, CSV with a row for each horse.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::Arc;

use events::{
    Career, Event, HorseNo, HorseRegistered, ParseError, RacingDate, ResultDeclared, ResultRunner,
    Subject, Text,
};

use super::brand::name_and_brand;
use super::hong_kong;
use super::horse_ids::HorseIds;
use super::zh_results::results;
use super::zh_words::{Translator, chinese};
use crate::input::cells::Cells;
use crate::input::files;
use crate::input::repeats::Repeats;
use crate::input::rows::{ReadRows, rows};
use crate::item::{Item, Items, LineItems, Result};
use crate::units::money;

const FORMAT: &str = "hkjc-zh-horses";

/// Reads horse profiles in Chinese: a registration for each, with its career.
///
/// `ids` are JSON files of results or cards that map brands to horses. `results_in_log` are the results in
/// Chinese that the log has: the careers of the file include them, and those of the log must not.
pub fn hkjc_zh_horses(paths: &[PathBuf], ids: &[PathBuf], results_in_log: &[PathBuf]) -> Items {
    let ids = ids.to_vec();
    let results_in_log = results_in_log.to_vec();
    files::import(paths, &["csv"], move |files| {
        let (ids, mut items) = HorseIds::read(&ids);
        let ids = Arc::new(ids);
        let horses = ZhHorses {
            records: race_records(&results_in_log, &ids, &mut items),
            ids,
            translator: Translator::default(),
            repeats: Repeats::default(),
        };
        items.into_iter().chain(rows(files, horses))
    })
}

/// The races of a horse in the log.
#[derive(Debug, Clone, Default)]
struct RaceRecord {
    career: Career,
    last_race: Option<RacingDate>,
    /// That of the last race.
    trainer: Text,
}

/// Counts the races in the log, each once: the later of two results of a race applies, as in the log.
fn race_records(
    paths: &[PathBuf],
    ids: &Arc<HorseIds>,
    out: &mut Vec<Item>,
) -> HashMap<HorseNo, RaceRecord> {
    let mut races: HashMap<Subject, ResultDeclared> = HashMap::new();
    for item in results(paths, Arc::clone(ids)) {
        match item {
            Item::Event(envelope) => {
                let subject = envelope.event.subject();
                if let Event::ResultDeclared(result) = envelope.event {
                    races.insert(subject, result);
                }
            }
            Item::Rejected(_) => out.push(item),
            // The import of these files has printed the notes, and counted what has no place.
            Item::Note(_) | Item::Omitted(_) => {}
        }
    }
    let mut records: HashMap<HorseNo, RaceRecord> = HashMap::new();
    for race in races.into_values() {
        for runner in race.runners {
            let record = records.entry(runner.horse_no.clone()).or_default();
            record.add(race.date, runner);
        }
    }
    records
}

impl RaceRecord {
    fn add(&mut self, day: RacingDate, runner: ResultRunner) {
        let is_start = runner.outcome.is_none_or(|outcome| outcome.is_start());
        self.career.starts += u32::from(is_start);
        self.career.wins += u32::from(runner.position == Some(1));
        self.career.places += u32::from(matches!(runner.position, Some(2 | 3)));
        if self.last_race.is_none_or(|last| last < day) {
            (self.last_race, self.trainer) = (Some(day), runner.trainer);
        }
    }
}

struct ZhHorses {
    ids: Arc<HorseIds>,
    records: HashMap<HorseNo, RaceRecord>,
    translator: Translator,
    repeats: Repeats,
}

/// The columns of horses that have retired, and those of horses in training.
const COUNTRY: [&str; 2] = ["出生地", "出生地___馬齡"];
const STAKES: [&str; 2] = ["總獎金", "總獎金*"];
const RECORD: [&str; 2] = ["冠-亞-季-總出賽次數", "冠-亞-季-總出賽次數*"];

impl ReadRows for ZhHorses {
    const REQUIRED: &'static [&'static str] = &["name", "出生地", "毛色___性別", "馬主"];

    fn row(&mut self, cells: &Cells, out: &mut LineItems) -> Result<()> {
        let as_of = cells.optional("profile_last_scraped", RacingDate::parse)?;
        let horse = Event::HorseRegistered(self.horse(cells, as_of, out)?);
        self.translator.note(out);
        let item = out.location.event(FORMAT, hong_kong::time(as_of), horse);
        let is_repeated = matches!(&item, Item::Event(event) if self.repeats.is_last(event));
        if !is_repeated {
            self.repeats.push("horse", item, out);
        }
        Ok(())
    }
}

impl ZhHorses {
    fn horse(
        &mut self,
        cells: &Cells,
        as_of: Option<RacingDate>,
        out: &mut LineItems,
    ) -> Result<HorseRegistered> {
        let (name, brand) = cells.parsed("name", name_brand_and_status)?;
        let last_race = cells.optional("last_race_date", RacingDate::parse)?;
        let last_race = last_race.or(as_of);
        let names = chinese(&name);
        let (horse_no, horse_name) = self.ids.horse_on(&brand, name, last_race, out)?;
        // A horse in training has its age behind the country.
        let country = cells.first(&COUNTRY, Text::parse)?.unwrap_or_default();
        let country = country.as_str();
        let (country, age) = country.split_once('/').unwrap_or((country, ""));
        let age: Option<u8> = age.trim().parse().ok();
        let looks = cells.text("毛色___性別")?;
        let (colour, sex) = looks.as_str().rsplit_once(" / ").unwrap_or(("", ""));
        let translator = &mut self.translator;
        let record = self.records.get(&horse_no);
        let trainer = record.map(|r| r.trainer.clone()).unwrap_or_default();
        let owner = cells.text("馬主")?;
        Ok(HorseRegistered {
            horse_name,
            names,
            country_of_origin: translator.country(country)?,
            colour: translator.colour(colour)?,
            sex: translator.sex(sex)?,
            age: age.filter(|_| as_of.is_some()),
            age_as_of: as_of.filter(|_| age.is_some()),
            trainer_names: chinese(&trainer),
            trainer,
            owner_names: chinese(&owner),
            owner,
            stakes_currency: Text::parse(hong_kong::currency().as_str()).ok(),
            career: career(cells, record, out)?,
            ..HorseRegistered::of(horse_no)
        })
    }
}

/// The career before the first race in the log. Results in Chinese have no stakes, so the stakes are those of the file.
fn career(cells: &Cells, log: Option<&RaceRecord>, out: &mut LineItems) -> Result<Option<Career>> {
    let Some((record, counts)) = cells.first(&RECORD, counts)? else {
        return Ok(None);
    };
    let [wins, seconds, thirds, starts] = counts;
    let stakes = cells.first(&STAKES, money)?;
    let in_log = log.map(|record| record.career).unwrap_or_default();
    let before = || {
        Some(Career {
            starts: starts.checked_sub(in_log.starts)?,
            wins: wins.checked_sub(in_log.wins)?,
            places: seconds.checked_add(thirds)?.checked_sub(in_log.places)?,
            total_stakes: stakes.map_or(0, |(amount, _)| amount),
        })
    };
    let career = before();
    if career.is_none() {
        let more = format!("the results have more races than the record {record}");
        out.note(format!("{more}: the career is omitted"));
    }
    Ok(career)
}

/// A record and its numbers.
fn counts(text: &str) -> Result<(String, [u32; 4]), ParseError> {
    let counts: Option<Vec<u32>> = text.split('-').map(|count| count.parse().ok()).collect();
    let counts = counts.and_then(|counts| counts.try_into().ok());
    let counts =
        counts.ok_or_else(|| ParseError::new("a record is wins-seconds-thirds-starts", text))?;
    Ok((text.to_owned(), counts))
}

/// `福星 (A001) (已退役)`: a status may follow the brand.
fn name_brand_and_status(text: &str) -> Result<(Text, String), ParseError> {
    let status = text.rfind("(已").or_else(|| text.rfind("（已"));
    name_and_brand(status.map_or(text, |at| text[..at].trim_end()))
}

#[cfg(test)]
mod tests {
    use events::Career;

    use super::hkjc_zh_horses;
    use crate::testing::{Imported, check_starts, folder_of};

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

    fn read(text: &str, with_results: bool) -> Imported {
        let horses = format!("{HEADER}{text}");
        let (_folder, paths) = folder_of(&[
            ("horses.csv", horses.as_bytes()),
            ("ids.json", IDS.as_bytes()),
            ("results.csv", RESULTS.as_bytes()),
        ]);
        let results = if with_results { &paths[2..] } else { &[] };
        Imported::all(hkjc_zh_horses(&paths[..1], &paths[1..2], results))
    }

    #[test]
    fn a_row_becomes_a_horse_with_its_career() {
        let text = row(
            "靜河 (A001) (已退役)",
            "深棗／棕 / 閹",
            "$493,000",
            "2-1-1-15",
        );
        let Imported {
            horses,
            rejected,
            notes,
            ..
        } = read(&text, false);
        assert_eq!((rejected, notes), (vec![], vec![]));
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
        let names = serde_json::to_value([&horse.names, &horse.owner_names, &horse.trainer_names]);
        let expected = serde_json::json!([{ "zh-Hant": "靜河" }, { "zh-Hant": "馬主甲" }, {}]);
        assert_eq!(names.expect("JSON"), expected);
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
        let Imported {
            horses, rejected, ..
        } = read(text, false);
        assert_eq!(rejected, Vec::<String>::new());
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
    fn invalid_rows_are_rejected_and_odd_values_are_noted() {
        let text = [
            row("靜河", "棗 / 閹", "$1", "0-0-0-1"),
            row("靜河 (A001)", "棗 / 閹", "much", "0-0-0-1"),
            row("靜河 (A001)", "棗 / 閹", "$1", "0-0-1"),
            row("靜河 (A001)", "紫 / 龍", "$1", "0-0-0-1"),
            row("靜河 (A001)", "棗 / 閹", "$1", "5-5-5-20"),
            row("靜河 (A001)", "棗 / 閹", "$1", "5-5-5-20"),
        ];
        let Imported {
            horses,
            rejected,
            notes,
            ..
        } = read(&text.concat(), true);
        check_starts(
            &rejected,
            &[
                "3: name: ",
                "4: 總獎金: ",
                "5: 冠-亞-季-總出賽次數: a record",
            ],
        );
        assert_eq!(
            notes,
            [
                "6: the results have more races than the record 0-0-0-1: the career is omitted",
                "6: no English word is known for colour 紫, sex 龍",
                "7: this horse was read before with different values: the later ones are kept",
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
