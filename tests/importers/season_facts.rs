//! What a real season has beside the contract's fields, and its dividends, compared with another reading of the files.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use serde_json::{Value, json};

use crate::support::*;

type Row = BTreeMap<String, String>;
/// Date, venue code, race number.
pub(super) type Key = (String, String, u64);

/// The races of the JSON files of some folders.
fn json_races(data: &Path, folders: &[&str]) -> BTreeMap<Key, Value> {
    let mut races = BTreeMap::new();
    for folder in folders {
        for file in fs::read_dir(data.join("hkjc_en_json").join(folder)).unwrap() {
            let text = fs::read(file.unwrap().path()).unwrap();
            for race in serde_json::from_slice::<Vec<Value>>(&text).unwrap() {
                let text = |name: &str| race[name].as_str().unwrap().to_owned();
                let key = (
                    text("date"),
                    text("racecourse"),
                    race["raceNo"].as_u64().unwrap(),
                );
                races.insert(key, race);
            }
        }
    }
    races
}

/// The rows of the English CSV by race.
fn csv_races(data: &Path) -> BTreeMap<Key, Vec<Row>> {
    let mut races: BTreeMap<Key, Vec<Row>> = BTreeMap::new();
    let mut reader = csv::Reader::from_path(data.join("hkjc_en_csv/results_2016-17.csv")).unwrap();
    for row in reader.deserialize() {
        let row: Row = row.unwrap();
        let venue = if row["venue"] == "Sha Tin" {
            "ST"
        } else {
            "HV"
        };
        let key = (
            row["date"].clone(),
            venue.to_owned(),
            row["raceno"].parse().unwrap(),
        );
        races.entry(key).or_default().push(row);
    }
    races
}

/// `2.25` lengths as `2-1/4`. Nothing for the winner, and for 0.05, which is a nose or a neck.
fn margin_of_json(lengths: &Value) -> Option<String> {
    let lengths = lengths
        .as_f64()
        .filter(|lengths| *lengths > 0.0)?
        .to_string();
    let (whole, decimals) = lengths.split_once('.').unwrap_or((&lengths, ""));
    Some(match (whole, decimals) {
        ("0", "05") => return None,
        ("0", "1") => "SH".to_owned(),
        ("0", "2") => "HD".to_owned(),
        (whole, "") => whole.to_owned(),
        (whole, decimals) => {
            let fraction = BTreeMap::from([("25", "1/4"), ("5", "1/2"), ("75", "3/4")])[decimals];
            format!("{whole}-{fraction}").replace("0-", if whole == "0" { "" } else { "0-" })
        }
    })
}

fn known(cell: &str) -> Option<&str> {
    Some(cell).filter(|cell| !["", "-", "---"].contains(cell))
}

/// The horses with the margins that the JSON of the season states.
pub(super) fn margins_of_json(data: &Path) -> BTreeMap<(Key, String), String> {
    let mut margins = BTreeMap::new();
    for (key, race) in json_races(data, &["2016-17"]) {
        for runner in race["runners"].as_array().unwrap() {
            let horse = runner["horseId"].as_str().unwrap().to_owned();
            if let Some(margin) = margin_of_json(&runner["lbw"]) {
                margins.insert((key.clone(), horse), margin);
            }
        }
    }
    margins
}

/// Compares results, dividends and cards with the files.
pub(super) async fn check_facts(railbird: &Railbird, data: &Path) {
    let mut csv = csv_races(data);
    let mut lines = BTreeMap::from([("2016-17", 0), ("2026", 0)]);
    for (key, race) in json_races(data, &["2016-17", "card_results"]) {
        let rows = csv.remove(&key).unwrap_or_default();
        check_race(railbird, &key, &race, &rows).await;
        let season = if key.0.starts_with("2026") {
            "2026"
        } else {
            "2016-17"
        };
        *lines.get_mut(season).unwrap() += check_dividends(railbird, &key, &race).await;
    }
    assert_eq!(lines, BTreeMap::from([("2016-17", 9_407), ("2026", 267)]));
    assert_eq!(csv.len(), 3, "races that only the CSV has");
    for (key, rows) in csv {
        check_race(railbird, &key, &json!({ "runners": [] }), &rows).await;
        let path = format!(
            "/api/v1/results/{}/{}/dividends?venue={}",
            key.0, key.2, key.1
        );
        let answer = railbird.get(&path).await.json();
        assert_eq!(answer["status"], "pending", "{path}");
        assert_eq!(answer["dividends"], json!([]), "{path}");
    }
    check_cards(railbird, data).await;
}

/// Surface and course of `TURF - "C+3" Course` or `TURF - C+3 COURSE`.
fn surface_and_course(text: &str) -> (Value, Value) {
    match text
        .split([' ', '"', ','])
        .find(|word| word.len() <= 3 && word.starts_with(['A', 'B', 'C']))
    {
        Some(course) if text != "ALL WEATHER TRACK" => (json!("TURF"), json!(course)),
        _ => (json!("AWT"), Value::Null),
    }
}

async fn check_race(railbird: &Railbird, key: &Key, race: &Value, rows: &[Row]) {
    let path = format!("/api/v1/results/{}/{}?venue={}", key.0, key.2, key.1);
    let answer = railbird.get(&path).await.json();
    let track = race["course"]
        .as_str()
        .or(rows.first().map(|row| row["course"].as_str()));
    let (surface, course) = surface_and_course(track.unwrap());
    let prize = rows.first().map_or(Value::Null, |row| {
        json!(row["stake"].parse::<u64>().unwrap())
    });
    let currency = rows.first().map_or(Value::Null, |_| json!("HKD"));
    assert_eq!(
        [
            &answer["surface"],
            &answer["course"],
            &answer["rating_band"],
            &answer["prize"],
            &answer["prize_currency"]
        ],
        [&surface, &course, &race["ratingBand"], &prize, &currency],
        "{path}"
    );
    let served = ["runners", "unplaced"].map(|list| answer[list].as_array().unwrap());
    let served: BTreeMap<u64, &Value> = served
        .into_iter()
        .flatten()
        .map(|runner| (runner["number"].as_u64().unwrap(), runner))
        .collect();
    for runner in race["runners"].as_array().unwrap() {
        let served = served[&runner["horseNo"].as_u64().unwrap()];
        assert_eq!(
            [
                &served["body_weight"],
                &served["running_positions"],
                &served["draw"],
                &served["weight"]
            ],
            [
                &runner["declaredHorseWeight"],
                &runner["runningPosition"],
                &runner["draw"],
                &runner["actualWeight"]
            ],
            "{path}"
        );
        let number = format!("{}.0", runner["horseNo"]);
        let row = rows.iter().find(|row| row["horseno"] == number);
        let of_csv = row.and_then(|row| known(&row["lbw"]).map(str::to_owned));
        let of_json = margin_of_json(&runner["lbw"]);
        if let (Some(csv), Some(json)) = (&of_csv, &of_json) {
            assert_eq!(csv, json, "the copies agree: {path}");
        }
        assert_eq!(
            served["margin"].as_str(),
            of_csv.or(of_json).as_deref(),
            "{path}"
        );
    }
    check_rows(&served, rows, &path);
}

/// The rows agree with the JSON, so their values are served whichever of the two stated them.
fn check_rows(served: &BTreeMap<u64, &Value>, rows: &[Row], path: &str) {
    for row in rows.iter().filter(|row| !row["horseno"].is_empty()) {
        let figure = |column: &str| {
            known(row[column].trim_end_matches(".0")).map(|n| n.parse::<u64>().unwrap())
        };
        let served = served[&figure("horseno").unwrap()];
        assert_eq!(served["body_weight"].as_u64(), figure("declarwt"), "{path}");
        let positions = known(&row["runningpos"]).map(|positions| {
            let positions = positions
                .split(' ')
                .map(|position| position.parse::<u64>().unwrap());
            json!(positions.collect::<Vec<_>>())
        });
        assert_eq!(
            served["running_positions"],
            positions.unwrap_or_default(),
            "{path}"
        );
    }
}

/// Compares the dividends of a race with its lists. Returns how many there are.
async fn check_dividends(railbird: &Railbird, key: &Key, race: &Value) -> usize {
    const POOLS: [(&str, &str); 9] = [
        ("win", "win"),
        ("place", "place"),
        ("quinella", "quinella"),
        ("quinellaPlace", "quinella_place"),
        ("forecast", "forecast"),
        ("tierce", "tierce"),
        ("trio", "trio"),
        ("first4", "first_4"),
        ("quartet", "quartet"),
    ];
    let pools = race["dividends"].as_object().unwrap();
    let mut expected = Vec::new();
    for (name, code) in POOLS {
        for line in pools
            .get(name)
            .and_then(Value::as_array)
            .into_iter()
            .flatten()
        {
            let paid = line["dividendPer10"].as_f64().unwrap();
            expected.push(json!({ "pool": code, "combination": line["combination"], "unit": 10.0, "dividend": paid }));
        }
    }
    let count: usize = pools
        .values()
        .map(|lines| lines.as_array().unwrap().len())
        .sum();
    assert_eq!(expected.len(), count, "{key:?}");
    let path = format!(
        "/api/v1/results/{}/{}/dividends?venue={}",
        key.0, key.2, key.1
    );
    let answer = railbird.get(&path).await.json();
    assert_eq!(answer["dividends"], json!(expected), "{path}");
    assert_eq!(
        ["status", "revision", "currency", "amended_at"].map(|field| &answer[field]),
        [&json!("official"), &json!(1), &json!("HKD"), &json!("")]
    );
    count
}

/// Compares ratings, gear and body weights of the cards.
async fn check_cards(railbird: &Railbird, data: &Path) {
    for (key, card) in json_races(data, &["cards"]) {
        let served = railbird
            .get(&format!("/api/v1/racecards/{}", key.0))
            .await
            .json();
        let races = served["races"].as_array().unwrap();
        let race = races
            .iter()
            .find(|race| race["race_number"] == key.2)
            .unwrap();
        assert_eq!(race["rating_band"], card["ratingBand"], "{key:?}");
        let runners = race["runners"].as_array().unwrap();
        let expected = card["runners"].as_array().unwrap();
        assert_eq!(runners.len(), expected.len());
        for (runner, expected) in runners.iter().zip(expected) {
            let gear = expected["gear"].as_str().filter(|gear| !gear.is_empty());
            assert_eq!(
                (
                    &runner["rating"],
                    runner["gear"].as_str(),
                    &runner["body_weight"]
                ),
                (&expected["rating"], gear, &expected["declaredHorseWeight"]),
                "{key:?}"
            );
        }
    }
}
