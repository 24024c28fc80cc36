use projections::horse_form::RowKind;
use projections::keys;
use serde_json::{Value, json};

use crate::common::{
    Fixture, Race, card, day, going, horse, pick, reinstated, result, rider, void, withdrawn,
};

const FIRST: Race = ("2026-11-14", "HV", 2);
const SECOND: Race = ("2026-11-21", "ST", 3);
const LATER_THAT_DAY: Race = ("2026-11-21", "ST", 10);

fn kinds(fixture: &Fixture, horse_no: &str) -> Vec<(RowKind, Value)> {
    let rows = fixture.form(horse_no).into_iter();
    rows.map(|(kind, row)| (kind, row["position"].clone()))
        .collect()
}

#[test]
fn a_row_has_the_facts_as_of_the_race() {
    let declared = result(SECOND, 1, &[("A", "2")])
        .with("/runners/0/finish_time", json!("0:56.47"))
        .with("/runners/0/win_odds", json!(7.5));
    let fixture = Fixture::given([card(SECOND, &["A"]), declared, going(SECOND, "SOFT")]);
    assert_eq!(
        fixture.form("A"),
        [(
            RowKind::Placed,
            json!({
                "date": "2026-11-21", "venue": "Sha Tin", "venue_code": "ST", "race_number": 3, "race_name": "THE PLATE",
                "distance": 1200, "class": "Class 4", "going": "SOFT", "position": 2, "finish_time": "0:56.47", "win_odds": 7.5,
                "draw": 10, "weight": 120, "jockey": "Jockey A",
                "horse_name": "NAME A", "trainer": "Trainer A", "stakes": 500, "stakes_currency": "",
            })
        )]
    );
}

#[test]
fn rows_are_ordered_by_race_in_any_order_of_facts() {
    let fixture = Fixture::given([
        result(LATER_THAT_DAY, 1, &[("A", "3")]),
        result(FIRST, 1, &[("A", "1")]),
        result(SECOND, 1, &[("A", "2")]),
    ]);
    let rows = kinds(&fixture, "A");
    assert_eq!(
        rows,
        [1, 2, 3].map(|position| (RowKind::Placed, json!(position)))
    );
    let from = keys::form_from(&horse("A"), day("2026-11-21"));
    let before = fixture
        .projection
        .store()
        .range(&keys::form(&horse("A")), &from)
        .count();
    assert_eq!(before, 1, "one race is before the 21st");
}

#[test]
fn a_row_is_placed_unplaced_or_on_a_card_only() {
    let mut fixture = Fixture::given([card(SECOND, &["A", "B"])]);
    assert_eq!(kinds(&fixture, "A"), [(RowKind::Declared, Value::Null)]);
    fixture.when(result(SECOND, 1, &[("A", "PU"), ("B", "1")]));
    assert_eq!(fixture.form("A")[0].0, RowKind::Unplaced);
    assert_eq!(fixture.form("A")[0].1["outcome"], "PU");
    assert_eq!(fixture.form("A")[0].1.get("position"), None);
    assert_eq!(fixture.form("B")[0].1.get("outcome"), None);
    fixture.when(result(SECOND, 2, &[("B", "1")]));
    assert_eq!(
        kinds(&fixture, "A"),
        [(RowKind::Declared, Value::Null)],
        "the card still names it"
    );
    fixture.when(void(SECOND, 3));
    assert_eq!(kinds(&fixture, "B"), [(RowKind::Declared, Value::Null)]);
}

#[test]
fn a_withdrawn_runner_that_a_result_leaves_out_has_an_unplaced_row() {
    let mut fixture = Fixture::given([
        card(SECOND, &["A", "B"]),
        rider(SECOND, "A", "Other"),
        withdrawn(SECOND, "A"),
    ]);
    assert_eq!(kinds(&fixture, "A"), [(RowKind::Declared, Value::Null)]);
    fixture.when(result(SECOND, 1, &[("B", "1")]));
    let (kind, row) = fixture.form("A").remove(0);
    assert_eq!(kind, RowKind::Unplaced);
    assert_eq!(
        pick(&json!([row]), &["outcome", "jockey", "trainer", "stakes"]),
        json!([["SCR", "Other", "Trainer A", 0]])
    );
    assert_eq!(fixture.career("A"), [0, 0, 0, 0]);
    fixture.when(reinstated(SECOND, "A"));
    assert_eq!(kinds(&fixture, "A"), [(RowKind::Declared, Value::Null)]);
    fixture.when(withdrawn(SECOND, "A"));
    assert_eq!(
        fixture.form("A")[0].0,
        RowKind::Unplaced,
        "also behind the result"
    );
    fixture.when(void(SECOND, 2));
    assert_eq!(kinds(&fixture, "A"), [(RowKind::Declared, Value::Null)]);
}

#[test]
fn an_amended_result_replaces_its_rows() {
    let fixture = Fixture::given([
        result(FIRST, 1, &[("A", "1"), ("B", "2")]),
        result(FIRST, 2, &[("B", "1")]),
    ]);
    assert!(fixture.form("A").is_empty());
    assert_eq!(kinds(&fixture, "B"), [(RowKind::Placed, json!(1))]);
}

#[test]
fn the_form_excludes_horses_whose_number_has_the_same_prefix() {
    let fixture = Fixture::given([result(
        FIRST,
        1,
        &[("A", "1"), ("A1", "2"), ("A-1", "3"), ("A_1", "4")],
    )]);
    assert_eq!(kinds(&fixture, "A"), [(RowKind::Placed, json!(1))]);
    assert_eq!(kinds(&fixture, "A1"), [(RowKind::Placed, json!(2))]);
}
