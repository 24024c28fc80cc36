//! Results from JSON and CSV together: one statement a race, the JSON's figures first.

use std::collections::{BTreeSet, HashMap, VecDeque};
use std::path::PathBuf;

use events::{Event, Outcome, RaceKey, ResultRunner};
use serde_json::{Map, Value};

use crate::hkjc::csv as hkjc_csv;
use crate::hkjc::json::{self, JsonRace, race_key};
use crate::ids::Ids;
use crate::input::csv_races::{CsvRace, CsvRow, Races};
use crate::input::fields::Fields;
use crate::input::files::{self, Kind};
use crate::input::json_array::Elements;
use crate::names::same_name;
use crate::placing::Placing;
use crate::{Item, Items, Location, hong_kong, sealed};

const FORMAT: &str = "hkjc-results";

/// Reads results: JSON files, CSV files of the same meetings, or both.
///
/// Where both tell of a race its JSON stands, and the CSV adds what the JSON leaves out: the race's name and the runners
/// without a placing. A race that the CSV alone has is made of its rows.
#[must_use]
pub fn hkjc_results(paths: &[PathBuf]) -> Items {
    let found = files::find(paths, &[Kind::Json, Kind::Csv]);
    let (json, csv) = (found.of(Kind::Json), found.of(Kind::Csv));
    let results = std::iter::once_with(move || Results::new(json, &csv));
    Box::new(found.said.into_iter().chain(results.flatten()))
}

/// Goes through the JSON race by race. The CSV is held whole, by race.
struct Results {
    files: std::vec::IntoIter<PathBuf>,
    open: Option<(Location, Elements)>,
    ids: Ids,
    /// The CSV's rows of races that the JSON has too.
    joined: Races,
    /// Races of the CSV alone, not yet handed out.
    alone: Races,
    /// The events said, by race: a race that stands twice with different words is worth a note.
    seen: HashMap<RaceKey, String>,
    ready: VecDeque<Item>,
}

impl Results {
    fn new(json: Vec<PathBuf>, csv: &[PathBuf]) -> Self {
        let (races, said) = hkjc_csv::read(csv);
        let (mut ids, mut keys) = (Ids::default(), BTreeSet::new());
        if !races.is_empty() {
            // What is wrong with the JSON is said when its races are read.
            json::learn(&json, &mut ids, |race| {
                keys.extend(race_key(&Fields::root(race)).ok())
            });
        }
        let (joined, alone) = races.into_iter().partition(|(key, _)| keys.contains(key));
        Self {
            files: json.into_iter(),
            open: None,
            ids,
            joined,
            alone,
            seen: HashMap::new(),
            ready: said.into(),
        }
    }

    /// Reads one race more, or opens the next file; false at the end.
    fn step(&mut self) -> bool {
        if let Some((file, elements)) = &mut self.open {
            match elements.next() {
                None => self.open = None,
                Some((line, Err(reason))) => self.ready.push_back(file.at(line).refused(reason)),
                Some((line, Ok(race))) => {
                    let place = file.at(line);
                    self.race(&race, &place);
                }
            }
            return true;
        }
        if let Some(path) = self.files.next() {
            match json::open(&path) {
                Ok(open) => self.open = Some(open),
                Err(item) => self.ready.push_back(item),
            }
            return true;
        }
        self.finish()
    }

    fn race(&mut self, race: &Map<String, Value>, place: &Location) {
        let read = JsonRace::read(race).and_then(|read| {
            let midnight = hong_kong(read.statement.date, 0, 0)
                .map_err(|e| Fields::root(race).error("date", e))?;
            Ok((read, midnight))
        });
        let (mut race, midnight) = match read {
            Ok(read) => read,
            Err(error) => return self.ready.push_back(place.refused(error)),
        };
        let key = race.key();
        self.alone_before(&key);
        if let Some(csv) = self.joined.get(&key) {
            race.add(csv, &self.ids, &mut self.ready);
        }
        let item = sealed(
            FORMAT,
            midnight,
            Event::ResultDeclared(race.statement),
            place,
        );
        if let Item::Event(envelope) = &item {
            let earlier = self.seen.insert(key, envelope.id.clone());
            if earlier.is_some_and(|earlier| earlier != envelope.id) {
                self.ready.push_back(
                    place.note("this race was read before with other words: these stand"),
                );
            }
        }
        self.ready.push_back(item);
    }

    /// Hands out the races of the CSV alone that come before a race, so that the log is in the order of dates.
    fn alone_before(&mut self, key: &RaceKey) {
        while let Some(entry) = self.alone.first_entry().filter(|entry| entry.key() < key) {
            let (key, race) = entry.remove_entry();
            self.ready.extend(race.statement(FORMAT, &key, &self.ids));
        }
    }

    /// At the end of the JSON: the rest of the CSV.
    fn finish(&mut self) -> bool {
        if let Some((key, race)) = self.alone.pop_first() {
            self.ready.extend(race.statement(FORMAT, &key, &self.ids));
            return true;
        }
        while let Some((key, race)) = self.joined.pop_first() {
            if !self.seen.contains_key(&key) {
                let reason = format!(
                    "{} rows of {key} are not used: its JSON was refused",
                    race.rows.len()
                );
                self.ready.push_back(race.place.refused(reason));
                return true;
            }
        }
        false
    }
}

impl Iterator for Results {
    type Item = Item;

    fn next(&mut self) -> Option<Item> {
        loop {
            if let Some(item) = self.ready.pop_front() {
                return Some(item);
            }
            if !self.step() {
                return None;
            }
        }
    }
}

impl JsonRace {
    fn key(&self) -> RaceKey {
        let race = &self.statement;
        RaceKey {
            date: race.date,
            venue: race.venue.clone(),
            race_number: race.race_number,
        }
    }

    /// Adds what the CSV alone knows.
    fn add(&mut self, csv: &CsvRace, ids: &Ids, said: &mut impl Extend<Item>) {
        let race = &mut self.statement;
        race.race_name = race
            .race_name
            .take()
            .or_else(|| csv.heading.race_name.clone());
        race.distance = race.distance.or(csv.heading.distance);
        race.going = race.going.take().or_else(|| csv.heading.going.clone());
        // The rows are matched with the runners of the JSON alone, not with those that rows have added.
        let count = race.runners.len();
        for row in &csv.rows {
            match self.index(row, count) {
                Some(index) => said.extend(amend(&mut self.statement.runners[index], row)),
                None => said.extend(self.append(row, ids)),
            }
        }
    }

    /// The runner that a row is about: by brand, else by name, which is one horse's within a race.
    fn index(&self, row: &CsvRow, count: usize) -> Option<usize> {
        let runners = &self.statement.runners[..count];
        let name = |r: &ResultRunner| same_name(r.horse_name.as_str(), row.runner.name.as_str());
        let by_brand = self
            .brands
            .iter()
            .position(|brands| brands.contains(&row.runner.brand));
        by_brand.or_else(|| runners.iter().position(name))
    }

    /// Adds a runner that the JSON does not have: one without a placing, as a rule.
    fn append(&mut self, row: &CsvRow, ids: &Ids) -> Vec<Item> {
        let mut said = Vec::new();
        let horse_no = row.horse_no(ids, &mut said);
        let runner = match horse_no.and_then(|horse_no| row.runner.clone().result(horse_no)) {
            Ok(runner) => runner,
            Err(reason) => return vec![row.place.refused(reason)],
        };
        let runners = &mut self.statement.runners;
        if runners.iter().any(|r| r.horse_no == runner.horse_no) {
            return vec![
                row.place
                    .refused(format!("{} runs in this race already", runner.horse_no)),
            ];
        }
        if let Placing::At {
            position,
            dead_heat,
        } = row.runner.placing
        {
            if !dead_heat && runners.iter().any(|r| r.position == Some(position)) {
                let reason = format!(
                    "{} is not in the JSON, which has another in place {position}",
                    row.runner.name
                );
                return vec![row.place.refused(reason)];
            }
            said.push(
                row.place
                    .note(format!("{} is not in the JSON: added", row.runner.name)),
            );
        }
        runners.push(runner);
        said
    }
}

/// Compares a row with the JSON's runner, whose figures stand; fills in what the JSON leaves open.
fn amend(runner: &mut ResultRunner, row: &CsvRow) -> Option<Item> {
    let placing = &row.runner.placing;
    if let Err(reason) = &row.runner.figures {
        return Some(
            row.place
                .note(format!("{reason}: the JSON has the runner, and stands")),
        );
    }
    if runner.position.is_none() && runner.outcome.is_none() {
        runner.position = placing.position();
        runner.outcome = placing.outcome().cloned();
        return None;
    }
    if runner.position == placing.position() && runner.outcome.as_ref() == placing.outcome() {
        return None;
    }
    let json = shown(runner.position, runner.outcome.as_ref());
    let csv = shown(placing.position(), placing.outcome());
    Some(row.place.note(format!(
        "{} is {csv} here and {json} in the JSON, which stands",
        runner.horse_name
    )))
}

fn shown(position: Option<u16>, outcome: Option<&Outcome>) -> String {
    let position = position.map(|position| position.to_string());
    position
        .or_else(|| outcome.map(Outcome::to_string))
        .unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;
    use std::{fs, path::Path};

    use events::{Event, ResultDeclared};
    use serde_json::{Value, json};

    use super::hkjc_results;
    use crate::Item;

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

    #[derive(Default)]
    struct Read {
        races: Vec<ResultDeclared>,
        ids: Vec<String>,
        refused: Vec<String>,
        notes: Vec<String>,
    }

    fn read_paths(folder: &Path, paths: &[PathBuf]) -> Read {
        let mut read = Read::default();
        let shown = |file: &Path| {
            file.strip_prefix(folder)
                .expect("inside")
                .display()
                .to_string()
        };
        for item in hkjc_results(paths) {
            match item {
                Item::Event(envelope) => match envelope.event {
                    Event::ResultDeclared(statement) => {
                        read.races.push(statement);
                        read.ids.push(envelope.id);
                    }
                    other => panic!("{other:?}"),
                },
                Item::Refused(r) => {
                    read.refused
                        .push(format!("{}:{}: {}", shown(&r.file), r.line, r.reason))
                }
                Item::Note(r) => {
                    read.notes
                        .push(format!("{}:{}: {}", shown(&r.file), r.line, r.reason))
                }
            }
        }
        read
    }

    fn read(files: &[(&str, String)]) -> Read {
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
    fn the_csv_adds_what_the_json_leaves_out() {
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
        assert_eq!(read.refused, Vec::<String>::new());
        assert_eq!(read.notes.len(), 2, "{:?}", read.notes);
        assert_eq!(
            read.notes[0],
            "b.csv:2: TALL STORM is 2 here and 1 in the JSON, which stands"
        );
        assert!(
            read.notes[1].starts_with("b.csv:7: winodds: "),
            "{:?}",
            read.notes
        );
        assert_eq!(
            horses(&read.races[0]),
            [
                ("HK_2010_M401", Some(1), None),
                ("HK_2014_T032", Some(2), None),
                ("HK_2016_A001", None, Some("PU")),
                ("B607", None, Some("WV")),
            ]
        );
        assert_eq!(
            horses(&read.races[1]),
            [
                ("HK_2016_A001", Some(1), None),
                ("HK_2010_M401", None, Some("UR"))
            ]
        );
        let race = &read.races[0];
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
    fn a_race_of_the_csv_alone_comes_in_its_order() {
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
        assert_eq!(read.refused, Vec::<String>::new());
        let numbers: Vec<u16> = read.races.iter().map(|r| r.race_number.get()).collect();
        assert_eq!(numbers, [1, 2, 3, 4]);
        assert_eq!(
            horses(&read.races[1]),
            [("HK_2016_A001", Some(1), None), ("B607", Some(2), None)]
        );
    }

    #[test]
    fn a_statement_is_whole_or_not_at_all() {
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
        assert_eq!(read.races.len(), 1);
        let expected = [
            "a.json:2: runners[1].winOdds: odds are a number",
            "a.json:3: data.runners[1].horse_no: HK_2016_A001 stands twice",
            "a.json:5: the file breaks off inside what begins on line 5",
            "b.csv:2: 1 rows of 2016-09-03.ST.1 are not used",
        ];
        assert_eq!(read.refused.len(), expected.len(), "{:?}", read.refused);
        for (said, part) in read.refused.iter().zip(expected) {
            assert!(said.starts_with(part), "{said}");
        }
        assert_eq!(
            read.notes,
            ["c.txt:0: not read: this importer reads .json and .csv files"]
        );
    }

    #[test]
    fn a_race_that_stands_twice_is_the_same_event_or_a_note() {
        let one = race(1, &json!([runner(1, "HK_2016_A001", "LATE BIRD")]));
        let other = race(1, &json!([runner(1, "HK_2014_T032", "QUIET RIVER")]));
        let read = read(&[
            ("a.json", json!([one, one]).to_string()),
            ("b.json", json!([other]).to_string()),
        ]);
        assert_eq!(read.ids.len(), 3);
        assert_eq!(read.ids[0], read.ids[1]);
        assert_ne!(read.ids[1], read.ids[2]);
        assert_eq!(read.notes.len(), 1, "{:?}", read.notes);
        assert!(
            read.notes[0].starts_with("b.json:1: this race was read before"),
            "{:?}",
            read.notes
        );
    }

    #[test]
    fn a_finisher_of_the_csv_alone_is_added_where_the_place_is_free() {
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
        let race = horses(&read.races[0]);
        assert_eq!(
            race[2..],
            [("B607", Some(2), None), ("B609", Some(1), None)]
        );
        assert_eq!(read.notes.len(), 2, "{:?}", read.notes);
        assert!(
            read.refused[0].starts_with("b.csv:3: OTHER is not in the JSON"),
            "{:?}",
            read.refused
        );
    }

    #[test]
    fn what_cannot_be_read_is_refused_and_the_rest_goes_in() {
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
        assert_eq!(read.races.len(), 1);
        assert_eq!(read.refused.len(), 3, "{:?}", read.refused);
        for (said, part) in read.refused.iter().zip([
            "empty:0: there is no .json and .csv file",
            "a.xlsx:0: not read",
            "gone.json:0: ",
        ]) {
            assert!(said.starts_with(part), "{said}");
        }
    }
}
