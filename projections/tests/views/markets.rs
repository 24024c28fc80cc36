use serde_json::{Value, json};

use crate::common::{Fact, Fixture, Race, market, odds, pick, ranked};

const RACE: Race = ("2026-11-21", "ST", 3);

fn quinella(source: &'static str, second: u32, prices: &Value) -> Fact {
    market(RACE, "quinella", prices)
        .from(source)
        .at(&format!("06:00:{second:02}"))
}

/// A price of 1 and 2.
fn first(odds: f64) -> Value {
    json!([{ "combination": [1, 2], "odds": odds }])
}

/// The sequences, the time of the latest change in the log, and the prices.
fn latest(fixture: &Fixture, market: &str, source: Option<&str>) -> Value {
    let found = fixture.market(RACE, market, source);
    let fields = ["source", "seq", "prev_seq", "recorded_at", "prices"];
    pick(&json!([found]), &fields)[0].take()
}

#[test]
fn markets_of_two_sources_are_kept_apart_and_quotes_of_some_combinations_are_merged() {
    let range = json!([{ "combination": [2], "low": 1.4, "high": 1.9 }]);
    let fixture = Fixture::given([
        odds(RACE, &[("A", json!(3.0))]),
        quinella("tote", 10, &json!([{ "combination": [1, 2], "odds": 7.5 }, { "combination": [1, 10], "odds": 50 }])),
        quinella("exchange", 9, &first(8.0)),
        market(RACE, "place_range", &range).from("tote"),
        quinella("tote", 11, &json!([{ "combination": [1, 2], "odds": 7.0 }, { "combination": [1, 3], "state": "suspended" }])),
    ])
    .reopen();
    let tote = json!(["tote", 5, 2, "2026-11-21T09:00:05.123456Z", [
        { "combination": [1, 2], "odds": 7.0 }, { "combination": [1, 3], "state": "suspended" },
        { "combination": [1, 10], "odds": 50.0 },
    ]]);
    assert_eq!(latest(&fixture, "quinella", Some("tote")), tote);
    assert_eq!(latest(&fixture, "quinella", None), tote);
    assert_eq!(
        latest(&fixture, "quinella", Some("exchange")),
        json!(["exchange", 3, 0, "2026-11-21T09:00:03.123456Z", first(8.0)])
    );
    assert_eq!(
        latest(&fixture, "place_range", None),
        json!(["tote", 4, 0, "2026-11-21T09:00:04.123456Z", range])
    );
    assert_eq!(
        fixture.market(RACE, "place_range", Some("exchange")),
        Value::Null
    );
    assert_eq!(fixture.market(RACE, "trio", None), Value::Null);
    let listed = pick(
        &fixture.sources(RACE)["markets"],
        &["market", "source", "primary", "seq", "time"],
    );
    let expected = json!([
        ["place_range", "tote", true, 4, "2026-11-21T06:00:00Z"],
        ["quinella", "exchange", false, 3, "2026-11-21T06:00:09Z"],
        ["quinella", "tote", true, 5, "2026-11-21T06:00:11Z"],
    ]);
    assert_eq!(listed, expected);
    assert_eq!(fixture.board(RACE)["seq"], 1);
    assert_eq!(fixture.history(RACE).concat().len(), 1);
}

#[test]
fn a_quote_that_is_late_repeated_or_without_a_change_is_no_change() {
    let mut fixture = Fixture::given([quinella("tote", 10, &first(7.0)).id("one")]);
    let stale = fixture.when(quinella("tote", 9, &first(6.0)));
    let repeated = fixture.when(quinella("tote", 10, &first(7.0)).id("one"));
    assert_eq!((stale.tally.stale, repeated.tally.stale), (1, 0));
    assert_eq!(latest(&fixture, "quinella", None)[1], 1);
    fixture.when(quinella("tote", 12, &first(7.0)));
    let unchanged = latest(&fixture, "quinella", None);
    assert_eq!(
        unchanged,
        json!(["tote", 1, 0, "2026-11-21T09:00:01.123456Z", first(7.0)])
    );
    // It counts as the latest one.
    assert_eq!(fixture.sources(RACE)["markets"][0]["seq"], 4);
    assert_eq!(
        fixture.when(quinella("tote", 11, &first(5.0))).tally.stale,
        1
    );
    // Another market has an order of its own.
    let early = market(RACE, "trio", &first(5.0))
        .from("tote")
        .at("06:00:01");
    assert_eq!(fixture.when(early).tally.stale, 0);
}

#[test]
fn the_source_of_a_market_that_ranks_highest_is_shown() {
    let mut fixture = Fixture::given([
        quinella("tote", 1, &first(7.0)),
        quinella("exchange", 1, &first(8.0)),
    ]);
    let shown = |fixture: &Fixture| fixture.market(RACE, "quinella", None)["source"].clone();
    assert_eq!(shown(&fixture), "tote", "the first");
    fixture.when(ranked(&["bookmaker", "exchange"]));
    assert_eq!(shown(&fixture), "exchange");
}

#[test]
fn sources_markets_and_combinations_of_a_race_are_bounded() {
    const SOURCES: [&str; 17] = [
        "a", "b", "c", "d", "e", "f", "g", "h", "i", "j", "k", "l", "m", "n", "o", "p", "q",
    ];
    let mut fixture = Fixture::given([]);
    for source in SOURCES {
        let step = fixture.when(quinella(source, 1, &first(7.0)).id("one"));
        assert_eq!(step.tally.stale, u64::from(source == "q"));
    }
    for n in 1..17 {
        let step = fixture.when(market(RACE, &format!("pool_{n}"), &first(7.0)).from("a"));
        assert_eq!(step.tally.stale, u64::from(n == 16));
    }
    for part in 0..5 {
        let price = |n: u32| json!({ "combination": [part, n], "odds": 7.0 });
        let prices: Vec<Value> = (0..1_024).map(price).collect();
        fixture.when(market(RACE, "exacta", &json!(prices)).from("b"));
    }
    let exacta = fixture.market(RACE, "exacta", None);
    assert_eq!(exacta["prices"].as_array().map(Vec::len), Some(4_096));
    fixture.when(
        market(
            RACE,
            "exacta",
            &json!([{ "combination": [0, 0], "odds": 8.0 }]),
        )
        .from("b"),
    );
    let exacta = fixture.market(RACE, "exacta", None);
    assert_eq!(exacta["prices"][0]["odds"], 8.0);
}

/// The live quote of a fact; null if it makes none.
fn sent(fixture: &mut Fixture, fact: Fact) -> Value {
    let step = fixture.when(fact);
    let quote = step
        .updates
        .first()
        .and_then(|update| update.quote.as_ref());
    quote.map_or(Value::Null, |quote| {
        serde_json::from_slice(&quote.message()).expect("JSON")
    })
}

#[test]
fn a_quote_is_sent_with_what_was_quoted_unless_it_changes_no_price() {
    let mut fixture =
        Fixture::given([odds(RACE, &[("A", json!(3.0)), ("B", json!(4.0))]).from("tote")]);
    let change = odds(RACE, &[("B", json!(4.5))]).from("tote").at("06:00:11");
    let common = |source: &str, market: &str, seq: u64, prev_seq: u64| {
        json!({
            "event": "quote", "date": "2026-11-21", "venue": "Sha Tin", "venue_code": "ST", "race_number": 3,
            "source": source, "market": market, "timestamp": "2026-11-21T06:00:11Z",
            "recorded_at": format!("2026-11-21T09:00:{seq:02}.123456Z"), "seq": seq, "prev_seq": prev_seq,
        })
    };
    let mut expected = common("tote", "win_place", 2, 1);
    expected["runners"] = json!([{ "horse_no": "B", "win": 4.5 }]);
    assert_eq!(sent(&mut fixture, change), expected);
    let repeated = odds(RACE, &[("B", json!(4.5))]).from("tote").at("06:00:12");
    assert_eq!(sent(&mut fixture, repeated), Value::Null);
    let two = json!([{ "combination": [1, 2], "odds": 7.5 }, { "combination": [1, 3], "state": "suspended" }]);
    let mut expected = common("exchange", "quinella", 4, 0);
    expected["prices"] = two.clone();
    assert_eq!(sent(&mut fixture, quinella("exchange", 11, &two)), expected);
    assert_eq!(
        sent(&mut fixture, quinella("exchange", 12, &two)),
        Value::Null
    );
    let late = quinella("exchange", 10, &first(9.0));
    assert_eq!(sent(&mut fixture, late), Value::Null);
    let change = sent(&mut fixture, quinella("exchange", 13, &first(8.0)));
    assert_eq!(
        (&change["prices"], &change["prev_seq"]),
        (&first(8.0), &json!(4))
    );
}
