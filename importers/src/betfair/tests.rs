//! Small invented streams, one rule each.

use events::{Event, Moment, RaceNumber, RaceStatus};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::Index;
use serde_json::{Value, json};

use super::place_market::PRICES_MAX;
use super::{BetfairStream, LINES, LineFault, Lines, MarketFile};
use crate::item::Item;
use crate::testing::folder_of;

/// 2026-06-14T16:55:00Z
const START: i64 = 1_781_456_100_000;

fn market(id: &str, name: &str, time: &str) -> Value {
    json!({
        "id": id,
        "marketDefinition": {
            "eventTypeId": "7", "marketType": "WIN", "marketTime": time, "openDate": "2026-06-14T16:55:00.000Z",
            "timezone": "Europe/London", "venue": "Hamilton", "countryCode": "GB", "name": name, "status": "OPEN",
            "inPlay": false, "runners": [
                { "id": 11, "status": "ACTIVE", "sortPriority": 1, "name": "Paper Lantern", "adjustmentFactor": "NaN" },
                { "id": 12, "status": "ACTIVE", "sortPriority": 2, "name": "Slow Tide" },
            ],
        },
    })
}

fn evening(id: &str) -> Value {
    market(id, "R5 1200m 3yo", "2026-06-14T18:55:00.000Z")
}

fn ticks(id: &str, prices: &[(u64, Value)]) -> Value {
    let rc = prices
        .iter()
        .map(|(runner, ltp)| json!({ "id": runner, "ltp": ltp, "atb": [[3.4, 12.5]] }));
    json!({ "id": id, "rc": rc.collect::<Vec<_>>() })
}

/// A message so many milliseconds after the start.
fn message(after: i64, changes: impl Into<Value>) -> Value {
    json!({ "op": "mcm", "clk": "AAA", "pt": START + after, "mc": changes.into() })
}

fn lines(messages: &[Value]) -> String {
    messages
        .iter()
        .map(|message| format!("{message}\n"))
        .collect()
}

fn items_of(texts: &[String], number: Option<u16>) -> Vec<Item> {
    let names: Vec<String> = (0..texts.len()).map(|n| format!("1.{n}")).collect();
    let files = names.iter().zip(texts);
    let files: Vec<_> = files
        .map(|(name, text)| (name.as_str(), text.as_bytes()))
        .collect();
    let (_folder, paths) = folder_of(&files);
    let number = number.map(|n| RaceNumber::try_from(n).expect("a number"));
    BetfairStream::find(&paths).items(number).collect()
}

fn items(messages: &[Value]) -> Vec<Item> {
    items_of(&[lines(messages)], None)
}

/// The items of messages, each as a short line, without counts of what was omitted.
fn read(messages: &[Value]) -> Vec<String> {
    shown(&items(messages))
}

fn shown(items: &[Item]) -> Vec<String> {
    let counted = |item: &&Item| !matches!(item, Item::Omitted(_));
    items.iter().filter(counted).map(short).collect()
}

fn short(item: &Item) -> String {
    let envelope = match item {
        Item::Event(envelope) => envelope,
        Item::Rejected(rejected) => {
            return format!("rejected: line {}: {}", rejected.line, rejected.reason);
        }
        Item::Note(note) => return format!("note: line {}: {}", note.line, note.reason),
        Item::Omitted(values) => return format!("omitted: {values:?}"),
    };
    let after = envelope.time.timestamp().as_millisecond() - START;
    let text = match &envelope.event {
        Event::RaceDeclared(card) => {
            let runners: Vec<String> = card
                .runners
                .iter()
                .map(|r| format!("{} {} {}", r.horse_no, r.number, r.horse_name))
                .collect();
            format!("card {:?}: {}", card.race_name.as_str(), runners.join(", "))
        }
        Event::RunnerWithdrawn(fact) => format!("out {}", fact.horse_no),
        Event::RunnerReinstated(fact) => format!("in {}", fact.horse_no),
        Event::RaceStatusChanged(fact) => {
            let reason = fact.reason.as_ref().map(|reason| format!(" ({reason})"));
            format!("{}{}", fact.status.as_str(), reason.unwrap_or_default())
        }
        Event::OddsQuoted(quote) => {
            let prices = quote.runners.iter().map(|r| {
                let place = r.place.map(|place| format!(" place {place}"));
                let place = place.unwrap_or_default();
                match (r.win, r.state) {
                    (Some(win), None) => format!("{} {win}{place}", r.horse_no),
                    (None, Some(state)) => format!("{} {state:?}{place}", r.horse_no),
                    other => panic!("{other:?}"),
                }
            });
            let source = envelope.source.replace("railbird/import/betfair-", "");
            let source = source.replace("stream", "odds");
            format!("{source} {}", prices.collect::<Vec<_>>().join(", "))
        }
        other => panic!("{other:?}"),
    };
    format!("{after} {text}")
}

const CARD: &str = r#"0 card "1200m 3yo": BF_11 0 Paper Lantern, BF_12 0 Slow Tide"#;
const STILL_OPEN: &str = "note: line 0: market 1.1 is still open at the end of the file";

fn with(mut market: Value, field: &str, value: Value) -> Value {
    market["marketDefinition"][field] = value;
    market
}

fn with_status(market: Value, statuses: [&str; 2]) -> Value {
    let mut market = market;
    for (index, status) in statuses.iter().enumerate() {
        market["marketDefinition"]["runners"][index]["status"] = json!(status);
    }
    market
}

#[test]
fn a_message_makes_a_card_prices_and_a_status_in_this_order() {
    let mut first = evening("1.1");
    first["rc"] = json!([{ "id": 12, "ltp": 3.5 }, { "id": 11, "tv": 3.0 }]);
    let shown = read(&[
        message(0, [first]),
        message(50, [ticks("1.1", &[(11, json!(4)), (12, json!(3.55))])]),
    ]);
    assert_eq!(
        shown,
        [
            CARD,
            "0 odds BF_12 3.5",
            "0 open",
            "50 odds BF_11 4.0, BF_12 3.55",
            STILL_OPEN
        ]
    );
}

#[test]
fn a_race_after_midnight_belongs_to_its_meeting() {
    let late = with(
        evening("1.1"),
        "marketTime",
        json!("2026-06-14T23:20:00.000Z"),
    );
    let items = items(&[message(0, [late])]);
    let Item::Event(envelope) = &items[0] else {
        panic!("{items:?}")
    };
    assert_eq!(
        envelope.event.subject().to_string(),
        "racing.race.2026-06-14.GBHAMM4Z.5",
        "20 past midnight in London belongs to the evening before"
    );
    let Event::RaceDeclared(card) = &envelope.event else {
        panic!("{envelope:?}")
    };
    assert_eq!(
        card.venue_name.as_ref().map(|name| name.as_str()),
        Some("Hamilton")
    );
    assert_eq!(card.off_time, Moment::parse("2026-06-14T23:20:00Z").ok());
}

/// The code of a venue.
fn code(country: Value, venue: &str) -> String {
    let market = with(evening("1.1"), "countryCode", country);
    let items = items(&[message(0, [with(market, "venue", json!(venue))])]);
    let Item::Event(envelope) = &items[0] else {
        panic!("{venue}: {items:?}")
    };
    envelope.event.race().expect("a race").venue.to_string()
}

#[test]
fn the_code_of_a_venue_is_made_of_its_country_and_its_name() {
    let codes = [
        code(json!("US"), "Ellis"),
        code(json!("GB"), "Newcastle"),
        code(json!("AU"), "Newcastle"),
        code(json!("AU"), "Warwick"),
        code(json!("AU"), "Warwick Farm"),
        code(json!("FR"), "Saint-Cloud"),
        code(json!(null), "Wolverhampton"),
    ];
    let expected = "USELLIS GBNEW3GQ AUNEWFFI AUWARMU3 AUWARXWX FRSAI3TW WOLVE66G";
    assert_eq!(codes.join(" "), expected);
}

#[test]
fn a_card_is_repeated_only_if_it_changes() {
    let later = with(
        evening("1.1"),
        "marketTime",
        json!("2026-06-14T18:58:00.000Z"),
    );
    let mut turned = with(evening("1.1"), "version", json!(2));
    turned["marketDefinition"]["runners"]
        .as_array_mut()
        .expect("runners")
        .reverse();
    let shown = read(&[
        message(0, [evening("1.1")]),
        message(1, [turned]),
        message(2, [later]),
    ]);
    let again = CARD.replacen("0 card", "2 card", 1);
    assert_eq!(shown, [CARD, "0 open", &again, STILL_OPEN]);
}

#[test]
fn numbers_come_from_the_names_of_runners_and_hidden_ones_are_omitted() {
    let mut market = evening("1.1");
    let runners = &mut market["marketDefinition"]["runners"];
    runners[0]["name"] = json!("13. Tottenham Hotspur");
    runners[1]["name"] = json!("St. Leger");
    runners.as_array_mut().expect("runners").extend([
        json!({ "id": 13, "status": "HIDDEN", "name": "Reserve" }),
        json!({ "id": 14, "status": "ACTIVE" }),
    ]);
    let card = &read(&[message(0, [market])])[0];
    assert_eq!(
        card,
        r#"0 card "1200m 3yo": BF_12 0 St. Leger, BF_14 0 , BF_11 13 Tottenham Hotspur"#
    );
}

#[test]
fn a_removed_runner_is_withdrawn_and_may_be_reinstated() {
    let removed = || with_status(evening("1.1"), ["ACTIVE", "REMOVED"]);
    let shown = read(&[
        message(0, [removed()]),
        message(1, [removed(), ticks("1.1", &[(12, json!(9.0))])]),
        message(2, [evening("1.1")]),
        message(
            3,
            [with_status(evening("1.1"), ["REMOVED_VACANT", "ACTIVE"])],
        ),
    ]);
    assert_eq!(
        shown,
        [
            CARD,
            "0 out BF_12",
            "0 open",
            "1 odds BF_12 9.0",
            "2 in BF_12",
            "3 out BF_11",
            STILL_OPEN
        ]
    );
}

fn check_status(market: Value, status: RaceStatus, reason: Option<&str>) {
    let text = market.to_string();
    let items = items(&[message(0, [market])]);
    let found = items.iter().find_map(|item| match item {
        Item::Event(envelope) => match &envelope.event {
            Event::RaceStatusChanged(fact) => Some(fact),
            _ => None,
        },
        _ => None,
    });
    let found = found.expect(&text);
    assert_eq!(found.status, status, "{text}");
    assert_eq!(
        found.reason.as_ref().map(|reason| reason.as_str()),
        reason,
        "{text}"
    );
}

#[test]
fn the_status_of_a_market_is_that_of_the_race() {
    let market = |status: &str, in_play: bool, runners: [&str; 2]| {
        let market = with(evening("1.1"), "status", json!(status));
        with_status(with(market, "inPlay", json!(in_play)), runners)
    };
    let running = ["ACTIVE", "ACTIVE"];
    check_status(
        market("INACTIVE", false, running),
        RaceStatus::Scheduled,
        None,
    );
    check_status(market("OPEN", false, running), RaceStatus::Open, None);
    check_status(
        market("SUSPENDED", false, running),
        RaceStatus::Closed,
        Some("suspended"),
    );
    check_status(market("OPEN", true, running), RaceStatus::Off, None);
    check_status(market("SUSPENDED", true, running), RaceStatus::Off, None);
    let one = market("CLOSED", true, ["LOSER", "WINNER"]);
    check_status(one, RaceStatus::Finished, Some("won by Slow Tide"));
    let two = market("CLOSED", true, ["WINNER", "WINNER"]);
    check_status(
        two,
        RaceStatus::Finished,
        Some("won by Paper Lantern and Slow Tide"),
    );
    let none = market("CLOSED", false, ["LOSER", "REMOVED"]);
    check_status(none, RaceStatus::Finished, None);
    let void = market("CLOSED", false, ["REMOVED", "REMOVED"]);
    check_status(void, RaceStatus::Abandoned, Some("the market was voided"));
}

#[test]
fn a_void_market_withdraws_nobody() {
    let void = with(evening("1.1"), "status", json!("CLOSED"));
    let shown = read(&[
        message(0, [evening("1.1")]),
        message(1, [with_status(void, ["REMOVED", "REMOVED"])]),
    ]);
    assert_eq!(
        shown,
        [CARD, "0 open", "1 abandoned (the market was voided)"]
    );
}

#[test]
fn nan_is_no_market_and_an_invalid_price_is_rejected_alone() {
    let prices = [
        (11, json!("NaN")),
        (12, json!(1.0001)),
        (13, json!(0.5)),
        (14, json!("3.5")),
        (15, json!(null)),
        (16, json!(3.349_999_999_999_999_6)),
        (17, json!({})),
        (18, json!(1000)),
    ];
    let shown = read(&[
        message(0, [evening("1.1")]),
        message(1, [ticks("1.1", &prices)]),
    ]);
    let odds = "odds are a number from 1 to 100000 with at most three decimals";
    assert_eq!(
        shown[2..],
        [
            format!("rejected: line 2: the ltp of runner 12: {odds}, not \"1.0001\""),
            format!("rejected: line 2: the ltp of runner 13: {odds}, not \"0.5\""),
            format!("rejected: line 2: the ltp of runner 14: {odds}, not \"\\\"3.5\\\"\""),
            format!("rejected: line 2: the ltp of runner 17: {odds}, not \"{{}}\""),
            "1 odds BF_11 NoMarket, BF_16 3.35, BF_18 1000.0".to_owned(),
            STILL_OPEN.to_owned(),
        ]
    );
}

#[test]
fn ticks_are_never_merged() {
    let messages = [
        message(0, [evening("1.1")]),
        message(
            1,
            [ticks(
                "1.1",
                &[(11, json!(3.5)), (12, json!(2.0)), (11, json!(3.6))],
            )],
        ),
        message(1, [ticks("1.1", &[(11, json!(3.5)), (12, json!(2.0))])]),
        message(1, [ticks("1.1", &[(11, json!(3.5)), (12, json!(2.0))])]),
    ];
    let read = items(&messages);
    let shown: Vec<String> = read.iter().map(short).collect();
    let first = "1 odds BF_11 3.5, BF_12 2.0";
    assert_eq!(shown[2..6], [first, "1 odds BF_11 3.6", first, first]);
    let ids = |items: &[Item]| -> Vec<String> {
        let events = items.iter().filter_map(|item| match item {
            Item::Event(envelope) => Some(envelope.id.clone()),
            _ => None,
        });
        events.collect()
    };
    let mut ids_sorted = ids(&read);
    assert_eq!(
        ids_sorted,
        ids(&items(&messages)),
        "the same file, the same ids"
    );
    ids_sorted.sort();
    ids_sorted.dedup();
    assert_eq!(ids_sorted.len(), 6, "each is an event of its own");
}

#[test]
fn more_runners_than_a_quote_holds_are_several_quotes() {
    let prices: Vec<(u64, Value)> = (1..=130).map(|n| (n, json!(2.0))).collect();
    let items = items(&[
        message(0, [evening("1.1")]),
        message(1, [ticks("1.1", &prices)]),
    ]);
    let quoted = items.iter().filter_map(|item| match item {
        Item::Event(envelope) => match &envelope.event {
            Event::OddsQuoted(quote) => Some(quote.runners.len()),
            _ => None,
        },
        _ => None,
    });
    assert_eq!(quoted.collect::<Vec<_>>(), [64, 64, 2]);
}

/// The race number of each file, or why there is none.
fn numbers(markets: &[Value], number: Option<u16>) -> Vec<String> {
    let texts: Vec<String> = markets
        .iter()
        .map(|m| lines(&[message(0, [m.clone()])]))
        .collect();
    let items = items_of(&texts, number);
    let of_first = items.iter().filter_map(|item| match item {
        Item::Event(envelope) => match &envelope.event {
            Event::RaceDeclared(card) => Some(card.race_number.to_string()),
            _ => None,
        },
        Item::Rejected(rejected) => Some(rejected.reason.clone()),
        Item::Note(_) | Item::Omitted(_) => None,
    });
    of_first.collect()
}

#[test]
fn a_race_without_a_number_is_numbered_within_its_meeting() {
    let at = |id: &str, hour: u8| market(id, "1m Hcap", &format!("2026-06-14T{hour}:55:00.000Z"));
    let elsewhere = with(at("1.4", 17), "venue", json!("Ascot"));
    let day = [at("1.1", 18), at("1.2", 20), elsewhere, at("1.3", 17)];
    assert_eq!(numbers(&day, None), ["2", "3", "1", "1"]);
    let read = items_of(&[lines(&[message(0, [day[0].clone()])])], None);
    let note = read
        .iter()
        .map(short)
        .find(|line| line.starts_with("note: line 1: "));
    assert_eq!(
        note.as_deref(),
        Some(
            "note: line 1: numbered 1 of 1 by its time among the races of Hamilton on 2026-06-14 in this import; \
             --race-number overrides it"
        )
    );
    assert_eq!(numbers(&[at("1.1", 18)], Some(6)), ["6"]);
    assert_eq!(
        numbers(&[at("1.1", 18), at("1.2", 20)], Some(6))[0],
        "market 1.1: --race-number applies to one race, and these files have 2"
    );
}

#[test]
fn two_markets_never_become_one_race() {
    let ours = numbers(&[evening("1.1"), evening("1.2")], None);
    assert_eq!(
        ours,
        [
            "5",
            "market 1.2: another market of this import is race 2026-06-14.GBHAMM4Z.5 too"
        ]
    );
    let ours = numbers(
        &[
            evening("1.1"),
            with(evening("1.2"), "venue", json!("Hamil Ton")),
        ],
        None,
    );
    assert_eq!(
        ours,
        ["5", "market 1.2: Hamilton and Hamil Ton are both GBHAMM4Z"]
    );
}

#[test]
fn other_markets_are_noted_once_and_not_read() {
    let place = with(evening("1.2"), "marketType", json!("OTHER_PLACE"));
    let tennis = json!({ "id": "1.3", "marketDefinition": { "eventTypeId": "2", "marketType": "MATCH_ODDS" } });
    let shown = read(&[
        message(0, [evening("1.1"), place, tennis]),
        message(
            1,
            [
                ticks("1.2", &[(11, json!(1.5))]),
                ticks("1.3", &[(11, json!(1.5))]),
            ],
        ),
    ]);
    let not_read = |id: &str, what: &str| {
        format!(
            "note: line 1: market {id} is not read: only WIN and PLACE markets of event type 7 (horse racing) are read, not {what:?}"
        )
    };
    assert_eq!(
        shown[2..],
        [
            not_read("1.2", "OTHER_PLACE of event type 7"),
            not_read("1.3", "MATCH_ODDS of event type 2"),
            STILL_OPEN.to_owned()
        ]
    );
}

fn place(id: &str) -> Value {
    let market = with(evening(id), "marketType", json!("PLACE"));
    with(market, "name", json!("To Be Placed"))
}

/// A market with the starting prices of its runners.
fn with_starting_prices(mut market: Value, prices: [Value; 2]) -> Value {
    for (index, price) in prices.into_iter().enumerate() {
        market["marketDefinition"]["runners"][index]["bsp"] = price;
    }
    market
}

fn tick(after: i64, id: &str, runner: u64, price: f64) -> Value {
    message(after, [ticks(id, &[(runner, json!(price))])])
}

/// A WIN market, and what becomes of it with the PLACE market of [`place_lines`].
fn win_lines() -> [Value; 5] {
    [
        message(0, [evening("1.1")]),
        tick(10, "1.1", 11, 3.5),
        tick(20, "1.1", 12, 2.0),
        message(40, [ticks("1.1", &[(11, json!("NaN"))])]),
        tick(50, "1.1", 11, 3.6),
    ]
}

fn place_lines() -> [Value; 5] {
    [
        message(1, [place("1.2")]),
        tick(5, "1.2", 12, 1.2),
        message(20, [ticks("1.2", &[(12, json!(1.25)), (11, json!(1.5))])]),
        tick(30, "1.2", 11, 1.6),
        tick(51, "1.2", 11, 1.7),
    ]
}

const JOINED: [&str; 11] = [
    CARD,
    "0 open",
    "5 odds BF_12 NoMarket place 1.2",
    "10 odds BF_11 3.5",
    "20 odds BF_12 NoMarket place 1.25, BF_11 3.5 place 1.5",
    "20 odds BF_12 2.0",
    "30 odds BF_11 3.5 place 1.6",
    "40 odds BF_11 NoMarket place 1.6",
    "50 odds BF_11 3.6",
    STILL_OPEN,
    "note: line 0: market 1.1: 1 place prices before its first or after its last message are not imported",
];

#[test]
fn the_prices_of_a_place_market_are_quoted_with_those_of_its_win_market() {
    let (win, place) = (lines(&win_lines()), lines(&place_lines()));
    assert_eq!(
        shown(&items_of(&[win.clone(), place.clone()], None)),
        JOINED
    );
    assert_eq!(shown(&items_of(&[place, win], None)), JOINED);
    let mut together = [win_lines(), place_lines()].concat();
    together.sort_by_key(|message| message["pt"].as_i64());
    assert_eq!(read(&together), JOINED);
}

#[test]
fn a_place_market_without_its_win_market_is_rejected_by_name() {
    let need = "place prices need the WIN market of the same event, time and runners, which is not imported";
    let rejected = format!("rejected: line 1: market 1.2: {need}");
    assert_eq!(read(&place_lines()), [&*rejected]);
    for (field, value) in [
        ("eventId", json!("2")),
        ("marketTime", json!("2026-06-14T18:56:00.000Z")),
        ("runners", json!([{ "id": 11, "status": "ACTIVE" }])),
        (
            "runners",
            json!([{ "id": 11, "status": "ACTIVE" }, { "id": 13, "status": "ACTIVE" }]),
        ),
    ] {
        let place = lines(&[message(1, [with(place("1.2"), field, value)])]);
        let items = shown(&items_of(&[lines(&win_lines()[..1]), place], None));
        assert_eq!(items, [CARD, "0 open", STILL_OPEN, &rejected]);
    }
    let nowhere = with(evening("1.1"), "timezone", json!("Europe/Atlantis"));
    let items = shown(&items_of(
        &[lines(&[message(0, [nowhere])]), lines(&place_lines())],
        None,
    ));
    assert_eq!((items.len(), &items[1]), (2, &rejected));
}

#[test]
fn of_two_place_markets_of_a_race_the_second_is_rejected() {
    let other = [message(2, [place("1.3")]), tick(20, "1.3", 11, 1.1)];
    let texts = [lines(&win_lines()), lines(&other), lines(&place_lines())];
    let mut expected = JOINED.map(str::to_owned).to_vec();
    expected
        .push("rejected: line 1: market 1.3: WIN market 1.1 has another PLACE market".to_owned());
    assert_eq!(shown(&items_of(&texts, None)), expected);
}

#[test]
fn a_race_with_too_many_place_prices_is_rejected() {
    let many = (0..i64::try_from(PRICES_MAX).expect("small")).map(|n| tick(n, "1.2", 11, 1.5));
    let mut texts = vec![
        lines(&[message(0, [evening("1.1")])]),
        lines(&many.collect::<Vec<_>>()),
        lines(&[message(0, [place("1.2")])]),
    ];
    let count = PRICES_MAX - 1;
    let omitted = format!(
        "note: line 0: market 1.1: {count} place prices before its first or after its last message are not imported"
    );
    let few = [
        CARD,
        "0 odds BF_11 NoMarket place 1.5",
        "0 open",
        STILL_OPEN,
        &omitted,
    ];
    assert_eq!(shown(&items_of(&texts, None)), few);
    texts.push(lines(&[tick(0, "1.2", 12, 1.2)]));
    let reason = format!("more than {PRICES_MAX} place prices: import the files in parts");
    let rejected = |id| format!("rejected: line 1: market {id}: {reason}");
    let ids = ["1.1", "1.2", "1.2", "1.2"];
    assert_eq!(shown(&items_of(&texts, None)), ids.map(rejected));
}

#[test]
fn what_is_invalid_in_a_place_market_is_rejected_alone() {
    let mut place = place_lines();
    place[2] = message(20, [ticks("1.2", &[(12, json!(1.2501)), (11, json!(1.5))])]);
    let bsp = with_starting_prices(self::place("1.2"), [json!("x"), json!(1.5)]);
    let rest = [
        message(52, [bsp]),
        message(53, [with(self::place("1.2"), "status", json!("X"))]),
    ];
    let place = lines(&[&place[..], &rest].concat());
    let items = shown(&items_of(&[lines(&win_lines()), place], None));
    let odds = "odds are a number from 1 to 100000 with at most three decimals";
    let mut expected = JOINED.map(str::to_owned).to_vec();
    expected[4] = "20 odds BF_11 3.5 place 1.5, BF_12 2.0".to_owned();
    expected.remove(5);
    expected.push(format!(
        "rejected: line 3: the ltp of runner 12: {odds}, not \"1.2501\""
    ));
    expected.push(format!(
        "rejected: line 6: the bsp of runner 11: {odds}, not \"\\\"x\\\"\""
    ));
    assert_eq!(items[..expected.len()], expected);
    let last = "rejected: line 7: the definition of market 1.2: unknown variant `X`";
    assert!(
        items.len() == 13 && items[12].starts_with(last),
        "{items:#?}"
    );
}

#[test]
fn starting_prices_are_quoted_once_by_a_source_of_their_own() {
    let settled = |market, other: Value| {
        let market = with_starting_prices(market, [json!(3.456_51), other]);
        with(market, "inPlay", json!(true))
    };
    let mut first = settled(evening("1.1"), json!("NaN"));
    first["rc"] = json!([{ "id": 11, "ltp": 3.5 }]);
    let win = [
        message(0, [evening("1.1")]),
        message(5, [first]),
        message(6, [settled(evening("1.1"), json!("NaN"))]),
        message(7, [settled(evening("1.1"), json!(0.5))]),
        message(8, [settled(evening("1.1"), json!(2))]),
    ];
    let odds = "odds are a number from 1 to 100000 with at most three decimals";
    let invalid = format!("rejected: line 4: the bsp of runner 12: {odds}, not \"0.5\"");
    let mut expected = [
        CARD,
        "0 open",
        "5 odds BF_11 3.5",
        "5 sp BF_11 3.457",
        "5 off",
        &invalid,
        "8 sp BF_11 3.457, BF_12 2.0",
        STILL_OPEN,
    ];
    assert_eq!(read(&win), expected);
    let starting_prices = with_starting_prices(place("1.2"), [json!(1.5), json!(1.25)]);
    let place = lines(&[message(1, [place("1.2")]), message(9, [starting_prices])]);
    expected[3] = "5 sp BF_11 3.457 place 1.5";
    expected[6] = "8 sp BF_11 3.457 place 1.5, BF_12 2.0 place 1.25";
    assert_eq!(shown(&items_of(&[lines(&win), place], None)), expected);
}

#[test]
fn an_invalid_line_is_rejected_and_the_others_are_imported() {
    let text = [
        json!({ "op": "connection", "connectionId": "002" }).to_string(),
        message(0, [evening("1.1")]).to_string(),
        "{\"op\":\"mcm\",".to_owned(),
        json!({ "op": "mcm", "mc": [ticks("1.1", &[(11, json!(2.0))])] }).to_string(),
        json!({ "op": "mcm", "pt": i64::MAX, "mc": [ticks("1.1", &[(11, json!(2.0))])] })
            .to_string(),
        message(1, [with(evening("1.1"), "status", json!("ASLEEP"))]).to_string(),
        message(2, [ticks("1.9", &[(11, json!(2.0))])]).to_string(),
        message(3, [ticks("1.1", &[(11, json!(2.5))])]).to_string(),
        json!({ "op": "mcm", "pt": START, "ct": "HEARTBEAT" }).to_string(),
        message(4, [ticks("1.1", &[(11, json!(2.5))])]).to_string()[..60].to_owned(),
    ]
    .join("\n");
    let end = text.len();
    let shown = shown(&items_of(&[text], None));
    let begins = [
        CARD,
        "0 open",
        "rejected: line 3: EOF while parsing",
        "rejected: line 4: missing field `pt`",
        "rejected: line 5: pt is in milliseconds since 1970",
        "rejected: line 6: the definition of market 1.1: unknown variant `ASLEEP`",
        "rejected: line 7: market 1.9: no file of this import defines it",
        "3 odds BF_11 2.5",
        &format!("rejected: line 10: the file ends in the middle of this line, at byte {end}"),
        STILL_OPEN,
    ];
    assert_eq!(shown.len(), begins.len(), "{shown:#?}");
    for (shown, begin) in shown.iter().zip(begins) {
        assert!(shown.starts_with(begin), "{shown} is not {begin}");
    }
}

#[test]
fn a_definition_without_a_venue_that_a_later_one_names_loses_nothing() {
    let mut unplaced = evening("1.1");
    without(&mut unplaced, "venue");
    let rest = [
        message(1, [ticks("1.1", &[(11, json!(2.0))])]),
        message(2, [evening("1.1")]),
        message(3, [ticks("1.1", &[(11, json!(2.5))])]),
    ];
    let before = [message(0, [unplaced.clone()]), message(0, [unplaced])];
    let noted =
        "note: line 1: a definition of market 1.1 has no venue; it is that of a later definition";
    assert_eq!(
        read(&[&before[..], &rest[..]].concat()),
        [
            noted,
            CARD,
            "0 open",
            "1 odds BF_11 2.0",
            "3 odds BF_11 2.5",
            STILL_OPEN
        ]
    );
    assert_eq!(
        read(&[&before[..], &rest[..1]].concat()),
        ["rejected: line 1: market 1.1: none of its definitions has a venue"]
    );
}

fn without(market: &mut Value, field: &str) {
    let definition = market["marketDefinition"].as_object_mut();
    definition.expect("an object").remove(field);
}

#[test]
fn a_market_without_a_valid_race_is_rejected_once() {
    let message = |market: Value| {
        [
            message(0, [market]),
            message(1, [ticks("1.1", &[(11, json!(2.0))])]),
        ]
    };
    let nowhere = with(evening("1.1"), "timezone", json!("Europe/Atlantis"));
    assert_eq!(
        read(&message(nowhere)),
        [
            "rejected: line 1: market 1.1: a timezone is one of the IANA database, not \"Europe/Atlantis\""
        ]
    );
    let nameless = with(
        with(evening("1.1"), "venue", json!("()")),
        "countryCode",
        json!(null),
    );
    assert_eq!(
        read(&message(nameless)),
        ["rejected: line 1: market 1.1: the name of a venue has a letter or a digit, not \"()\""]
    );
    let mut undated = evening("1.1");
    without(&mut undated, "marketTime");
    let shown = read(&message(undated));
    assert!(
        shown[0].starts_with("rejected: line 1: market 1.1: missing field `marketTime`"),
        "{shown:?}"
    );
}

#[test]
fn a_file_that_is_not_a_stream_is_rejected_whole() {
    let tar = format!("{:0<257}ustar\0", "2026/Jun/14/1.1.bz2\0");
    for (text, part) in [
        ("", "the file is empty"),
        ("PK\u{3}\u{4}...", "the zip archive: "),
        (&tar, "the tar archive is damaged: "),
        (
            "date,venue\n2026-06-14,Ascot\n",
            "its first line is not a JSON object",
        ),
        (
            "[{\"op\":\"mcm\"}]\n",
            "its first line is not a JSON object",
        ),
    ] {
        let items = items_of(&[text.to_owned()], None);
        let [Item::Rejected(rejected)] = &items[..] else {
            panic!("{items:?}")
        };
        assert!(
            rejected.line == 0 && rejected.reason.contains(part),
            "{rejected}"
        );
    }
}

#[test]
fn a_line_that_is_not_a_message_is_not_called_cut_off() {
    let shown = items_of(&["{\"races\": []}".to_owned()], None);
    let shown: Vec<String> = shown.iter().map(short).collect();
    assert_eq!(shown.len(), 1, "{shown:?}");
    assert!(
        shown[0].starts_with("rejected: line 1: missing field `op`"),
        "{shown:?}"
    );
    let shown = items_of(&["{\"races\": [".to_owned()], None);
    let shown: Vec<String> = shown.iter().map(short).collect();
    assert_eq!(
        shown,
        ["rejected: line 1: the file ends in the middle of this line, at byte 11"]
    );
}

#[test]
fn a_market_with_trades_and_no_last_traded_price_is_noted() {
    let traded = json!([{ "id": "1.1", "rc": [{ "id": 11, "trd": [[3.5, 12.0]] }] }]);
    let shown = read(&[message(0, [evening("1.1")]), message(5, traded)]);
    let note =
        "note: line 0: market 1.1 has no last traded price (ltp): its prices are not imported";
    assert_eq!(shown, [CARD, "0 open", note, STILL_OPEN]);
}

/// A tick: milliseconds since the one before, runner, price in thousandths.
type Tick = (i64, u64, u32);

/// A market with ticks, some to a message.
fn traded(ticks_of: &[Tick], per_message: usize) -> Vec<Value> {
    let mut after = 0;
    let mut messages = vec![message(0, [evening("1.1")])];
    for some in ticks_of.chunks(per_message) {
        after += some[0].0;
        let price = |(_, runner, price): &Tick| (*runner, json!(f64::from(*price) / 1000.0));
        let prices: Vec<_> = some.iter().map(price).collect();
        messages.push(message(after, [ticks("1.1", &prices)]));
    }
    messages
}

/// The ticks of all quotes, and the ids of the quotes.
fn quoted(items: &[Item]) -> (Vec<(u64, u32)>, Vec<&str>) {
    let mut ticks = Vec::new();
    let mut ids = Vec::new();
    for item in items {
        if let Item::Event(envelope) = item
            && let Event::OddsQuoted(quote) = &envelope.event
        {
            ids.push(envelope.id.as_str());
            ticks.extend(quote.runners.iter().map(|r| {
                let runner = r.horse_no.as_str().trim_start_matches("BF_");
                let win = r.win.expect("a price");
                (runner.parse().expect("a runner"), win.thousandths())
            }));
        }
    }
    (ticks, ids)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn every_tick_becomes_a_quote_in_order(
        ticks in vec((0..3_i64, 1..4_u64, 1_000..1_010_u32), 0..80),
        per_message in 1..5_usize,
    ) {
        let items = items(&traded(&ticks, per_message));
        let (shown, mut ids) = quoted(&items);
        let traded: Vec<(u64, u32)> = ticks.iter().map(|(_, runner, price)| (*runner, *price)).collect();
        prop_assert_eq!(shown, traded);
        let count = ids.len();
        ids.sort_unstable();
        ids.dedup();
        prop_assert_eq!(ids.len(), count, "each under an id of its own");
    }

    #[test]
    fn a_truncated_file_gives_the_first_events_of_the_whole(
        ticks in vec((0..3_i64, 1..4_u64, 1_000..1_010_u32), 1..40),
        cut in any::<Index>(),
    ) {
        let text = lines(&traded(&ticks, 2));
        let events = |text: &str| -> Vec<String> {
            let items = items_of(&[text.to_owned()], None);
            items.iter().map(short).filter(|line| !["rejected", "note", "omitted"].iter().any(|kind| line.starts_with(kind))).collect()
        };
        let whole = events(&text);
        let part = events(&text[..cut.index(text.len())]);
        prop_assert!(whole.starts_with(&part));
    }
}

#[test]
fn names_that_are_not_read_are_counted() {
    let mut definition = with(evening("1.1"), "bspMarket", json!(true));
    definition["rc"] = json!([{ "id": 11, "ltp": 3.5, "tv": 12.0, "trd": [[3.5, 12.0]] }]);
    definition["img"] = json!(true);
    let mut place = with(evening("1.2"), "marketType", json!("PLACE"));
    place["rc"] = json!([{ "id": 11, "ltp": 3.5, "spn": 1 }, { "id": 12, "ltp": "NaN" }]);
    let mut other = with(evening("1.3"), "marketType", json!("EACH_WAY"));
    other["rc"] = json!([{ "id": 11, "ltp": 3.5, "spn": 1 }]);
    let ticks = ticks("1.1", &[(11, json!(3.4)), (12, json!(8))]);
    let items = items(&[message(0, [definition, place, other]), message(5, [ticks])]);
    let counts = items.iter().filter_map(|item| match item {
        Item::Omitted(values) => Some(values),
        _ => None,
    });
    let counts: Vec<String> = counts
        .flatten()
        .map(|(name, n)| format!("{name} {n}"))
        .collect();
    let expected = "adjustmentFactor 2, atb 2, bspMarket 1, clk 2, img 1, ltp 1, sortPriority 4, spn 1, trd 1, tv 1";
    assert_eq!(counts.join(", "), expected);
}

/// Numbers of the lines of a file with their texts, or with what is wrong.
fn read_lines(text: &[u8]) -> Vec<(u64, String)> {
    let (_folder, paths) = folder_of(&[("file", text)]);
    let mut lines = Lines::new(
        MarketFile::at(&paths[0]).0[0].open().expect("a file"),
        LINES,
    );
    let mut found = Vec::new();
    while let Some(line) = lines.next_filled() {
        let text = String::from_utf8_lossy(&line.text).into_owned();
        let shown = match line.fault {
            Some(LineFault::Unreadable(error)) => error.to_string(),
            Some(fault) => fault.to_string(),
            None if line.is_unended => format!("{text} until {}", lines.file.offset()),
            None => text,
        };
        found.push((line.number, shown));
    }
    found
}

fn check_lines(text: &[u8], expected: &[(u64, &str)]) {
    let found = read_lines(text);
    let found: Vec<_> = found.iter().map(|(n, line)| (*n, line.as_str())).collect();
    assert_eq!(found, expected);
}

#[test]
fn lines_are_numbered_and_blank_ones_are_skipped() {
    check_lines(b"", &[]);
    check_lines(b"\n \r\n", &[]);
    check_lines(b"a\n\nb\r\n", &[(1, "a"), (3, "b\r")]);
    check_lines(b"a\nb", &[(1, "a"), (2, "b until 3")]);
}

#[test]
fn a_line_that_is_too_long_is_skipped() {
    let long = "x".repeat(LINES.bytes_max);
    let longer = format!("{long}x");
    let found = read_lines(format!("a\n{long}\n{longer}\nb\n{longer}{longer}").as_bytes());
    let short: Vec<_> = found.iter().map(|(n, line)| (*n, line.len())).collect();
    let fault = LineFault::TooLong(LINES.bytes_max).to_string();
    let expected = [1, LINES.bytes_max, fault.len(), 1, fault.len()];
    assert_eq!(short, (1..).zip(expected).collect::<Vec<_>>());
    assert_eq!((&found[2].1, &found[4].1), (&fault, &fault));
    assert_eq!((&found[1].1, found[3].1.as_str()), (&long, "b"));
}

#[test]
fn intact_lines_are_returned_before_the_damage() {
    let packed = [b"BZh9".as_slice(), b"nonsense"].concat();
    let found = read_lines(&packed);
    assert_eq!(found.len(), 1);
    let start = "the file is damaged between byte 0 and byte ";
    assert!(found[0].1.starts_with(start), "{found:?}");
}
