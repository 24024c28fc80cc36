use projections::last_quoted_at;
use serde_json::{Value, json};

use crate::common::{Fact, Fixture, Race, invested, key, market, odds, pick};

const RACE: Race = ("2026-11-21", "ST", 3);

fn total(source: &'static str, second: u32, pool: &str, amount: f64) -> Fact {
    invested(RACE, pool, amount)
        .from(source)
        .at(&format!("06:00:{second:02}"))
}

fn pools(fixture: &Fixture, fields: &[&str]) -> Value {
    pick(&fixture.sources(RACE)["pools"], fields)
}

#[test]
fn the_latest_total_of_each_pool_is_kept_for_each_source() {
    let mut fixture = Fixture::given([
        odds(RACE, &[("A", json!(3.0))]),
        total("tote", 10, "win", 1_000.5).id("one"),
        total("tote", 10, "quinella", 700.0),
        total("exchange", 5, "win", 90.0),
        total("tote", 12, "win", 1_500.0),
    ]);
    let stale = fixture.when(total("tote", 11, "win", 1_200.0));
    let repeated = fixture.when(total("tote", 10, "win", 1_000.5).id("one"));
    assert_eq!((stale.tally.stale, repeated.tally.stale), (1, 0));
    assert_eq!((stale.updates.len(), repeated.updates.len()), (0, 0));
    let fixture = fixture.reopen();
    let stored = "2026-11-21T09:00";
    let expected = json!([
        { "pool": "win", "source": "exchange", "currency": "HKD", "invested": 90.0,
          "time": "2026-11-21T06:00:05Z", "recorded_at": format!("{stored}:04.123456Z") },
        { "pool": "quinella", "source": "tote", "currency": "HKD", "invested": 700.0,
          "time": "2026-11-21T06:00:10Z", "recorded_at": format!("{stored}:03.123456Z") },
        { "pool": "win", "source": "tote", "currency": "HKD", "invested": 1500.0,
          "time": "2026-11-21T06:00:12Z", "recorded_at": format!("{stored}:05.123456Z") },
    ]);
    assert_eq!(fixture.sources(RACE)["pools"], expected);
    assert_eq!(fixture.board(RACE)["seq"], 1);
    let latest = last_quoted_at(fixture.projection.store(), &key(RACE)).expect("a healthy store");
    let latest = latest.map(|moment| moment.to_string());
    assert_eq!(latest, Some(format!("{stored}:05.123456Z")));
}

#[test]
fn a_smaller_total_after_a_refund_replaces_the_larger_one() {
    let fixture = Fixture::given([
        total("tote", 1, "win", 900.0),
        total("tote", 2, "win", 800.0),
    ]);
    assert_eq!(pools(&fixture, &["invested"]), json!([[800.0]]));
}

#[test]
fn sources_and_pools_of_a_race_are_bounded_apart_from_markets() {
    let mut fixture = Fixture::given([]);
    for n in 0..17_u32 {
        let source: &'static str = Box::leak(format!("source_{n:02}").into_boxed_str());
        let step = fixture.when(total(source, 1, "win", 10.0));
        assert_eq!(step.tally.stale, u64::from(n == 16));
    }
    for n in 1..17_u32 {
        let step = fixture.when(total("source_00", 1, &format!("pool_{n}"), 10.0));
        assert_eq!(step.tally.stale, u64::from(n == 16));
    }
    let prices = json!([{ "combination": [1, 2], "odds": 7.0 }]);
    let quoted = fixture.when(market(RACE, "quinella", &prices).from("source_00"));
    assert_eq!(quoted.tally.stale, 0);
    let known = fixture.when(total("source_00", 2, "win", 20.0));
    assert_eq!(known.tally.stale, 0);
    let listed = pools(&fixture, &["source", "pool", "invested"]);
    assert_eq!(listed.as_array().map(Vec::len), Some(31));
    assert_eq!(listed[15], json!(["source_00", "win", 20.0]));
}
