use projections::horse_form::RowKind;
use projections::keys::{self, RidesOf};
use projections::rides::{RideCounter, RidesBy, season_month};
use serde_json::{Value, json};

use crate::common::{Fixture, Race, card, result, rider, void};

const FIRST: Race = ("2026-08-14", "HV", 2);
const SECOND: Race = ("2026-11-21", "ST", 3);

/// Whose rides there are, each once, with the number of rides.
fn rides(fixture: &Fixture, of: RidesOf) -> Vec<(String, usize)> {
    let mut whose: Vec<(String, usize)> = Vec::new();
    for entry in fixture.projection.store().scan(&keys::all_rides(of)) {
        let (key, _) = entry.expect("a healthy store");
        let of_this = keys::parse_whose_ride(of, &key).expect("a ride");
        match whose.last_mut().filter(|(last, _)| last == of_this) {
            Some((_, count)) => *count += 1,
            None => whose.push((of_this.to_owned(), 1)),
        }
    }
    whose
}

fn expected(whose: &[(&str, usize)]) -> Vec<(String, usize)> {
    let whose = whose.iter();
    whose
        .map(|(key, count)| ((*key).to_owned(), *count))
        .collect()
}

/// The figures of the rides of a person or at a venue, by groups.
fn figures(fixture: &Fixture, of: RidesOf, key: &str, by: Option<RidesBy>) -> Value {
    let store = fixture.projection.store();
    let mut counter = RideCounter::new(by, season_month("Asia/Hong_Kong"));
    for entry in store.scan(&keys::rides(of, key)) {
        let (race, horse) = keys::parse_ride(&entry.expect("a healthy store").0).expect("a ride");
        let row = store
            .get(&keys::form_row(&horse, &race))
            .expect("a healthy store");
        let row = row.expect("a form row");
        let (_, row) = RowKind::split(&row).expect("a form row");
        counter.add(row).expect("a ride");
    }
    let (all, groups) = counter.finish();
    json!({ "all": all, "groups": groups })
}

#[test]
fn a_person_with_an_identifier_is_one_by_that_else_by_the_name_in_an_area() {
    let with_id = card(SECOND, &["A", "B"]).with("/runners/0/jockey_id", json!("JA"));
    let elsewhere: Race = ("2026-11-21", "YO", 1);
    let fixture = Fixture::given([
        with_id,
        result(SECOND, 1, &[("A", "1"), ("B", "2")]),
        result(FIRST, 1, &[("A", "2"), ("B", "1")]),
        card(elsewhere, &["B"]).with("/time_zone", json!("Europe/London")),
        result(elsewhere, 1, &[("B", "1")]),
    ]);
    let jockeys = [
        ("Asia-Hong_Kong:Jockey A", 1),
        ("Asia-Hong_Kong:Jockey B", 2),
        ("Asia-Hong_Kong;JA", 1),
        ("Europe-London:Jockey B", 1),
    ];
    assert_eq!(rides(&fixture, RidesOf::Jockey), expected(&jockeys));
    let venues = [("HV", 2), ("ST", 2), ("YO", 1)];
    assert_eq!(rides(&fixture, RidesOf::Venue), expected(&venues));
}

#[test]
fn an_identifier_of_the_card_is_not_that_of_the_jockey_who_rode() {
    let with_id = card(SECOND, &["A"]).with("/runners/0/jockey_id", json!("JA"));
    let declared = result(SECOND, 1, &[("A", "1")]).with("/runners/0/jockey", json!(""));
    let fixture = Fixture::given([with_id, rider(SECOND, "A", "Other"), declared]);
    let jockeys = [("Asia-Hong_Kong:Other", 1)];
    assert_eq!(rides(&fixture, RidesOf::Jockey), expected(&jockeys));
}

#[test]
fn rides_follow_amendments_and_voids() {
    let mut fixture = Fixture::given([
        card(SECOND, &["A", "B"]),
        result(SECOND, 1, &[("A", "1"), ("B", "WV")]),
    ]);
    let jockeys = |fixture: &Fixture| rides(fixture, RidesOf::Jockey);
    let a = ("Asia-Hong_Kong:Jockey A", 1);
    assert_eq!(
        jockeys(&fixture),
        expected(&[a]),
        "a withdrawn runner has no ride"
    );
    let other = result(SECOND, 2, &[("A", "1")]).with("/runners/0/jockey", json!("Other"));
    fixture.when(other);
    assert_eq!(jockeys(&fixture), expected(&[("Asia-Hong_Kong:Other", 1)]));
    fixture.when(void(SECOND, 3));
    assert_eq!(jockeys(&fixture), expected(&[]));
}

#[test]
fn a_dead_heat_divides_the_return_of_a_winner() {
    let priced = |race, placing: &str| {
        result(race, 1, &[("A", placing), ("B", placing)])
            .with("/runners/0/win_odds", json!(4.5))
            .with("/runners/1/jockey", json!("Jockey A"))
    };
    let fixture = Fixture::given([priced(FIRST, "1"), priced(SECOND, "2")]);
    let key = "Asia-Hong_Kong:Jockey A";
    let figures = figures(&fixture, RidesOf::Jockey, key, Some(RidesBy::Season));
    let sum = json!({
        "starts": 4, "wins": 2, "places": 2, "strike_rate": 0.5, "priced_starts": 2, "profit": 0.25,
    });
    assert_eq!(figures["all"], sum);
    let seasons = [
        json!({ "value": "2025/26", "starts": 2, "wins": 2, "places": 0, "strike_rate": 1.0, "priced_starts": 1,
            "profit": 1.25 }),
        json!({ "value": "2026/27", "starts": 2, "wins": 0, "places": 2, "strike_rate": 0.0, "priced_starts": 1,
            "profit": -1.0 }),
    ];
    assert_eq!(figures["groups"], json!(seasons));
}
