//! Results from JSON and CSV together: one result for each race, in which the JSON takes precedence.

use std::collections::BTreeSet;
use std::path::PathBuf;

use events::{Event, Outcome, ResultRunner, Subject};

use super::brand::same_name;
use super::csv;
use super::csv_race::{CsvRace, CsvRaces, CsvRow};
use super::hong_kong::midnight;
use super::horse_ids::HorseIds;
use super::json::{JsonRace, race_key};
use crate::input::fields::Fields;
use crate::input::files;
use crate::input::json_array::{self, JsonElement};
use crate::input::repeats::Repeats;
use crate::item::{InputError, Item, Items, LineItems, Location};
use crate::placing::Placing;

const FORMAT: &str = "hkjc-results";

/// Reads results: JSON files, CSV files of the same meetings, or both.
///
/// If both have a race the JSON takes precedence, and the CSV adds what the JSON lacks: the name of the race and the
/// runners without a placing. A race that only the CSV has is made of its rows.
#[must_use]
pub fn hkjc_results(paths: &[PathBuf]) -> Items {
    files::import(paths, &["json", "csv"], |paths| {
        let (json, csv): (Vec<_>, Vec<_>) = paths
            .into_iter()
            .partition(|path| files::has_extension(path, "json"));
        let (mut join, items) = ResultsJoin::new(json, &csv);
        let races = std::iter::from_fn(move || join.step());
        items.into_iter().chain(races.flatten())
    })
}

/// The JSON race by race. The CSV is held whole, by race.
struct ResultsJoin {
    races: Box<dyn Iterator<Item = JsonElement> + Send>,
    ids: HorseIds,
    /// The rows of races that the JSON has too.
    joined: CsvRaces,
    /// Races that only the CSV has, and that have not been returned yet.
    csv_only: CsvRaces,
    repeats: Repeats,
}

impl ResultsJoin {
    fn new(json: Vec<PathBuf>, csv: &[PathBuf]) -> (Self, Vec<Item>) {
        let (races, items) = csv::read(csv);
        let (mut ids, mut keys) = (HorseIds::default(), BTreeSet::new());
        if !races.is_empty() {
            // Races that cannot be read are rejected by the second reading.
            let elements = json_array::elements(json.clone());
            for race in elements.filter_map(|(_, race)| race.ok()) {
                ids.add(&race);
                keys.extend(race_key(&Fields::root(&race)).ok());
            }
        }
        let (joined, csv_only) = races.into_iter().partition(|(key, _)| keys.contains(key));
        let join = Self {
            races: Box::new(json_array::elements(json)),
            ids,
            joined,
            csv_only,
            repeats: Repeats::default(),
        };
        (join, items)
    }

    /// Reads one more race.
    fn step(&mut self) -> Option<Vec<Item>> {
        let Some((location, race)) = self.races.next() else {
            return self.rest();
        };
        let race = race.and_then(|race| JsonRace::read(&race));
        Some(match race {
            Ok(race) => self.race(race, location),
            Err(reason) => vec![location.rejected(reason)],
        })
    }

    fn race(&mut self, mut race: JsonRace, location: Location) -> Vec<Item> {
        let mut out = LineItems::new(location);
        // The races of the CSV are returned by date.
        while let Some(first) = self.csv_only.first_entry()
            && *first.key() < race.key
        {
            let (key, race) = first.remove_entry();
            out.items.extend(race.result(FORMAT, key, &self.ids));
        }
        if let Some(csv) = self.joined.get(&race.key) {
            race.add(csv, &self.ids, &mut out.items);
        }
        let (time, result) = (midnight(race.key.date), Event::ResultDeclared(race.result));
        let item = out.location.event(FORMAT, time, result);
        self.repeats.push("race", item, &mut out);
        out.items
    }

    /// Returns what remains of the CSV behind the JSON, race by race.
    fn rest(&mut self) -> Option<Vec<Item>> {
        if let Some((key, race)) = self.csv_only.pop_first() {
            return Some(race.result(FORMAT, key, &self.ids));
        }
        let (key, race) = self.joined.pop_first()?;
        let rows = race.rows.len();
        let reason =
            format!("{rows} rows of {key} are not used: the JSON of this race was rejected");
        let is_imported = self.repeats.contains(&Subject::Result(key));
        let rejected = (!is_imported).then(|| race.location.rejected(reason));
        Some(rejected.into_iter().collect())
    }
}

impl JsonRace {
    /// Adds what only the CSV has.
    fn add(&mut self, csv: &CsvRace, ids: &HorseIds, items: &mut Vec<Item>) {
        let race = &mut self.result;
        let of_csv = csv.heading.clone().result(self.key.clone(), Vec::new());
        race.race_name = race.race_name.take().or(of_csv.race_name);
        race.distance = race.distance.or(of_csv.distance);
        race.going = race.going.take().or(of_csv.going);
        // Rows are matched with the runners of the JSON, and not with those that rows have added.
        let count = race.runners.len();
        for row in &csv.rows {
            let mut out = LineItems::new(row.location.clone());
            if let Some(index) = self.index(row, count) {
                amend(&mut self.result.runners[index], row, &mut out);
            } else if let Err(reason) = self.append(row, ids, &mut out) {
                out.items.clear();
                out.reject(reason);
            }
            items.extend(out.items);
        }
    }

    /// The runner that a row is about: by brand, else by name, which is unique within a race.
    fn index(&self, row: &CsvRow, count: usize) -> Option<usize> {
        let has_brand = |brands: &BTreeSet<String>| brands.contains(&row.runner.brand);
        let name = row.runner.name.as_str();
        let has_name = |r: &ResultRunner| same_name(r.horse_name.as_str(), name);
        let by_brand = self.brands.iter().position(has_brand);
        by_brand.or_else(|| self.result.runners[..count].iter().position(has_name))
    }

    /// Adds a runner that the JSON does not have, usually one without a placing.
    fn append(
        &mut self,
        row: &CsvRow,
        ids: &HorseIds,
        out: &mut LineItems,
    ) -> Result<(), InputError> {
        let runner = row.runner.clone().result(ids, out)?;
        let runners = &mut self.result.runners;
        if runners.iter().any(|r| r.horse_no == runner.horse_no) {
            return Err(format!("{} is already in this race", runner.horse_no).into());
        }
        if let Placing::At {
            position,
            dead_heat,
        } = row.runner.placing
        {
            let name = &row.runner.name;
            if !dead_heat && runners.iter().any(|r| r.position == Some(position)) {
                let other = format!("the JSON, which has another runner in position {position}");
                return Err(format!("{name} is not in {other}").into());
            }
            out.note(format!("{name} is not in the JSON: added"));
        }
        runners.push(runner);
        Ok(())
    }
}

/// Compares a row with the runner of the JSON, and adds the placing if the JSON has none.
fn amend(runner: &mut ResultRunner, row: &CsvRow, out: &mut LineItems) {
    let placing = &row.runner.placing;
    let (position, outcome) = (placing.position(), placing.outcome());
    if let Err(reason) = &row.runner.figures {
        out.note(format!(
            "{reason}: ignored, because the JSON has this runner"
        ));
    } else if runner.position.is_none() && runner.outcome.is_none() {
        (runner.position, runner.outcome) = (position, outcome.cloned());
    } else if runner.position != position || runner.outcome.as_ref() != outcome {
        let json = shown(runner.position, runner.outcome.as_ref());
        let (name, csv) = (&runner.horse_name, shown(position, outcome));
        out.note(format!(
            "{name} is {csv} here and {json} in the JSON, which is kept"
        ));
    }
}

fn shown(position: Option<u16>, outcome: Option<&Outcome>) -> String {
    let position = position.map(|position| position.to_string());
    position
        .or_else(|| outcome.map(Outcome::to_string))
        .unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::{Path, PathBuf};

    use events::ResultDeclared;
    use serde_json::{Value, json};

    use super::hkjc_results;
    use crate::testing::{Imported, check_starts};

    const HEADER: &str = "plc,horseno,horse,jockey,trainer,finishtime,winodds,date,raceno,distance,going,handicap,venue\n";

    fn race(number: u16, runners: &Value) -> Value {
        json!({"date": "2016-09-03", "racecourse": "ST", "raceNo": number, "distance": null, "going": "GOOD", "runners": runners})
    }

    fn runner(placing: u16, id: &str, name: &str) -> Value {
        json!({"placing": placing, "horseNo": placing, "horseId": id, "brandNo": null, "horseName": name, "jockey": "A Rider",
               "trainer": "B Trainer", "finishSeconds": 69.35, "winOdds": 120.0})
    }

    fn row(plc: &str, horse: &str, number: u16) -> String {
        format!(
            "{plc},,{horse},C Rider,---,1.09.35,99.0,2016-09-03,{number},1200,FAST,EXAMPLE HANDICAP,Sha Tin\n"
        )
    }

    /// Imports paths. The messages have the files' names within a folder.
    fn read_paths(folder: &Path, paths: &[PathBuf]) -> Imported {
        Imported::shown(hkjc_results(paths), |at| {
            let file = at.file.strip_prefix(folder).expect("inside").display();
            format!("{file}:{}: {}", at.line, at.reason)
        })
    }

    fn read(files: &[(&str, String)]) -> Imported {
        let folder = tempfile::tempdir().expect("a folder");
        for (name, text) in files {
            fs::write(folder.path().join(name), text).expect("a file");
        }
        read_paths(folder.path(), &[folder.path().to_owned()])
    }

    fn horses(race: &ResultDeclared) -> Vec<(&str, Option<u16>, Option<&str>)> {
        let runners = race.runners.iter();
        runners
            .map(|r| {
                (
                    r.horse_no.as_str(),
                    r.position,
                    r.outcome.as_ref().map(|o| o.as_str()),
                )
            })
            .collect()
    }

    #[test]
    fn the_csv_adds_what_the_json_lacks() {
        let first = race(
            1,
            &json!([
                runner(1, "HK_2010_M401", "TALL STORM  (CM401)"),
                runner(2, "HK_2014_T032", "QUIET RIVER")
            ]),
        );
        let second = race(2, &json!([runner(1, "HK_2016_A001", "LATE BIRD")]));
        let rows = [
            HEADER,
            &row("2", "TALL STORM(M401)", 1),
            &row("2", "QUIET RIVER(T032)", 1),
            &row("PU", "LATE BIRD(A001)", 1),
            &row("WV", "STRANGER(B607)", 1),
            &row("UR", "TALL STORM(M401)", 2),
            &row("1", "LATE BIRD(A001)", 2).replace("99.0", "-1"),
        ];
        let read = read(&[
            ("a.json", json!([first, second]).to_string()),
            ("b.csv", rows.concat()),
        ]);
        assert_eq!(read.rejected, Vec::<String>::new());
        let kept = "b.csv:2: TALL STORM is 2 here and 1 in the JSON, which is kept";
        check_starts(&read.notes, &[kept, "b.csv:7: winodds: "]);
        assert_eq!(read.notes[0], kept);
        assert_eq!(
            horses(&read.results[0]),
            [
                ("HK_2010_M401", Some(1), None),
                ("HK_2014_T032", Some(2), None),
                ("HK_2016_A001", None, Some("PU")),
                ("B607", None, Some("WV")),
            ]
        );
        assert_eq!(
            horses(&read.results[1]),
            [
                ("HK_2016_A001", Some(1), None),
                ("HK_2010_M401", None, Some("UR"))
            ]
        );
        let race = &read.results[0];
        assert_eq!(
            (race.distance, race.going.as_ref().map(|g| g.as_str())),
            (Some(1200), Some("GOOD"))
        );
        assert_eq!(
            race.race_name.as_ref().map(|n| n.as_str()),
            Some("EXAMPLE HANDICAP")
        );
        let odds: Vec<_> = race
            .runners
            .iter()
            .map(|r| r.win_odds.map(|o| o.thousandths()))
            .collect();
        assert_eq!(
            odds,
            [Some(120_000), Some(120_000), Some(99_000), Some(99_000)]
        );
        assert_eq!(race.runners[0].jockey.as_str(), "A Rider");
    }

    #[test]
    fn a_race_that_only_the_csv_has_is_returned_by_date() {
        let json = json!([
            race(1, &json!([runner(1, "HK_2016_A001", "LATE BIRD")])),
            race(3, &json!([runner(1, "HK_2016_A001", "LATE BIRD")]))
        ]);
        let rows = [
            HEADER,
            &row("2", "STRANGER(B607)", 2),
            &row("1", "LATE BIRD(A001)", 2),
            &row("1", "STRANGER(B607)", 4),
        ];
        let read = read(&[("a.json", json.to_string()), ("b.csv", rows.concat())]);
        assert_eq!(read.rejected, Vec::<String>::new());
        let numbers: Vec<u16> = read.results.iter().map(|r| r.race_number.get()).collect();
        assert_eq!(numbers, [1, 2, 3, 4]);
        assert_eq!(
            horses(&read.results[1]),
            [("HK_2016_A001", Some(1), None), ("B607", Some(2), None)]
        );
    }

    #[test]
    fn a_race_is_imported_whole_or_rejected() {
        let mut bad = race(
            1,
            &json!([
                runner(1, "HK_2016_A001", "LATE BIRD"),
                runner(2, "HK_2014_T032", "QUIET RIVER")
            ]),
        );
        bad["runners"][1]["winOdds"] = json!(-3.5);
        let twice = race(
            2,
            &json!([
                runner(1, "HK_2016_A001", "LATE BIRD"),
                runner(2, "HK_2016_A001", "LATE BIRD")
            ]),
        );
        let good = race(3, &json!([runner(1, "HK_2016_A001", "LATE BIRD")]));
        let json = format!("[\n{bad},\n{twice},\n{good},\n{}", &good.to_string()[..50]);
        let rows = [HEADER, &row("1", "LATE BIRD(A001)", 1)];
        let read = read(&[
            ("a.json", json),
            ("b.csv", rows.concat()),
            ("c.txt", String::new()),
        ]);
        assert_eq!(read.results.len(), 1);
        let expected = [
            "a.json:2: runners[1].winOdds: odds are a number",
            "a.json:3: data.runners[1].horse_no: HK_2016_A001 ",
            "a.json:5: the file ends inside the element that begins on line 5",
            "b.csv:2: 1 rows of 2016-09-03.ST.1 are not used",
        ];
        check_starts(&read.rejected, &expected);
        assert_eq!(
            read.notes,
            ["c.txt:0: not read: this importer reads .json and .csv files"]
        );
    }

    #[test]
    fn a_repeated_race_is_the_same_event_or_a_note() {
        let one = race(1, &json!([runner(1, "HK_2016_A001", "LATE BIRD")]));
        let other = race(1, &json!([runner(1, "HK_2014_T032", "QUIET RIVER")]));
        let read = read(&[
            ("a.json", json!([one, one]).to_string()),
            ("b.json", json!([other]).to_string()),
        ]);
        assert_eq!(read.ids.len(), 3);
        assert_eq!(read.ids[0], read.ids[1]);
        assert_ne!(read.ids[1], read.ids[2]);
        check_starts(&read.notes, &["b.json:1: this race was read before"]);
    }

    #[test]
    fn a_finisher_that_only_the_csv_has_is_added_if_the_position_is_free() {
        let json = json!([race(
            1,
            &json!([
                runner(1, "HK_2016_A001", "LATE BIRD"),
                runner(3, "HK_2014_T032", "QUIET RIVER")
            ])
        )]);
        let rows = [
            HEADER,
            &row("2", "STRANGER(B607)", 1),
            &row("3", "OTHER(B608)", 1),
            &row("1 DH", "THIRD(B609)", 1),
        ];
        let read = read(&[("a.json", json.to_string()), ("b.csv", rows.concat())]);
        let race = horses(&read.results[0]);
        assert_eq!(
            race[2..],
            [("B607", Some(2), None), ("B609", Some(1), None)]
        );
        assert_eq!(read.notes.len(), 2, "{:?}", read.notes);
        assert!(
            read.rejected[0].starts_with("b.csv:3: OTHER is not in the JSON"),
            "{:?}",
            read.rejected
        );
    }

    #[test]
    fn an_unreadable_path_is_rejected_and_the_others_are_imported() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = |name: &str| folder.path().join(name);
        fs::create_dir(path("empty")).expect("a folder");
        fs::write(path("a.xlsx"), "x").expect("a file");
        fs::write(
            path("good.json"),
            json!([race(1, &json!([runner(1, "A1", "X")]))]).to_string(),
        )
        .expect("a file");
        let read = read_paths(
            folder.path(),
            &["empty", "a.xlsx", "gone.json", "good.json"].map(path),
        );
        assert_eq!(read.results.len(), 1);
        let starts = [
            "empty:0: there is no .json and .csv file",
            "a.xlsx:0: not read",
            "gone.json:0: ",
        ];
        check_starts(&read.rejected, &starts);
    }
}
