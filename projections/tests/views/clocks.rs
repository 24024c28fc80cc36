//! A clock that the log and its feeders share may be ahead for a while, and then be corrected.

use jiff::{Timestamp, ToSpan};
use projections::{Step, open_races};
use serde_json::json;

use crate::common::{Fact, Fixture, Race, dump, odds, open, status};

const RACE: Race = ("2026-11-21", "ST", 3);

/// So many seconds after the beginning of these tests, by a clock that is ahead by others.
fn time(second: i64, ahead: i64) -> String {
    let begin: Timestamp = "2026-11-21T06:00:00Z".parse().expect("a time");
    (begin + (second + ahead).seconds()).to_string()
}

/// Folds a fact at a second. The clock of its feeder and of the log is ahead.
fn when(fixture: &mut Fixture, second: i64, ahead: i64, mut fact: Fact) -> Step {
    fact.time = time(second, ahead);
    fixture.when_recorded_at(&time(second, ahead), fact)
}

fn quote(source: &'static str, price: i64) -> Fact {
    odds(RACE, &[("A", json!(price))]).from(source)
}

fn open_race_count(fixture: &Fixture) -> usize {
    let open = open_races(fixture.projection.store());
    open.expect("a healthy store").len()
}

#[test]
fn facts_after_a_shared_clock_is_corrected_are_current() {
    let mut fixture = Fixture::given([]);
    when(&mut fixture, 0, 0, status(RACE, "open"));
    for second in 1..=60 {
        for source in ["one", "other"] {
            when(&mut fixture, second, 40, quote(source, second + 1));
        }
    }
    when(&mut fixture, 60, 40, status(RACE, "closed"));
    assert_eq!(
        when(&mut fixture, 61, 0, status(RACE, "off")).updates.len(),
        1
    );
    assert_eq!(fixture.board(RACE)["status"], "off");
    for second in 61..=120 {
        for source in ["one", "other"] {
            let step = when(&mut fixture, second, 0, quote(source, second + 1));
            let shown = usize::from(source == "one");
            let found = (step.tally.stale, step.updates[0].messages.len());
            assert_eq!(found, (0, shown), "{second}");
            let board = fixture.board_of(RACE, source);
            assert_eq!(board["runners"][0]["win"], (second + 1) as f64);
        }
        fixture = fixture.reopen();
    }
}

#[test]
fn a_fact_is_current_that_waited_until_nats_ran_again_with_the_right_clock() {
    let mut fixture = Fixture::given([]);
    when(&mut fixture, 10, 40, status(RACE, "closed"));
    when(&mut fixture, 44, 40, quote("one", 2));
    // Corrected while NATS is away. The status is later than the one before, but its time is not.
    let mut off = status(RACE, "off");
    off.time = time(45, 0);
    fixture.when_recorded_at(&time(61, 0), off);
    assert_eq!(fixture.board(RACE)["status"], "off");
}

#[test]
fn facts_that_are_repeated_after_a_correction_change_nothing() {
    let statuses = ["open", "closed", "off"].map(|word| status(RACE, word).id(word));
    let mut fixture = Fixture::given([]);
    for (second, fact) in (1..).zip(statuses.clone()) {
        when(&mut fixture, second, 40, fact);
    }
    for (second, fact) in (1..).zip(statuses) {
        let mut repeated = fact;
        repeated.time = time(second, 40);
        fixture.when_recorded_at(&time(10 + second, 0), repeated);
    }
    when(&mut fixture, 20, 0, quote("one", 2));
    assert_eq!(fixture.board(RACE)["status"], "off");
}

/// The seconds of 400 days.
const FAR: i64 = 400 * 86_400;

#[test]
fn one_event_of_a_clock_far_ahead_closes_no_race() {
    let mut fixture = Fixture::given([]);
    when(&mut fixture, 0, 0, quote("one", 2));
    for race_number in 4..=5 {
        let race = (RACE.0, RACE.1, race_number);
        when(&mut fixture, 1, 0, odds(race, &[("A", json!(2))]));
    }
    when(&mut fixture, 2, FAR, quote("one", 3));
    assert_eq!(open_race_count(&fixture), 3);
    let step = when(&mut fixture, 3, 0, quote("one", 4));
    assert_eq!((step.corrections.len(), step.updates.len()), (1, 1));
    assert_eq!(open_race_count(&fixture.reopen()), 3);
}

#[test]
fn races_that_a_clock_far_ahead_closed_are_open_after_its_correction() {
    let other = ("2026-11-21", "ST", 4);
    let over = ("2026-11-21", "ST", 5);
    let earlier = ("2026-11-19", "ST", 1);
    let facts: Vec<(Fact, i64, i64)> = vec![
        (quote("one", 2), 0, 0),
        (odds(earlier, &[("A", json!(2))]), 1, 0),
        (odds(other, &[("A", json!(2))]), 2, 0),
        (odds(over, &[("A", json!(2))]), 3, 0),
        (status(over, "finished"), 4, 0),
        (quote("one", 3), 5, FAR),
        (quote("one", 4), 6, FAR),
        (quote("one", 5), 7, 0),
    ];
    let mut fixture = Fixture::given([]);
    let mut messages = Vec::new();
    for ((mut fact, second, ahead), seq) in facts.into_iter().zip(1..) {
        fact.time = time(second, ahead);
        messages.push((time(second, ahead), fact.subject(), fact.payload(seq)));
        when(&mut fixture, second, ahead, fact);
        let is_ahead = (6..=7).contains(&second);
        let is_open = [RACE, other].map(|race| fixture.is_open(race));
        if second > 4 {
            assert_eq!(is_open, [second != 6; 2], "{second}");
        }
        assert!(!is_ahead || !fixture.is_open(over) && !fixture.is_open(earlier));
        fixture = fixture.reopen();
    }
    // A rebuild folds all in few steps.
    let folder = tempfile::tempdir().expect("a folder");
    let mut rebuilt = open(folder.path());
    let stored = messages
        .iter()
        .zip(1..)
        .map(|((at, subject, payload), seq)| projections::StoredMessage {
            seq,
            recorded_at: events::Moment::parse(at).expect("a time"),
            subject,
            payload,
        });
    rebuilt.step(stored, false).expect("a healthy store");
    assert_eq!(dump(rebuilt.store()), dump(fixture.projection.store()));
    assert_eq!(rebuilt.checkpoint(), fixture.projection.checkpoint());
}
