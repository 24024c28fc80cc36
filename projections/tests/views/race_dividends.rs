use serde_json::{Value, json};

use crate::common::{Fact, Fixture, Race, card, dividends, pick, result, void};

const RACE: Race = ("2026-11-21", "ST", 3);

#[test]
fn dividends_are_served_by_pool_and_as_stated_within_a_pool() {
    let lines = json!([
        { "pool": "first_past_the_post", "unit": 1, "state": "no_winner" },
        { "pool": "quartet", "combination": [2, 1, 4, 3], "unit": 10, "dividend": 105_655 },
        { "pool": "place", "combination": [2], "unit": 10, "dividend": 28.5 },
        { "pool": "place", "combination": [1], "unit": 10, "dividend": 10.05 },
        { "pool": "all_up", "unit": 10, "state": "jackpot" },
        { "pool": "win", "combination": [2], "unit": 10, "dividend": 43.5 },
        { "pool": "win", "combination": [1], "unit": 10, "dividend": 12, "state": "consolation" },
    ]);
    let fixture = Fixture::given([dividends(RACE, 1).with("/dividends", lines)]);
    assert_eq!(
        fixture.dividends(RACE),
        json!({
            "race_number": 3, "status": "official", "revision": 1, "reason": "", "amended_at": "", "currency": "HKD",
            "dividends": [
                { "pool": "win", "combination": [2], "unit": 10.0, "dividend": 43.5 },
                { "pool": "win", "combination": [1], "unit": 10.0, "dividend": 12.0, "state": "consolation" },
                { "pool": "place", "combination": [2], "unit": 10.0, "dividend": 28.5 },
                { "pool": "place", "combination": [1], "unit": 10.0, "dividend": 10.05 },
                { "pool": "quartet", "combination": [2, 1, 4, 3], "unit": 10.0, "dividend": 105_655.0 },
                { "pool": "all_up", "combination": [], "unit": 10.0, "state": "jackpot" },
                { "pool": "first_past_the_post", "combination": [], "unit": 1.0, "state": "no_winner" },
            ],
        })
    );
    assert_eq!(fixture.result(RACE), Value::Null);
    assert_eq!(fixture.meeting("2026-11-21", "ST")["result_count"], 0);
}

/// Status, revision, reason and whether they were amended.
fn stated(fixture: &Fixture) -> Value {
    let dividends = fixture.dividends(RACE);
    let is_amended = dividends["amended_at"] != "";
    json!([
        dividends["status"],
        dividends["revision"],
        dividends["reason"],
        is_amended
    ])
}

fn provisional(revision: u32) -> Fact {
    dividends(RACE, revision).with("/status", json!("provisional"))
}

#[test]
fn a_higher_revision_replaces_dividends_and_a_lower_one_is_stale() {
    let mut fixture = Fixture::given([provisional(1)]);
    assert_eq!(stated(&fixture), json!(["provisional", 1, "", false]));
    fixture.when(dividends(RACE, 3));
    assert_eq!(stated(&fixture), json!(["official", 3, "", false]));
    let stale = fixture.when(provisional(2));
    assert_eq!((stale.tally.stale, stale.updates), (1, vec![]));
    let refund = dividends(RACE, 3)
        .with("/status", json!("refund"))
        .with("/reason", json!("Void"));
    fixture.when(refund);
    assert_eq!(stated(&fixture), json!(["refund", 3, "Void", true]));
}

#[test]
fn results_and_dividends_have_revisions_of_their_own() {
    let mut fixture = Fixture::given([
        card(RACE, &["A"]),
        result(RACE, 7, &[("A", "1")]),
        dividends(RACE, 1),
        result(RACE, 8, &[("A", "1")]).with("/runners/0/finish_time", json!("1:00.00")),
    ]);
    let revisions = Value::from(fixture.revisions(RACE));
    assert_eq!(pick(&revisions, &["revision"]), json!([[7], [8]]));
    fixture.when(void(RACE, 9));
    assert_eq!(fixture.result(RACE)["status"], "void");
    assert_eq!(stated(&fixture), json!(["official", 1, "", false]));
}

#[test]
fn dividends_are_sent_once_to_the_live_channel() {
    let mut fixture = Fixture::given([card(RACE, &["A"])]);
    let sent = fixture.live_messages(dividends(RACE, 1).id("one"));
    let [message] = &sent[..] else {
        panic!("{sent:?}")
    };
    assert_eq!(
        [
            "event",
            "venue_code",
            "race_number",
            "revision",
            "seq",
            "prev_seq"
        ]
        .map(|f| &message[f]),
        [
            &json!("dividends_update"),
            &json!("ST"),
            &json!(3),
            &json!(1),
            &json!(2),
            &json!(0)
        ]
    );
    assert_eq!(message["dividends"], fixture.dividends(RACE)["dividends"]);
    assert_eq!(
        fixture.live_messages(dividends(RACE, 1).id("one")),
        [Value::Null; 0]
    );
    assert_eq!(fixture.live_messages(dividends(RACE, 1)), [Value::Null; 0]);
    let next = fixture.live_messages(dividends(RACE, 2));
    assert_eq!(next[0]["prev_seq"], 2);
}
