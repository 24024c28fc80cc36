//! `?as_of=`: what was served at any moment is served again, byte for byte.

use jiff::Timestamp;
use serde_json::{Value, json};

use super::served::{Day, Served, answer_as_of, paths_of_horse, some};
use crate::conformance::rng::Rng;
use crate::importers::season::{import_everything, repeat};
use crate::support::*;

/// Two meetings of a day, with all kinds of changes.
fn events() -> Vec<Value> {
    let mut chinese = registered("H1", "HORSE 1");
    chinese["source"] = json!("chinese");
    chinese["time"] = json!("2026-09-02T09:00:00+08:00");
    chinese["data"]["names"] = json!({ "zh-Hant": "馬一" });
    let other = |mut quote: Value| {
        quote["source"] = json!("other");
        quote
    };
    let ranked = event(
        "sources.ranked",
        &second(3),
        json!({ "sources": ["other", "test"] }),
    );
    vec![
        odds("ST", 1, &second(0), &[3.5, 4.0, 12.34, 7.0]),
        card(DAY, "ST", 1, 4),
        registered("H1", "HORSE 1"),
        card(DAY, "HV", 1, 3),
        other(odds("ST", 1, &second(1), &[3.0, 4.5, 12.0, 8.0])),
        card(DAY, "ST", 1, 3),
        card(DAY, "ST", 2, 4),
        chinese,
        withdrawn("ST", 2, &second(2), "H2"),
        ranked,
        odds("ST", 1, &second(4), &[3.6, 4.0, 12.0]),
        other(odds("ST", 1, &second(5), &[2.9, 4.6, 13.0])),
        status("ST", 1, &second(6), "off"),
        result(DAY, "ST", 1, 3, 1),
        dividends(DAY, "ST", 1, 1),
        result(DAY, "ST", 1, 2, 2),
        card("2026-10-04", "ST", 1, 4),
        status("HV", 1, &second(7), "abandoned"),
        registered("H3", "HORSE THREE"),
        dividends(DAY, "ST", 1, 2),
    ]
}

#[tokio::test]
async fn every_answer_is_given_again_as_of_each_event() {
    let nats = Nats::start();
    let railbird = Railbird::start(&nats).await;
    let horses = [1, 2, 3, 4].map(|n| format!("H{n}"));
    let day = Day {
        date: DAY,
        venues: &["ST", "HV"],
        races: 2,
    };
    let mut paths = day.paths();
    paths.extend(horses.iter().flat_map(|horse| paths_of_horse(horse)));
    let mut served = Served::to(&railbird.key);
    for event in events() {
        let seq = nats.publish([event]).await;
        railbird.until_seq(seq).await;
        served.record(railbird.http, seq, &paths).await;
    }
    served.check(railbird.http).await;
    // Of another replica, which has folded all in one batch.
    let other = Railbird::start(&nats).await;
    other.until_seq(nats.last_seq().await).await;
    served.check(other.http).await;

    let board = format!("/api/v1/odds/{DAY}/1?venue=ST&");
    let boards: Vec<(u64, &str)> = served.bodies(&board).collect();
    let answer =
        async |as_of: &str| answer_as_of(railbird.http, &railbird.key, &board, as_of).await;
    assert_eq!(answer("off").await.body, boards[12].1);
    for (n, (seq, then)) in boards.iter().enumerate() {
        let time = nats.recorded_at(*seq).await;
        // Two events may be stored in one microsecond.
        let times = boards[n..].iter().map(|(seq, _)| nats.recorded_at(*seq));
        let same = futures::future::join_all(times).await;
        let same = same.iter().take_while(|at| **at == time).count();
        assert_eq!(
            answer(&time).await.body,
            boards[n + same - 1].1,
            "{time}: {then}"
        );
    }
}

#[tokio::test]
async fn a_place_that_is_wrong_is_an_error_that_says_so() {
    let nats = Nats::start();
    let railbird = Railbird::start(&nats).await;
    let last = nats.publish([card(DAY, "ST", 1, 3)]).await;
    railbird.until_seq(last).await;
    let path = format!("/api/v1/racecards/{DAY}");
    let soon = Timestamp::now() + jiff::SignedDuration::from_hours(1);
    for (as_of, status, error) in [
        ("0", 400, "invalid_parameter"),
        ("2", 400, "invalid_parameter"),
        ("yesterday", 400, "invalid_parameter"),
        ("", 400, "invalid_parameter"),
        ("off", 400, "invalid_parameter"),
        (&soon.to_string(), 400, "invalid_parameter"),
        ("2001-01-01T00:00:00Z", 410, "gone"),
    ] {
        let reply = railbird.get(&format!("{path}?as_of={as_of}")).await;
        let found = (reply.status, reply.json()["error"].clone());
        assert_eq!(found, (status, json!(error)), "{as_of}: {}", reply.text());
    }
    for path in ["/api/v1/horses?as_of=1", "/api/v1/account?as_of=1"] {
        assert_eq!(railbird.get(path).await.status, 400, "{path}");
    }
    let never = railbird
        .get(&format!("/api/v1/odds/{DAY}/1?as_of=off"))
        .await;
    assert_eq!(never.status, 404, "{}", never.text());
}

/// The events of an imported season, in the log of another server, a few at a time.
#[tokio::test]
async fn a_real_season_is_given_again_as_of_200_places() {
    let Some(data) = real_data() else { return };
    let imported = Nats::start();
    let _service = Railbird::start(&imported).await;
    import_everything(&imported, &data).await;
    let messages = imported.messages().await;
    let nats = Nats::start();
    let railbird = Railbird::start(&nats).await;
    let mut rng = Rng::new(29);
    let mut served = Served::to(&railbird.key);
    let mut horses = Vec::new();
    for some_messages in messages.chunks(messages.len().div_ceil(200)) {
        let seq = repeat(&nats, some_messages).await;
        railbird.until_seq(seq).await;
        let event: Value = serde_json::from_slice(&rng.of(some_messages).payload).unwrap();
        let data = &event["data"];
        let runners = data["runners"].as_array().into_iter().flatten();
        let named = runners
            .chain([data])
            .filter_map(|runner| runner["horse_no"].as_str());
        horses.extend(named.map(str::to_owned));
        let mut paths = Vec::new();
        if let Some(date) = data["date"].as_str() {
            let venue = data["venue"].as_str().unwrap_or("ST");
            let day = Day {
                date,
                venues: &[venue],
                races: 11,
            };
            paths.extend(some(&day.paths(), 6, &mut rng));
        }
        // Also of horses that have raced since their last answer.
        for _ in 0..3 {
            paths.extend(paths_of_horse(rng.of::<String>(&horses)));
        }
        served.record(railbird.http, seq, &paths).await;
    }
    served.check(railbird.http).await;
}
