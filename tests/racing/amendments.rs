//! Results that change after they were official.

use serde_json::{Value, json};

use super::year::{Change, Year};

fn none() -> [Vec<String>; 2] {
    [vec![], vec![]]
}

#[tokio::test]
async fn a_result_changes_hours_days_and_months_after_it_was_official() {
    let year = Year::new();
    let race = year.race("01-21", "ST", 3);
    let result = |revision, time: &str, placings| {
        let time = format!("{}T{}Z", year.date(&time[..5]), &time[6..]);
        race.result(revision, placings).under("time", &time)
    };
    let mut revisions = Vec::new();
    for (revision, time, placings) in [
        (1, "01-21 06:10:00", "A 1, B 2, C 3"),
        (2, "01-21 11:00:00", "B 1, A 2, C 3"),
        (3, "01-25 02:00:00", "B 1, C 2, A DISQ"),
        (7, "06-30 09:00:00", "C 1, A DISQ, B DISQ"),
    ] {
        year.publish([result(revision, time, placings)]).await;
        assert_eq!(race.placings().await, placings);
        revisions.push(format!("{revision} official"));
        assert_eq!(
            race.revisions().await,
            revisions,
            "every statement is listed"
        );
    }
    assert_eq!(
        year.careers("A B C").await,
        [[1, 0, 0], [1, 0, 0], [1, 1, 0]]
    );
    assert_eq!(
        year.career("A").await,
        [1, 0, 0, 0],
        "the earlier results do not count"
    );
    // A late statement with a lower revision is listed and changes nothing.
    year.publish([result(5, "07-01 09:00:00", "A 1, B 2, C 3")])
        .await;
    assert_eq!(race.placings().await, "C 1, A DISQ, B DISQ");
    assert_eq!(race.revisions().await.last().unwrap(), "5 official stale");
}

#[tokio::test]
async fn every_amendment_and_the_void_are_published_live() {
    let year = Year::new();
    let race = year.race("11-21", "ST", 3);
    let query = format!("date={}", race.date());
    let (mut socket, _) = year.railbird().live(&query).await;
    year.publish([race.card("A B"), race.result(1, "A 1, B 2")])
        .await;
    let amended = race
        .result(2, "B 1, A 2")
        .with("/reason", json!("Objection upheld"));
    let stale = race.result(1, "A 1");
    year.publish([amended, stale, race.void(3)]).await;
    let voided = |m: &Value| m["event"] == "result_update" && m["status"] == "void";
    let messages = socket.until_one(voided).await;
    let results: Vec<_> = messages
        .iter()
        .filter(|m| m["event"] == "result_update")
        .map(|m| {
            let fields = [&m["status"], &m["revision"], &m["reason"]].map(Value::to_string);
            (fields.join(" "), m["runners"].as_array().unwrap().len())
        })
        .collect();
    assert_eq!(
        results,
        [
            (r#""official" 1 """#.to_owned(), 2),
            (r#""official" 2 "Objection upheld""#.to_owned(), 2),
            (r#""void" 3 "In error""#.to_owned(), 0),
        ],
        "the stale statement is not published"
    );
}

#[tokio::test]
async fn a_row_published_by_mistake_is_deleted_again() {
    let year = Year::new();
    let race = year.race("11-21", "ST", 3);
    let earlier = year.race("11-01", "HV", 1);
    year.publish([
        earlier.result(1, "B 1"),
        race.result(1, "A 1, B 2, NOBODY 3, C 4"),
    ])
    .await;
    assert!(year.knows("NOBODY").await);
    year.publish([race.result(2, "A 1, C 3")]).await;
    assert_eq!(race.placings().await, "A 1, C 3");
    assert!(!year.knows("NOBODY").await, "it is in no other event");
    assert_eq!(
        year.career("B").await,
        [1, 1, 0, 1000],
        "the other race stays"
    );
    assert_eq!(year.form("B").await, [vec!["11-01 HV 1: 1"], vec![]]);
}

#[tokio::test]
async fn a_result_published_by_mistake_is_deleted_whole() {
    let year = Year::new();
    let race = year.race("11-21", "ST", 3);
    year.publish([
        race.card("A B"),
        race.result(1, "A 1, B 2, NOBODY 3"),
        race.void(2),
    ])
    .await;
    let result = race.served().await;
    assert_eq!(
        [&result["status"], &result["revision"], &result["reason"]],
        [&json!("void"), &json!(2), &json!("In error")]
    );
    assert_eq!(race.placings().await, "");
    assert_eq!(race.revisions().await, ["1 official", "2 void"]);
    assert_eq!(year.form("A").await, none());
    assert_eq!(year.career("A").await, [0, 0, 0, 0], "it is on a card");
    assert!(!year.knows("NOBODY").await);
}

#[tokio::test]
async fn an_amendment_months_later_changes_the_winner_and_nothing_of_the_races_between() {
    let year = Year::new();
    let first = year.race("01-10", "ST", 5);
    let between = [
        year.race("02-01", "HV", 2),
        year.race("03-01", "ST", 8),
        year.race("03-01", "ST", 10),
    ];
    year.publish([
        first.result(1, "A 1, B 2"),
        between[0].result(1, "B 1, A 2"),
        between[1].result(1, "A 3, B 4"),
        between[2].result(1, "B 1, A PU"),
    ])
    .await;
    let rows = |first: &str| {
        ["03-01 ST 8: 3", "02-01 HV 2: 2", first]
            .map(str::to_owned)
            .to_vec()
    };
    let pulled_up = vec!["03-01 ST 10: PU".to_owned()];
    assert_eq!(
        year.form("A").await,
        [rows("01-10 ST 5: 1"), pulled_up.clone()]
    );
    assert_eq!(year.career("A").await, [4, 1, 2, 1833]);
    assert_eq!(year.career("B").await, [4, 2, 1, 2750]);
    let unchanged = [between[0].served().await, between[2].served().await];

    let months_later = format!("{}T09:00:00Z", year.date("06-30"));
    year.publish([first.result(2, "B 1, A 2").under("time", &months_later)])
        .await;
    assert_eq!(first.placings().await, "B 1, A 2");
    assert_eq!(
        year.form("A").await,
        [rows("01-10 ST 5: 2"), pulled_up],
        "the row changes in its place"
    );
    assert_eq!(year.career("A").await, [4, 0, 3, 1333]);
    assert_eq!(year.career("B").await, [4, 3, 0, 3250]);
    assert_eq!(
        unchanged,
        [between[0].served().await, between[2].served().await]
    );
}

#[tokio::test]
async fn a_career_from_before_the_log_stays_while_races_are_amended_and_voided() {
    let year = Year::new();
    let race = year.race("11-21", "ST", 3);
    let career = json!({ "starts": 10, "wins": 2, "places": 3, "total_stakes": 5000 });
    let known = || year.registered("A").with("/career", career.clone());
    year.publish([known(), race.result(1, "A 1, B 2")]).await;
    assert_eq!(year.career("A").await, [11, 3, 3, 6000]);
    year.publish([race.result(2, "B 1, A 2")]).await;
    assert_eq!(year.career("A").await, [11, 2, 4, 5500]);
    year.publish([race.void(3)]).await;
    assert_eq!(year.career("A").await, [10, 2, 3, 5000]);
    year.publish([
        race.result(4, "A 1"),
        known().with("/owner", json!("New owner")),
    ])
    .await;
    assert_eq!(year.career("A").await, [11, 3, 3, 6000]);
    year.publish([race.result(5, "B 1, A WV-A")]).await;
    assert_eq!(
        year.career("A").await,
        [10, 2, 3, 5000],
        "it had not started at all"
    );
}

#[tokio::test]
async fn a_voided_race_is_run_again_under_its_number() {
    // Later events of other years would close the race.
    let year = Year::on_a_service_of_its_own();
    let race = year.race("11-21", "ST", 3);
    year.publish([
        race.card("A B C"),
        race.odds("A 2.0, B 3.0, C 4.0"),
        race.status("off"),
        race.result(1, "A 1, B 2, C 3"),
        race.void(2),
        race.status("abandoned"),
    ])
    .await;
    assert_eq!(race.on_card().await["status"], "abandoned");
    let query = format!("date={}", race.date());
    let (_socket, opening) = year.railbird().live(&query).await;
    assert_eq!(opening.last().unwrap()["races"], 0, "it is over");

    year.publish([
        race.card("A C D"),
        race.status("open"),
        race.odds("A 1.5, C 2.5, D 9.0"),
    ])
    .await;
    assert_eq!(race.on_card().await["status"], "open");
    let (_socket, opening) = year.railbird().live(&query).await;
    assert_eq!(opening.last().unwrap()["races"], 1, "it is open again");
    assert_eq!(race.served().await["status"], "void");

    year.publish([race.result(3, "D 1, A 2, C PU")]).await;
    assert_eq!(race.placings().await, "D 1, A 2, C PU");
    assert_eq!(race.on_card().await["status"], "result");
    assert_eq!(
        race.revisions().await,
        ["1 official", "2 void", "3 official"]
    );
    assert_eq!(
        year.careers("A C D").await,
        [[1, 0, 1], [1, 0, 0], [1, 1, 0]]
    );
    assert!(!year.knows("B").await, "it is on no card and in no result");
    assert_eq!(year.form("A").await, [vec!["11-21 ST 3: 2"], vec![]]);
}

#[tokio::test]
async fn a_card_after_its_result_fills_in_what_the_result_left_out() {
    let year = Year::new();
    let race = year.race("11-21", "ST", 3);
    let bare = race
        .result(1, "A 1, B 2")
        .with("/race_name", Value::Null)
        .with("/distance", Value::Null)
        .with("/going", Value::Null)
        .with("/runners/0/horse_name", json!(""))
        .with("/runners/0/jockey", json!(""));
    year.publish([bare]).await;
    let before = race.served().await;
    assert_eq!(
        [&before["race_name"], &before["distance"], &before["going"]],
        [&json!(""), &json!(0), &json!("")]
    );
    year.publish([race.card("A B C")]).await;
    let after = race.served().await;
    assert_eq!(
        [&after["race_name"], &after["distance"], &after["going"]],
        [&json!("THE ST PLATE 3"), &json!(1200), &json!("GOOD")]
    );
    let winner = &after["runners"][0];
    assert_eq!(
        [&winner["horse_name"], &winner["jockey"], &winner["number"]],
        [&json!("HORSE A"), &json!("Jockey A"), &json!(1)]
    );
    assert_eq!(race.placings().await, "A 1, B 2");
    assert_eq!(
        race.on_card().await["status"],
        "result",
        "the card does not change the status"
    );
    assert_eq!(
        year.careers("A B C").await,
        [[1, 1, 0], [1, 0, 1], [0, 0, 0]]
    );
    assert_eq!(year.profile("A").await["horse_name"], "HORSE A");
}
