//! Results from JSON and CSV together: one result for each race, in which the JSON takes precedence, and its card.

use std::collections::BTreeSet;
use std::mem::take;
use std::path::PathBuf;

use events::{Outcome, ResultRunner, Subject};

use super::brand::same_name;
use super::csv;
use super::csv_race::{CsvRace, CsvRaces, CsvRow};
use super::dividends;
use super::hong_kong::{card_of_result, midnight};
use super::horse_ids::HorseIds;
use super::json::{JsonRace, KEY, race_key};
use crate::input::cells::Cells;
use crate::input::fields::Fields;
use crate::input::files;
use crate::input::json_array::{self, JsonElement};
use crate::input::repeats::Repeats;
use crate::input::rows::{ReadRows, rows};
use crate::item::{Item, Items, LineItems, Result};
use crate::placing::Placing;

const FORMAT: &str = "hkjc-results";

/// Reads results: JSON files, CSV files of the same meetings, or both.
///
/// If both have a race the JSON takes precedence, and the CSV adds what the JSON lacks: the name of the race, its prize
/// money and the runners without a placing. A race that only the CSV has is made of its rows.
pub fn hkjc_results(paths: &[PathBuf]) -> Items {
    files::import(paths, &["json", "csv"], |paths| {
        let is_json = |path: &PathBuf| files::has_extension(path, "json");
        let (json, csv) = paths.into_iter().partition(is_json);
        let races = CsvRaces::new();
        rows(csv, HkjcResults { json, races })
    })
}

/// The JSON files, and the rows of the CSV so far.
struct HkjcResults {
    json: Vec<PathBuf>,
    races: CsvRaces,
}

impl ReadRows for HkjcResults {
    const REQUIRED: &'static [&'static str] = csv::REQUIRED;

    fn row(&mut self, cells: &Cells, out: &mut LineItems) -> Result<()> {
        csv::row(cells, &mut self.races, out)
    }

    fn finish(&mut self) -> Items {
        let Self { json, races } = self;
        let mut join = ResultsJoin::new(take(json), take(races));
        Box::new(std::iter::from_fn(move || join.step()).flatten())
    }
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
    fn new(json: Vec<PathBuf>, races: CsvRaces) -> Self {
        let mut ids = HorseIds::default();
        let mut keys = BTreeSet::new();
        if !races.is_empty() {
            // Races that cannot be read are rejected by the second reading.
            for race in json_array::elements(json.clone()).filter_map(|(_, race)| race.ok()) {
                ids.add(&race);
                keys.extend(race_key(&Fields::root(&race), KEY).ok());
            }
        }
        let (joined, csv_only) = races.into_iter().partition(|(key, _)| keys.contains(key));
        Self {
            races: Box::new(json_array::elements(json)),
            ids,
            joined,
            csv_only,
            repeats: Repeats::default(),
        }
    }

    /// Reads one more race.
    fn step(&mut self) -> Option<Vec<Item>> {
        let Some((location, race)) = self.races.next() else {
            return self.rest();
        };
        let race = race.and_then(|race| JsonRace::read(&race, &location));
        let rejected = |reason| vec![location.rejected(reason)];
        Some(race.map_or_else(rejected, |race| self.race(race)))
    }

    fn race(&mut self, mut race: JsonRace) -> Vec<Item> {
        let mut items = Vec::new();
        let key = &race.rows.key;
        // The races of the CSV are returned by date.
        while let Some(first) = self.csv_only.first_entry()
            && first.key() < key
        {
            let (key, race) = first.remove_entry();
            items.extend(race.result(FORMAT, key, &self.ids, &mut self.repeats));
        }
        let time = midnight(key.date);
        if let Some(csv) = self.joined.get(key) {
            race.add(csv, &self.ids, &mut items);
        }
        let mut out = LineItems::new(race.rows.location.clone());
        let key = race.rows.key.clone();
        out.omit(race.omitted());
        let (rows, card) = (race.rows, card_of_result());
        let of_race = rows.items((FORMAT, time), card, &mut self.repeats);
        if !race.dividends.is_empty() && of_race.iter().any(|item| matches!(item, Item::Event(_))) {
            let declared = dividends::declared(key, race.dividends);
            let declared = out.location.event(FORMAT, time, declared);
            (self.repeats).push("statement of dividends", declared, &mut out);
        }
        items.extend(of_race);
        items.extend(out.items);
        items
    }

    /// Returns what remains of the CSV behind the JSON, race by race.
    fn rest(&mut self) -> Option<Vec<Item>> {
        if let Some((key, race)) = self.csv_only.pop_first() {
            return Some(race.result(FORMAT, key, &self.ids, &mut self.repeats));
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
        self.rows.heading.fill(&csv.heading);
        // Rows are matched with the runners of the JSON, and not with those that rows have added.
        let count = self.rows.runners.len();
        for row in &csv.rows {
            let mut out = LineItems::new(row.location.clone());
            if let Some(index) = self.index(row, count) {
                amend(&mut self.rows.runners[index].1, row, &mut out);
            } else if let Err(reason) = self.append(row, ids, &mut out) {
                out.items.clear();
                out.reject(reason);
            }
            items.extend(out.items);
        }
    }

    /// The runner that a row is about: by brand, else by name, which is unique within a race.
    fn index(&self, row: &CsvRow, count: usize) -> Option<usize> {
        let (brand, name) = row.brand_and_name();
        let has_brand = |brands: &BTreeSet<String>| brands.contains(brand);
        let by_brand = self.brands.iter().position(has_brand);
        let mut runners = self.rows.runners[..count].iter();
        by_brand.or_else(|| runners.position(|(_, r)| same_name(r.horse_name.as_str(), name)))
    }

    /// Adds a runner that the JSON does not have, usually one without a placing.
    fn append(&mut self, row: &CsvRow, ids: &HorseIds, out: &mut LineItems) -> Result<()> {
        let runner = row.identified(ids, out)?;
        if self.rows.has(&runner.horse_no) {
            return Err(format!("{} is already in this race", runner.horse_no).into());
        }
        let runners = &mut self.rows.runners;
        if let Placing::At(position, dead_heat) = row.placing {
            let name = &row.runner.horse_name;
            let mut others = runners.iter();
            if !dead_heat && others.any(|(_, r)| r.position == Some(position)) {
                let other = format!("the JSON, which has another runner in position {position}");
                return Err(format!("{name} is not in {other}").into());
            }
            out.note(format!("{name} is not in the JSON: added"));
        }
        runners.push((out.location.clone(), runner));
        Ok(())
    }
}

/// Compares a row with the runner of the JSON, and adds what the JSON lacks.
fn amend(runner: &mut ResultRunner, row: &CsvRow, out: &mut LineItems) {
    if let Some(reason) = &row.fault {
        return out.note(format!(
            "{reason}: ignored, because the JSON has this runner"
        ));
    }
    let csv = &row.runner;
    runner.margin = runner.margin.or(csv.margin);
    runner.body_weight = runner.body_weight.or(csv.body_weight);
    if runner.running_positions.is_empty() {
        (runner.running_positions).clone_from(&csv.running_positions);
    }
    runner.draw = runner.draw.or(csv.draw);
    runner.weight = runner.weight.or(csv.weight);
    if runner.position.is_none() && runner.outcome.is_none() {
        runner.position = csv.position;
        runner.outcome.clone_from(&csv.outcome);
    } else if runner.position != csv.position || runner.outcome != csv.outcome {
        let [csv, json] = [csv, &*runner].map(placing);
        let name = &runner.horse_name;
        let reason = format!("{name} is {csv} here and {json} in the JSON, which is kept");
        out.note(reason);
    }
}

fn placing(runner: &ResultRunner) -> String {
    let outcome = runner.outcome.as_ref().map(Outcome::to_string);
    let position = runner.position.map(|position| position.to_string());
    position.or(outcome).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::{Path, PathBuf};
    use std::process::Command;

    use events::{RaceDeclared, ResultDeclared};
    use serde_json::{Value, json};

    use super::super::cards::hkjc_cards;
    use super::hkjc_results;
    use crate::testing::{Imported, check_starts, envelopes, folder_of};

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
    fn a_race_has_dividends_and_the_csv_states_its_margins() {
        let mut race = race(
            1,
            &json!([
                runner(1, "HK_2010_M401", "TALL STORM"),
                runner(2, "HK_2014_T032", "QUIET RIVER")
            ]),
        );
        race["runners"][1]["lbw"] = json!(0.05);
        race["dividends"] = json!({
            "win": [{"pool": "WIN", "combination": [1], "dividendPer10": 1210.0}],
            "quinellaPlace": [{"pool": "QUINELLA PLACE", "combination": [1, 2], "dividendPer10": null}],
        });
        let csv = "plc,horse,jockey,trainer,finishtime,winodds,date,raceno,venue,lbw,runningpos,declarwt,stake,sire\n\
            2,QUIET RIVER(T032),C Rider,---,1.09.35,99.0,2016-09-03,1,Sha Tin,N,3 1 2,1101.0,630000,Bushranger\n";
        let read = read(&[
            ("a.json", json!([race]).to_string()),
            ("b.csv", csv.to_owned()),
        ]);
        assert_eq!((&read.rejected, &read.notes), (&vec![], &vec![]));
        let result = &read.results[0];
        let second = &result.runners[1];
        assert_eq!(second.margin.map(|m| m.to_string()).as_deref(), Some("N"));
        assert_eq!(second.running_positions, [3, 1, 2]);
        assert_eq!(
            (second.body_weight, result.prize),
            (Some(1101), Some(630_000))
        );
        let lines = read.dividends[0].dividends.iter();
        let lines: Vec<_> = lines
            .map(|line| {
                let paid = line.dividend.map(events::Amount::hundredths);
                (line.pool.as_str(), &line.combination[..], paid, line.state)
            })
            .collect();
        assert_eq!(
            lines,
            [
                (
                    "quinella_place",
                    &[1, 2][..],
                    None,
                    Some(events::DividendState::NoWinner)
                ),
                ("win", &[1][..], Some(121_000), None),
            ]
        );
        let omitted: Vec<_> = read.omitted.into_iter().collect();
        assert_eq!(omitted, [("sire".to_owned(), 1)]);
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

    /// A race with draws, weights and a class, as a JSON file and as the rows of a CSV file that has one runner more.
    fn race_with_draws() -> (String, String) {
        let mut race = race(1, &json!([runner(1, "HK_2016_A001", "LATE BIRD")]));
        race["raceClass"] = json!(4);
        race["distance"] = json!(1200);
        race["runners"][0]["draw"] = json!(7);
        race["runners"][0]["actualWeight"] = json!(126);
        let csv = "plc,horseno,horse,jockey,trainer,actualwt,draw,finishtime,winodds,date,raceno,class,distance,going,\
            handicap,venue\n\
            1,1,LATE BIRD(A001),A Rider,B Trainer,126.0,7.0,1.09.35,120,2016-09-03,1,4,1200,GOOD,,Sha Tin\n\
            PU,2,STRANGER(B607),C Rider,,113.0,3.0,---,9.9,2016-09-03,1,4,1200,GOOD,,Sha Tin\n";
        (json!([race]).to_string(), csv.to_owned())
    }

    fn draws(card: &RaceDeclared) -> Vec<(&str, u16, u16)> {
        let runners = card.runners.iter();
        runners
            .map(|r| (r.horse_no.as_str(), r.draw, r.weight))
            .collect()
    }

    #[test]
    fn results_that_know_draws_weights_and_a_class_also_make_a_card() {
        let (json, csv) = race_with_draws();
        let alone = read(&[("a.json", json.clone())]);
        assert_eq!(
            (alone.results.len(), alone.cards.len()),
            (1, 1),
            "{alone:?}"
        );
        assert_eq!(
            (alone.cards[0].class.as_str(), alone.cards[0].distance),
            ("4", 1_200)
        );
        assert_eq!(draws(&alone.cards[0]), [("HK_2016_A001", 7, 126)]);
        let joined = read(&[("a.json", json), ("b.csv", csv.clone())]);
        assert_eq!(
            draws(&joined.cards[0]),
            [("HK_2016_A001", 7, 126), ("B607", 3, 113)]
        );
        let (_folder, paths) = folder_of(&[("b.csv", csv.as_bytes())]);
        let csv = Imported::all(hkjc_results(&paths));
        assert_eq!(draws(&csv.cards[0]), [("A001", 7, 126), ("B607", 3, 113)]);
        assert_eq!(csv.cards[0].class.as_str(), "4");
        assert_eq!(csv.rejected, Vec::<String>::new());
    }

    #[test]
    fn the_card_of_a_result_is_the_same_event_from_either_import_and_older_than_a_real_card() {
        let (result, _) = race_with_draws();
        let card = json!([{"date": "2016-09-03", "racecourse": "ST", "raceNo": 1, "raceName": "EXAMPLE HANDICAP",
            "startTime": "13:00", "runners": [{"horseNo": 1, "horseId": "HK_2016_A001", "horseName": "LATE BIRD",
            "draw": 7, "actualWeight": 126}]}]);
        let (_folder, paths) = folder_of(&[
            ("result.json", result.as_bytes()),
            ("card.json", card.to_string().as_bytes()),
        ]);
        let results = envelopes(hkjc_results(&paths[..1]));
        let types: Vec<&str> = results.iter().map(|e| e.event.type_name()).collect();
        assert_eq!(
            types,
            ["racing.result.declared.v1", "racing.race.declared.v1"]
        );
        let cards = envelopes(hkjc_cards(&paths));
        assert_eq!(results[1], cards[0]);
        assert_eq!(cards[0].source, cards[1].source, "so their times decide");
        assert!(cards[0].time < cards[1].time);
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
        assert_eq!(
            horses(&read.results[0]),
            [
                ("HK_2016_A001", Some(1), None),
                ("B609", Some(1), None),
                ("B607", Some(2), None),
                ("HK_2014_T032", Some(3), None),
            ]
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
        fs::write(path("a.zip"), "x").expect("a file");
        let pipe = Command::new("mkfifo").arg(path("pipe.json")).status();
        assert!(pipe.expect("mkfifo").success());
        fs::write(
            path("good.json"),
            json!([race(1, &json!([runner(1, "A1", "X")]))]).to_string(),
        )
        .expect("a file");
        let read = read_paths(
            folder.path(),
            &[
                "empty",
                "a.xlsx",
                "a.zip",
                "pipe.json",
                "gone.json",
                "good.json",
            ]
            .map(path),
        );
        assert_eq!(read.results.len(), 1);
        let starts = [
            "empty:0: there is no .json and .csv file",
            "a.xlsx:0: not read",
            "a.zip:0: not read: unpack it first",
            "pipe.json:0: not read: neither a file nor a folder",
            "gone.json:0: ",
        ];
        check_starts(&read.rejected, &starts);
    }
}
