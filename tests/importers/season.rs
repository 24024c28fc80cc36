//! A real season of racing, from the files to the answers, compared with an oracle that shares no code with them.

use std::path::Path;

use railbird::log::{LogMessage, Outgoing};
use serde_json::Value;

use super::season_facts::check_facts;
use crate::oracle::{OracleRace, Season, load};
use crate::support::*;

const SEASON: &str = "hkjc_en_json/2016-17";
const CSV: &str = "hkjc_en_csv/results_2016-17.csv";

async fn import(nats: &Nats, data: &Path, format: &str, paths: &[&str], more: &[&str]) -> Output {
    let paths: Vec<String> = paths
        .iter()
        .map(|path| data.join(path).display().to_string())
        .collect();
    let args = ["import", format]
        .into_iter()
        .chain(paths.iter().map(String::as_str))
        .chain(more.iter().copied());
    railbird(args.chain(["--nats", &nats.url_of("feeder")])).await
}

/// Imports the season with its cards and profiles, in the order that the README of the data gives.
pub(crate) async fn import_everything(nats: &Nats, data: &Path) -> Vec<String> {
    let ids = data.join(SEASON).display().to_string();
    let cards = data.join("hkjc_en_json/card_results").display().to_string();
    let ages = ["--ids", &ids, &cards, "--as-of", "2018-03-01"];
    let imports: [(&str, &[&str], &[&str]); 4] = [
        ("hkjc-results", &[SEASON, CSV], &[]),
        ("hkjc-cards", &["hkjc_en_json/cards"], &[]),
        ("hkjc-results", &["hkjc_en_json/card_results"], &[]),
        ("horses-csv", &["hkjc_en_csv/horse_info.csv"], &ages),
    ];
    let mut summaries = Vec::new();
    for (format, paths, more) in imports {
        summaries.push(import(nats, data, format, paths, more).await.summary);
    }
    summaries
}

fn check_race(answer: &Value, race: &OracleRace) {
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let mut served: Vec<_> = answer["runners"]
        .as_array()
        .unwrap()
        .iter()
        .map(|r| {
            (
                r["position"].as_u64().unwrap(),
                text(&r["horse_no"]),
                text(&r["jockey"]),
                text(&r["trainer"]),
                text(&r["finish_time"]),
                r["win_odds"].to_string(),
            )
        })
        .collect();
    let mut expected: Vec<_> = race
        .finishers
        .iter()
        .map(|(position, horse, jockey, trainer, time, odds)| {
            (
                u64::from(*position),
                horse.clone(),
                jockey.clone(),
                trainer.clone(),
                time.clone(),
                Value::from(*odds).to_string(),
            )
        })
        .collect();
    served.sort();
    expected.sort();
    assert_eq!(
        served, expected,
        "{} {} {}",
        race.date, race.venue_code, race.race_number
    );
    let positions: Vec<u64> = answer["runners"]
        .as_array()
        .unwrap()
        .iter()
        .map(|r| r["position"].as_u64().unwrap())
        .collect();
    assert!(positions.is_sorted());
    let mut unplaced: Vec<_> = answer["unplaced"]
        .as_array()
        .unwrap()
        .iter()
        .map(|r| (text(&r["horse_no"]), text(&r["outcome"])))
        .collect();
    unplaced.sort();
    assert_eq!(
        unplaced, race.unplaced,
        "{} {} {}",
        race.date, race.venue_code, race.race_number
    );
}

/// Compares the draw and the weight of every runner, placed or not.
fn check_draws(answer: &Value, race: &OracleRace) {
    let runners = ["runners", "unplaced"].map(|list| answer[list].as_array().unwrap());
    for runner in runners.into_iter().flatten() {
        let small = |field: &str| u16::try_from(runner[field].as_u64().unwrap()).unwrap();
        let horse = runner["horse_no"].as_str().unwrap();
        assert_eq!(
            (small("draw"), small("weight")),
            race.drawn[horse],
            "{horse} in {} {} {}",
            race.date,
            race.venue_code,
            race.race_number
        );
    }
}

async fn check_season(railbird: &Railbird, season: &Season) {
    let mut outcomes = 0;
    for race in &season.races {
        let path = format!(
            "/api/v1/results/{}/{}?venue={}",
            race.date, race.race_number, race.venue_code
        );
        let answer = railbird.get(&path).await;
        assert_eq!(answer.status, 200, "{path}");
        let answer = answer.json();
        check_race(&answer, race);
        check_draws(&answer, race);
        assert_eq!(
            (&answer["race_name"], &answer["class"], &answer["distance"]),
            (
                &race.race_name.as_str().into(),
                &race.class.as_str().into(),
                &race.distance.into()
            ),
            "{path}"
        );
        outcomes += race.unplaced.len();
    }
    assert_eq!(
        (season.races.len(), outcomes),
        (785, 109),
        "the oracle has read everything"
    );
    for (horse_no, totals) in &season.horses {
        let profile = railbird
            .get(&format!("/api/v1/horses/{horse_no}"))
            .await
            .json();
        let count = |name: &str| u32::try_from(profile[name].as_u64().unwrap()).unwrap();
        assert_eq!(
            (count("starts"), count("wins"), count("places")),
            (totals.starts, totals.wins, totals.places),
            "{horse_no}"
        );
        let trainer = profile["trainer"].as_str().unwrap();
        assert_eq!(trainer, season.trainers[horse_no], "{horse_no}");
        let form = railbird
            .get(&format!("/api/v1/horses/{horse_no}/form"))
            .await
            .json();
        let dates: Vec<&str> = form["form"]
            .as_array()
            .unwrap()
            .iter()
            .map(|row| row["date"].as_str().unwrap())
            .collect();
        assert!(dates.iter().rev().is_sorted(), "{horse_no}: newest first");
    }
}

#[tokio::test]
async fn a_whole_season_is_served_as_it_was_run_and_a_second_import_changes_no_byte() {
    let Some(data) = real_data() else { return };
    let season = load(&data);
    let nats = Nats::start();
    let railbird = Railbird::start(&nats).await;
    let summaries = import_everything(&nats, &data).await;
    assert!(
        summaries[0].starts_with("2352 read, 2352 published, 0 duplicates, 0 refused"),
        "{}",
        summaries[0]
    );
    let omitted = "(unnamed) 4979, horse_ch 4979, lbw 0.05 118, raceId 782, row 4979, source 782";
    for value in omitted.split(", ") {
        assert!(summaries[0].contains(value), "{value}: {}", summaries[0]);
    }
    let last = nats.last_seq().await;
    railbird.until_seq(last).await;
    check_season(&railbird, &season).await;
    check_cards(&railbird, &data).await;
    check_facts(&railbird, &data).await;

    let digest = railbird.digest();
    let summaries = import_everything(&nats, &data).await;
    assert!(
        summaries[0].starts_with("2352 read, 0 published, 2352 duplicates, 0 refused"),
        "{}",
        summaries[0]
    );
    assert!(
        summaries[0].ends_with("nothing changed: the log had all of it"),
        "{}",
        summaries[0]
    );
    assert_eq!(nats.last_seq().await, last);
    // A log that has everything twice makes the same views.
    let twice = repeat(&nats, &nats.messages().await).await;
    railbird.until_seq(twice).await;
    assert_eq!(railbird.digest(), digest);
    let verified = crate::support::railbird([
        "verify",
        "--admin",
        &railbird.admin.to_string(),
        "--nats",
        &nats.url(),
    ])
    .await;
    assert_eq!(verified.code, 0, "{}", verified.all);
}

/// Appends messages once more, and returns the sequence of the last one.
pub(crate) async fn repeat(nats: &Nats, messages: &[LogMessage]) -> u64 {
    let mut appender = nats.log().await.appender();
    for message in messages {
        let again = Outgoing {
            subject: message.subject().to_owned(),
            id: uuid::Uuid::now_v7().to_string(),
            payload: message.payload.to_vec(),
        };
        appender.append(again).await.unwrap();
    }
    appender.finish().await.unwrap().last().unwrap().seq
}

async fn check_cards(railbird: &Railbird, data: &Path) {
    for meeting in ["2026-06-13-ST", "2026-06-24-HV"] {
        let file = std::fs::read_to_string(data.join(format!("hkjc_en_json/cards/{meeting}.json")))
            .unwrap();
        let expected: Value = serde_json::from_str(&file).unwrap();
        let served = railbird
            .get(&format!("/api/v1/racecards/{}", &meeting[..10]))
            .await
            .json();
        assert_eq!(
            served["races"].as_array().unwrap().len(),
            expected.as_array().unwrap().len()
        );
        for (race, expected) in served["races"]
            .as_array()
            .unwrap()
            .iter()
            .zip(expected.as_array().unwrap())
        {
            assert_eq!(race["race_name"], expected["raceName"]);
            // If the card has no distance, that of the result is served.
            assert!(
                race["distance"].as_u64().unwrap() > 0
                    && (expected["distance"].is_null() || race["distance"] == expected["distance"])
            );
            let line = |horse: &str, r: &Value, weight: &str| {
                (
                    r[horse].to_string(),
                    r["jockey"].to_string(),
                    r["draw"].as_u64(),
                    r[weight].as_u64(),
                )
            };
            let served: Vec<_> = race["runners"]
                .as_array()
                .unwrap()
                .iter()
                .map(|r| line("horse_no", r, "weight"))
                .collect();
            let expected: Vec<_> = expected["runners"]
                .as_array()
                .unwrap()
                .iter()
                .map(|r| line("horseId", r, "actualWeight"))
                .collect();
            assert_eq!(served, expected);
        }
    }
}

#[tokio::test]
async fn the_json_is_served_without_the_csv() {
    let Some(data) = real_data() else { return };
    let nats = Nats::start();
    let railbird = Railbird::start(&nats).await;
    let output = import(&nats, &data, "hkjc-results", &[SEASON], &[]).await;
    assert!(
        output
            .summary
            .starts_with("2346 read, 2346 published, 0 duplicates, 0 refused"),
        "{}",
        output.all
    );
    railbird.until_seq(nats.last_seq().await).await;
    for race in load(&data)
        .races
        .iter_mut()
        .filter(|race| race.date != "2017-02-02")
    {
        let path = format!(
            "/api/v1/results/{}/{}?venue={}",
            race.date, race.race_number, race.venue_code
        );
        let answer = railbird.get(&path).await.json();
        race.unplaced.clear();
        check_race(&answer, race);
        check_draws(&answer, race);
    }
}

#[tokio::test]
async fn an_import_during_which_everything_is_killed_ends_with_the_same_bytes() {
    let Some(data) = real_data() else { return };
    let undisturbed = {
        let nats = Nats::start();
        let railbird = Railbird::start(&nats).await;
        import_everything(&nats, &data).await;
        railbird.until_seq(nats.last_seq().await).await;
        railbird.digest()
    };

    let mut nats = Nats::start();
    let log = nats.log().await;
    let folder = tempfile::tempdir().unwrap();
    let mut service = Serving::start(&nats, folder.path());
    for killed_at in [150, 400] {
        let (season, csv) = (
            data.join(SEASON).display().to_string(),
            data.join(CSV).display().to_string(),
        );
        let args = [
            "import".to_owned(),
            "hkjc-results".to_owned(),
            season,
            csv,
            "--nats".to_owned(),
            nats.url_of("feeder"),
        ];
        let importing = tokio::spawn(crate::support::railbird(args));
        eventually("the import is under way", || async {
            log.state(railbird::log::RACING)
                .await
                .is_ok_and(|s| s.last_seq >= killed_at)
        })
        .await;
        service.kill();
        nats.kill();
        nats.start_again();
        service = Serving::start(&nats, folder.path());
        importing.await.unwrap();
    }
    import_everything(&nats, &data).await;
    let last = nats.last_seq().await;
    let admin = service.admin.to_string();
    eventually("the views reflect it all", || async {
        let status = request(service.admin, "GET", "/digest", &[]).await;
        status.status == 200 && status.json()["seq"] == last
    })
    .await;
    assert_eq!(
        request(service.admin, "GET", "/digest", &[]).await.json()["digest"],
        undisturbed.as_str()
    );
    let verified =
        crate::support::railbird(["verify", "--admin", &admin, "--nats", &nats.url()]).await;
    assert_eq!(verified.code, 0, "{}", verified.all);
}
