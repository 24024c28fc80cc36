use serde_json::{Value, json};

use crate::common::{Fixture, Race, card, odds, result, status, void};

const FIRST: Race = ("2026-11-21", "ST", 1);
const SECOND: Race = ("2026-11-21", "ST", 2);
const ELSEWHERE: Race = ("2026-11-21", "S1", 1);

#[test]
fn a_meeting_counts_its_races() {
    let fixture = Fixture::given([
        card(FIRST, &["A"]),
        card(SECOND, &["B"]),
        result(FIRST, 1, &[("A", "1")]),
        card(ELSEWHERE, &["C"]),
    ]);
    assert_eq!(
        fixture.meeting("2026-11-21", "ST"),
        json!({
            "date": "2026-11-21", "venue": "Sha Tin", "venue_code": "ST", "status": "scheduled", "race_count": 2, "card_count": 2,
            "result_count": 1, "amended_count": 0, "amended_at": "",
        })
    );
    let elsewhere = fixture.meeting("2026-11-21", "S1");
    assert_eq!(elsewhere["race_count"], 1);
    assert_eq!(elsewhere["venue"], "S1", "its name is unknown");
}

#[test]
fn a_venue_has_the_name_that_any_of_its_races_states() {
    let elsewhere: Race = ("2026-11-21", "S1", 2);
    let mut fixture = Fixture::given([
        card(ELSEWHERE, &["A"]),
        card(elsewhere, &["B"]).with("/venue_name", json!("Elsewhere Park")),
    ]);
    assert_eq!(
        fixture.meeting("2026-11-21", "S1")["venue"],
        "Elsewhere Park"
    );
    fixture.when(result(ELSEWHERE, 1, &[("A", "1")]).with("/venue_name", json!("Elsewhere")));
    assert_eq!(
        fixture.meeting("2026-11-21", "S1")["venue"],
        "Elsewhere",
        "the first race that knows"
    );
}

#[test]
fn a_meeting_is_over_with_its_last_race_and_abandoned_with_all_of_them() {
    let mut fixture = Fixture::given([
        card(FIRST, &["A"]),
        card(SECOND, &["B"]),
        status(FIRST, "abandoned"),
    ]);
    let status_of = |fixture: &Fixture| fixture.meeting("2026-11-21", "ST")["status"].clone();
    assert_eq!(status_of(&fixture), "scheduled");
    fixture.when(result(SECOND, 1, &[("B", "1")]));
    assert_eq!(status_of(&fixture), "finished");
    fixture.when(void(SECOND, 2));
    assert_eq!(status_of(&fixture), "abandoned");
    fixture.when(status(FIRST, "open"));
    assert_eq!(status_of(&fixture), "scheduled");
}

#[test]
fn a_meeting_shows_its_amendments_by_the_time_of_the_log() {
    let provisional = result(FIRST, 1, &[("A", "1")]).with("/status", json!("provisional"));
    let mut fixture = Fixture::given([provisional, result(SECOND, 1, &[("B", "1")])]);
    let amended = |fixture: &Fixture| {
        let meeting = fixture.meeting("2026-11-21", "ST");
        [
            meeting["amended_count"].clone(),
            meeting["amended_at"].clone(),
        ]
    };
    fixture.when(result(FIRST, 2, &[("A", "1")]));
    assert_eq!(
        amended(&fixture),
        [json!(0), json!("")],
        "an official result after a provisional one is no amendment"
    );
    fixture.when_recorded("10:00:00", result(FIRST, 3, &[("A", "2")]));
    assert_eq!(amended(&fixture), [json!(1), json!("2026-11-21T10:00:00Z")]);
    fixture.when_recorded("11:00:00", void(SECOND, 2));
    assert_eq!(amended(&fixture), [json!(2), json!("2026-11-21T11:00:00Z")]);
    fixture.when_recorded("12:00:00", result(SECOND, 3, &[("B", "1")]));
    assert_eq!(amended(&fixture), [json!(2), json!("2026-11-21T12:00:00Z")]);
    fixture.when_recorded("13:00:00", result(FIRST, 2, &[("A", "3")]));
    assert_eq!(
        amended(&fixture),
        [json!(2), json!("2026-11-21T12:00:00Z")],
        "a stale statement is no amendment"
    );
}

#[test]
fn odds_alone_make_no_meeting() {
    let fixture = Fixture::given([odds(FIRST, &[("A", json!(2.5))])]);
    assert_eq!(fixture.meeting("2026-11-21", "ST"), Value::Null);
}

#[test]
fn a_fact_that_changes_nothing_makes_no_race() {
    let fixture = Fixture::given([crate::common::reinstated(FIRST, "A")]);
    assert_eq!(fixture.meeting("2026-11-21", "ST"), Value::Null);
}
