//! The JSON Schemas: the files in the repository, and their agreement with the decoder.

mod common;
mod generators;

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use common::{changed, check_file};
use events::{EVENT_TYPES, Envelope};
use generators::schemas::schemas;
use generators::{Oracle, RULES, combined, edges};
use jsonschema::Validator;
use serde_json::{Value, json};

fn validator(type_name: &str) -> Validator {
    let name = format!("{type_name}.json");
    let file = schemas()
        .into_iter()
        .find(|file| file.name == name)
        .expect("every type has a schema");
    jsonschema::options()
        .should_validate_formats(true)
        .build(&file.schema)
        .expect("a schema is a JSON Schema")
}

fn is_accepted(event: &Value) -> bool {
    Envelope::from_json(event.to_string().as_bytes()).is_ok()
}

#[test]
fn the_schemas_in_the_repository_are_those_of_the_types() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../schemas");
    let files = schemas();
    let names: Vec<String> = EVENT_TYPES
        .iter()
        .map(|name| format!("{name}.json"))
        .collect();
    assert_eq!(
        files.iter().map(|file| &file.name).collect::<Vec<_>>(),
        names.iter().collect::<Vec<_>>()
    );
    for file in files {
        let text = serde_json::to_string_pretty(&file.schema).expect("JSON") + "\n";
        check_file(&folder.join(&file.name), &text);
    }
    for file in std::fs::read_dir(folder).expect("the folder of schemas") {
        let name = file
            .expect("a file")
            .file_name()
            .into_string()
            .expect("UTF-8");
        let of_an_interface = ["openapi.json", "asyncapi.json", "reference"]
            .contains(&name.as_str())
            || name.ends_with(".markdown");
        assert!(
            of_an_interface || names.contains(&name),
            "{name} is the schema of no known type"
        );
    }
}

#[test]
fn schemas_have_only_formats_that_validators_know_and_no_rust() {
    for file in schemas() {
        let text = file.schema.to_string();
        assert!(
            !text.contains("uint"),
            "{} names a format of Rust",
            file.name
        );
        assert!(
            !text.contains("[`"),
            "{} links into the Rust documentation",
            file.name
        );
        assert!(
            !text.contains("multipleOf"),
            "{}: validators divide doubles",
            file.name
        );
    }
}

#[test]
fn every_golden_event_is_valid() {
    for type_name in EVENT_TYPES {
        let event = changed(type_name, |_| ());
        let problems: Vec<String> = validator(type_name)
            .iter_errors(&event)
            .map(|e| e.to_string())
            .collect();
        assert_eq!(problems, Vec::<String>::new(), "{type_name}");
        for other in EVENT_TYPES.iter().filter(|other| *other != type_name) {
            assert!(
                !validator(other).is_valid(&event),
                "{type_name} is no {other}"
            );
        }
    }
}

/// One change to a golden event: its type, the pointer of a field, and the new value.
type Change = (&'static str, &'static str, Value);

fn with((type_name, pointer, value): &Change) -> Value {
    changed(type_name, |event| {
        let (parent, field) = pointer.rsplit_once('/').expect("a pointer");
        event.pointer_mut(parent).expect("a parent")[field] = value.clone();
    })
}

const HORSE: &str = "racing.horse.registered.v1";
const CARD: &str = "racing.race.declared.v1";
const RESULT: &str = "racing.result.declared.v1";
const ODDS: &str = "racing.odds.quoted.v1";
const MARKET: &str = "racing.market.quoted.v1";
const POOL: &str = "racing.pool.invested.v1";
const DIVIDENDS: &str = "racing.dividends.declared.v1";

/// Changes to the envelope and the data of a horse that make the event invalid.
fn rejected_horses() -> Vec<Change> {
    let long = "x".repeat(300);
    vec![
        (HORSE, "/specversion", json!("0.3")),
        (HORSE, "/id", json!("")),
        (HORSE, "/id", json!(7)),
        (HORSE, "/source", json!(long)),
        (HORSE, "/source", json!("a\tb")),
        (HORSE, "/time", json!("2026-11-21")),
        (HORSE, "/time", json!("2026-11-21 14:32:00Z")),
        (
            HORSE,
            "/time",
            json!("2026-11-21T14:32:00+08:00[Asia/Hong_Kong]"),
        ),
        (HORSE, "/time", json!("2026-11-21T14:32Z")),
        (HORSE, "/time", json!("2026-11-21T14:32:00+08")),
        (HORSE, "/time", json!("2026-02-29T14:32:00Z")),
        (HORSE, "/data", json!(["HK_2023_K417"])),
        (HORSE, "/data/horse_no", json!("A/1")),
        (HORSE, "/data/horse_no", json!("a".repeat(33))),
        (HORSE, "/data/horse_name", json!(long)),
        (HORSE, "/data/horse_name", json!("two\nlines")),
        (HORSE, "/data/horse_name", Value::Null),
        (HORSE, "/data/foaled", json!("2014-13-01")),
        (HORSE, "/data/foaled", json!(2014)),
        (HORSE, "/data/age", json!(61)),
        (HORSE, "/data/age", Value::Null),
        (HORSE, "/data/age_as_of", Value::Null),
        (HORSE, "/data/career/starts", json!(4_294_967_296_u64)),
        (
            HORSE,
            "/data/career/total_stakes",
            json!(1_000_000_000_001_u64),
        ),
        (HORSE, "/data/career", json!([1, 1, 1, 1])),
    ]
}

/// Changes to the data of a race that make the event invalid.
fn rejected_races() -> Vec<Change> {
    vec![
        (CARD, "/data/date", json!("0000-13-99")),
        (CARD, "/data/date", json!("2026-02-30")),
        (CARD, "/data/venue", json!("Sha Tin")),
        (CARD, "/data/race_number", json!(1000)),
        (CARD, "/data/race_number", json!("3")),
        (CARD, "/data/distance", json!(-1)),
        (CARD, "/data/runners", json!([])),
        (CARD, "/data/runners", json!({})),
        (CARD, "/data/runners/0/draw", json!(65_536)),
        (CARD, "/data/runners/0/weight", json!(1.5)),
        (RESULT, "/data/revision", json!(4_294_967_296_u64)),
        (RESULT, "/data/status", json!("final")),
        (RESULT, "/data/runners/0/position", json!(0)),
        (RESULT, "/data/runners/0/position", Value::Null),
        (RESULT, "/data/runners/0/outcome", json!("PU")),
        (RESULT, "/data/runners/2/outcome", json!("1")),
        (RESULT, "/data/runners/2/outcome", json!("lame")),
        (RESULT, "/data/runners/0/finish_time", json!("1:60.00")),
        (RESULT, "/data/runners/0/finish_time", json!("0:00.00")),
        (RESULT, "/data/runners/0/win_odds", json!(0.5)),
        (RESULT, "/data/runners/0/stakes", json!(-1)),
        (CARD, "/data/prize", json!(1_000_000_000_001_u64)),
        (CARD, "/data/prize_currency", json!("hkd")),
        (CARD, "/data/each_way/divisor", json!(0)),
        (CARD, "/data/each_way", json!([3, 5])),
        (CARD, "/data/runners/0/age", json!(61)),
        (CARD, "/data/runners/0/body_weight", json!(1124.5)),
        (RESULT, "/data/sectionals", json!(["24.60"])),
        (RESULT, "/data/sectionals", json!(vec!["0:24.60"; 33])),
        (RESULT, "/data/runners/0/margin", json!("1.25")),
        (RESULT, "/data/runners/0/margin", json!(1.25)),
        (RESULT, "/data/runners/0/running_positions", json!([1.5])),
        (DIVIDENDS, "/data/dividends/0/dividend", Value::Null),
        (DIVIDENDS, "/data/dividends/0/dividend", json!("40")),
        (DIVIDENDS, "/data/dividends/0/unit", json!(0)),
        (DIVIDENDS, "/data/dividends/0/pool", json!("FIRST 4")),
        (DIVIDENDS, "/data/dividends/0/combination", json!(["1"])),
        (
            DIVIDENDS,
            "/data/dividends/0/combination",
            json!(vec![1; 17]),
        ),
        (DIVIDENDS, "/data/dividends/2/state", json!("lost")),
        (DIVIDENDS, "/data/status", json!("final")),
        (DIVIDENDS, "/data/currency", json!("HK$")),
        (
            "racing.race.status_changed.v1",
            "/data/status",
            json!("running"),
        ),
        ("racing.result.voided.v1", "/data/revision", json!(-1)),
        ("racing.rider.changed.v1", "/data/jockey", Value::Null),
        ("racing.going.changed.v1", "/data/going", json!(5)),
    ]
}

/// Changes to prices and pools that make the event invalid.
fn rejected_prices() -> Vec<Change> {
    vec![
        (ODDS, "/data/runners/0/win", json!("3.5")),
        (ODDS, "/data/runners/0/win", json!(100_000.5)),
        (ODDS, "/data/runners/1/win", Value::Null),
        (ODDS, "/data/runners/2/state", json!("gone")),
        (MARKET, "/data/market", json!("win")),
        (MARKET, "/data/market", json!("Quinella")),
        (MARKET, "/data/prices", json!([])),
        (MARKET, "/data/prices/0/combination", json!([])),
        (MARKET, "/data/prices/0/combination", json!(vec![1; 17])),
        (MARKET, "/data/prices/0/odds", json!(1.5)),
        (MARKET, "/data/prices/0/high", Value::Null),
        (MARKET, "/data/prices/1/state", Value::Null),
        (POOL, "/data/pool", json!("Win")),
        (POOL, "/data/invested", json!(0)),
        (POOL, "/data/currency", Value::Null),
    ]
}

#[test]
fn an_event_that_a_schema_rejects_is_rejected() {
    let changes = [rejected_horses(), rejected_races(), rejected_prices()];
    for change in changes.into_iter().flatten() {
        let event = with(&change);
        assert!(
            !validator(change.0).is_valid(&event),
            "the schema allows {change:?}"
        );
        assert!(!is_accepted(&event), "the decoder accepts {change:?}");
    }
}

#[test]
fn an_accepted_event_is_valid_against_its_schema() {
    let wide = format!(" {}\r\n", "x".repeat(256));
    let changes: Vec<Change> = vec![
        (HORSE, "/time", json!("2026-11-21T14:32:00+08:00")),
        (HORSE, "/time", json!("2026-11-21t14:32:00.123456789z")),
        (HORSE, "/time", json!("2026-11-21T14:32:00-00:00")),
        (HORSE, "/data/horse_name", json!("")),
        (HORSE, "/data/horse_name", json!(wide)),
        (
            HORSE,
            "/data/horse_name",
            json!("\u{85}\u{3000}沙田 🐎\u{a0}"),
        ),
        (HORSE, "/data/foaled", json!("2014")),
        (HORSE, "/data/foaled", Value::Null),
        (HORSE, "/data/career", Value::Null),
        (HORSE, "/data/age", json!(0)),
        (CARD, "/data/date", json!("1700-01-01")),
        (CARD, "/data/date", json!("2999-12-31")),
        (CARD, "/data/off_time", Value::Null),
        (CARD, "/data/distance", json!(0)),
        (CARD, "/data/runners/0/horse_no", json!("-_-")),
        (RESULT, "/data/revision", json!(u32::MAX)),
        (RESULT, "/data/runners/0/outcome", Value::Null),
        (RESULT, "/data/runners/2/position", Value::Null),
        (RESULT, "/data/runners/2/outcome", json!("X2-UP")),
        (RESULT, "/data/runners/0/finish_time", json!("05:00.00")),
        (RESULT, "/data/runners/0/finish_time", json!("59:59.99")),
        (RESULT, "/data/runners/0/win_odds", json!(1)),
        (RESULT, "/data/runners/0/win_odds", json!(3.3)),
        (RESULT, "/data/runners/0/win_odds", json!(1.1 + 2.2)),
        (CARD, "/data/each_way", Value::Null),
        (CARD, "/data/runners/0/reserve", json!(true)),
        (RESULT, "/data/sectionals", Value::Null),
        (RESULT, "/data/runners/0/margin", json!("NOSE")),
        (RESULT, "/data/runners/0/running_positions", json!([])),
        (DIVIDENDS, "/data/dividends", json!([])),
        (DIVIDENDS, "/data/dividends/0/pool", json!("double_trio")),
        (DIVIDENDS, "/data/dividends/0/combination", Value::Null),
        (DIVIDENDS, "/data/dividends/0/dividend", json!(0.1 + 0.2)),
        (ODDS, "/data/runners/0/win", json!(100_000)),
        (ODDS, "/data/runners/0/place", Value::Null),
        (ODDS, "/data/runners/0/state", json!("suspended")),
        (MARKET, "/data/market", json!("double_trio")),
        (MARKET, "/data/prices/0/state", json!("suspended")),
        (MARKET, "/data/prices/1/odds", json!(1.1 + 2.2)),
    ];
    for change in &changes {
        let event = with(change);
        assert!(is_accepted(&event), "the decoder rejects {change:?}");
        let problems: Vec<String> = validator(change.0)
            .iter_errors(&event)
            .map(|e| e.to_string())
            .collect();
        assert!(
            problems.is_empty(),
            "the schema rejects {change:?}: {problems:?}"
        );
    }
}

/// The pointers of all fields of a value, those of objects and lists included.
fn pointers(value: &Value, at: &str, found: &mut Vec<String>) {
    let children: Vec<(String, &Value)> = match value {
        Value::Object(fields) => fields
            .iter()
            .map(|(name, value)| (name.clone(), value))
            .collect(),
        Value::Array(items) => items
            .iter()
            .enumerate()
            .map(|(index, value)| (index.to_string(), value))
            .collect(),
        _ => Vec::new(),
    };
    for (name, child) in children {
        let pointer = format!("{at}/{name}");
        pointers(child, &pointer, found);
        found.push(pointer);
    }
}

/// Values that some fields allow and most do not.
#[rustfmt::skip]
fn odd_values() -> Vec<Value> {
    vec![
        json!(null), json!(true), json!(0), json!(1), json!(-1), json!(60), json!(64), json!(255),
        json!(256), json!(999), json!(1_000), json!(65_535), json!(65_536), json!(100_000),
        json!(4_294_967_295_u64), json!(4_294_967_296_u64), json!(1_000_000_000_000_u64),
        json!(u64::MAX), json!(i64::MIN), json!(1.0), json!(3.5), json!(1.0005), json!(1e300),
        json!(""), json!(" "), json!("A"), json!("st"), json!("ST"), json!("PU"), json!("---"),
        json!("1"), json!("open"), json!("official"), json!("suspended"), json!("2014"),
        json!("2026-11-21"), json!("2026-02-30"), json!("2026-11-21T14:32:00+08:00"),
        json!("1:40.79"), json!("1.0"), json!("\u{0}"), json!("\n"), json!("馬"),
        json!("x".repeat(128)), json!("x".repeat(257)), json!("馬".repeat(90)), json!([]),
        json!([1]), json!({}),
    ]
}

/// Checks an event that may be accepted. Returns whether it is.
fn check_against_schema(validator: &Validator, event: &Value, change: &str) -> bool {
    let Ok(envelope) = Envelope::from_json(event.to_string().as_bytes()) else {
        return false;
    };
    assert!(validator.is_valid(event), "the schema rejects {change}");
    let written = envelope.encode();
    let read: Value = serde_json::from_slice(&written).expect("JSON");
    assert!(
        validator.is_valid(&read),
        "the schema rejects what is written with {change}: {read}"
    );
    assert_eq!(Envelope::from_json(&written), Ok(envelope), "{change}");
    true
}

#[test]
fn a_value_in_any_field_is_accepted_only_if_the_schema_allows_it() {
    let values = odd_values();
    let (mut accepted, mut rejected) = (0, 0);
    for type_name in EVENT_TYPES {
        let validator = validator(type_name);
        let golden = changed(type_name, |_| ());
        let mut found = Vec::new();
        pointers(&golden, "", &mut found);
        for pointer in found {
            for value in &values {
                let mut event = golden.clone();
                *event.pointer_mut(&pointer).expect("a field") = value.clone();
                let change = format!("{value} at {pointer} of {type_name}");
                match check_against_schema(&validator, &event, &change) {
                    true => accepted += 1,
                    false => rejected += 1,
                }
            }
        }
    }
    assert!(
        accepted > 500 && rejected > 500,
        "{accepted} accepted, {rejected} rejected"
    );
}

/// Combinations of edges that are tried for each type.
const COMBINED: usize = 2_000;

#[test]
fn an_event_is_accepted_if_the_schema_and_the_rules_allow_it_else_rejected_with_the_right_code() {
    let oracle = Oracle::new();
    let mut alone = BTreeSet::new();
    for (type_name, schema) in oracle.schemas() {
        let edges = edges(schema);
        let mut seen: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
        let combined = combined(&edges, COMBINED);
        for changes in edges.iter().chain(&combined) {
            let event = generators::changed(schema, changes);
            let rejection = oracle.rejection(&event);
            let code = rejection
                .as_ref()
                .map_or("accepted", |rejection| rejection.code);
            let decoded = Envelope::from_json(event.to_string().as_bytes());
            let result = decoded
                .as_ref()
                .map_or_else(|error| error.code(), |_| "accepted");
            assert_eq!(result, code, "{type_name} with {changes:?}: {decoded:?}");
            alone.extend(rejection.and_then(|rejection| rejection.rule));
            if let [change] = &changes[..] {
                let places = change
                    .at
                    .match_indices('/')
                    .map(|(end, _)| &change.at[..end]);
                for place in places.chain([change.at.as_str()]) {
                    seen.entry(place).or_default().insert(code);
                }
            }
        }
        for (place, codes) in seen {
            let is_open = place.ends_with("/hereafter");
            let tried = codes.contains("accepted") && (codes.len() > 1 || is_open);
            assert!(tried, "{type_name}{place} was only {codes:?}");
        }
    }
    let rules: BTreeSet<&str> = RULES.iter().map(|rule| rule.says).collect();
    assert_eq!(alone, rules, "each rule is the only reason at some time");
}

#[test]
fn the_rules_beyond_the_schemas_are_in_the_documentation() {
    let documentation = include_str!("../../docs/feeding.md");
    for rule in &RULES {
        assert!(documentation.contains(rule.says), "{}", rule.says);
    }
}
