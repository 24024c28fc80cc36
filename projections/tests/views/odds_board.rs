use projections::{LiveKind, open_races};
use serde_json::{Value, json};

use crate::common::{
    Fixture, Race, card, odds, pick, registered, reinstated, result, status, void, withdrawn,
};

const RACE: Race = ("2026-11-21", "ST", 3);
const PRICES: &[&str] = &["horse_no", "win", "opening", "previous"];

fn prices(fixture: &Fixture) -> Value {
    pick(&fixture.board(RACE)["runners"], PRICES)
}

#[test]
fn a_board_is_the_image_of_a_race() {
    let first = odds(RACE, &[("A", json!(3.5)), ("B", Value::Null)])
        .with("/runners/0/place", json!(1.4))
        .with("/runners/0/number", json!(4))
        .with("/runners/0/horse_name", json!("NAME A"));
    let fixture = Fixture::given([first]);
    assert_eq!(
        fixture.board(RACE),
        json!({
            "date": "2026-11-21", "venue": "Sha Tin", "venue_code": "ST", "race_number": 3, "status": "scheduled",
            "recorded_at": "2026-11-21T09:00:01.123456Z", "seq": 1, "prev_seq": 0, "source": "test",
            "runners": [
                { "horse_no": "B", "number": 0, "horse_name": "", "win": null, "place": null, "state": "suspended", "opening": null, "previous": null },
                { "horse_no": "A", "number": 4, "horse_name": "NAME A", "win": 3.5, "place": 1.4, "opening": 3.5, "previous": null },
            ],
        })
    );
    assert!(fixture.is_open(RACE));
}

#[test]
fn a_race_without_quotes_has_an_empty_board_and_is_not_open() {
    let mut fixture = Fixture::given([card(RACE, &["A"])]);
    let empty = json!({
        "date": "2026-11-21", "venue": "Sha Tin", "venue_code": "ST", "race_number": 3, "status": "scheduled",
        "recorded_at": "", "seq": 0, "prev_seq": 0, "source": "", "runners": [],
    });
    assert_eq!(fixture.board(RACE), empty);
    assert!(!fixture.is_open(RACE));
    let messages = fixture.live_messages(status(RACE, "closed"));
    assert_eq!(
        pick(&json!(messages), &["event"]),
        json!([["status_update"]]),
        "and no board"
    );
    assert_eq!(fixture.board(RACE)["status"], "closed");
    let result_only: Race = ("2026-11-21", "ST", 4);
    fixture.when(result(result_only, 1, &[("A", "1")]));
    let board = fixture.board(result_only);
    assert_eq!(
        (&board["status"], &board["runners"]),
        (&json!("result"), &json!([])),
        "also without a card"
    );
    let mut fixture = fixture.reopen();
    fixture.when(odds(RACE, &[("A", json!(2.5))]));
    assert_eq!(
        fixture.board(RACE)["prev_seq"],
        0,
        "the empty board was no change"
    );
    assert!(
        !fixture.board(RACE)["recorded_at"]
            .as_str()
            .expect("a text")
            .is_empty()
    );
}

#[test]
fn opening_previous_and_current_prices() {
    let quote = |win: Value| odds(RACE, &[("A", win)]);
    let mut fixture = Fixture::given([quote(json!(3.5)), quote(json!(4))]);
    assert_eq!(prices(&fixture), json!([["A", 4.0, 3.5, 3.5]]));
    fixture.when(quote(json!(4)));
    assert_eq!(
        prices(&fixture),
        json!([["A", 4.0, 3.5, 3.5]]),
        "the same price again is no move"
    );
    fixture.when(quote(Value::Null));
    assert_eq!(prices(&fixture), json!([["A", null, 3.5, 4.0]]));
    fixture.when(quote(json!(2.5)));
    assert_eq!(
        prices(&fixture),
        json!([["A", 2.5, 3.5, 4.0]]),
        "the last price that there was"
    );
}

#[test]
fn a_first_quote_without_a_price_leaves_the_opening_to_the_next() {
    let fixture = Fixture::given([
        odds(RACE, &[("A", Value::Null)]),
        odds(RACE, &[("A", json!(5.5))]),
    ]);
    assert_eq!(prices(&fixture), json!([["A", 5.5, 5.5, null]]));
    assert_eq!(fixture.board(RACE)["runners"][0].get("state"), None);
}

#[test]
fn a_runner_left_out_of_a_quote_keeps_its_price() {
    let place =
        odds(RACE, &[("A", json!(3)), ("B", json!(5))]).with("/runners/0/place", json!(1.5));
    let fixture = Fixture::given([place, odds(RACE, &[("A", json!(2.5))])]);
    assert_eq!(
        prices(&fixture),
        json!([["A", 2.5, 3.0, 3.0], ["B", 5.0, 5.0, null]])
    );
    assert_eq!(
        fixture.board(RACE)["runners"][0]["place"],
        1.5,
        "the place price was not withdrawn"
    );
    assert_eq!(
        fixture.history(RACE)[0][1]["runners"],
        json!([{ "horse_no": "A", "win": 2.5 }])
    );
}

#[test]
fn a_quote_older_than_the_board_is_added_to_the_history_only() {
    let mut fixture = Fixture::given([odds(RACE, &[("A", json!(3))]).at("06:00:10")]);
    let board = fixture.board(RACE);
    let step = fixture.when(odds(RACE, &[("A", json!(9))]).at("06:00:09"));
    assert_eq!((step.tally.stale, step.updates.len()), (1, 0));
    assert_eq!(fixture.board(RACE), board);
    fixture.when(odds(RACE, &[("A", json!(4))]).at("06:00:10"));
    assert_eq!(
        prices(&fixture),
        json!([["A", 4.0, 3.0, 3.0]]),
        "of two with one time the later in the log is in force"
    );
    for late in [9, 10] {
        let late = odds(RACE, &[("A", json!(late))]).at("06:00:08");
        fixture.when(late.id("late"));
    }
    let history = json!(fixture.history(RACE).concat());
    assert_eq!(
        pick(&history, &["seq", "event_id", "stale"]),
        json!([
            [1, "event-1", false],
            [2, "event-2", true],
            [3, "event-3", false],
            [4, "late", true]
        ]),
        "a late quote is listed, and a repeated one is not"
    );
}

#[test]
fn a_quote_is_as_old_after_a_restart_as_before() {
    let quotes = || {
        [
            odds(RACE, &[("A", json!(3))]).at("06:00:00.1234569"),
            odds(RACE, &[("A", json!(9))]).at("06:00:00.1234561"),
        ]
    };
    let [first, second] = quotes();
    let mut restarted = Fixture::given([first]).reopen();
    restarted.when(second);
    assert_eq!(restarted.board(RACE), Fixture::given(quotes()).board(RACE));
}

#[test]
fn a_repeated_quote_changes_nothing() {
    let first = || odds(RACE, &[("A", json!(3))]).id("first");
    let second = || odds(RACE, &[("A", json!(4)), ("B", json!(7))]).id("second");
    let mut fixture = Fixture::given([first(), second()]);
    let (board, history) = (fixture.board(RACE), fixture.history(RACE));
    for again in [second(), first(), second()] {
        let step = fixture.when(again);
        assert_eq!((step.tally.stale, step.updates.len()), (0, 0));
        assert_eq!(
            (fixture.board(RACE), fixture.history(RACE)),
            (board.clone(), history.clone())
        );
        fixture = fixture.reopen();
    }
}

#[test]
fn number_and_name_come_from_the_card_if_it_has_them() {
    let quote = odds(RACE, &[("A", json!(3)), ("B", json!(5))])
        .with("/runners/0/number", json!(8))
        .with("/runners/0/horse_name", json!("QUOTED A"))
        .with("/runners/1/number", json!(9));
    let unnumbered = card(RACE, &["A", "B"])
        .with("/runners/0/number", json!(0))
        .with("/runners/0/horse_name", json!(""));
    let fixture = Fixture::given([quote, unnumbered]);
    assert_eq!(
        pick(
            &fixture.board(RACE)["runners"],
            &["horse_no", "number", "horse_name"]
        ),
        json!([["B", 2, "NAME B"], ["A", 8, "QUOTED A"]])
    );
}

#[test]
fn a_withdrawn_runner_is_scratched_until_it_is_reinstated() {
    let mut fixture = Fixture::given([
        card(RACE, &["A", "B"]),
        odds(RACE, &[("A", json!(3)), ("B", json!(5))]),
    ]);
    let step = fixture.when(withdrawn(RACE, "A"));
    let runner = &fixture.board(RACE)["runners"][0];
    assert_eq!(
        [&runner["win"], &runner["place"], &runner["state"]],
        [&Value::Null, &Value::Null, &json!("scratched")]
    );
    assert_eq!(runner["opening"], 3.0);
    assert_eq!(
        pick(&json!([fixture.board(RACE)]), &["seq", "prev_seq"]),
        json!([[3, 2]])
    );
    assert_eq!(step.updates.len(), 1);

    fixture.when(odds(RACE, &[("A", json!(2))]));
    assert_eq!(
        fixture.board(RACE)["runners"][0]["state"],
        "scratched",
        "a late quote does not bring it back"
    );
    fixture.when(reinstated(RACE, "A"));
    assert_eq!(
        prices(&fixture),
        json!([["A", 2.0, 3.0, 3.0], ["B", 5.0, 5.0, null]])
    );
    assert_eq!(
        pick(&json!([fixture.board(RACE)]), &["seq", "prev_seq"]),
        json!([[5, 4]])
    );
}

#[test]
fn every_update_has_the_seq_of_the_previous_one() {
    let mut fixture = Fixture::given([]);
    let mut last = 0;
    for fact in [
        odds(RACE, &[("A", json!(3))]),
        card(RACE, &["A", "B"]),
        odds(RACE, &[("A", json!(9))]).at("00:00:00"),
        status(RACE, "open"),
        withdrawn(RACE, "B"),
        withdrawn(RACE, "B"),
        odds(RACE, &[("A", json!(4))]),
    ] {
        let messages = fixture
            .when(fact)
            .updates
            .into_iter()
            .flat_map(|u| u.messages);
        for message in messages.filter(|m| m.kind == LiveKind::OddsUpdate) {
            let board: Value = serde_json::from_slice(&message.json).expect("JSON");
            assert_eq!(board["prev_seq"], last);
            assert_eq!(board["seq"], fixture.seq);
            last = fixture.seq;
        }
    }
    assert_eq!(fixture.board(RACE)["seq"], last);
}

#[test]
fn a_race_is_open_from_its_first_quote_until_it_is_over() {
    let mut fixture = Fixture::given([card(RACE, &["A"]), status(RACE, "open")]);
    assert!(!fixture.is_open(RACE), "nothing to show yet");
    fixture.when(odds(RACE, &[("A", json!(3))]));
    assert!(fixture.is_open(RACE));
    for (word, open) in [
        ("closed", true),
        ("off", true),
        ("finished", false),
        ("off", true),
        ("abandoned", false),
        ("open", true),
    ] {
        fixture.when(status(RACE, word));
        assert_eq!(fixture.is_open(RACE), open, "{word}");
        assert_eq!(fixture.board(RACE)["status"], word);
    }
    fixture.when(result(RACE, 1, &[("A", "1")]));
    assert!(!fixture.is_open(RACE));
    fixture.when(odds(RACE, &[("A", json!(4))]));
    assert!(
        !fixture.is_open(RACE),
        "a quote after the result opens nothing"
    );
    fixture.when(void(RACE, 2));
    assert!(fixture.is_open(RACE), "a voided result closes nothing");
}

#[test]
fn a_feeder_whose_clock_is_ahead_does_not_freeze_the_board() {
    let mut fixture = Fixture::given([odds(RACE, &[("A", json!(3))]).at("23:59:59")]);
    let step = fixture.when(odds(RACE, &[("A", json!(4))]).at("23:00:00"));
    assert_eq!((step.tally.stale, step.updates.len()), (0, 1));
    assert_eq!(prices(&fixture), json!([["A", 4.0, 3.0, 3.0]]));
}

#[test]
fn a_log_whose_clock_steps_back_does_not_freeze_the_board() {
    let mut fixture = Fixture::given([]);
    for (recorded_at, time, price) in [
        ("10:00:00", "10:00:00", 3),
        // Another server leads the log, an hour behind.
        ("09:00:01", "10:00:01", 4),
        ("09:00:02", "10:00:02", 5),
    ] {
        let quote = odds(RACE, &[("A", json!(price))]).at(time);
        let step = fixture.when_recorded(recorded_at, quote);
        assert_eq!((step.tally.stale, step.updates.len()), (0, 1), "{time}");
    }
    let quote = odds(RACE, &[("A", json!(7))]).at("10:00:03");
    fixture.when_recorded("09:00:04", quote);
    assert_eq!(fixture.board(RACE)["runners"][0]["win"], 7.0);
}

#[test]
fn a_race_that_nobody_closes_is_closed_once_its_date_is_over_everywhere() {
    let quoted = |race: Race| odds(race, &[("A", json!(3))]).at("06:00:00");
    let other = |time: &str| {
        let mut fact = registered("A");
        fact.time = time.to_owned();
        fact
    };
    let mut fixture = Fixture::given([quoted(RACE)]);
    // The log's clock alone closes nothing: an old race day may be played again.
    fixture.when_recorded_at("2027-01-01T00:00:00Z", quoted(RACE));
    assert!(fixture.is_open(RACE));
    // Nor does a clock that is ahead of the log's.
    fixture.when_recorded_at("2026-11-21T10:00:00Z", other("2027-01-01T00:00:00Z"));
    fixture.when_recorded_at("2026-11-22T11:59:59Z", other("2026-11-22T11:59:59Z"));
    assert!(fixture.is_open(RACE), "it is still the 21st at UTC-12");
    fixture.when_recorded_at("2026-11-22T12:00:00Z", other("2026-11-22T12:00:00Z"));
    assert!(fixture.is_open(RACE), "one event alone closes nothing");
    fixture.when_recorded_at("2026-11-22T12:00:00Z", other("2026-11-22T12:00:00Z"));
    assert!(!fixture.is_open(RACE));
    assert_eq!(
        open_races(fixture.projection.store()).expect("a healthy store"),
        vec![]
    );
    for again in [false, true] {
        let step = fixture.when_recorded_at("2026-11-22T12:00:01Z", quoted(RACE).at("06:00:01"));
        assert!(step.updates.len() == 1 && !fixture.is_open(RACE), "{again}");
        fixture = fixture.reopen();
    }
    let tomorrow = ("2026-11-22", "ST", 1);
    fixture.when_recorded_at("2026-11-22T12:00:02Z", quoted(tomorrow));
    assert!(fixture.is_open(tomorrow));
}

/// Repeats every quote of a board after all of them, and checks that none becomes current or is listed again.
fn check_repeats(time: impl Fn(u32) -> String) {
    let quote = |n: u32| {
        odds(RACE, &[("A", json!(n + 1))])
            .id(&n.to_string())
            .at(&time(n))
    };
    let mut fixture = Fixture::given((1..=300).map(quote));
    let board = fixture.board(RACE);
    assert_eq!(board["runners"][0]["win"], 301.0);
    let history = fixture.history(RACE);
    for n in 1..=300 {
        let step = fixture.when(quote(n));
        assert_eq!((step.updates.len(), step.tally.stale), (0, 0), "{n}");
        if [100, 200].contains(&n) {
            fixture = fixture.reopen();
        }
    }
    assert_eq!(fixture.board(RACE), board);
    assert_eq!(fixture.history(RACE), history);
}

#[test]
fn an_old_quote_never_becomes_current_again_however_many_came_between() {
    check_repeats(|n| format!("06:{:02}:{:02}", n / 60, n % 60));
    // All quotes with one time.
    check_repeats(|_| "06:00:00".to_owned());
    // A clock that is hours ahead of the log's.
    check_repeats(|n| format!("20:{:02}:{:02}", n / 60, n % 60));
}

#[test]
fn two_feeders_may_use_the_same_ids() {
    let mut fixture = Fixture::given([
        odds(RACE, &[("A", json!(3))]).id("1").from("one"),
        odds(RACE, &[("B", json!(4))]).id("1").from("other"),
    ]);
    fixture.when(status(RACE, "open").id("2").from("one"));
    fixture.when(status(RACE, "closed").id("2").from("other"));
    assert_eq!(fixture.board_of(RACE, "other")["runners"][0]["win"], 4.0);
    assert_eq!(fixture.board(RACE)["status"], "closed");
}

#[test]
fn the_history_is_cut_into_chunks_and_survives_a_restart_in_each() {
    let mut fixture = Fixture::given([]);
    for n in 1..=400_u32 {
        fixture.when(odds(RACE, &[("A", json!(n + 1))]));
        if [1, 31, 32, 33, 64, 65].contains(&n) {
            fixture = fixture.reopen();
        }
    }
    let chunks = fixture.history(RACE);
    assert_eq!(
        chunks.iter().map(Vec::len).collect::<Vec<_>>(),
        [&[32; 12][..], &[16]].concat()
    );
    let seqs: Vec<Value> = chunks
        .concat()
        .iter()
        .map(|tick| tick["seq"].clone())
        .collect();
    assert_eq!(seqs, (1..=400).map(|seq| json!(seq)).collect::<Vec<_>>());
    assert_eq!(
        chunks[0][0],
        json!({
            "seq": 1, "time": "2026-11-21T06:00:00Z", "recorded_at": "2026-11-21T09:00:01.123456Z", "source": "test", "event_id": "event-1", "stale": false,
            "runners": [{ "horse_no": "A", "win": 2.0 }],
        })
    );
}

#[test]
fn many_quotes_in_one_step_make_the_same_history() {
    use crate::common::{OwnedMessage, dump, open};
    let messages: Vec<OwnedMessage> = (1..=100)
        .map(|seq| {
            let fact = odds(RACE, &[("A", json!(seq + 1))]);
            OwnedMessage {
                seq,
                stored: seq,
                subject: fact.subject(),
                payload: fact.payload(seq),
            }
        })
        .collect();
    let dumps = [1, 7, 32, 33, 100].map(|size| {
        let folder = tempfile::tempdir().expect("a folder");
        let mut projection = open(folder.path());
        for batch in messages.chunks(size) {
            projection
                .step(batch.iter().map(OwnedMessage::as_stored), false)
                .expect("a healthy store");
        }
        dump(projection.store())
    });
    assert!(dumps.iter().all(|dump| *dump == dumps[0]));
}
