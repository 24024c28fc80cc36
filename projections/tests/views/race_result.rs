use serde_json::{Value, json};

use crate::common::{Fixture, Race, card, pick, result, rider, status, void, withdrawn};

const RACE: Race = ("2026-11-21", "ST", 3);

fn placings(fixture: &Fixture) -> Value {
    pick(&fixture.result(RACE)["runners"], &["position", "horse_no"])
}

fn unplaced(fixture: &Fixture) -> Value {
    pick(&fixture.result(RACE)["unplaced"], &["outcome", "horse_no"])
}

#[test]
fn a_result_is_served_as_it_was_declared() {
    let declared = result(RACE, 1, &[("B", "2"), ("A", "1"), ("C", "PU")])
        .with("/venue_name", json!("Sha Tin"))
        .with("/race_name", json!("THE CUP"))
        .with("/distance", json!(1600))
        .with("/going", json!("SOFT"))
        .with("/runners/1/finish_time", json!("1:34.07"))
        .with("/runners/1/win_odds", json!(4))
        .with("/runners/1/number", json!(9))
        .with("/status", json!("provisional"));
    let fixture = Fixture::given([declared]);
    assert_eq!(
        fixture.result(RACE),
        json!({
            "race_number": 3, "race_name": "THE CUP", "distance": 1600, "class": "", "going": "SOFT", "status": "provisional",
            "revision": 1, "reason": "",
            "runners": [
                { "position": 1, "horse_no": "A", "horse_name": "NAME A", "number": 9, "draw": 0, "weight": 0, "jockey": "Jockey A", "trainer": "Trainer A",
                  "finish_time": "1:34.07", "win_odds": 4.0, "stakes": 1000, "stakes_currency": "" },
                { "position": 2, "horse_no": "B", "horse_name": "NAME B", "number": 0, "draw": 0, "weight": 0, "jockey": "Jockey B", "trainer": "Trainer B",
                  "finish_time": "", "win_odds": 0, "stakes": 500, "stakes_currency": "" },
            ],
            "unplaced": [
                { "outcome": "PU", "horse_no": "C", "horse_name": "NAME C", "number": 0, "draw": 0, "weight": 0, "jockey": "Jockey C", "trainer": "Trainer C",
                  "finish_time": "", "win_odds": 0, "stakes": 0, "stakes_currency": "" },
            ],
        })
    );
}

#[test]
fn values_missing_from_a_result_come_from_the_card_before_or_after_it() {
    let declared = || {
        result(RACE, 1, &[("A", "1"), ("B", "2")])
            .with("/runners/0/horse_name", json!(""))
            .with("/runners/0/jockey", json!(""))
            .with("/runners/0/trainer", json!(""))
    };
    let card = || card(RACE, &["A", "B"]);
    let rider = || rider(RACE, "A", "Other");
    let before = Fixture::given([card(), rider(), declared()]);
    let after = Fixture::given([declared(), card(), rider()]);
    assert_eq!(before.result(RACE), after.result(RACE));
    assert_eq!(before.form("A"), after.form("A"));
    let result = after.result(RACE);
    assert_eq!(result["race_name"], "THE PLATE");
    assert_eq!(result["distance"], 1200);
    assert_eq!(result["class"], "Class 4");
    assert_eq!(result["going"], "GOOD");
    assert_eq!(
        pick(
            &result["runners"],
            &["horse_name", "jockey", "trainer", "number"]
        ),
        json!([
            ["NAME A", "Other", "Trainer A", 1],
            ["NAME B", "Jockey B", "Trainer B", 2]
        ])
    );
}

#[test]
fn draw_and_weight_are_those_of_the_card_after_changes_of_riders() {
    let fixture = Fixture::given([
        result(RACE, 1, &[("A", "1"), ("C", "2")]),
        card(RACE, &["A", "B"]),
        rider(RACE, "A", "Other").with("/weight", json!(117)),
        withdrawn(RACE, "B"),
    ]);
    let rows = ["runners", "unplaced"];
    let rows = rows.map(|list| pick(&fixture.result(RACE)[list], &["horse_no", "draw", "weight"]));
    assert_eq!(
        rows,
        [
            json!([["A", 10, 117], ["C", 0, 0]]),
            json!([["B", 11, 121]])
        ]
    );
    let form = &fixture.form("A")[0].1;
    assert_eq!(
        [&form["class"], &form["draw"], &form["weight"]],
        [&json!("Class 4"), &json!(10), &json!(117)]
    );
}

#[test]
fn an_empty_text_in_a_result_does_not_hide_that_of_the_card() {
    let declared = result(RACE, 1, &[("A", "1")])
        .with("/race_name", json!(""))
        .with("/going", json!(""))
        .with("/distance", json!(0))
        .with("/venue_name", json!(""))
        .with("/runners/0/number", json!(0));
    let fixture = Fixture::given([card(RACE, &["A"]), declared]);
    let result = fixture.result(RACE);
    assert_eq!(result["race_name"], "THE PLATE");
    assert_eq!(result["going"], "GOOD");
    assert_eq!(result["distance"], 1200);
    assert_eq!(result["runners"][0]["number"], 1);
    assert_eq!(fixture.form("A")[0].1["venue"], "Sha Tin");
}

#[test]
fn a_higher_revision_replaces_and_a_lower_one_is_stale() {
    let mut fixture = Fixture::given([result(RACE, 2, &[("A", "1"), ("B", "2")])]);
    let step = fixture.when(
        result(RACE, 5, &[("B", "1"), ("A", "2")]).with("/reason", json!("Objection upheld")),
    );
    assert_eq!(step.tally.stale, 0);
    assert_eq!(placings(&fixture), json!([[1, "B"], [2, "A"]]));
    assert_eq!(fixture.result(RACE)["reason"], "Objection upheld");

    let step = fixture.when(result(RACE, 4, &[("A", "1"), ("B", "2")]));
    assert_eq!(step.tally.stale, 1);
    assert_eq!(placings(&fixture), json!([[1, "B"], [2, "A"]]));
    let revisions = fixture.revisions(RACE);
    assert_eq!(
        pick(
            &json!(revisions),
            &["statement", "revision", "status", "stale", "event_id"]
        ),
        json!([
            ["declared", 2, "official", false, "event-1"],
            ["declared", 5, "official", false, "event-2"],
            ["declared", 4, "official", true, "event-3"],
        ])
    );
    assert_eq!(
        pick(&revisions[1]["runners"], &["horse_no", "position"]),
        json!([["B", 1], ["A", 2]])
    );
}

#[test]
fn the_later_of_two_statements_with_one_revision_is_in_force() {
    let fixture = Fixture::given([
        result(RACE, 1, &[("A", "1")]),
        result(RACE, 1, &[("B", "1")]),
    ]);
    assert_eq!(placings(&fixture), json!([[1, "B"]]));
    assert_eq!(fixture.career("B"), [1, 1, 0, 1000]);
    assert_eq!(fixture.profile("A"), Value::Null);
}

#[test]
fn a_repeated_event_changes_nothing() {
    let first = || result(RACE, 1, &[("A", "1")]).id("first");
    let mut fixture = Fixture::given([first(), result(RACE, 1, &[("B", "1")])]);
    let before = fixture.revisions(RACE);
    fixture.when(first());
    assert_eq!(
        placings(&fixture),
        json!([[1, "B"]]),
        "it is before the statement in force"
    );
    assert_eq!(fixture.revisions(RACE), before);
    fixture = fixture.reopen();
    fixture.when(first());
    assert_eq!(fixture.revisions(RACE), before, "nor after a restart");
}

#[test]
fn the_same_statement_under_another_identity_adds_nothing() {
    let declared = || result(RACE, 1, &[("A", "1")]);
    let fixture = Fixture::given([declared(), declared()]);
    assert_eq!(fixture.revisions(RACE).len(), 1);
    assert_eq!(fixture.career("A"), [1, 1, 0, 1000]);
}

#[test]
fn a_voided_result_counts_for_nobody_and_may_be_declared_again() {
    let mut fixture = Fixture::given([
        card(RACE, &["A"]),
        result(RACE, 1, &[("A", "1")]),
        void(RACE, 2),
    ]);
    let result_view = fixture.result(RACE);
    assert_eq!(result_view["status"], "void");
    assert_eq!(result_view["revision"], 2);
    assert_eq!(result_view["reason"], "In error");
    assert_eq!(result_view["race_name"], "THE PLATE");
    assert_eq!(result_view["runners"], json!([]));
    assert_eq!(result_view["unplaced"], json!([]));
    assert_eq!(fixture.career("A"), [0, 0, 0, 0]);

    let step = fixture.when(result(RACE, 1, &[("A", "2")]));
    assert_eq!(step.tally.stale, 1);
    assert_eq!(fixture.result(RACE)["status"], "void");
    fixture.when(result(RACE, 3, &[("A", "2")]));
    assert_eq!(placings(&fixture), json!([[2, "A"]]));
    assert_eq!(fixture.career("A"), [1, 0, 1, 500]);
}

#[test]
fn a_void_without_a_result_is_a_statement_too() {
    let mut fixture = Fixture::given([void(RACE, 2)]);
    assert_eq!(fixture.result(RACE)["status"], "void");
    assert_eq!(
        pick(&json!(fixture.revisions(RACE)), &["statement", "status"]),
        json!([["voided", "void"]])
    );
    let step = fixture.when(result(RACE, 1, &[("A", "1")]));
    assert_eq!(step.tally.stale, 1);
    assert_eq!(fixture.profile("A"), Value::Null);
}

#[test]
fn an_abandoned_race_has_an_abandoned_result_until_there_is_a_statement() {
    let fog = || status(RACE, "abandoned").with("/reason", json!("Fog"));
    let mut fixture = Fixture::given([card(RACE, &["A"]), withdrawn(RACE, "A"), fog()]);
    let abandoned = json!({
        "race_number": 3, "race_name": "THE PLATE", "distance": 1200, "class": "Class 4", "going": "GOOD", "status": "abandoned",
        "revision": 0, "reason": "Fog", "runners": [], "unplaced": [],
    });
    assert_eq!(fixture.result(RACE), abandoned);
    assert_eq!(fixture.meeting("2026-11-21", "ST")["result_count"], 0);
    fixture.when(status(RACE, "open"));
    assert_eq!(fixture.result(RACE), Value::Null, "it is run after all");
    fixture.when(fog());
    fixture.when(result(RACE, 0, &[("A", "1")]));
    assert_eq!(fixture.result(RACE)["status"], "official");
    fixture.when(void(RACE, 1));
    assert_eq!(fixture.result(RACE)["status"], "void");
    assert_eq!(fixture.result(RACE)["reason"], "In error");
}

#[test]
fn a_disqualified_runner_keeps_its_time_and_its_odds_but_no_position() {
    let declared = result(RACE, 2, &[("B", "1"), ("A", "DISQ")])
        .with("/runners/1/finish_time", json!("1:34.02"))
        .with("/runners/1/win_odds", json!(2.75));
    let fixture = Fixture::given([result(RACE, 1, &[("A", "1"), ("B", "2")]), declared]);
    assert_eq!(placings(&fixture), json!([[1, "B"]]));
    let unplaced = &fixture.result(RACE)["unplaced"];
    assert_eq!(
        pick(unplaced, &["outcome", "finish_time", "win_odds"]),
        json!([["DISQ", "1:34.02", 2.75]])
    );
    assert_eq!(unplaced[0].get("position"), None);
    assert_eq!(fixture.career("A"), [1, 0, 0, 0]);
    assert_eq!(fixture.career("B"), [1, 1, 0, 1000]);
}

#[test]
fn a_dead_heat_repeats_the_position_and_skips_the_next() {
    let fixture = Fixture::given([result(
        RACE,
        1,
        &[("C", "3"), ("A", "1"), ("D", "4"), ("B", "1")],
    )]);
    assert_eq!(
        placings(&fixture),
        json!([[1, "A"], [1, "B"], [3, "C"], [4, "D"]])
    );
    let careers = ["A", "B", "C", "D"].map(|horse| fixture.career(horse));
    assert_eq!(
        careers,
        [
            [1, 1, 0, 1000],
            [1, 1, 0, 1000],
            [1, 0, 1, 333],
            [1, 0, 0, 250]
        ]
    );
}

#[test]
fn a_withdrawn_runner_that_a_result_leaves_out_is_unplaced() {
    let mut fixture = Fixture::given([
        card(RACE, &["A", "B", "C"]),
        withdrawn(RACE, "C"),
        withdrawn(RACE, "B"),
    ]);
    assert_eq!(fixture.result(RACE), Value::Null);
    fixture.when(result(RACE, 1, &[("A", "1"), ("B", "WV-A")]));
    assert_eq!(unplaced(&fixture), json!([["WV-A", "B"], ["SCR", "C"]]));
    assert_eq!(fixture.career("C"), [0, 0, 0, 0]);
}

#[test]
fn odds_are_the_exact_declared_price() {
    let declared = result(RACE, 1, &[("A", "1")]).with("/runners/0/win_odds", json!(12.345));
    let fixture = Fixture::given([declared]);
    let key = projections::keys::result(&crate::common::key(RACE));
    let bytes = String::from_utf8(fixture.bytes(&key).expect("a result")).expect("UTF-8");
    assert!(bytes.contains("\"win_odds\":12.345,"), "{bytes}");
}

#[test]
fn a_repeated_result_does_not_undo_an_amendment() {
    let second = || result(RACE, 1, &[("A", "1")]).id("second");
    let mut fixture = Fixture::given([
        result(RACE, 1, &[("A", "1")]),
        second(),
        result(RACE, 1, &[("B", "1")]),
    ]);
    fixture.when(second());
    assert_eq!(placings(&fixture), json!([[1, "B"]]));
}

#[test]
fn a_result_repeated_after_many_others_does_not_undo_them() {
    let declared = |n: u32| {
        let winner = ["A", "B"][n as usize % 2];
        result(RACE, 1, &[(winner, "1")])
            .id(&n.to_string())
            .with("/reason", json!(n.to_string()))
    };
    let mut fixture = Fixture::given((0..300).map(declared));
    let before = fixture.result(RACE);
    for n in 0..300 {
        assert_eq!(fixture.when(declared(n)).updates.len(), 0, "{n}");
        assert_eq!(fixture.result(RACE), before, "{n}");
    }
    assert!(
        fixture.revisions(RACE)[300..]
            .iter()
            .all(|row| row["stale"] == true)
    );
}

#[test]
fn revisions_are_in_the_order_of_the_log() {
    let declared = (1..=12).map(|n| result(RACE, n, &[("A", "1")]));
    let numbers: Vec<Value> = Fixture::given(declared)
        .revisions(RACE)
        .iter()
        .map(|revision| revision["revision"].clone())
        .collect();
    assert_eq!(numbers, (1..=12).map(|n| json!(n)).collect::<Vec<_>>());
}

#[test]
fn further_fields_are_those_of_the_result_else_of_the_card() {
    let declared = result(RACE, 1, &[("A", "1"), ("B", "2")])
        .with("/class", json!("Class 3"))
        .with("/surface", json!("TURF"))
        .with("/prize", json!(900))
        .with("/sectionals", json!(["0:24.60", "1:01.02"]))
        .with("/runners/1/margin", json!("2-1/2"))
        .with("/runners/1/running_positions", json!([5, 2]))
        .with("/runners/1/sectionals", json!(["0:25.10", "1:01.00"]))
        .with("/runners/1/draw", json!(3))
        .with("/runners/1/weight", json!(118))
        .with("/runners/1/body_weight", json!(1_101))
        .with("/runners/1/gear", json!("TT"));
    let on_card = card(RACE, &["A", "B"])
        .with("/surface", json!("DIRT"))
        .with("/course", json!("C+3"))
        .with("/prize", json!(800))
        .with("/prize_currency", json!("HKD"))
        .with("/runners/0/body_weight", json!(1_000))
        .with("/runners/0/gear", json!("B"));
    let fixture = Fixture::given([on_card, declared]);
    let result = fixture.result(RACE);
    assert_eq!(
        pick(
            &json!([result]),
            &[
                "class",
                "surface",
                "course",
                "prize",
                "prize_currency",
                "sectionals"
            ]
        ),
        json!([["Class 3", "TURF", "C+3", 900, null, ["0:24.60", "1:01.02"]]])
    );
    let fields = [
        "margin",
        "running_positions",
        "sectionals",
        "draw",
        "weight",
        "body_weight",
        "gear",
    ];
    let expected = json!([
        [null, null, null, 10, 120, 1_000, "B"],
        ["2-1/2", [5, 2], ["0:25.10", "1:01.00"], 3, 118, 1_101, "TT"]
    ]);
    assert_eq!(pick(&result["runners"], &fields), expected);
    let rows = ["A", "B"].map(|horse| fixture.form(horse).remove(0).1);
    assert_eq!(pick(&json!(rows), &fields), expected);
    assert!(
        result["runners"][0].get("margin").is_none(),
        "it is left out"
    );
}
