//! Meetings: races with one number, meetings on one date, and the date of a meeting.

use events::VenueCode;
use railbird::clock::Clock;
use serde_json::{Value, json};

use super::year::{Change, Year};
use crate::support::*;

#[tokio::test]
async fn date_and_race_number_are_no_key_simulcasts_run_beside_local_races() {
    let year = Year::new();
    let local = year.race("11-21", "ST", 1);
    let simulcast = year.race("11-21", "S1", 1);
    let (mut at_local, _) = connect(&year, "venue=ST").await;
    let (mut at_simulcast, _) = connect(&year, "venue=S1").await;
    year.publish([
        simulcast.card("C D"),
        local.card("A B"),
        simulcast.odds("C 3.0, D 4.0"),
        local.odds("A 1.5, B 2.5"),
        simulcast.withdrawn("D"),
        simulcast.result(1, "C 1"),
        local.result(4, "B 1, A 2"),
        simulcast.void(2),
    ])
    .await;
    assert_eq!(local.placings().await, "B 1, A 2");
    assert_eq!(local.revisions().await, ["4 official"]);
    assert_eq!(local.prices().await, "A 1.5, B 2.5");
    assert_eq!(simulcast.served().await["status"], "void");
    assert_eq!(simulcast.revisions().await, ["1 official", "2 void"]);
    assert_eq!(simulcast.prices().await, "C 3.0, D null");
    assert_eq!(year.form("B").await, [vec!["11-21 ST 1: 1"], vec![]]);
    assert_eq!(
        year.careers("A B C").await,
        [[1, 0, 1], [1, 1, 0], [0, 0, 0]]
    );

    // Without `venue` all three serve the same race.
    let date = local.date();
    for view in ["results", "odds"] {
        assert_eq!(
            year.json(&format!("{view}/{date}/1")).await["venue_code"],
            "ST"
        );
    }
    assert_eq!(
        year.json(&format!("racecards/{date}")).await["venue_code"],
        "ST"
    );

    for (socket, venue, result) in [
        (&mut at_local, "ST", "official"),
        (&mut at_simulcast, "S1", "void"),
    ] {
        let last = |m: &Value| m["event"] == "result_update" && m["status"] == result;
        let messages = socket.until_one(last).await;
        assert!(
            messages.iter().all(|m| m["venue_code"] == venue),
            "{messages:?}"
        );
    }
}

/// A client of the live channel that follows the test's own year.
async fn connect(year: &Year, query: &str) -> (Socket, Vec<Value>) {
    let query = format!("date={}&{query}", year.date("11-21"));
    year.railbird().live(&query).await
}

#[tokio::test]
async fn odds_of_another_meeting_are_never_served() {
    let year = Year::new();
    let local = year.race("11-21", "ST", 1);
    let simulcast = year.race("11-21", "S1", 1);
    let path = format!("odds/{}/1", local.date());
    year.publish([simulcast.odds("C 3.0")]).await;
    assert_eq!(
        year.json(&path).await["venue_code"],
        "S1",
        "it is the only meeting of the day"
    );
    year.publish([year.race("11-21", "ST", 2).card("A B")])
        .await;
    for path in [path.clone(), format!("{path}/history")] {
        let reply = year.get(&path).await;
        let message = format!(
            "No race 1 is known at Sha Tin on {}; there is such a race at S1",
            local.date()
        );
        assert_eq!(
            (reply.status, reply.json()),
            (404, json!({ "error": "not_found", "message": message }))
        );
    }
    assert_eq!(
        simulcast.prices().await,
        "C 3.0",
        "they are served with `venue`"
    );
    year.publish([local.card("A B")]).await;
    let empty = year.json(&path).await;
    assert_eq!(
        (&empty["venue_code"], &empty["runners"]),
        (&json!("ST"), &json!([]))
    );
    year.publish([local.odds("A 1.5")]).await;
    assert_eq!(year.json(&path).await["venue_code"], "ST");
}

#[tokio::test]
async fn the_configured_order_of_venues_decides_the_primary_meeting() {
    let nats = Nats::start();
    let railbird = Railbird::start_with(&nats, |config| {
        config.venue_order = ["S1", "HV"]
            .map(|code| VenueCode::parse(code).unwrap())
            .to_vec();
    })
    .await;
    let today = jiff::Timestamp::now()
        .in_tz("Asia/Hong_Kong")
        .unwrap()
        .date();
    let mut facts = Vec::new();
    // Neither the first to arrive nor the first in the alphabet is the primary meeting.
    for venue in ["ST", "AA", "HV", "S1"] {
        facts.extend([card(DAY, venue, 1, 2), result(DAY, venue, 1, 2, 1)]);
        // The day may end while this runs.
        facts.push(card(&today.to_string(), venue, 1, 2));
        facts.push(card(&today.tomorrow().unwrap().to_string(), venue, 1, 2));
    }
    railbird.until_seq(nats.publish(facts).await).await;
    for path in [
        format!("/api/v1/results/{DAY}"),
        format!("/api/v1/results/{DAY}/1"),
        format!("/api/v1/results/{DAY}/1/revisions"),
        format!("/api/v1/racecards/{DAY}"),
        "/api/v1/racecards/today".to_owned(),
    ] {
        let primary = railbird.get(&path).await;
        assert_eq!(primary.json()["venue_code"], "S1", "{path}");
        assert_eq!(
            primary.json()["other_venues"],
            json!(["HV", "AA", "ST"]),
            "{path}"
        );
        let links: Vec<&str> = primary
            .headers
            .get_all("link")
            .iter()
            .map(|link| link.to_str().unwrap())
            .collect();
        let expected =
            ["HV", "AA", "ST"].map(|venue| format!("<{path}?venue={venue}>; rel=\"alternate\""));
        assert_eq!(links, expected, "{path}");
        for (link, venue) in links.iter().zip(["HV", "AA", "ST"]) {
            let target = link[1..].split_once('>').unwrap().0;
            let other = railbird.get(target).await;
            assert_eq!(other.json()["venue_code"], venue, "{target}");
            assert_eq!(other.headers.get_all("link").iter().count(), 3, "{target}");
        }
    }
}

#[tokio::test]
async fn race_numbers_have_holes() {
    let year = Year::new();
    let races = [1, 2, 5, 11].map(|number| year.race("11-21", "HV", number));
    year.publish(races.iter().rev().map(|race| race.card("A B")))
        .await;
    year.publish(
        races[1..]
            .iter()
            .rev()
            .map(|race| race.result(1, "A 1, B 2")),
    )
    .await;
    let numbers = |answer: &Value| -> Vec<u64> {
        let races = answer["races"].as_array().unwrap().iter();
        races
            .map(|race| race["race_number"].as_u64().unwrap())
            .collect()
    };
    let date = year.date("11-21");
    assert_eq!(
        numbers(&year.json(&format!("racecards/{date}")).await),
        [1, 2, 5, 11]
    );
    assert_eq!(
        numbers(&year.json(&format!("results/{date}")).await),
        [2, 5, 11]
    );
    let hole = year.get(&format!("results/{date}/3")).await;
    let message = format!("No result of race 3 is known at Happy Valley on {date}");
    assert_eq!(
        (hole.status, hole.json()["message"].clone()),
        (404, json!(message))
    );
    let meetings = year.json(&format!("meetings?from={date}&to={date}")).await;
    let meeting = &meetings["meetings"][0];
    assert_eq!(
        [
            &meeting["race_count"],
            &meeting["card_count"],
            &meeting["result_count"]
        ],
        [&json!(4), &json!(4), &json!(3)]
    );
    assert_eq!(
        year.form("A").await[0],
        ["11-21 HV 11: 1", "11-21 HV 5: 1", "11-21 HV 2: 1"],
        "ordered by number, not by its digits"
    );
}

#[tokio::test]
async fn a_race_at_00_20_belongs_to_the_evening_before() {
    let year = Year::new();
    let race = year.race("11-21", "HV", 9);
    let next_day = year.date("11-22");
    let after_midnight = |minute: &str| format!("{next_day}T00:{minute}:00+08:00");
    let (mut socket, _) = connect(&year, "race=9").await;
    year.publish([
        race.card("A B")
            .with("/off_time", json!(after_midnight("20"))),
        race.odds("A 2.0, B 3.0")
            .under("time", &after_midnight("10")),
        race.status("off").under("time", &after_midnight("20")),
        race.result(1, "A 1, B 2")
            .under("time", &after_midnight("25")),
    ])
    .await;
    assert_eq!(race.placings().await, "A 1, B 2");
    assert_eq!(race.prices().await, "A 2.0, B 3.0");
    assert_eq!(
        race.on_card().await["off_time"],
        format!("{}T16:20:00Z", year.date("11-21"))
    );
    assert_eq!(year.form("A").await, [vec!["11-21 HV 9: 1"], vec![]]);
    let horse = format!("horses/{}/form", year.horse_no("A"));
    for (before, rows) in [("11-22", 1), ("11-21", 0)] {
        let form = year
            .json(&format!("{horse}?before={}", year.date(before)))
            .await;
        assert_eq!(
            form["form"].as_array().unwrap().len(),
            rows,
            "before {before}"
        );
    }
    for view in ["results", "racecards"] {
        assert_eq!(year.get(&format!("{view}/{next_day}")).await.status, 404);
    }
    assert_eq!(year.get(&format!("odds/{next_day}/9")).await.status, 404);
    let messages = socket.until("result_update").await;
    assert!(
        messages.iter().all(|m| m["date"] == race.date()),
        "{messages:?}"
    );
    assert!(messages.iter().any(|m| m["event"] == "odds_update"));
}

#[tokio::test]
async fn today_is_the_day_in_the_configured_zone() {
    let nats = Nats::start();
    // The clocks of these zones are 26 hours apart, so they never have the same date.
    let zones = ["Pacific/Kiritimati", "Etc/GMT+12"];
    let today_in = |zone: &str| jiff::Timestamp::now().in_tz(zone).unwrap().date();
    let west = today_in(zones[1]);
    let days = (0..5).map(|n| {
        west.checked_add(jiff::Span::new().days(n))
            .unwrap()
            .to_string()
    });
    let seq = nats.publish(days.map(|day| card(&day, "ST", 1, 2))).await;
    for zone in zones {
        let railbird =
            Railbird::start_with(&nats, |config| config.clock = Clock::new(zone).unwrap()).await;
        railbird.until_seq(seq).await;
        let (today, answer) = loop {
            let today = today_in(zone);
            let answer = railbird.get("/api/v1/racecards/today").await.json();
            if today == today_in(zone) {
                break (today.to_string(), answer);
            }
        };
        assert_eq!(answer["date"], today, "{zone}");
    }
}

#[tokio::test]
async fn an_abandoned_race_is_200_with_its_status() {
    let year = Year::new();
    let [run, fog] = [1, 2].map(|number| year.race("11-21", "ST", number));
    let abandoned = fog.status("abandoned").with("/reason", json!("Fog"));
    year.publish([
        run.card("A B"),
        fog.card("A C"),
        run.result(1, "A 1, B 2"),
        abandoned,
    ])
    .await;
    let result = fog.served().await;
    assert_eq!(
        [
            &result["status"],
            &result["reason"],
            &result["revision"],
            &result["race_name"]
        ],
        [
            &json!("abandoned"),
            &json!("Fog"),
            &json!(0),
            &json!("THE ST PLATE 2")
        ]
    );
    assert_eq!(fog.placings().await, "");
    assert!(fog.revisions().await.is_empty(), "there is no statement");
    let date = year.date("11-21");
    let meeting = year.json(&format!("results/{date}")).await;
    let races: Vec<_> = meeting["races"]
        .as_array()
        .unwrap()
        .iter()
        .map(|race| &race["status"])
        .collect();
    assert_eq!(races, ["official", "abandoned"]);
    assert_eq!(meeting["meeting_status"], "finished");
    assert_eq!(fog.on_card().await["status_reason"], "Fog");
    assert_eq!(year.careers("A C").await, [[1, 1, 0], [0, 0, 0]]);

    // The fog lifts.
    year.publish([fog.status("open")]).await;
    assert_eq!(year.get(&fog.path("results")).await.status, 404);
    year.publish([fog.result(1, "C 1, A 2")]).await;
    assert_eq!(fog.placings().await, "C 1, A 2");
}

#[tokio::test]
async fn an_abandoned_meeting_is_200_with_its_status() {
    let year = Year::new();
    let races = [1, 2].map(|number| year.race("11-21", "ST", number));
    // The second race has a status only.
    year.publish([
        races[0].card("A B"),
        races[0].status("abandoned"),
        races[1].status("abandoned"),
    ])
    .await;
    let date = year.date("11-21");
    for view in ["results", "racecards"] {
        let meeting = year.json(&format!("{view}/{date}")).await;
        assert_eq!(meeting["meeting_status"], "abandoned", "{view}");
    }
    let results = year.json(&format!("results/{date}")).await;
    let statuses: Vec<_> = results["races"]
        .as_array()
        .unwrap()
        .iter()
        .map(|race| &race["status"])
        .collect();
    assert_eq!(statuses, ["abandoned", "abandoned"]);
    let meetings = year.json(&format!("meetings?from={date}&to={date}")).await;
    assert_eq!(
        [
            &meetings["meetings"][0]["status"],
            &meetings["meetings"][0]["result_count"]
        ],
        [&json!("abandoned"), &json!(0)]
    );
}
