//! An independent reading of a real season, for comparison: it shares no code with the importers or the folds.
//!
//! Everything is read whole and looked up the simple way. It panics on unexpected data, as the data is known.

pub(crate) mod race_day;
mod rides;

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use serde_json::Value;

/// A season as the files have it.
#[derive(Debug, Default)]
pub(crate) struct Season {
    /// By date, venue and number.
    pub(crate) races: Vec<OracleRace>,
    /// By horse number.
    pub(crate) horses: BTreeMap<String, Totals>,
    /// By horse number: of those with a profile that has one the trainer there, else that of the latest race.
    pub(crate) trainers: BTreeMap<String, String>,
}

/// A race with all its runners.
#[derive(Debug, Default)]
pub(crate) struct OracleRace {
    pub(crate) date: String,
    pub(crate) venue_code: String,
    pub(crate) race_number: u16,
    /// Empty if no file has it.
    pub(crate) race_name: String,
    /// 0 if no file has it.
    pub(crate) distance: u32,
    pub(crate) going: String,
    /// Empty if no file has it.
    pub(crate) class: String,
    /// Draw and weight of each horse; 0 if no file has them.
    pub(crate) drawn: BTreeMap<String, (u16, u16)>,
    /// Position, horse, jockey, trainer, time (`m:ss.cc`), win odds; in the order of the file.
    pub(crate) finishers: Vec<(u16, String, String, String, String, f64)>,
    /// Horse and outcome, in the order of the horses.
    pub(crate) unplaced: Vec<(String, String)>,
}

/// A horse's season. Second and third places are `places`.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Totals {
    pub(crate) starts: u32,
    pub(crate) wins: u32,
    pub(crate) places: u32,
}

type Key = (String, String, u16);
type CsvRow = BTreeMap<String, String>;

const NO_STARTS: [&str; 5] = ["WV", "WV-A", "WX", "WX-A", "WXNR"];

/// Reads the season 2016-17 from the folder of real data.
pub(crate) fn load(data_dir: &Path) -> Season {
    let mut races: BTreeMap<Key, OracleRace> = BTreeMap::new();
    // Numbers by name: within this season no two horses share one.
    let mut numbers: BTreeMap<String, String> = BTreeMap::new();
    for race in json_races(&data_dir.join("hkjc_en_json/2016-17")) {
        for runner in race["runners"].as_array().expect("runners") {
            let name = plain_name(text(&runner["horseName"]));
            let earlier = numbers.insert(name.clone(), text(&runner["horseId"]).to_owned());
            assert!(
                earlier.is_none_or(|id| id == text(&runner["horseId"])),
                "{name} is two horses"
            );
        }
        let race = json_race(&race);
        races.insert(
            (race.date.clone(), race.venue_code.clone(), race.race_number),
            race,
        );
    }
    let mut latest: BTreeMap<String, (String, String)> = BTreeMap::new();
    let mut trained = |horse: &str, date: &str, trainer: &str| {
        let known = latest.entry(horse.to_owned()).or_default();
        *known = known.clone().max((date.to_owned(), trainer.to_owned()));
    };
    for race in races.values() {
        for (_, horse, _, trainer, ..) in &race.finishers {
            trained(horse, &race.date, trainer);
        }
    }
    let from_json: Vec<Key> = races.keys().cloned().collect();
    for row in csv_rows(&data_dir.join("hkjc_en_csv/results_2016-17.csv")) {
        let key = (
            row["date"].clone(),
            venue_code(&row["venue"]).to_owned(),
            whole(&row["raceno"]),
        );
        let in_json = from_json.binary_search(&key).is_ok();
        let race = races.entry(key).or_default();
        if let Some(horse) = add_row(race, &row, in_json, &numbers) {
            trained(&horse, &row["date"], &row["trainer"]);
        }
    }
    let mut trainers: BTreeMap<_, _> = latest
        .into_iter()
        .map(|(horse, (_, t))| (horse, t))
        .collect();
    for row in csv_rows(&data_dir.join("hkjc_en_csv/horse_info.csv")) {
        let horse = horse_of(&row, &numbers);
        if let Some(trainer) = trainers
            .get_mut(&horse)
            .filter(|_| !row["trainer"].is_empty())
        {
            trainer.clone_from(&row["trainer"]);
        }
    }
    Season {
        trainers,
        ..finish(races)
    }
}

fn finish(races: BTreeMap<Key, OracleRace>) -> Season {
    let mut season = Season::default();
    for (_, mut race) in races {
        race.unplaced.sort();
        for (position, horse, ..) in &race.finishers {
            let totals = season.horses.entry(horse.clone()).or_default();
            totals.starts += 1;
            totals.wins += u32::from(*position == 1);
            totals.places += u32::from(*position == 2 || *position == 3);
        }
        for (horse, outcome) in &race.unplaced {
            let started = !NO_STARTS.contains(&outcome.as_str());
            season.horses.entry(horse.clone()).or_default().starts += u32::from(started);
        }
        season.races.push(race);
    }
    season
}

fn json_races(folder: &Path) -> Vec<Value> {
    let mut files: Vec<_> = fs::read_dir(folder)
        .expect("the season")
        .map(|e| e.expect("an entry").path())
        .collect();
    files.sort();
    let read = |path| {
        serde_json::from_slice::<Vec<Value>>(&fs::read(path).expect("a meeting")).expect("races")
    };
    files.into_iter().flat_map(read).collect()
}

fn json_race(race: &Value) -> OracleRace {
    let finishers = race["runners"]
        .as_array()
        .expect("runners")
        .iter()
        .map(|runner| {
            let hundredths = format!("{:.2}", runner["finishSeconds"].as_f64().expect("seconds"));
            (
                u16::try_from(runner["placing"].as_u64().expect("a placing")).expect("small"),
                text(&runner["horseId"]).to_owned(),
                text(&runner["jockey"]).to_owned(),
                text(&runner["trainer"]).to_owned(),
                clock(&hundredths),
                runner["winOdds"].as_f64().expect("odds"),
            )
        });
    let small = |value: &Value| u16::try_from(value.as_u64().unwrap_or(0)).expect("small");
    let drawn = race["runners"].as_array().expect("runners").iter();
    let drawn = drawn.map(|runner| {
        let of_card = (small(&runner["draw"]), small(&runner["actualWeight"]));
        (text(&runner["horseId"]).to_owned(), of_card)
    });
    OracleRace {
        class: race["raceClass"]
            .as_u64()
            .map_or_else(String::new, |class| class.to_string()),
        drawn: drawn.collect(),
        date: text(&race["date"]).to_owned(),
        venue_code: text(&race["racecourse"]).to_owned(),
        race_number: u16::try_from(race["raceNo"].as_u64().expect("a number")).expect("small"),
        race_name: String::new(),
        distance: u32::try_from(race["distance"].as_u64().unwrap_or(0)).expect("small"),
        going: text(&race["going"]).to_owned(),
        finishers: finishers.collect(),
        unplaced: Vec::new(),
    }
}

/// `100.79` seconds as `1:40.79`, digit by digit.
fn clock(seconds: &str) -> String {
    let (whole, hundredths) = seconds.split_once('.').expect("two decimals");
    let whole: u32 = whole.parse().expect("seconds");
    format!("{}:{:02}.{hundredths}", whole / 60, whole % 60)
}

fn csv_rows(path: &Path) -> Vec<CsvRow> {
    let mut reader = csv::Reader::from_path(path).expect("the CSV");
    reader
        .deserialize()
        .map(|row| row.expect("a row"))
        .collect()
}

/// The number of the horse in `NAME(BRAND)`; the brand if its name has none.
fn horse_of(row: &CsvRow, numbers: &BTreeMap<String, String>) -> String {
    let horse = row["horse"].trim_end_matches(')');
    let (name, brand) = horse.split_once('(').expect("NAME(BRAND)");
    let number = numbers.get(name.trim()).map_or(brand, String::as_str);
    number.to_owned()
}

/// Adds a row of the CSV. Returns its horse, unless the JSON has it.
fn add_row(
    race: &mut OracleRace,
    row: &CsvRow,
    in_json: bool,
    numbers: &BTreeMap<String, String>,
) -> Option<String> {
    race.race_name.clone_from(&row["handicap"]);
    if !in_json {
        race.date.clone_from(&row["date"]);
        race.venue_code = venue_code(&row["venue"]).to_owned();
        race.race_number = whole(&row["raceno"]);
        race.going.clone_from(&row["going"]);
        race.class.clone_from(&row["class"]);
    }
    if race.distance == 0 {
        race.distance = u32::from(whole(&row["distance"]));
    }
    let horse = horse_of(row, numbers);
    let placing = row["plc"].trim_end_matches(" DH");
    let figure = |column: &str| match row[column].trim_end_matches(".0") {
        digits if !digits.is_empty() => whole(digits),
        _ => 0,
    };
    let drawn = (figure("draw"), figure("actualwt"));
    race.drawn.entry(horse.clone()).or_insert(drawn);
    match placing.parse::<u16>() {
        // The JSON has every finisher of the races that it has.
        Ok(_) if in_json => return None,
        Ok(position) => {
            let time = row["finishtime"].replacen('.', ":", 1);
            let odds = row["winodds"].parse().expect("odds");
            race.finishers.push((
                position,
                horse.clone(),
                row["jockey"].clone(),
                row["trainer"].clone(),
                time,
                odds,
            ));
        }
        Err(_) => race.unplaced.push((horse.clone(), placing.to_owned())),
    }
    Some(horse)
}

fn plain_name(name: &str) -> String {
    name.split('(').next().unwrap_or(name).trim().to_owned()
}

fn venue_code(name: &str) -> &'static str {
    match name {
        "Sha Tin" => "ST",
        "Happy Valley" => "HV",
        other => panic!("an unknown venue {other}"),
    }
}

fn whole(text: &str) -> u16 {
    text.parse().expect("a whole number")
}

fn text(value: &Value) -> &str {
    value.as_str().expect("a text")
}
