use projections::horse_form::RowKind;
use projections::keys;
use serde_json::{Value, json};

use crate::common::{
    House, Race, card, day, going, horse, pick, reinstated, result, rider, void, withdrawn,
};

const FIRST: Race = ("2026-11-14", "HV", 2);
const SECOND: Race = ("2026-11-21", "ST", 3);
const LATER_THAT_DAY: Race = ("2026-11-21", "ST", 10);

fn kinds(house: &House, horse_no: &str) -> Vec<(RowKind, Value)> {
    let rows = house.form(horse_no).into_iter();
    rows.map(|(kind, row)| (kind, row["position"].clone()))
        .collect()
}

#[test]
fn a_row_tells_of_the_race_as_it_was() {
    let said = result(SECOND, 1, &[("A", "2")])
        .with("/runners/0/finish_time", json!("0:56.47"))
        .with("/runners/0/win_odds", json!(7.5));
    let house = House::given([card(SECOND, &["A"]), said, going(SECOND, "SOFT")]);
    assert_eq!(
        house.form("A"),
        [(
            RowKind::Placed,
            json!({
                "date": "2026-11-21", "venue": "Sha Tin", "venue_code": "ST", "race_number": 3, "race_name": "THE PLATE",
                "distance": 1200, "going": "SOFT", "position": 2, "finish_time": "0:56.47", "win_odds": 7.5, "jockey": "Jockey A",
                "horse_name": "NAME A", "trainer": "Trainer A", "stakes": 500,
            })
        )]
    );
}

#[test]
fn rows_stand_in_the_order_of_the_races_whatever_the_order_of_the_facts() {
    let house = House::given([
        result(LATER_THAT_DAY, 1, &[("A", "3")]),
        result(FIRST, 1, &[("A", "1")]),
        result(SECOND, 1, &[("A", "2")]),
    ]);
    let rows = kinds(&house, "A");
    assert_eq!(
        rows,
        [1, 2, 3].map(|position| (RowKind::Placed, json!(position)))
    );
    let from = keys::form_from(&horse("A"), day("2026-11-21"));
    let before = house
        .projection
        .store()
        .range(&keys::form(&horse("A")), &from)
        .count();
    assert_eq!(before, 1, "one race is before the 21st");
}

#[test]
fn a_row_is_placed_unplaced_or_on_a_card_only() {
    let mut house = House::given([card(SECOND, &["A", "B"])]);
    assert_eq!(kinds(&house, "A"), [(RowKind::Declared, Value::Null)]);
    house.when(result(SECOND, 1, &[("A", "PU"), ("B", "1")]));
    assert_eq!(house.form("A")[0].0, RowKind::Unplaced);
    assert_eq!(house.form("A")[0].1["outcome"], "PU");
    assert_eq!(house.form("A")[0].1.get("position"), None);
    assert_eq!(house.form("B")[0].1.get("outcome"), None);
    house.when(result(SECOND, 2, &[("B", "1")]));
    assert_eq!(
        kinds(&house, "A"),
        [(RowKind::Declared, Value::Null)],
        "the card still names it"
    );
    house.when(void(SECOND, 3));
    assert_eq!(kinds(&house, "B"), [(RowKind::Declared, Value::Null)]);
}

#[test]
fn a_withdrawn_runner_that_a_result_leaves_out_has_a_row_beside_the_form() {
    let mut house = House::given([
        card(SECOND, &["A", "B"]),
        rider(SECOND, "A", "Other"),
        withdrawn(SECOND, "A"),
    ]);
    assert_eq!(kinds(&house, "A"), [(RowKind::Declared, Value::Null)]);
    house.when(result(SECOND, 1, &[("B", "1")]));
    let (kind, row) = house.form("A").remove(0);
    assert_eq!(kind, RowKind::Unplaced);
    assert_eq!(
        pick(&json!([row]), &["outcome", "jockey", "trainer", "stakes"]),
        json!([["SCR", "Other", "Trainer A", 0]])
    );
    assert_eq!(house.career("A"), [0, 0, 0, 0]);
    house.when(reinstated(SECOND, "A"));
    assert_eq!(kinds(&house, "A"), [(RowKind::Declared, Value::Null)]);
    house.when(withdrawn(SECOND, "A"));
    assert_eq!(
        house.form("A")[0].0,
        RowKind::Unplaced,
        "also behind the result"
    );
    house.when(void(SECOND, 2));
    assert_eq!(kinds(&house, "A"), [(RowKind::Declared, Value::Null)]);
}

#[test]
fn an_amended_result_takes_its_rows_back() {
    let house = House::given([
        result(FIRST, 1, &[("A", "1"), ("B", "2")]),
        result(FIRST, 2, &[("B", "1")]),
    ]);
    assert!(house.form("A").is_empty());
    assert_eq!(kinds(&house, "B"), [(RowKind::Placed, json!(1))]);
}

#[test]
fn one_horses_form_is_not_that_of_another_whose_number_begins_alike() {
    let house = House::given([result(
        FIRST,
        1,
        &[("A", "1"), ("A1", "2"), ("A-1", "3"), ("A_1", "4")],
    )]);
    assert_eq!(kinds(&house, "A"), [(RowKind::Placed, json!(1))]);
    assert_eq!(kinds(&house, "A1"), [(RowKind::Placed, json!(2))]);
}
