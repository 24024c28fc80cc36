use serde_json::{Value, json};

use crate::common::{
    House, Race, card, going, odds, pick, reinstated, result, rider, status, void, withdrawn,
};

const RACE: Race = ("2026-11-21", "ST", 3);

fn horses(house: &House, list: &str) -> Value {
    pick(&house.card(RACE)[list], &["horse_no"])
}

#[test]
fn a_card_is_served_as_it_was_declared() {
    let house = House::given([
        card(RACE, &["A", "B"]).with("/off_time", json!("2026-11-21T14:05:00+08:00"))
    ]);
    assert_eq!(
        house.card(RACE),
        json!({
            "race_number": 3, "race_name": "THE PLATE", "distance": 1200, "class": "Class 4", "going": "GOOD", "status": "scheduled",
            "status_reason": "", "off_time": "2026-11-21T06:05:00Z",
            "runners": [
                { "horse_no": "A", "horse_name": "NAME A", "number": 1, "jockey": "Jockey A", "trainer": "Trainer A", "draw": 10, "weight": 120 },
                { "horse_no": "B", "horse_name": "NAME B", "number": 2, "jockey": "Jockey B", "trainer": "Trainer B", "draw": 11, "weight": 121 },
            ],
            "withdrawn": [],
        })
    );
}

#[test]
fn what_is_not_known_is_empty_and_never_left_out() {
    let bare = card(RACE, &["A"])
        .with("/going", Value::Null)
        .with("/class", json!(""))
        .with("/distance", json!(0));
    let card = House::given([bare]).card(RACE);
    assert_eq!(card["going"], "");
    assert_eq!(card["class"], "");
    assert_eq!(card["distance"], 0);
    assert_eq!(card["off_time"], "");
}

#[test]
fn another_card_replaces_the_one_before() {
    let mut house = House::given([card(RACE, &["A", "B"])]);
    house.when(card(RACE, &["B", "C"]).with("/race_name", json!("THE CUP")));
    assert_eq!(horses(&house, "runners"), json!([["B"], ["C"]]));
    assert_eq!(house.card(RACE)["race_name"], "THE CUP");
    assert!(house.form("A").is_empty(), "A stands on no card any more");
    assert_eq!(house.profile("A"), Value::Null);
}

#[test]
fn a_withdrawn_runner_stands_apart_with_the_reason_until_it_is_reinstated() {
    let mut house = House::given([card(RACE, &["A", "B"]), withdrawn(RACE, "A")]);
    assert_eq!(horses(&house, "runners"), json!([["B"]]));
    assert_eq!(
        pick(
            &house.card(RACE)["withdrawn"],
            &["horse_no", "reason", "draw"]
        ),
        json!([["A", "Lame", 10]])
    );
    house.when(reinstated(RACE, "A"));
    assert_eq!(horses(&house, "runners"), json!([["A"], ["B"]]));
    assert_eq!(horses(&house, "withdrawn"), json!([]));
}

#[test]
fn a_withdrawal_before_the_card_holds_for_the_card() {
    let mut house = House::given([withdrawn(RACE, "A")]);
    assert_eq!(
        house.card(RACE),
        Value::Null,
        "a withdrawal alone makes no card"
    );
    house.when(card(RACE, &["A", "B"]));
    assert_eq!(horses(&house, "withdrawn"), json!([["A"]]));

    let house = House::given([
        withdrawn(RACE, "A"),
        reinstated(RACE, "A"),
        card(RACE, &["A", "B"]),
    ]);
    assert_eq!(horses(&house, "withdrawn"), json!([]));
}

#[test]
fn a_withdrawal_outlives_another_card() {
    let house = House::given([
        card(RACE, &["A", "B"]),
        withdrawn(RACE, "A"),
        card(RACE, &["A", "B", "C"]),
    ]);
    assert_eq!(horses(&house, "withdrawn"), json!([["A"]]));
}

#[test]
fn a_rider_stands_until_a_card_says_something_new() {
    let riders = |house: &House| pick(&house.card(RACE)["runners"], &["jockey", "weight"]);
    let change = || rider(RACE, "A", "Other").with("/weight", json!(118));
    let mut house = House::given([card(RACE, &["A", "B"]), change()]);
    let changed = json!([["Other", 118], ["Jockey B", 121]]);
    assert_eq!(riders(&house), changed);

    house.when(card(RACE, &["A", "B"]));
    assert_eq!(
        riders(&house),
        changed,
        "the very same card says nothing new"
    );
    house = house.reopen();
    house.when(card(RACE, &["A", "B"]));
    assert_eq!(riders(&house), changed, "nor does it after a restart");

    house.when(card(RACE, &["A", "B", "C"]));
    assert_eq!(
        riders(&house),
        json!([["Jockey A", 120], ["Jockey B", 121], ["Jockey C", 122]])
    );
}

#[test]
fn the_same_card_is_the_same_to_the_last_digit_of_its_off_time() {
    let fine = || card(RACE, &["A"]).with("/off_time", json!("2026-11-21T06:05:00.123456789Z"));
    let mut house = House::given([fine(), rider(RACE, "A", "Other")]).reopen();
    house.when(fine());
    assert_eq!(house.card(RACE)["runners"][0]["jockey"], "Other");
}

#[test]
fn a_rider_without_a_weight_keeps_the_weight_of_the_card() {
    let house = House::given([rider(RACE, "A", "Other"), going(RACE, "SOFT")]);
    assert_eq!(house.card(RACE), Value::Null);
    let house = House::given([card(RACE, &["A"]), rider(RACE, "A", "Other")]);
    assert_eq!(
        pick(&house.card(RACE)["runners"], &["jockey", "weight"]),
        json!([["Other", 120]])
    );
}

#[test]
fn the_going_is_the_last_one_said() {
    let mut house = House::given([card(RACE, &["A"]), going(RACE, "YIELDING")]);
    assert_eq!(house.card(RACE)["going"], "YIELDING");
    house.when(card(RACE, &["A"]));
    assert_eq!(house.card(RACE)["going"], "YIELDING");
    house.when(card(RACE, &["A", "B"]));
    assert_eq!(house.card(RACE)["going"], "GOOD");
}

#[test]
fn the_status_is_the_last_one_said_until_there_is_a_result() {
    let mut house = House::given([status(RACE, "open")]);
    assert_eq!(house.card(RACE), Value::Null);
    house.when(card(RACE, &["A"]));
    assert_eq!(house.card(RACE)["status"], "open");
    house.when(status(RACE, "abandoned").with("/reason", json!("Fog")));
    assert_eq!(house.card(RACE)["status"], "abandoned");
    assert_eq!(house.card(RACE)["status_reason"], "Fog");
    house.when(status(RACE, "off"));
    assert_eq!(house.card(RACE)["status"], "off");
    assert_eq!(house.card(RACE)["status_reason"], "");
    house.when(result(RACE, 1, &[("A", "1")]));
    assert_eq!(house.card(RACE)["status"], "result");
    house.when(status(RACE, "finished"));
    assert_eq!(house.card(RACE)["status"], "result");
    house.when(void(RACE, 2));
    assert_eq!(house.card(RACE)["status"], "finished");
}

#[test]
fn a_void_race_of_which_no_status_was_said_is_abandoned() {
    let house = House::given([card(RACE, &["A"]), void(RACE, 1)]);
    assert_eq!(house.card(RACE)["status"], "abandoned");
}

#[test]
fn a_feeder_that_names_ever_new_horses_does_not_make_a_race_grow() {
    let horses: Vec<String> = (0..300).map(|n| format!("N{n}")).collect();
    let mut house = House::given([card(RACE, &["A"])]);
    for horse in &horses {
        house.when(withdrawn(RACE, horse));
        house.when(odds(RACE, &[(horse, json!(3))]));
    }
    assert_eq!(
        house.board(RACE)["runners"]
            .as_array()
            .expect("runners")
            .len(),
        256
    );
    house.when(withdrawn(RACE, "N7"));
    house.when(odds(RACE, &[("N7", json!(9))]));
    assert_eq!(
        house.board(RACE)["runners"]
            .as_array()
            .expect("runners")
            .len(),
        256
    );
}

#[test]
fn a_fact_that_comes_again_does_not_undo_what_was_said_since() {
    let first = || card(RACE, &["A"]).id("first");
    let out = || withdrawn(RACE, "A").id("out");
    let soft = || going(RACE, "SOFT").id("soft");
    let open = || status(RACE, "open").id("open");
    let mut house = House::given([
        first(),
        out(),
        soft(),
        open(),
        card(RACE, &["A", "B"]),
        reinstated(RACE, "A"),
        going(RACE, "GOOD"),
        status(RACE, "off"),
    ]);
    let card = house.card(RACE);
    for again in [first(), out(), soft(), open()] {
        house.when(again);
        assert_eq!(house.card(RACE), card);
    }
}

#[test]
fn the_very_same_card_under_another_identity_moves_no_board() {
    let prices = crate::common::odds(RACE, &[("A", json!(3))]);
    let mut house = House::given([card(RACE, &["A"]), prices]);
    let board = house.board(RACE);
    let step = house.when(card(RACE, &["A"]));
    assert_eq!((step.updates.len(), house.board(RACE)), (0, board));
}
