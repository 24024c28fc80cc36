//! `railbird import hkjc-odds`: a real day of odds trends, compared with another reading of the files.

use std::collections::BTreeMap;
use std::path::Path;

use serde_json::{Value, json};

use crate::support::*;

const DATE: &str = "2025-07-13";

/// The files by the numbers in their names.
fn files(folder: &Path) -> BTreeMap<u64, Value> {
    let files = std::fs::read_dir(folder).unwrap().map(|file| {
        let file = file.unwrap();
        let name = file.file_name().into_string().unwrap();
        let number = name.rsplit_once('R').unwrap().1;
        let number = number.strip_suffix(".json").unwrap().parse().unwrap();
        let text = std::fs::read(file.path()).unwrap();
        (number, serde_json::from_slice(&text).unwrap())
    });
    files.collect()
}

fn horse_no(race: u64, number: &str) -> String {
    format!("TEST_{race}_{number}")
}

/// Cards of the races with invented horses: the files have no lasting identifiers.
fn cards(files: &BTreeMap<u64, Value>) -> Value {
    let card = |(race, file): (&u64, &Value)| {
        let horses = file["horses_data"].as_array()?.iter();
        let runner = |horse: &Value| {
            let number = horse["horse_number"].as_str().unwrap();
            let horse_no = horse_no(*race, number);
            json!({ "horseNo": number.parse::<u16>().unwrap(), "horseId": horse_no, "horseName": horse_no })
        };
        let runners: Vec<Value> = horses.map(runner).collect();
        Some(json!({ "date": DATE, "racecourse": "ST", "raceNo": race, "runners": runners }))
    };
    files.iter().filter_map(card).collect()
}

/// A time, a horse, its win and its place price or its state.
type Tick = (String, String, Option<f64>, Option<f64>, Option<String>);

/// The prices of a file in the order of their times.
fn expected(race: u64, file: &Value) -> Vec<Tick> {
    let mut ticks = Vec::new();
    for horse in file["horses_data"].as_array().unwrap() {
        let horse_no = horse_no(race, horse["horse_number"].as_str().unwrap());
        let price = |value: &Value| Some(value["odds"].as_str().unwrap().parse().unwrap());
        let points = horse["win_odds_trend"].as_array().unwrap();
        for (index, point) in points.iter().enumerate() {
            let (hour, minute) = point["time"].as_str().unwrap().split_once(':').unwrap();
            // Hong Kong is eight hours ahead, and all prices are of the afternoon and the evening.
            let time = format!("{DATE}T{:02}:{minute}:00Z", hour.parse::<u8>().unwrap() - 8);
            let is_last = index + 1 == points.len();
            let place = is_last
                .then(|| price(&horse["place_odds_trend"][0]))
                .flatten();
            ticks.push((time, horse_no.clone(), price(point), place, None));
        }
        if points.is_empty() {
            assert_eq!(horse["jockey"], "退出");
            let first = ticks[0].0.clone();
            ticks.push((first, horse_no, None, None, Some("scratched".to_owned())));
        }
    }
    ticks.sort_by(|a, b| a.partial_cmp(b).unwrap());
    ticks
}

/// The prices of a race in its history.
fn served(history: &Value) -> Vec<Tick> {
    let mut ticks = Vec::new();
    for quote in history["history"].as_array().unwrap() {
        for runner in quote["runners"].as_array().unwrap() {
            let text = |value: &Value| value.as_str().map(str::to_owned);
            ticks.push((
                text(&quote["time"]).unwrap(),
                text(&runner["horse_no"]).unwrap(),
                runner["win"].as_f64(),
                runner["place"].as_f64(),
                text(&runner["state"]),
            ));
        }
    }
    ticks.sort_by(|a, b| a.partial_cmp(b).unwrap());
    ticks
}

#[tokio::test]
async fn every_price_of_a_real_day_is_in_the_history_at_its_time() {
    let Some(data) = real_data() else { return };
    let folder = data.join("odds_hkjc");
    let files = files(&folder);
    let ids = tempfile::tempdir().unwrap();
    let cards_file = ids.path().join("cards.json");
    std::fs::write(&cards_file, cards(&files).to_string()).unwrap();
    let nats = Nats::start();
    let railbird_service = Railbird::start(&nats).await;
    let url = nats.url_of("feeder");
    let (folder, cards_file) = (
        folder.display().to_string(),
        cards_file.display().to_string(),
    );
    let output = railbird(["import", "hkjc-cards", &cards_file, "--nats", &url]).await;
    assert_eq!(output.code, 0, "{}", output.all);
    let args = [
        "import",
        "hkjc-odds",
        &folder,
        "--nats",
        &url,
        "--ids",
        &cards_file,
    ];
    let output = railbird(args).await;
    // Two files have the prices of another race than they are named after.
    let (right, wrong): (Vec<_>, Vec<_>) = files.into_iter().partition(|(race, file)| {
        let page = file["race_info"]["source_url"].as_str().unwrap();
        page.rsplit_once('/').unwrap().1 == race.to_string()
    });
    assert_eq!((right.len(), wrong.len(), output.code), (10, 2, 1));
    for (race, _) in &wrong {
        let reason = format!("is the page of another race than {DATE}.ST.{race}\n");
        assert!(output.all.contains(&reason), "{reason}: {}", output.all);
    }
    assert!(
        output
            .summary
            .starts_with("32 read, 30 published, 0 duplicates, 2 refused"),
        "{}",
        output.all
    );
    let horses = right
        .iter()
        .flat_map(|(_, file)| file["horses_data"].as_array().unwrap());
    let (scratched, run): (Vec<_>, Vec<_>) = horses.partition(|horse| horse["jockey"] == "退出");
    let all = run.len() + scratched.len();
    let omitted = format!(
        "without a place: extraction_summary 10, gate {0}, jockey {0}, scraped_at 10, trainer {all}, weight {0}",
        run.len()
    );
    assert!(output.all.contains(&omitted), "{omitted}: {}", output.all);
    railbird_service.until_seq(nats.last_seq().await).await;
    for (race, file) in &right {
        let history = format!("/api/v1/odds/{DATE}/{race}/history");
        let history = railbird_service.get(&history).await.json();
        assert_eq!(served(&history), expected(*race, file), "race {race}");
    }
    let again = railbird(args).await;
    assert!(
        again
            .summary
            .starts_with("32 read, 0 published, 30 duplicates"),
        "{}",
        again.all
    );
}
