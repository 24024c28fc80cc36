use serde_json::{Value, json};

use crate::common::{House, Race, card, odds, result, status, void};

const FIRST: Race = ("2026-11-21", "ST", 1);
const SECOND: Race = ("2026-11-21", "ST", 2);
const ELSEWHERE: Race = ("2026-11-21", "S1", 1);

#[test]
fn a_meeting_counts_its_races() {
    let house = House::given([
        card(FIRST, &["A"]),
        card(SECOND, &["B"]),
        result(FIRST, 1, &[("A", "1")]),
        card(ELSEWHERE, &["C"]),
    ]);
    assert_eq!(
        house.meeting("2026-11-21", "ST"),
        json!({
            "date": "2026-11-21", "venue": "Sha Tin", "venue_code": "ST", "status": "scheduled", "race_count": 2, "card_count": 2,
            "result_count": 1,
        })
    );
    let elsewhere = house.meeting("2026-11-21", "S1");
    assert_eq!(elsewhere["race_count"], 1);
    assert_eq!(elsewhere["venue"], "S1", "nobody said its name");
}

#[test]
fn a_venue_is_called_what_any_of_its_races_calls_it() {
    let elsewhere: Race = ("2026-11-21", "S1", 2);
    let mut house = House::given([
        card(ELSEWHERE, &["A"]),
        card(elsewhere, &["B"]).with("/venue_name", json!("Elsewhere Park")),
    ]);
    assert_eq!(house.meeting("2026-11-21", "S1")["venue"], "Elsewhere Park");
    house.when(result(ELSEWHERE, 1, &[("A", "1")]).with("/venue_name", json!("Elsewhere")));
    assert_eq!(
        house.meeting("2026-11-21", "S1")["venue"],
        "Elsewhere",
        "the first race that knows"
    );
}

#[test]
fn a_meeting_is_over_with_its_last_race_and_abandoned_with_all_of_them() {
    let mut house = House::given([
        card(FIRST, &["A"]),
        card(SECOND, &["B"]),
        status(FIRST, "abandoned"),
    ]);
    let status_of = |house: &House| house.meeting("2026-11-21", "ST")["status"].clone();
    assert_eq!(status_of(&house), "scheduled");
    house.when(result(SECOND, 1, &[("B", "1")]));
    assert_eq!(status_of(&house), "finished");
    house.when(void(SECOND, 2));
    assert_eq!(status_of(&house), "abandoned");
    house.when(status(FIRST, "open"));
    assert_eq!(status_of(&house), "scheduled");
}

#[test]
fn odds_alone_make_no_meeting() {
    let house = House::given([odds(FIRST, &[("A", json!(2.5))])]);
    assert_eq!(house.meeting("2026-11-21", "ST"), Value::Null);
}

#[test]
fn a_fact_that_changes_nothing_makes_no_race() {
    let house = House::given([crate::common::reinstated(FIRST, "A")]);
    assert_eq!(house.meeting("2026-11-21", "ST"), Value::Null);
}
