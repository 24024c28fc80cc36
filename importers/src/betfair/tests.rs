//! Small made-up streams, a rule each.

use std::path::PathBuf;

use events::{Event, Moment, RaceNumber, RaceStatus};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::Index;
use serde_json::{Value, json};
use tempfile::TempDir;

use super::BetfairStream;
use crate::Item;

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

/// A folder with a file for each text.
fn files(texts: &[String]) -> (TempDir, Vec<PathBuf>) {
    let folder = TempDir::new().expect("a folder");
    let path = |n: usize| folder.path().join(format!("1.{n}"));
    let paths: Vec<PathBuf> = (0..texts.len()).map(path).collect();
    for (path, text) in paths.iter().zip(texts) {
        std::fs::write(path, text).expect("a file");
    }
    (folder, paths)
}

fn lines(messages: &[Value]) -> String {
    messages
        .iter()
        .map(|message| format!("{message}\n"))
        .collect()
}

fn items_of(texts: &[String], number: Option<u16>) -> Vec<Item> {
    let (_folder, paths) = files(texts);
    let number = number.map(|n| RaceNumber::try_from(n).expect("a number"));
    BetfairStream::find(&paths).items(number).collect()
}

fn items(messages: &[Value]) -> Vec<Item> {
    items_of(&[lines(messages)], None)
}

/// What comes of messages, in short: a line an item.
fn told(messages: &[Value]) -> Vec<String> {
    items(messages).iter().map(short).collect()
}

fn short(item: &Item) -> String {
    let envelope = match item {
        Item::Event(envelope) => envelope,
        Item::Refused(refused) => {
            return format!("refused: line {}: {}", refused.line, refused.reason);
        }
        Item::Note(note) => return format!("note: line {}: {}", note.line, note.reason),
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
            let prices = quote.runners.iter().map(|r| match (r.win, r.state) {
                (Some(win), None) => format!("{} {win}", r.horse_no),
                (None, Some(state)) => format!("{} {state:?}", r.horse_no),
                other => panic!("{other:?}"),
            });
            format!("odds {}", prices.collect::<Vec<_>>().join(", "))
        }
        other => panic!("{other:?}"),
    };
    format!("{after} {text}")
}

const CARD: &str = r#"0 card "1200m 3yo": BF_11 0 Paper Lantern, BF_12 0 Slow Tide"#;
const STILL_OPEN: &str = "note: line 0: market 1.1 is still open where the file ends";

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
fn a_message_tells_its_card_its_prices_and_its_status_in_this_order() {
    let mut first = evening("1.1");
    first["rc"] = json!([{ "id": 12, "ltp": 3.5 }, { "id": 11, "tv": 3.0 }]);
    let told = told(&[
        message(0, [first]),
        message(50, [ticks("1.1", &[(11, json!(4)), (12, json!(3.55))])]),
    ]);
    assert_eq!(
        told,
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
fn the_race_is_that_of_the_meeting() {
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
        "racing.race.2026-06-14.GBHAMILT.5",
        "20 past midnight in London is of the evening before"
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

fn check_venue(country: Value, venue: &str, code: &str) {
    let market = with(evening("1.1"), "countryCode", country);
    let items = items(&[message(0, [with(market, "venue", json!(venue))])]);
    let Item::Event(envelope) = &items[0] else {
        panic!("{venue}: {items:?}")
    };
    let subject = envelope.event.subject().to_string();
    assert_eq!(subject, format!("racing.race.2026-06-14.{code}.5"));
}

#[test]
fn the_code_of_a_venue_is_its_country_and_the_beginning_of_its_name() {
    check_venue(json!("GB"), "Newcastle", "GBNEWCAS");
    check_venue(json!("AU"), "Newcastle", "AUNEWCAS");
    check_venue(json!("NZ"), "Te Awamutu", "NZTEAWAM");
    check_venue(json!("FR"), "Saint-Cloud", "FRSAINTC");
    check_venue(json!("US"), "Ellis", "USELLIS");
    check_venue(json!(null), "Wolverhampton", "WOLVERHA");
}

#[test]
fn a_card_is_said_again_when_it_says_something_new() {
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
    let told = told(&[
        message(0, [evening("1.1")]),
        message(1, [turned]),
        message(2, [later]),
    ]);
    let again = CARD.replacen("0 card", "2 card", 1);
    assert_eq!(told, [CARD, "0 open", &again, STILL_OPEN]);
}

#[test]
fn numbers_come_from_the_names_of_runners_and_hidden_ones_are_not_shown() {
    let mut market = evening("1.1");
    let runners = &mut market["marketDefinition"]["runners"];
    runners[0]["name"] = json!("13. Tottenham Hotspur");
    runners[1]["name"] = json!("St. Leger");
    runners.as_array_mut().expect("runners").extend([
        json!({ "id": 13, "status": "HIDDEN", "name": "Reserve" }),
        json!({ "id": 14, "status": "ACTIVE" }),
    ]);
    let card = &told(&[message(0, [market])])[0];
    assert_eq!(
        card,
        r#"0 card "1200m 3yo": BF_12 0 St. Leger, BF_14 0 , BF_11 13 Tottenham Hotspur"#
    );
}

#[test]
fn who_is_removed_is_withdrawn_and_may_come_back() {
    let removed = || with_status(evening("1.1"), ["ACTIVE", "REMOVED"]);
    let told = told(&[
        message(0, [removed()]),
        message(1, [removed(), ticks("1.1", &[(12, json!(9.0))])]),
        message(2, [evening("1.1")]),
        message(
            3,
            [with_status(evening("1.1"), ["REMOVED_VACANT", "ACTIVE"])],
        ),
    ]);
    assert_eq!(
        told,
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
fn where_a_market_stands_is_where_the_race_stands() {
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
    let told = told(&[
        message(0, [evening("1.1")]),
        message(1, [with_status(void, ["REMOVED", "REMOVED"])]),
    ]);
    assert_eq!(
        told,
        [CARD, "0 open", "1 abandoned (the market was voided)"]
    );
}

#[test]
fn what_is_no_number_is_no_price_and_what_is_no_price_is_refused_alone() {
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
    let told = told(&[
        message(0, [evening("1.1")]),
        message(1, [ticks("1.1", &prices)]),
    ]);
    let odds = "odds are a number from 1 to 100000 with at most three decimals";
    assert_eq!(
        told[2..],
        [
            format!("refused: line 2: the ltp of runner 12: {odds}, not \"1.0001\""),
            format!("refused: line 2: the ltp of runner 13: {odds}, not \"0.5\""),
            format!("refused: line 2: the ltp of runner 14: {odds}, not \"\\\"3.5\\\"\""),
            format!("refused: line 2: the ltp of runner 17: {odds}, not \"{{}}\""),
            "1 odds BF_11 NoMarket, BF_16 3.35, BF_18 1000.0".to_owned(),
            STILL_OPEN.to_owned(),
        ]
    );
}

#[test]
fn no_tick_is_merged_with_another() {
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
    let told: Vec<String> = read.iter().map(short).collect();
    let first = "1 odds BF_11 3.5, BF_12 2.0";
    assert_eq!(told[2..6], [first, "1 odds BF_11 3.6", first, first]);
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

/// The number of the race of each file, or why there is none.
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
        Item::Refused(refused) => Some(refused.reason.clone()),
        Item::Note(_) => None,
    });
    of_first.collect()
}

#[test]
fn a_race_without_a_number_has_its_place_among_those_of_the_meeting() {
    let at = |id: &str, hour: u8| market(id, "1m Hcap", &format!("2026-06-14T{hour}:55:00.000Z"));
    let elsewhere = with(at("1.4", 17), "venue", json!("Ascot"));
    let day = [at("1.1", 18), at("1.2", 20), elsewhere, at("1.3", 17)];
    assert_eq!(numbers(&day, None), ["2", "3", "1", "1"]);
    let read = items_of(&[lines(&[message(0, [day[0].clone()])])], None);
    let note = read
        .iter()
        .map(short)
        .find(|said| said.starts_with("note: line 1: "));
    assert_eq!(
        note.as_deref(),
        Some(
            "note: line 1: numbered 1 of 1 by its time among the races of Hamilton on 2026-06-14 in this call; \
             --race-number says another"
        )
    );
    assert_eq!(numbers(&[at("1.1", 18)], Some(6)), ["6"]);
    assert_eq!(
        numbers(&[at("1.1", 18), at("1.2", 20)], Some(6))[0],
        "market 1.1: --race-number is for one race, and these files have 2"
    );
}

#[test]
fn two_markets_are_never_one_race() {
    let ours = numbers(&[evening("1.1"), evening("1.2")], None);
    assert_eq!(
        ours,
        [
            "5",
            "market 1.2: another market of this call is race 2026-06-14.GBHAMILT.5 as well"
        ]
    );
    let ours = numbers(
        &[
            evening("1.1"),
            with(evening("1.2"), "venue", json!("Hamilton Park")),
        ],
        None,
    );
    assert_eq!(
        ours,
        [
            "5",
            "market 1.2: Hamilton and Hamilton Park are both GBHAMILT"
        ]
    );
}

#[test]
fn other_markets_are_noted_once_and_not_read() {
    let place = with(evening("1.2"), "marketType", json!("PLACE"));
    let tennis = json!({ "id": "1.3", "marketDefinition": { "eventTypeId": "2", "marketType": "MATCH_ODDS" } });
    let told = told(&[
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
            "note: line 1: market {id} is not read: WIN markets of event type 7, horse racing, are read, not {what:?}"
        )
    };
    assert_eq!(
        told[2..],
        [
            not_read("1.2", "PLACE of event type 7"),
            not_read("1.3", "MATCH_ODDS of event type 2"),
            STILL_OPEN.to_owned()
        ]
    );
}

#[test]
fn a_bad_line_is_refused_and_the_rest_goes_on() {
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
    let read = items_of(&[text], None);
    let told: Vec<String> = read.iter().map(short).collect();
    let begins = [
        CARD,
        "0 open",
        "refused: line 3: EOF while parsing",
        "refused: line 4: missing field `pt`",
        "refused: line 5: pt is in milliseconds since 1970",
        "refused: line 6: the definition of market 1.1: unknown variant `ASLEEP`",
        "refused: line 7: market 1.9: no file of this call defines it",
        "3 odds BF_11 2.5",
        &format!("refused: line 10: the file breaks off in the middle of this line, at byte {end}"),
        STILL_OPEN,
    ];
    assert_eq!(told.len(), begins.len(), "{told:#?}");
    for (told, begin) in told.iter().zip(begins) {
        assert!(told.starts_with(begin), "{told} is not {begin}");
    }
}

#[test]
fn a_market_that_cannot_be_placed_is_refused_once() {
    let message = |market: Value| {
        [
            message(0, [market]),
            message(1, [ticks("1.1", &[(11, json!(2.0))])]),
        ]
    };
    let nowhere = with(evening("1.1"), "timezone", json!("Europe/Atlantis"));
    assert_eq!(
        told(&message(nowhere)),
        [
            "refused: line 1: market 1.1: a timezone is one of the IANA database, not \"Europe/Atlantis\""
        ]
    );
    let nameless = with(
        with(evening("1.1"), "venue", json!("沙田")),
        "countryCode",
        json!(null),
    );
    assert_eq!(
        told(&message(nameless)),
        [
            "refused: line 1: market 1.1: the name of a venue has a letter of A-Z or a digit, not \"沙田\""
        ]
    );
    let mut undated = evening("1.1");
    undated["marketDefinition"]
        .as_object_mut()
        .expect("an object")
        .remove("marketTime");
    let told = told(&message(undated));
    assert!(
        told[0].starts_with("refused: line 1: market 1.1: missing field `marketTime`"),
        "{told:?}"
    );
}

#[test]
fn what_is_no_stream_file_is_refused_as_a_whole() {
    for (text, part) in [
        ("", "there is nothing in it"),
        (
            "date,venue\n2026-06-14,Ascot\n",
            "its first line is no JSON object",
        ),
        ("[{\"op\":\"mcm\"}]\n", "its first line is no JSON object"),
    ] {
        let items = items_of(&[text.to_owned()], None);
        let [Item::Refused(refused)] = &items[..] else {
            panic!("{items:?}")
        };
        assert!(
            refused.line == 0 && refused.reason.contains(part),
            "{refused}"
        );
    }
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

/// The ticks that were told, and the ids under which.
fn quoted(items: &[Item]) -> (Vec<(u64, u32)>, Vec<&str>) {
    let (mut ticks, mut ids) = (Vec::new(), Vec::new());
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
    fn whatever_is_traded_each_tick_is_told_in_its_order(
        ticks in vec((0..3_i64, 1..4_u64, 1_000..1_010_u32), 0..80),
        per_message in 1..5_usize,
    ) {
        let items = items(&traded(&ticks, per_message));
        let (told, mut ids) = quoted(&items);
        let traded: Vec<(u64, u32)> = ticks.iter().map(|(_, runner, price)| (*runner, *price)).collect();
        prop_assert_eq!(told, traded);
        let count = ids.len();
        ids.sort_unstable();
        ids.dedup();
        prop_assert_eq!(ids.len(), count, "each under an id of its own");
    }

    #[test]
    fn wherever_a_file_is_cut_off_what_comes_before_is_told_as_it_is_of_the_whole(
        ticks in vec((0..3_i64, 1..4_u64, 1_000..1_010_u32), 1..40),
        cut in any::<Index>(),
    ) {
        let text = lines(&traded(&ticks, 2));
        let events = |text: &str| -> Vec<String> {
            let items = items_of(&[text.to_owned()], None);
            items.iter().map(short).filter(|said| !said.starts_with("refused") && !said.starts_with("note")).collect()
        };
        let (whole, part) = (events(&text), events(&text[..cut.index(text.len())]));
        prop_assert!(whole.starts_with(&part));
    }
}
