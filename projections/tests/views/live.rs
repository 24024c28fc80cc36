use std::collections::BTreeSet;

use projections::{LiveKind, LiveUpdate, live_schemas, open_races};
use serde_json::{Value, json};

use crate::common::{
    Fact, House, Race, card, going, horse, odds, pick, reinstated, result, rider, status, void,
    withdrawn,
};

const RACE: Race = ("2026-11-21", "ST", 3);
const OTHER: Race = ("2026-11-21", "ST", 4);

fn quote() -> Fact {
    odds(RACE, &[("A", json!(3.5)), ("B", json!(5))])
}

/// Event, `seq` and `prev_seq` of each message.
fn places(messages: Vec<Value>) -> Value {
    pick(&Value::Array(messages), &["event", "seq", "prev_seq"])
}

fn only(messages: Vec<Value>) -> Value {
    assert_eq!(messages.len(), 1, "{messages:?}");
    messages.into_iter().next().expect("one")
}

fn update(house: &mut House, fact: Fact) -> Option<LiveUpdate> {
    let mut updates = house.when(fact).updates;
    assert!(updates.len() <= 1, "{updates:?}");
    updates.pop()
}

#[test]
fn a_quote_is_told_as_the_whole_board() {
    let mut house = House::given([quote()]);
    let message = only(house.hear(odds(RACE, &[("A", json!(4))])));
    let mut expected = house.board(RACE);
    expected["event"] = json!("odds_update");
    assert_eq!(message, expected);
    assert_eq!([&message["seq"], &message["prev_seq"]], [2, 1]);
}

#[test]
fn a_race_that_moves_on_is_told_with_why() {
    let mut house = House::given([status(RACE, "open")]);
    let abandoned = status(RACE, "abandoned")
        .with("/reason", json!("Typhoon"))
        .at("06:01:02");
    assert_eq!(
        only(house.hear(abandoned)),
        json!({
            "event": "status_update", "date": "2026-11-21", "venue": "Sha Tin", "venue_code": "ST", "race_number": 3,
            "status": "abandoned", "reason": "Typhoon", "timestamp": "2026-11-21T06:01:02Z",
            "recorded_at": "2026-11-21T09:00:02.123456Z", "seq": 2, "prev_seq": 1,
        })
    );
}

#[test]
fn a_status_is_told_when_it_or_its_reason_is_another() {
    let mut house = House::given([]);
    assert_eq!(
        house.hear(status(RACE, "scheduled")).len(),
        0,
        "as it was taken to be"
    );
    assert_eq!(house.hear(status(RACE, "open")).len(), 1);
    assert_eq!(house.hear(status(RACE, "open")).len(), 0);
    let why = || status(RACE, "open").with("/reason", json!("Delayed"));
    assert_eq!(only(house.hear(why()))["reason"], "Delayed");
    assert_eq!(house.hear(why()).len(), 0);
    assert_eq!(only(house.hear(status(RACE, "open")))["reason"], "");
}

#[test]
fn a_result_makes_the_status_and_both_are_told() {
    let mut house = House::given([card(RACE, &["A", "B"]), status(RACE, "off")]);
    let told = house.hear(result(RACE, 1, &[("A", "1"), ("B", "2")]));
    assert_eq!(
        places(told.clone()),
        json!([["result_update", 3, 0], ["status_update", 3, 2]])
    );
    assert_eq!(told[1]["status"], "result");
    assert_eq!(
        places(house.hear(status(RACE, "finished"))),
        json!([]),
        "a result in force says more"
    );
    assert_eq!(
        places(house.hear(result(RACE, 2, &[("B", "1"), ("A", "2")]))),
        json!([["result_update", 5, 3]])
    );
    let told = house.hear(void(RACE, 3));
    assert_eq!(
        places(told.clone()),
        json!([["result_update", 6, 5], ["status_update", 6, 3]])
    );
    assert_eq!(
        [&told[0]["status"], &told[1]["status"]],
        ["void", "finished"]
    );
}

#[test]
fn a_result_is_told_as_it_is_served() {
    let mut house = House::given([card(RACE, &["A", "B", "C"])]);
    house.when(withdrawn(RACE, "C"));
    let said = result(RACE, 1, &[("A", "1"), ("B", "PU")])
        .with("/runners/0/win_odds", json!(3.55))
        .with("/runners/0/finish_time", json!("1:09.87"))
        .with("/venue_name", json!("Elsewhere Park"))
        .at("06:30:00");
    let message = house.hear(said).swap_remove(0);
    let mut expected = house.result(RACE);
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
fn a_statement_that_is_not_in_force_is_not_told() {
    let mut house = House::given([quote(), result(RACE, 2, &[("A", "1")])]);
    for stale in [
        result(RACE, 1, &[("B", "1")]),
        void(RACE, 1),
        result(RACE, 2, &[("A", "1")]),
    ] {
        assert_eq!(update(&mut house, stale), None);
    }
}

#[test]
fn a_withdrawal_is_told_of_the_runner_and_then_of_the_board() {
    let mut house = House::given([card(RACE, &["A", "B"]), quote()]);
    let told = house.hear(withdrawn(RACE, "B").at("06:03:00"));
    assert_eq!(
        told[0],
        json!({
            "event": "runner_update", "date": "2026-11-21", "venue": "Sha Tin", "venue_code": "ST", "race_number": 3,
            "change": "withdrawn", "horse_no": "B", "horse_name": "NAME B", "number": 2, "jockey": "Jockey B", "weight": 121,
            "reason": "Lame", "timestamp": "2026-11-21T06:03:00Z", "recorded_at": "2026-11-21T09:00:03.123456Z",
            "seq": 3, "prev_seq": 0,
        })
    );
    assert_eq!(
        places(told),
        json!([["runner_update", 3, 0], ["odds_update", 3, 2]])
    );
    assert_eq!(house.hear(withdrawn(RACE, "B")).len(), 0);
    let back = house.hear(reinstated(RACE, "B"));
    assert_eq!([&back[0]["change"], &back[0]["reason"]], ["reinstated", ""]);
    assert_eq!(
        places(back),
        json!([["runner_update", 5, 3], ["odds_update", 5, 3]])
    );
    assert_eq!(house.hear(reinstated(RACE, "B")).len(), 0);
}

#[test]
fn another_rider_is_told_and_the_board_stays_as_it_is() {
    let mut house = House::given([card(RACE, &["A"]), quote()]);
    let board = house.board(RACE);
    let heavier = rider(RACE, "A", "Somebody").with("/weight", json!(118));
    let message = only(house.hear(heavier));
    assert_eq!(
        pick(&json!([message]), &["change", "jockey", "weight", "number"]),
        json!([["rider_changed", "Somebody", 118, 1]])
    );
    assert_eq!(house.board(RACE), board);
    let gone = house.hear(withdrawn(RACE, "A")).swap_remove(0);
    assert_eq!(
        pick(&json!([gone]), &["jockey", "weight", "prev_seq"]),
        json!([["Somebody", 118, 3]]),
        "the runner as it is now"
    );
}

#[test]
fn of_a_runner_without_a_card_what_was_quoted_is_told() {
    let named = quote()
        .with("/runners/0/horse_name", json!("QUOTED A"))
        .with("/runners/0/number", json!(7));
    let mut house = House::given([named]);
    let fields = &["horse_name", "number", "jockey", "weight"];
    let told = house.hear(withdrawn(RACE, "A"));
    assert_eq!(
        pick(&json!([told[0]]), fields),
        json!([["QUOTED A", 7, "", 0]])
    );
    let told = house.hear(rider(RACE, "A", "Somebody"));
    assert_eq!(
        pick(&json!(told), fields),
        json!([["QUOTED A", 7, "Somebody", 0]])
    );
    let told = house.hear(withdrawn(RACE, "Z"));
    assert_eq!(pick(&json!([told[0]]), fields), json!([["", 0, "", 0]]));
}

#[test]
fn each_race_has_a_chain_of_its_own() {
    let mut house = House::given([status(RACE, "open"), status(OTHER, "open")]).reopen();
    assert_eq!(
        places(house.hear(status(RACE, "closed"))),
        json!([["status_update", 3, 1]])
    );
    let mut house = house.reopen();
    assert_eq!(
        places(house.hear(status(OTHER, "closed"))),
        json!([["status_update", 4, 2]])
    );
}

#[test]
fn a_status_changes_the_image_and_not_its_place() {
    let mut house = House::given([quote()]);
    let closed = update(&mut house, status(RACE, "closed")).expect("an update");
    let board = closed.board.expect("a board");
    let image: Value = serde_json::from_slice(&board.json).expect("JSON");
    assert_eq!((board.seq, closed.seq, closed.open), (1, 2, true));
    assert_eq!(
        [&image["seq"], &image["status"]],
        [&json!(1), &json!("closed")]
    );
    assert_eq!(image, house.board(RACE));
    let finished = update(&mut house, status(RACE, "finished")).expect("an update");
    assert!(!finished.open);
    assert!(finished.board.is_some());
}

#[test]
fn what_tells_nothing_is_an_update_only_where_something_is_live() {
    let mut house = House::given([]);
    assert_eq!(update(&mut house, card(RACE, &["A"])), None);
    assert_eq!(update(&mut house, going(RACE, "SOFT")), None);
    house.when(status(RACE, "open"));
    let live = update(&mut house, going(RACE, "HEAVY")).expect("an update");
    assert_eq!(
        (live.messages.len(), live.board, live.open),
        (0, None, false)
    );
    let recarded = card(RACE, &["C", "B"]).with("/venue_name", json!("Elsewhere Park"));
    let live = update(&mut house, recarded).expect("an update");
    assert_eq!(live.messages, []);
    assert_eq!(live.venue, "Elsewhere Park");
    assert_eq!(live.runners, [horse("B"), horse("C")]);
    assert_eq!(update(&mut house, card(OTHER, &["A"])), None);
}

#[test]
fn the_runners_are_those_of_the_card_and_the_board() {
    let mut house = House::given([card(RACE, &["C", "B"])]);
    let live = update(&mut house, quote()).expect("an update");
    assert_eq!(live.runners, [horse("A"), horse("B"), horse("C")]);
}

#[test]
fn what_changed_nothing_is_no_update() {
    let mut house = House::given([
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
        assert_eq!(update(&mut house, nothing), None);
    }
    assert_eq!(house.raw("racing.garbage", b"{}".to_vec()).updates, []);
}

#[test]
fn the_open_races_are_those_with_a_board_that_are_not_over() {
    let mut house = House::given([
        card(RACE, &["C"]),
        quote(),
        odds(OTHER, &[("A", json!(2))]),
        status(RACE, "closed"),
        status(("2026-11-21", "ST", 5), "open"),
    ]);
    let open = open_races(house.projection.store()).expect("a healthy store");
    assert_eq!(open.iter().map(|race| race.seq).collect::<Vec<_>>(), [2, 3]);
    assert_eq!(open[0].runners, [horse("A"), horse("B"), horse("C")]);
    assert_eq!((open[0].venue.as_str(), open[0].open), ("Sha Tin", true));
    house.when(result(OTHER, 1, &[("A", "1")]));
    let open = open_races(house.projection.store()).expect("a healthy store");
    assert_eq!(open.iter().map(|race| race.seq).collect::<Vec<_>>(), [2]);
}

#[test]
fn every_kind_is_called_on_the_wire_as_in_the_state() {
    for kind in LiveKind::ALL {
        assert_eq!(json!(kind), json!(kind.as_str()));
    }
}

/// The fields of an object, or those that a schema lists.
fn fields(object: &Value) -> BTreeSet<&str> {
    let object = object.as_object().expect("an object");
    object.keys().map(String::as_str).collect()
}

#[test]
fn the_schemas_name_every_field_that_is_told() {
    let mut house = House::given([card(RACE, &["A", "B"]), quote()]);
    let told = [
        withdrawn(RACE, "B"),
        status(RACE, "open"),
        result(RACE, 1, &[("A", "1")]),
    ]
    .map(|fact| house.hear(fact))
    .concat();
    let mut seen = BTreeSet::new();
    for (name, schema) in live_schemas(&mut schemars::SchemaGenerator::default()) {
        let schema = schema.to_value();
        let event = &schema["properties"]["event"]["const"];
        let required: BTreeSet<&str> = schema["required"]
            .as_array()
            .expect("a list")
            .iter()
            .filter_map(Value::as_str)
            .collect();
        for message in told.iter().filter(|message| message["event"] == *event) {
            assert_eq!(fields(message), required, "{name}");
            seen.insert(name);
        }
        let optional: Vec<&str> = fields(&schema["properties"])
            .difference(&required)
            .copied()
            .collect();
        let expected: &[&str] = match name {
            "OddsUpdate" => &["conflated", "conflated_by", "snapshot"],
            _ => &[],
        };
        assert_eq!(optional, expected, "{name}");
    }
    assert_eq!(
        Vec::from_iter(seen),
        ["OddsUpdate", "ResultUpdate", "RunnerUpdate", "StatusUpdate"]
    );
}
