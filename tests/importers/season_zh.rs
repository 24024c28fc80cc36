//! A real season in Chinese, from the files to the answers, compared with the same season in English: an independent
//! copy, read by other code.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;

use super::season_facts::margins_of_json;
use crate::oracle::{OracleRace, load};
use crate::support::*;

const ENGLISH: &str = "hkjc_en_json/2016-17";
const RESULTS: &str = "hkjc_zh_csv/results";
const PROFILES: &str = "hkjc_zh_csv/horse_profiles.csv";

fn chinese_data() -> Option<PathBuf> {
    let data = real_data()?;
    if data.join(RESULTS).is_dir() {
        return Some(data);
    }
    eprintln!("SKIPPED: there is no {RESULTS} in {}", data.display());
    None
}

/// Imports the season and the profiles, and returns both summaries.
async fn import(nats: &Nats, data: &Path) -> [String; 2] {
    let path = |name: &str| data.join(name).display().to_string();
    let (english, results, profiles) = (path(ENGLISH), path(RESULTS), path(PROFILES));
    let url = nats.url_of("feeder");
    let imported = railbird([
        "import",
        "hkjc-zh-results",
        &results,
        "--nats",
        &url,
        "--ids",
        &english,
    ])
    .await;
    let registered = railbird([
        "import",
        "hkjc-zh-horses",
        &profiles,
        "--nats",
        &url,
        "--ids",
        &english,
        "--results",
        &results,
    ])
    .await;
    [imported.summary, registered.summary]
}

type Row = BTreeMap<String, String>;

/// The distinct rows of a file.
fn rows(path: &Path) -> BTreeSet<Row> {
    let text = fs::read_to_string(path).unwrap();
    let mut reader = csv::Reader::from_reader(text.trim_start_matches('\u{feff}').as_bytes());
    reader.deserialize().map(Result::unwrap).collect()
}

/// The brand in `四季勁 (T032)`.
fn brand(name: &str) -> &str {
    let (_, behind) = name.split_once(" (").unwrap();
    behind.split_once(')').unwrap().0
}

/// The numbers and names of the horses of the English season by brand. Old brands may have a letter in front.
fn english_horses(data: &Path) -> BTreeMap<String, (String, String)> {
    let mut horses = BTreeMap::new();
    for file in fs::read_dir(data.join(ENGLISH)).unwrap() {
        let races: Vec<Value> =
            serde_json::from_slice(&fs::read(file.unwrap().path()).unwrap()).unwrap();
        for runner in races
            .iter()
            .flat_map(|race| race["runners"].as_array().unwrap())
        {
            let (id, name) = (
                runner["horseId"].as_str().unwrap(),
                runner["horseName"].as_str().unwrap(),
            );
            let plain = name.split('(').next().unwrap().trim().to_owned();
            let brand = id.rsplit('_').next().unwrap();
            for brand in [brand.to_owned(), format!("C{brand}")] {
                horses.insert(brand, (id.to_owned(), plain.clone()));
            }
        }
    }
    horses
}

fn venue_code(name: &str) -> &'static str {
    match name {
        "沙田" => "ST",
        "跑馬地" => "HV",
        other => panic!("an unknown venue {other}"),
    }
}

fn text(value: &Value) -> String {
    value.as_str().unwrap().to_owned()
}

fn path_of(date: &str, race_number: &str, venue: &str) -> String {
    format!("/api/v1/results/{date}/{race_number}?venue={venue}")
}

/// Position, horse, time and odds of the finishers.
fn finishers(answer: &Value) -> Vec<(u64, String, String, String)> {
    let runners = answer["runners"].as_array().unwrap().iter();
    let mut finishers: Vec<_> = runners
        .map(|r| {
            let position = r["position"].as_u64().unwrap();
            (
                position,
                text(&r["horse_no"]),
                text(&r["finish_time"]),
                r["win_odds"].to_string(),
            )
        })
        .collect();
    finishers.sort();
    finishers
}

fn english_finishers(race: &OracleRace) -> Vec<(u64, String, String, String)> {
    let mut finishers: Vec<_> = race
        .finishers
        .iter()
        .map(|(position, horse, _, _, time, odds)| {
            (
                u64::from(*position),
                horse.clone(),
                time.clone(),
                Value::from(*odds).to_string(),
            )
        })
        .collect();
    finishers.sort();
    finishers
}

/// Compares every race that both seasons have with the English one.
async fn check_races(railbird: &Railbird, english: &[OracleRace]) {
    let mut missing = BTreeSet::new();
    let mut compared = 0;
    // The English JSON does not have this day.
    for race in english.iter().filter(|race| race.date != "2017-02-02") {
        let path = path_of(&race.date, &race.race_number.to_string(), &race.venue_code);
        let answer = railbird.get(&path).await;
        if answer.status == 404 {
            missing.insert(race.date.as_str());
            continue;
        }
        let answer = answer.json();
        assert_eq!(finishers(&answer), english_finishers(race), "{path}");
        assert_eq!(text(&answer["going"]), race.going, "{path}");
        let distance = answer["distance"].as_u64().unwrap();
        let known = distance > 0 && race.distance > 0;
        assert!(!known || distance == u64::from(race.distance), "{path}");
        // Either season lacks the classes of some races, and the English one the restrictions.
        let class = text(&answer["class"]);
        let class = class.split(" (").next().unwrap();
        let known = !class.is_empty() && !race.class.is_empty();
        assert!(!known || class == race.class, "{path}");
        compared += 1;
    }
    assert_eq!(compared, 754, "all races of both seasons");
    assert_eq!(
        missing.into_iter().collect::<Vec<_>>(),
        ["2017-07-01", "2017-07-09", "2017-07-12"]
    );
}

/// Horse, name, place or outcome, draw, weight, margin, body weight, running positions.
type Runner = [String; 8];

/// The runner of a row.
fn runner_of(row: &Row, horses: &BTreeMap<String, (String, String)>) -> Runner {
    let brand = brand(&row["horse_name"]);
    let own = row["horse_name"].split(" (").next().unwrap();
    let (horse_no, name) = horses
        .get(brand)
        .cloned()
        .unwrap_or_else(|| (brand.to_owned(), own.to_owned()));
    let [draw, weight] = ["draw", "actual_wt_lbs"].map(|column| match row[column].as_str() {
        "---" | "" => "0".to_owned(),
        figure => figure.to_owned(),
    });
    let words = [
        ("鼻位", "NOSE"),
        ("短馬頭位", "SH"),
        ("頭位", "HD"),
        ("頸位", "N"),
        ("多個馬位", "ML"),
        ("遙遙落後", "TO"),
    ];
    let known = |column: &str| match row[column].as_str() {
        "-" | "---" => "null".to_owned(),
        cell => cell.to_owned(),
    };
    let margin = known("lbw");
    let word = words.iter().find(|(chinese, _)| *chinese == margin);
    let margin = word.map_or(margin, |(_, english)| (*english).to_owned());
    let positions = known("running_position").replace(' ', ",");
    let place = row["place"].trim_end_matches(" 平頭馬").to_owned();
    let body_weight = known("declared_wt_lbs");
    [
        horse_no,
        name,
        place,
        draw,
        weight,
        margin,
        body_weight,
        positions,
    ]
}

/// Compares surface, course, ratings, prize money and sectionals of a race with its first row.
fn check_conditions(answer: &Value, row: &Row) {
    let course = row["course"].split('"').nth(1);
    let surface = if course.is_some() { "TURF" } else { "AWT" };
    let band = Some(row["rating_range"].as_str()).filter(|band| !band.is_empty());
    assert_eq!(answer["surface"], surface);
    assert_eq!(
        (answer["course"].as_str(), answer["rating_band"].as_str()),
        (course, band)
    );
    assert_eq!(answer["prize"].to_string(), row["prize_hkd"]);
    assert_eq!(answer["prize_currency"], "HKD");
    let times = answer["sectionals"].as_array().unwrap().iter().map(text);
    let times: Vec<String> = times
        .map(|time| time.trim_start_matches("0:").to_owned())
        .collect();
    assert_eq!(times.join(" "), row["sectional_times_header"]);
}

/// Compares every row with the answers, also of races that the English season lacks.
async fn check_rows(railbird: &Railbird, data: &Path, horses: &BTreeMap<String, (String, String)>) {
    let mut files: Vec<_> = fs::read_dir(data.join(RESULTS))
        .unwrap()
        .map(|f| f.unwrap().path())
        .collect();
    files.sort();
    let english_margins = margins_of_json(data);
    let (mut races, mut outcomes, mut margins) = (0, 0, 0);
    for file in files {
        let mut by_race: BTreeMap<(String, String, String), Vec<Row>> = BTreeMap::new();
        for row in rows(&file) {
            let key = (
                row["date"].clone(),
                row["race_no"].clone(),
                row["venue"].clone(),
            );
            by_race.entry(key).or_default().push(row);
        }
        for ((date, race_number, venue), rows) in by_race {
            let answer = railbird
                .get(&path_of(&date, &race_number, venue_code(&venue)))
                .await
                .json();
            assert_eq!(answer["race_name"], rows[0]["race_name"]);
            check_conditions(&answer, &rows[0]);
            let key = (
                date.clone(),
                venue_code(&venue).to_owned(),
                race_number.parse().unwrap(),
            );
            for runner in answer["runners"].as_array().unwrap() {
                let horse = text(&runner["horse_no"]);
                if let Some(margin) = english_margins.get(&(key.clone(), horse)) {
                    assert_eq!(
                        runner["margin"], **margin,
                        "the copies agree: {date} {race_number}"
                    );
                    margins += 1;
                }
            }
            let expected: BTreeSet<Runner> =
                rows.iter().map(|row| runner_of(row, horses)).collect();
            let of = |list: &str, place: &str| -> Vec<Runner> {
                let rows = answer[list].as_array().unwrap().iter();
                rows.map(|r| {
                    let fields = ["horse_no", "horse_name", place, "draw", "weight"];
                    let more = ["margin", "body_weight", "running_positions"];
                    let shown = |field| r[field].to_string().replace(['"', '[', ']'], "");
                    let fields: Vec<String> = fields.into_iter().chain(more).map(shown).collect();
                    fields.try_into().unwrap()
                })
                .collect()
            };
            let unplaced = of("unplaced", "outcome");
            outcomes += unplaced.len();
            races += 1;
            let served: BTreeSet<_> = of("runners", "position")
                .into_iter()
                .chain(unplaced)
                .collect();
            assert_eq!(served, expected, "{date} {race_number}");
        }
    }
    assert_eq!((races, outcomes), (778, 216), "all rows were compared");
    assert!(margins > 8_000, "{margins} margins are in both copies");
}

/// Compares weights, draws and classes of one day with the rows.
async fn check_cards(railbird: &Railbird, data: &Path) {
    let card = railbird.get("/api/v1/racecards/2016-09-03").await.json();
    assert_eq!(card["venue"], "Sha Tin");
    let mut served = BTreeSet::new();
    for race in card["races"].as_array().unwrap() {
        for runner in race["runners"].as_array().unwrap() {
            served.insert([
                race["race_number"].to_string(),
                text(&race["class"]),
                runner["number"].to_string(),
                runner["draw"].to_string(),
                runner["weight"].to_string(),
                text(&runner["jockey"]),
            ]);
        }
    }
    let known = |cell: &str| {
        if cell == "---" {
            "0".to_owned()
        } else {
            cell.to_owned()
        }
    };
    let expected = rows(&data.join(RESULTS).join("results_2016-09-03.csv"))
        .iter()
        // A reserve that was not called up is not on the card.
        .filter(|row| !row["horse_no"].is_empty())
        .map(|row| {
            let class = row["race_class"]
                .replace("第一班", "1")
                .replace("第二班", "2");
            let class = class
                .replace("第三班", "3")
                .replace("第四班", "4")
                .replace("第五班", "5");
            [
                row["race_no"].clone(),
                class,
                row["horse_no"].clone(),
                known(&row["draw"]),
                row["actual_wt_lbs"].clone(),
                row["jockey"].clone(),
            ]
        })
        .collect();
    assert_eq!(served, expected);
}

/// Compares the form of every horse with the English season.
async fn check_form(railbird: &Railbird, english: &[OracleRace]) {
    let mut expected: BTreeMap<&str, BTreeSet<[String; 4]>> = BTreeMap::new();
    for race in english.iter().filter(|race| race.date != "2017-02-02") {
        for (position, horse, _, _, time, odds) in &race.finishers {
            let row = [
                race.date.clone(),
                position.to_string(),
                time.clone(),
                Value::from(*odds).to_string(),
            ];
            expected.entry(horse).or_default().insert(row);
        }
    }
    let known_dates: BTreeSet<&str> = english.iter().map(|race| race.date.as_str()).collect();
    let missing = ["2017-02-02", "2017-07-01", "2017-07-09", "2017-07-12"];
    for (horse_no, mut rows) in expected {
        rows.retain(|row| !missing.contains(&row[0].as_str()));
        let answer = railbird
            .get(&format!("/api/v1/horses/{horse_no}/form"))
            .await;
        if answer.status == 404 {
            assert!(rows.is_empty(), "{horse_no}");
            continue;
        }
        let answer = answer.json();
        let served = answer["form"].as_array().unwrap().iter().map(|row| {
            let position = row["position"].to_string();
            [
                text(&row["date"]),
                position,
                text(&row["finish_time"]),
                row["win_odds"].to_string(),
            ]
        });
        let in_both = |row: &[String; 4]| {
            known_dates.contains(row[0].as_str()) && !missing.contains(&row[0].as_str())
        };
        assert_eq!(
            served.filter(in_both).collect::<BTreeSet<_>>(),
            rows,
            "{horse_no}"
        );
    }
}

/// Compares every profile with its row: with the races of the season in the log, the totals are those of the file.
async fn check_profiles(
    railbird: &Railbird,
    data: &Path,
    horses: &BTreeMap<String, (String, String)>,
) {
    let mut countries = BTreeSet::new();
    for row in rows(&data.join(PROFILES)) {
        let brand = &row["horse_no"];
        let retired = row["status"] != "active";
        // A horse that races in 2026 under a brand of 2012 is another one.
        let known = horses.get(brand).filter(|_| retired);
        let horse_no = known.map_or(brand, |(horse_no, _)| horse_no);
        let profile = railbird
            .get(&format!("/api/v1/horses/{horse_no}"))
            .await
            .json();
        let cell = |plain: &str| {
            if retired {
                row[plain].clone()
            } else {
                row[&format!("{plain}*")].clone()
            }
        };
        let stakes: u64 = cell("總獎金").replace(['$', ','], "").parse().unwrap();
        let record: Vec<u64> = cell("冠-亞-季-總出賽次數")
            .split('-')
            .map(|n| n.parse().unwrap())
            .collect();
        let number = |name: &str| profile[name].as_u64().unwrap();
        assert_eq!(
            [
                number("wins"),
                number("places"),
                number("starts"),
                number("total_stakes")
            ],
            [record[0], record[1] + record[2], record[3], stakes],
            "{horse_no}"
        );
        assert_eq!(profile["owner"], row["馬主"], "{horse_no}");
        assert_eq!(profile["stakes_currency"], "HKD");
        let sexes = [
            ("閹", "Gelding"),
            ("雄", "Horse"),
            ("雌", "Mare"),
            ("隱睪", "Rig"),
        ];
        let (_, sex) = sexes
            .iter()
            .find(|(sex, _)| row["毛色___性別"].ends_with(sex))
            .unwrap();
        assert_eq!(profile["sex"], *sex, "{horse_no}");
        if let Some((_, name)) = known {
            assert_eq!(profile["horse_name"], name.as_str());
        }
        countries.insert(text(&profile["country_of_origin"]));
    }
    let expected = [
        "ARG", "AUS", "CAN", "FR", "GB", "GER", "IRE", "ITY", "JPN", "NZ", "SAF", "SPA", "USA",
    ];
    assert_eq!(countries, expected.map(str::to_owned).into());
    let active = railbird.get("/api/v1/horses/L247").await.json();
    assert_eq!(
        (&active["country_of_origin"], &active["horse_name"]),
        (&"AUS".into(), &"威力飛騰".into())
    );
    assert!(active["age"].as_u64().unwrap() >= 3);
}

#[tokio::test]
async fn a_season_in_chinese_equals_the_season_in_english_and_a_second_import_changes_no_byte() {
    let Some(data) = chinese_data() else { return };
    let nats = Nats::start();
    let railbird = Railbird::start(&nats).await;
    let [results, profiles] = import(&nats, &data).await;
    assert!(
        results.starts_with("1556 read, 1556 published, 0 duplicates, 0 refused, 0 notes"),
        "{results}"
    );
    assert!(
        profiles.starts_with("1304 read, 1304 published, 0 duplicates, 0 refused, 1 notes"),
        "{profiles}"
    );
    let last = nats.last_seq().await;
    railbird.until_seq(last).await;

    let (english, horses) = (load(&data).races, english_horses(&data));
    check_races(&railbird, &english).await;
    check_rows(&railbird, &data, &horses).await;
    check_cards(&railbird, &data).await;
    check_form(&railbird, &english).await;
    check_profiles(&railbird, &data, &horses).await;

    let digest = railbird.digest();
    let [results, profiles] = import(&nats, &data).await;
    assert!(
        results.starts_with("1556 read, 0 published, 1556 duplicates"),
        "{results}"
    );
    assert!(
        profiles.starts_with("1304 read, 0 published, 1304 duplicates"),
        "{profiles}"
    );
    assert_eq!(nats.last_seq().await, last);
    assert_eq!(railbird.digest(), digest);
}
