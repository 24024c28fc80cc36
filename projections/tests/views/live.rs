use std::collections::BTreeSet;

use projections::{LiveKind, LiveUpdate, open_races};
use serde_json::{Value, json};

use crate::common::{
    Fact, Fixture, Race, card, dividends, going, horse, odds, pick, reinstated, result, rider,
    status, void, withdrawn,
};

const RACE: Race = ("2026-11-21", "ST", 3);
const OTHER: Race = ("2026-11-21", "ST", 4);

fn quote() -> Fact {
    odds(RACE, &[("A", json!(3.5)), ("B", json!(5))])
}

/// `event`, `seq` and `prev_seq` of each message.
fn sequences(messages: Vec<Value>) -> Value {
    pick(&Value::Array(messages), &["event", "seq", "prev_seq"])
}

fn only(messages: Vec<Value>) -> Value {
    assert_eq!(messages.len(), 1, "{messages:?}");
    messages.into_iter().next().expect("one")
}

fn update(fixture: &mut Fixture, fact: Fact) -> Option<LiveUpdate> {
    let mut updates = fixture.when(fact).updates;
    assert!(updates.len() <= 1, "{updates:?}");
    updates.pop()
}

#[test]
fn a_quote_publishes_the_whole_board() {
    let mut fixture = Fixture::given([quote()]);
    let message = only(fixture.live_messages(odds(RACE, &[("A", json!(4))])));
    let mut expected = fixture.board(RACE);
    expected["event"] = json!("odds_update");
    assert_eq!(message, expected);
    assert_eq!([&message["seq"], &message["prev_seq"]], [2, 1]);
}

#[test]
fn a_status_change_is_published_with_its_reason() {
    let mut fixture = Fixture::given([status(RACE, "open")]);
    let abandoned = status(RACE, "abandoned")
        .with("/reason", json!("Typhoon"))
        .at("06:01:02");
    assert_eq!(
        only(fixture.live_messages(abandoned)),
        json!({
            "event": "status_update", "date": "2026-11-21", "venue": "Sha Tin", "venue_code": "ST", "race_number": 3,
            "status": "abandoned", "reason": "Typhoon", "timestamp": "2026-11-21T06:01:02Z",
            "recorded_at": "2026-11-21T09:00:02.123456Z", "seq": 2, "prev_seq": 1,
        })
    );
}

#[test]
fn a_status_is_published_when_it_or_its_reason_changes() {
    let mut fixture = Fixture::given([]);
    assert_eq!(
        fixture.live_messages(status(RACE, "scheduled")).len(),
        0,
        "as it was taken to be"
    );
    assert_eq!(fixture.live_messages(status(RACE, "open")).len(), 1);
    assert_eq!(fixture.live_messages(status(RACE, "open")).len(), 0);
    let why = || status(RACE, "open").with("/reason", json!("Delayed"));
    assert_eq!(only(fixture.live_messages(why()))["reason"], "Delayed");
    assert_eq!(fixture.live_messages(why()).len(), 0);
    assert_eq!(
        only(fixture.live_messages(status(RACE, "open")))["reason"],
        ""
    );
}

#[test]
fn a_result_changes_the_status_and_both_are_published() {
    let mut fixture = Fixture::given([card(RACE, &["A", "B"]), status(RACE, "off")]);
    let published = fixture.live_messages(result(RACE, 1, &[("A", "1"), ("B", "2")]));
    assert_eq!(
        sequences(published.clone()),
        json!([["result_update", 3, 0], ["status_update", 3, 2]])
    );
    assert_eq!(published[1]["status"], "result");
    assert_eq!(
        sequences(fixture.live_messages(status(RACE, "finished"))),
        json!([]),
        "a result in force overrides the status"
    );
    assert_eq!(
        sequences(fixture.live_messages(result(RACE, 2, &[("B", "1"), ("A", "2")]))),
        json!([["result_update", 5, 3]])
    );
    let published = fixture.live_messages(void(RACE, 3));
    assert_eq!(
        sequences(published.clone()),
        json!([["result_update", 6, 5], ["status_update", 6, 3]])
    );
    assert_eq!(
        [&published[0]["status"], &published[1]["status"]],
        ["void", "finished"]
    );
}

#[test]
fn a_result_is_published_as_it_is_served() {
    let mut fixture = Fixture::given([card(RACE, &["A", "B", "C"])]);
    fixture.when(withdrawn(RACE, "C"));
    let declared = result(RACE, 1, &[("A", "1"), ("B", "PU")])
        .with("/runners/0/win_odds", json!(3.55))
        .with("/runners/0/finish_time", json!("1:09.87"))
        .with("/venue_name", json!("Elsewhere Park"))
        .at("06:30:00");
    let message = fixture.live_messages(declared).swap_remove(0);
    let mut expected = fixture.result(RACE);
    assert_eq!(expected["runners"][0]["win_odds"], 3.55);
    for (field, value) in [
        ("event", json!("result_update")),
        ("date", json!("2026-11-21")),
        ("venue", json!("Elsewhere Park")),
        ("venue_code", json!("ST")),
        ("timestamp", json!("2026-11-21T06:30:00Z")),
        ("recorded_at", json!("2026-11-21T09:00:03.123456Z")),
        ("seq", json!(3)),
        ("prev_seq", json!(0)),
    ] {
        expected[field] = value;
    }
    assert_eq!(message, expected);
}

#[test]
fn a_statement_that_is_not_in_force_is_not_published() {
    let mut fixture = Fixture::given([quote(), result(RACE, 2, &[("A", "1")])]);
    for stale in [
        result(RACE, 1, &[("B", "1")]),
        void(RACE, 1),
        result(RACE, 2, &[("A", "1")]),
    ] {
        assert_eq!(update(&mut fixture, stale), None);
    }
}

#[test]
fn a_withdrawal_publishes_the_runner_and_then_the_board() {
    let mut fixture = Fixture::given([card(RACE, &["A", "B"]), quote()]);
    let published = fixture.live_messages(withdrawn(RACE, "B").at("06:03:00"));
    assert_eq!(
        published[0],
        json!({
            "event": "runner_update", "date": "2026-11-21", "venue": "Sha Tin", "venue_code": "ST", "race_number": 3,
            "change": "withdrawn", "horse_no": "B", "horse_name": "NAME B", "number": 2, "jockey": "Jockey B", "weight": 121,
            "reason": "Lame", "timestamp": "2026-11-21T06:03:00Z", "recorded_at": "2026-11-21T09:00:03.123456Z",
            "seq": 3, "prev_seq": 0,
        })
    );
    assert_eq!(
        sequences(published),
        json!([["runner_update", 3, 0], ["odds_update", 3, 2]])
    );
    let again = withdrawn(RACE, "B").at("06:03:00");
    assert_eq!(fixture.live_messages(again).len(), 0);
    let earlier = reinstated(RACE, "B").at("06:02:59");
    assert_eq!(fixture.live_messages(earlier).len(), 0);
    let reinstated = || reinstated(RACE, "B").at("06:04:00");
    let back = fixture.live_messages(reinstated());
    assert_eq!([&back[0]["change"], &back[0]["reason"]], ["reinstated", ""]);
    assert_eq!(
        sequences(back),
        json!([["runner_update", 6, 3], ["odds_update", 6, 3]])
    );
    assert_eq!(fixture.live_messages(reinstated()).len(), 0);
}

#[test]
fn a_rider_change_is_published_and_does_not_change_the_board() {
    let mut fixture = Fixture::given([card(RACE, &["A"]), quote()]);
    let board = fixture.board(RACE);
    let heavier = rider(RACE, "A", "Somebody").with("/weight", json!(118));
    let message = only(fixture.live_messages(heavier));
    assert_eq!(
        pick(&json!([message]), &["change", "jockey", "weight", "number"]),
        json!([["rider_changed", "Somebody", 118, 1]])
    );
    assert_eq!(fixture.board(RACE), board);
    let gone = fixture.live_messages(withdrawn(RACE, "A")).swap_remove(0);
    assert_eq!(
        pick(&json!([gone]), &["jockey", "weight", "prev_seq"]),
        json!([["Somebody", 118, 3]]),
        "the runner as it is now"
    );
}

#[test]
fn a_runner_without_a_card_is_published_with_its_quoted_name_and_number() {
    let named = quote()
        .with("/runners/0/horse_name", json!("QUOTED A"))
        .with("/runners/0/number", json!(7));
    let mut fixture = Fixture::given([named]);
    let fields = &["horse_name", "number", "jockey", "weight"];
    let published = fixture.live_messages(withdrawn(RACE, "A"));
    assert_eq!(
        pick(&json!([published[0]]), fields),
        json!([["QUOTED A", 7, "", 0]])
    );
    let published = fixture.live_messages(rider(RACE, "A", "Somebody"));
    assert_eq!(
        pick(&json!(published), fields),
        json!([["QUOTED A", 7, "Somebody", 0]])
    );
    let published = fixture.live_messages(withdrawn(RACE, "Z"));
    assert_eq!(
        pick(&json!([published[0]]), fields),
        json!([["", 0, "", 0]])
    );
}

#[test]
fn each_race_has_its_own_chain_of_messages() {
    let mut fixture = Fixture::given([status(RACE, "open"), status(OTHER, "open")]).reopen();
    assert_eq!(
        sequences(fixture.live_messages(status(RACE, "closed"))),
        json!([["status_update", 3, 1]])
    );
    let mut fixture = fixture.reopen();
    assert_eq!(
        sequences(fixture.live_messages(status(OTHER, "closed"))),
        json!([["status_update", 4, 2]])
    );
}

#[test]
fn a_status_changes_the_image_and_not_its_seq() {
    let mut fixture = Fixture::given([quote()]);
    let closed = update(&mut fixture, status(RACE, "closed")).expect("an update");
    let board = closed.board.expect("a board");
    let image: Value = serde_json::from_slice(&board.json).expect("JSON");
    assert_eq!((board.seq, closed.seq, closed.open), (1, 2, true));
    assert_eq!(
        [&image["seq"], &image["status"]],
        [&json!(1), &json!("closed")]
    );
    assert_eq!(image, fixture.board(RACE));
    let finished = update(&mut fixture, status(RACE, "finished")).expect("an update");
    assert!(!finished.open);
    assert!(finished.board.is_some());
}

#[test]
fn an_update_without_messages_is_made_only_for_a_live_race() {
    let mut fixture = Fixture::given([]);
    assert_eq!(update(&mut fixture, going(RACE, "SOFT")), None);
    fixture.when(status(RACE, "open"));
    let live = update(&mut fixture, going(RACE, "HEAVY")).expect("an update");
    assert_eq!(
        (live.messages.len(), live.board, live.open),
        (0, None, false)
    );
    let recarded = card(RACE, &["C", "B"]).with("/venue_name", json!("Elsewhere Park"));
    let live = update(&mut fixture, recarded).expect("an update");
    assert_eq!(live.venue, "Elsewhere Park");
    assert_eq!(live.runners, [horse("B"), horse("C")]);
}

#[test]
fn the_runners_are_those_of_the_card_and_the_board() {
    let mut fixture = Fixture::given([card(RACE, &["C", "B"])]);
    let live = update(&mut fixture, quote()).expect("an update");
    assert_eq!(live.runners, [horse("A"), horse("B"), horse("C")]);
}

#[test]
fn an_event_that_changes_nothing_makes_no_update() {
    let mut fixture = Fixture::given([
        card(RACE, &["A", "B"]).id("card"),
        quote().at("06:00:10"),
        status(RACE, "open").id("open"),
        status(RACE, "closed"),
    ]);
    for nothing in [
        card(RACE, &["A", "B"]).id("card"),
        card(RACE, &["A", "B"]),
        quote().at("06:00:09"),
        status(RACE, "open").id("open"),
        status(RACE, "closed"),
        reinstated(RACE, "A"),
    ] {
        assert_eq!(update(&mut fixture, nothing), None);
    }
    assert_eq!(fixture.raw("racing.garbage", b"{}".to_vec()).updates, []);
}

#[test]
fn the_open_races_are_those_with_a_board_that_are_not_over() {
    let mut fixture = Fixture::given([
        card(RACE, &["C"]),
        quote(),
        odds(OTHER, &[("A", json!(2))]),
        status(RACE, "closed"),
        status(("2026-11-21", "ST", 5), "open"),
    ]);
    let open = open_races(fixture.projection.store()).expect("a healthy store");
    assert_eq!(open.iter().map(|race| race.seq).collect::<Vec<_>>(), [2, 3]);
    assert_eq!(open[0].runners, [horse("A"), horse("B"), horse("C")]);
    assert_eq!((open[0].venue.as_str(), open[0].open), ("Sha Tin", true));
    assert_eq!((open[0].on_card, open[1].on_card), (true, false));
    fixture.when(result(OTHER, 1, &[("A", "1")]));
    let open = open_races(fixture.projection.store()).expect("a healthy store");
    assert_eq!(open.iter().map(|race| race.seq).collect::<Vec<_>>(), [2]);
}

#[test]
fn every_kind_has_the_same_name_on_the_wire_and_in_the_state() {
    for kind in LiveKind::ALL {
        assert_eq!(json!(kind), json!(kind.as_str()));
    }
}

#[test]
fn a_card_and_a_going_that_change_are_sent() {
    let mut fixture = Fixture::given([]);
    assert_eq!(
        fixture.live_messages(going(RACE, "SOFT")).len(),
        0,
        "without a card"
    );
    let first = fixture.live_messages(card(RACE, &["A"]).at("06:01:00"));
    assert_eq!(sequences(first), json!([["card_update", 2, 0]]));
    fixture.when(quote());
    let heavy = fixture.live_messages(going(RACE, "HEAVY"));
    assert_eq!(
        pick(&json!(heavy), &["event", "going", "seq", "prev_seq"]),
        json!([["card_update", "HEAVY", 4, 2]])
    );
    assert_eq!(
        fixture
            .live_messages(going(RACE, "HEAVY").at("06:30:00"))
            .len(),
        0
    );
    let cards = fixture.live_messages(card(RACE, &["A", "B"]).at("06:31:00"));
    assert_eq!(
        pick(&json!(cards), &["event", "seq", "prev_seq"]),
        json!([["card_update", 6, 4], ["odds_update", 6, 3]])
    );
    let stored = fixture.card(RACE);
    for field in ["race_name", "going", "off_time", "runners", "withdrawn"] {
        assert_eq!(cards[0][field], stored[field], "{field}");
    }
}

/// The names of the fields of an object.
fn fields(object: &Value) -> BTreeSet<&str> {
    let object = object.as_object().expect("an object");
    object.keys().map(String::as_str).collect()
}

/// The fields that a message may have.
#[rustfmt::skip]
fn optional_fields(message: &str) -> &'static [&'static str] {
    match message {
        "OddsUpdate" => &["conflated", "conflated_by", "snapshot"],
        "Quote" => &["prices", "runners", "snapshot"],
        "CardUpdate" => &["course", "each_way", "prize", "prize_currency", "rating_band", "surface"],
        "ResultUpdate" => &["course", "prize", "prize_currency", "rating_band", "sectionals", "surface"],
        _ => &[],
    }
}

#[test]
fn the_schemas_list_every_published_field() {
    let mut fixture = Fixture::given([card(RACE, &["A", "B"]), quote()]);
    let published = [
        withdrawn(RACE, "B"),
        going(RACE, "SOFT"),
        status(RACE, "open"),
        result(RACE, 1, &[("A", "1")]),
        dividends(RACE, 1),
    ]
    .map(|fact| fixture.live_messages(fact))
    .concat();
    let mut seen = BTreeSet::new();
    let document: Value = serde_json::from_str(include_str!("../../../schemas/asyncapi.json"))
        .expect("the document is JSON");
    let schemas = document["components"]["schemas"].as_object();
    let schemas = schemas.expect("an object").iter();
    let about_races = schemas.filter(|(_, schema)| schema["properties"]["prev_seq"].is_object());
    for (name, schema) in about_races {
        let name = name.as_str();
        let event = &schema["properties"]["event"]["const"];
        let required: BTreeSet<&str> = schema["required"]
            .as_array()
            .expect("a list")
            .iter()
            .filter_map(Value::as_str)
            .collect();
        for message in published
            .iter()
            .filter(|message| message["event"] == *event)
        {
            assert_eq!(fields(message), required, "{name}");
            seen.insert(name);
        }
        let optional: Vec<&str> = fields(&schema["properties"])
            .difference(&required)
            .copied()
            // The feed adds it.
            .filter(|field| *field != "more")
            .collect();
        assert_eq!(optional, optional_fields(name), "{name}");
    }
    assert_eq!(
        Vec::from_iter(seen),
        [
            "CardUpdate",
            "DividendsUpdate",
            "OddsUpdate",
            "ResultUpdate",
            "RunnerUpdate",
            "StatusUpdate"
        ]
    );
}
