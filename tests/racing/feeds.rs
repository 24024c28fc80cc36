//! Feeders with equal times, and feeds that repeat themselves.

use serde_json::{Value, json};

use super::year::{Change, Race, Year};
use crate::support::*;

#[tokio::test]
async fn the_order_of_the_log_decides_between_two_feeders_with_equal_times() {
    let year = Year::new();
    let race = year.race("11-21", "ST", 3);
    let at = |second: u8| format!("{}T06:00:{second:02}Z", race.date());
    let from_feeder =
        |fact: Value, source: &str, time: &str| fact.under("source", source).under("time", time);
    // Two feeders publish each fact with one time. The later one in the log is in force.
    year.publish([
        from_feeder(year.registered("A").with("/owner", json!("X")), "x", &at(0)),
        from_feeder(year.registered("A").with("/owner", json!("Y")), "y", &at(0)),
        from_feeder(race.card("A B"), "x", &at(0)),
        from_feeder(race.card("A B C"), "y", &at(0)),
        from_feeder(race.status("closed"), "x", &at(0)),
        from_feeder(race.status("open"), "y", &at(0)),
        from_feeder(race.odds("A 2.0, B 3.0"), "y", &at(1)),
        from_feeder(race.odds("A 2.5"), "x", &at(1)),
    ])
    .await;
    assert_eq!(year.profile("A").await["owner"], "Y");
    let card = race.on_card().await;
    assert_eq!(
        (card["runners"].as_array().unwrap().len(), &card["status"]),
        (3, &json!("open"))
    );
    // The board is that of the source that quoted first.
    assert_eq!(race.prices().await, "A 2.0, B 3.0");

    // The time of a result never decides, not even an earlier one.
    year.publish([
        from_feeder(race.result(1, "A 1, B 2"), "x", &at(5)),
        from_feeder(race.result(1, "B 1, A 2"), "y", &at(5)),
    ])
    .await;
    assert_eq!(race.placings().await, "B 1, A 2");
    year.publish([from_feeder(race.result(1, "A 1, B 1"), "x", &at(3))])
        .await;
    assert_eq!(race.placings().await, "A 1, B 1");
    assert_eq!(
        race.revisions().await,
        ["1 official", "1 official", "1 official"]
    );

    // A price is stale by the times of its source. The history lists all, in the order of the log.
    year.publish([
        from_feeder(race.odds("A 9.0"), "y", &at(0)),
        from_feeder(race.odds("A 8.0"), "z", &at(0)),
    ])
    .await;
    assert_eq!(race.prices().await, "A 2.0, B 3.0");
    let history = year.json(&race.path("odds/history")).await;
    let quotes: Vec<_> = history["history"]
        .as_array()
        .unwrap()
        .iter()
        .map(|quote| {
            (
                quote["source"].as_str().unwrap(),
                quote["stale"].as_bool().unwrap(),
            )
        })
        .collect();
    assert_eq!(
        quotes,
        [("y", false), ("x", false), ("y", true), ("z", false)]
    );
}

#[tokio::test]
async fn markets_of_two_sources_are_served_by_choice_beside_a_board_that_stays_the_same() {
    let year = Year::new();
    let race = year.race("11-22", "ST", 4);
    let quoted =
        |market: &str, odds: f64, source: &str| race.market(market, odds).under("source", source);
    let odds_of = async |choice: &str| {
        let reply = year.get(&(race.path("odds") + choice)).await;
        (reply.status, reply.json()["prices"][0]["odds"].clone())
    };
    year.publish([quoted("quinella", 9.0, "early")]).await;
    assert_eq!(odds_of("&market=quinella").await, (200, json!(9.0)));
    let board = year.json(&race.path("odds")).await;
    assert_eq!((&board["seq"], &board["runners"]), (&json!(0), &json!([])));

    year.publish([race.card("A B"), race.odds("A 2.0, B 3.0")])
        .await;
    let board = year.json(&race.path("odds")).await;
    let first = year.publish([quoted("quinella", 8.0, "tote")]).await;
    let last = year
        .publish([
            quoted("quinella", 8.5, "exchange"),
            quoted("trio", 70.0, "tote"),
            quoted("quinella", 7.5, "tote"),
        ])
        .await;
    for (choice, expected) in [
        ("&market=quinella", (200, json!(9.0))),
        ("&market=quinella&source=tote", (200, json!(7.5))),
        ("&market=quinella&source=exchange", (200, json!(8.5))),
        ("&market=trio", (200, json!(70.0))),
        ("&market=trio&source=exchange", (404, Value::Null)),
        ("&market=quartet", (404, Value::Null)),
        ("&market=Trio", (400, Value::Null)),
    ] {
        assert_eq!(odds_of(choice).await, expected, "{choice}");
    }
    let quinella = year
        .json(&(race.path("odds") + "&market=quinella&source=tote"))
        .await;
    assert_eq!(
        (&quinella["seq"], &quinella["prev_seq"]),
        (&json!(last), &json!(first))
    );
    assert_eq!(year.json(&race.path("odds")).await, board);
    let sources = year.json(&race.path("odds/sources")).await;
    let markets = sources["markets"].as_array().unwrap().iter();
    let markets: Vec<String> = markets
        .map(|row| {
            format!("{} {} {}", row["market"], row["source"], row["primary"]).replace('"', "")
        })
        .collect();
    let expected = [
        "quinella early true",
        "quinella exchange false",
        "quinella tote false",
        "trio tote true",
    ];
    assert_eq!(markets, expected);
}

/// A race from its card to an amendment.
fn whole_race(race: &Race) -> Vec<Value> {
    vec![
        race.card("A B C D"),
        race.odds("A 2.0, B 3.0, C 4.0, D 5.0"),
        race.withdrawn("D"),
        race.status("closed"),
        race.result(1, "A 1, B 2, C PU"),
        race.result(2, "B 1, A 2, C PU"),
    ]
}

/// All responses about a race and its horses.
async fn everything(year: &Year, race: &Race) -> Vec<(String, Value)> {
    let date = race.date();
    let mut paths = vec![
        format!("results/{date}"),
        format!("racecards/{date}"),
        race.path("results/revisions"),
    ];
    paths.extend([
        race.path("odds/history"),
        format!("meetings?from={date}&to={date}"),
    ]);
    for horse in ["A", "B", "C", "D"].map(|horse| year.horse_no(horse)) {
        paths.extend([format!("horses/{horse}"), format!("horses/{horse}/form")]);
    }
    let mut served = Vec::new();
    for path in paths {
        let answer = year.json(&path).await;
        served.push((path, answer));
    }
    served
}

#[tokio::test]
async fn a_feed_that_repeats_itself_changes_nothing() {
    let year = Year::new();
    let race = year.race("11-21", "ST", 3);
    let mut facts = vec![year.registered("A")];
    facts.extend(whole_race(&race));
    year.publish(facts.clone()).await;
    let before = everything(&year, &race).await;
    // After NATS has forgotten the ids, in the same order and in reverse order.
    for again in [facts.clone(), facts.iter().rev().cloned().collect()] {
        let mut last = 0;
        for fact in again {
            let subject = outgoing(&fact).subject;
            last = year
                .nats()
                .publish_raw(&subject, fact.to_string().as_bytes())
                .await;
        }
        year.railbird().until_seq(last).await;
        assert_eq!(everything(&year, &race).await, before);
    }
    // The same facts but the quotes with other ids, as from a feeder that makes a new id each time.
    let renewed = facts
        .into_iter()
        .filter(|fact| fact["type"] != "racing.odds.quoted.v1");
    let renewed = renewed.map(|fact| fact.under("id", &uuid::Uuid::now_v7().to_string()));
    year.publish(renewed).await;
    let revisions = race.revisions().await;
    assert_eq!(
        revisions,
        ["1 official", "2 official", "1 official stale"],
        "the amended statement is stale"
    );
    let but_revisions = |served: Vec<(String, Value)>| -> Vec<(String, Value)> {
        served
            .into_iter()
            .filter(|(path, _)| !path.contains("/revisions"))
            .collect()
    };
    assert_eq!(
        but_revisions(everything(&year, &race).await),
        but_revisions(before)
    );
}

/// A made-up race as the Hong Kong files have it, with a dead heat for second.
fn race_of_a_file(date: &str, number: u16) -> Value {
    let runner = |placing: u16, horse: u16| {
        json!({
            "placing": placing, "horseNo": horse, "horseId": format!("HK_{}_K{horse:03}", &date[..4]), "brandNo": format!("K{horse:03}"),
            "horseName": format!("MADE UP {horse}"), "jockey": "A Rider", "trainer": "B Trainer",
            "finishSeconds": 69.0 + f64::from(placing) / 10.0, "winOdds": 3.5,
        })
    };
    json!({
        "date": date, "racecourse": "ST", "raceNo": number, "distance": null, "raceClass": null, "going": "GOOD",
        "runners": [runner(1, 1), runner(2, 2), runner(2, 3), runner(4, 4)],
    })
}

#[tokio::test]
async fn importing_twice_changes_nothing_nor_do_files_that_repeat_themselves() {
    let year = Year::new();
    let date = year.date("11-21");
    let folder = tempfile::tempdir().unwrap();
    let [first, second] = [race_of_a_file(&date, 1), race_of_a_file(&date, 2)];
    // A race that is twice in one file, one that is in two files, and a row that is repeated.
    let files = [
        ("a.json", json!([first, second, first]).to_string()),
        ("b.json", json!([second]).to_string()),
        ("c.csv", {
            let row = format!(
                "PU,5,MADE UP 5(K005),A Rider,B Trainer,---,99,{date},1,1200,GOOD,MADE UP PLATE,Sha Tin\n"
            );
            let header = "plc,horseno,horse,jockey,trainer,finishtime,winodds,date,raceno,distance,going,handicap,venue\n";
            format!("{header}{row}{row}")
        }),
    ];
    for (name, content) in &files {
        std::fs::write(folder.path().join(name), content).unwrap();
    }
    let [folder, url] = [
        folder.path().display().to_string(),
        year.nats().url_of("feeder"),
    ];
    let mut served = Vec::new();
    for published in [", 2 published, ", ", 0 published, "] {
        let output = railbird(["import", "hkjc-results", &folder, "--nats", &url]).await;
        assert_eq!(output.code, 0, "{}", output.all);
        assert!(output.summary.contains(published), "{}", output.all);
        year.railbird()
            .until_seq(year.nats().last_seq().await)
            .await;
        let horse = format!("horses/HK_{}_K002", &date[..4]);
        served.push([
            year.json(&format!("results/{date}")).await,
            year.json(&format!("results/{date}/1/revisions")).await,
            year.json(&horse).await,
            year.json(&format!("{horse}/form")).await,
        ]);
    }
    assert_eq!(served[0], served[1]);
    let [results, revisions, horse, _] = &served[0];
    let positions: Vec<_> = results["races"][0]["runners"]
        .as_array()
        .unwrap()
        .iter()
        .map(|row| &row["position"])
        .collect();
    assert_eq!(positions, [1, 2, 2, 4]);
    assert_eq!(results["races"][0]["unplaced"].as_array().unwrap().len(), 1);
    assert_eq!(results["races"].as_array().unwrap().len(), 2);
    assert_eq!(
        revisions["revisions"].as_array().unwrap().len(),
        1,
        "one statement"
    );
    assert_eq!([&horse["starts"], &horse["places"]], [&json!(2), &json!(2)]);
}
