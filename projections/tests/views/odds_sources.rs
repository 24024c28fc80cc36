use projections::{RaceReplay, StoredMessage};
use serde_json::{Value, json};

use crate::common::{Fact, Fixture, Race, card, odds, pick, ranked, recorded_at, withdrawn};

const RACE: Race = ("2026-11-21", "ST", 3);

fn quote(source: &'static str, second: u32, win: f64) -> Fact {
    odds(RACE, &[("A", json!(win))])
        .from(source)
        .at(&format!("06:00:{second:02}"))
}

/// Win, opening and previous price of a source.
fn prices(fixture: &Fixture, source: &str) -> Value {
    let board = fixture.board_of(RACE, source);
    pick(&board["runners"], &["win", "opening", "previous"])[0].take()
}

#[test]
fn two_sources_of_which_one_is_a_second_behind_keep_their_books_apart() {
    let mut fixture = Fixture::given([]);
    for (n, (tote, exchange)) in [(3.0, 3.5), (3.1, 3.6), (3.2, 3.7)].into_iter().enumerate() {
        let second = 10 + u32::try_from(n).expect("small");
        let shown = fixture.when(quote("tote", second, tote));
        let other = fixture.when(quote("exchange", second - 1, exchange));
        assert_eq!(shown.updates[0].messages.len(), 1);
        assert_eq!((shown.tally.stale, other.tally.stale), (0, 0));
        let other = &other.updates[0];
        assert_eq!((&other.messages[..], &other.board), (&[][..], &None));
        assert!(other.quote.is_some());
    }
    assert_eq!(prices(&fixture, "tote"), json!([3.2, 3.0, 3.1]));
    assert_eq!(prices(&fixture, "exchange"), json!([3.7, 3.5, 3.6]));
    assert_eq!(fixture.board(RACE), fixture.board_of(RACE, "tote"));
    assert_eq!(
        pick(
            &json!([fixture.board(RACE)]),
            &["source", "seq", "prev_seq"]
        ),
        json!([["tote", 5, 3]])
    );
    let fixture = fixture.reopen();
    assert_eq!(
        fixture.sources(RACE)["sources"],
        json!([
            { "source": "tote", "primary": true, "seq": 5, "time": "2026-11-21T06:00:12Z",
              "recorded_at": "2026-11-21T09:00:05.123456Z" },
            { "source": "exchange", "primary": false, "seq": 6, "time": "2026-11-21T06:00:11Z",
              "recorded_at": "2026-11-21T09:00:06.123456Z" },
        ])
    );
    assert_eq!(fixture.board_of(RACE, "nobody"), Value::Null);
    assert_eq!(fixture.history(RACE).concat().len(), 6);
}

#[test]
fn an_operator_ranks_the_sources() {
    let mut fixture = Fixture::given([quote("tote", 1, 3.0), quote("exchange", 1, 3.5)]);
    let step = fixture.when(ranked(&["bookmaker", "exchange"]).id("ranking"));
    assert_eq!(step.updates.len(), 0);
    assert_eq!(
        fixture.board(RACE)["source"],
        "tote",
        "a ranking counts from the next quote on"
    );
    let mut source_after = |fact: Fact| {
        let messages = fixture.live_messages(fact);
        let message = messages.first().cloned().unwrap_or_default();
        (message["source"].clone(), message["prev_seq"].clone())
    };
    let none = (Value::Null, Value::Null);
    // Of any source.
    assert_eq!(
        source_after(quote("tote", 2, 3.1)),
        (json!("exchange"), json!(1))
    );
    assert_eq!(source_after(quote("tote", 3, 3.2)), none);
    assert_eq!(
        source_after(quote("bookmaker", 1, 2.0)),
        (json!("bookmaker"), json!(4))
    );
    assert_eq!(source_after(ranked(&[]).at("07:00:00")), none);
    assert_eq!(source_after(ranked(&["bookmaker"]).id("ranking")), none);
    let late = ranked(&["bookmaker"]).at("06:59:59");
    assert_eq!(source_after(late), none, "stale");
    assert_eq!(
        source_after(quote("exchange", 2, 3.6)),
        (json!("tote"), json!(6))
    );
}

#[test]
fn a_fact_about_a_runner_is_on_the_board_of_each_source() {
    let fixture = Fixture::given([
        card(RACE, &["A"]),
        quote("tote", 1, 3.0),
        quote("exchange", 1, 3.5),
        withdrawn(RACE, "A"),
    ]);
    for (source, seq) in [("tote", 4), ("exchange", 3)] {
        let board = fixture.board_of(RACE, source);
        let runner = &board["runners"][0];
        assert_eq!(
            (&runner["state"], &runner["number"], &board["seq"]),
            (&json!("scratched"), &json!(1), &json!(seq))
        );
    }
}

#[test]
fn a_race_keeps_the_books_of_its_first_sources() {
    const NAMES: [&str; 17] = [
        "a", "b", "c", "d", "e", "f", "g", "h", "i", "j", "k", "l", "m", "n", "o", "p", "q",
    ];
    let mut fixture = Fixture::given([]);
    for name in NAMES {
        let step = fixture.when(quote(name, 1, 3.0).id("one"));
        assert_eq!(step.tally.stale, u64::from(name == "q"));
    }
    assert_eq!(fixture.when(quote("q", 1, 3.0).id("one")).tally.stale, 0);
    assert_eq!(fixture.board_of(RACE, "q"), Value::Null);
    assert_eq!(
        fixture.sources(RACE)["sources"].as_array().map(Vec::len),
        Some(16)
    );
    assert_eq!(fixture.history(RACE).concat().len(), 17);
    assert_eq!(fixture.when(quote("p", 2, 3.1)).tally.stale, 0);
}

#[test]
fn a_replay_knows_the_rankings_since_its_beginning_or_there_is_none() {
    let mut fixture = Fixture::given([quote("tote", 1, 3.0)]);
    let replay = |fixture: &Fixture| RaceReplay::new(fixture.projection.store().clone(), 0);
    for second in 0..16 {
        assert!(replay(&fixture).is_some());
        fixture.when(ranked(&["tote"]).at(&format!("07:00:{second:02}")));
    }
    assert!(replay(&fixture).is_none());
    let seq = 40_000;
    let far = ranked(&["exchange"]).at("07:01:00");
    let message = StoredMessage {
        seq: seq * 3,
        recorded_at: recorded_at(100),
        subject: &far.subject(),
        payload: &far.payload(seq),
    };
    fixture
        .projection
        .step([message], true)
        .expect("a healthy store");
    assert!(replay(&fixture).is_some());
}
