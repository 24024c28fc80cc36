//! The wire form: golden events survive a round trip, and invalid events are rejected with the field and the reason.

mod common;

use common::{changed, check_file, golden, golden_path};
use events::{
    DecodeError, EVENT_BYTES_MAX, EVENT_TYPES, Envelope, Event, Foaled, HorseRegistered, Moment,
    OddsQuoted, RaceDeclared, RacingDate, ResultDeclared,
};
use jiff::Timestamp;
use serde_json::{Value, json};

const HORSE: &str = "racing.horse.registered.v1";
const CARD: &str = "racing.race.declared.v1";
const WITHDRAWN: &str = "racing.runner.withdrawn.v1";
const STATUS: &str = "racing.race.status_changed.v1";
const RESULT: &str = "racing.result.declared.v1";
const ODDS: &str = "racing.odds.quoted.v1";

/// JSON with two spaces an indent, and every token as it was: the order of fields and `4.0` are part of the wire form.
fn pretty(compact: &str) -> String {
    let (mut out, mut depth, mut in_text, mut escaped) = (String::new(), 0, false, false);
    let line = |out: &mut String, depth: usize| {
        out.push('\n');
        out.push_str(&"  ".repeat(depth));
    };
    for c in compact.chars() {
        if in_text {
            out.push(c);
            in_text = escaped || c != '"';
            escaped = c == '\\' && !escaped;
            continue;
        }
        match c {
            '{' | '[' => {
                out.push(c);
                depth += 1;
                line(&mut out, depth);
            }
            '}' | ']' => {
                depth -= 1;
                line(&mut out, depth);
                out.push(c);
            }
            ',' => {
                out.push(c);
                line(&mut out, depth);
            }
            ':' => out.push_str(": "),
            _ => {
                in_text = c == '"';
                out.push(c);
            }
        }
    }
    out.push('\n');
    out
}

fn subject_of(event: &Value) -> String {
    Envelope::from_json(event.to_string().as_bytes())
        .expect("a good event")
        .event
        .subject()
        .to_string()
}

fn good(type_name: &str) -> Envelope {
    Envelope::from_json(golden(type_name).as_bytes()).expect("a good event")
}

/// The error of a golden event with one change, published where the unchanged one belongs.
fn rejected(type_name: &str, change: impl FnOnce(&mut Value)) -> DecodeError {
    let subject = subject_of(&changed(type_name, |_| ()));
    let event = changed(type_name, change).to_string();
    match Envelope::decode(&subject, event.as_bytes()) {
        Err(error) => error,
        Ok(envelope) => panic!("should be rejected: {envelope:?}"),
    }
}

fn check(type_name: &str, pointer: &str, value: Value, reason: &str) {
    let error = rejected(type_name, |event| put(event, pointer, value));
    assert_eq!(error.to_string(), reason, "{type_name} {pointer}");
}

fn put(event: &mut Value, pointer: &str, value: Value) {
    let (parent, field) = pointer.rsplit_once('/').expect("a pointer");
    event.pointer_mut(parent).expect("a parent")[field] = value;
}

fn remove(event: &mut Value, pointer: &str) {
    let (parent, field) = pointer.rsplit_once('/').expect("a pointer");
    let parent = event.pointer_mut(parent).and_then(Value::as_object_mut);
    parent
        .expect("an object")
        .remove(field)
        .expect("a field to remove");
}

#[test]
fn every_type_has_a_golden_event_that_survives_a_round_trip() {
    for type_name in EVENT_TYPES {
        let text = golden(type_name);
        let value: Value = serde_json::from_str(&text).expect("a golden file is JSON");
        let envelope = Envelope::decode(&subject_of(&value), text.as_bytes()).expect(type_name);
        assert_eq!(envelope.event.type_name(), *type_name);

        let encoded = String::from_utf8(envelope.encode()).expect("UTF-8");
        check_file(&golden_path(type_name), &pretty(&encoded));
        assert_eq!(Envelope::from_json(encoded.as_bytes()), Ok(envelope));
        assert_eq!(serde_json::from_str::<Value>(&encoded).ok(), Some(value));
    }
}

#[test]
fn every_golden_file_is_of_a_type() {
    let folder = golden_path("any");
    for file in std::fs::read_dir(folder.parent().expect("a folder")).expect("a folder") {
        let name = file
            .expect("a file")
            .file_name()
            .into_string()
            .expect("UTF-8");
        let type_name = name.strip_suffix(".json").expect("a JSON file");
        assert!(
            EVENT_TYPES.contains(&type_name),
            "{name} is of no known type"
        );
    }
}

#[test]
fn unknown_fields_are_ignored() {
    for type_name in EVENT_TYPES {
        let plain = changed(type_name, |_| ());
        let more = changed(type_name, |event| {
            event["traceparent"] = json!("00-1-2-01");
            event["datacontenttype"] = json!("application/json");
            event["data"]["hereafter"] = json!({ "deep": [null, 1e300, { "runners": 1 }] });
            for runner in event["data"]["runners"]
                .as_array_mut()
                .into_iter()
                .flatten()
            {
                runner["silks"] = json!("red, white sleeves");
            }
        });
        let read =
            |event: &Value| Envelope::decode(&subject_of(&plain), event.to_string().as_bytes());
        assert_eq!(read(&more), read(&plain));
        assert!(read(&more).is_ok(), "{type_name}");
    }
}

#[test]
fn an_optional_field_may_be_null() {
    let without = changed(RESULT, |event| {
        for field in ["venue_name", "race_name", "distance", "going", "reason"] {
            event["data"][field] = Value::Null;
        }
        event["data"]["runners"][0]["outcome"] = Value::Null;
        event["data"]["runners"][0]["stakes"] = Value::Null;
    });
    let envelope = Envelope::from_json(without.to_string().as_bytes()).expect("nulls are nothing");
    assert!(!String::from_utf8_lossy(&envelope.encode()).contains("null"));
}

#[test]
fn text_is_trimmed_and_time_is_converted_to_utc() {
    let event = changed(WITHDRAWN, |event| {
        event["time"] = json!("2026-11-21T09:12:30.1234567+08:00");
        event["data"]["reason"] = json!("  Lame\u{a0}\r\n");
    });
    let envelope = Envelope::from_json(event.to_string().as_bytes()).expect("a good event");
    let encoded: Value = serde_json::from_slice(&envelope.encode()).expect("JSON");
    assert_eq!(encoded["time"], "2026-11-21T01:12:30.123456Z");
    assert_eq!(encoded["data"]["reason"], "Lame");
}

#[test]
fn the_same_event_has_the_same_derived_identity() {
    let envelope = Envelope::from_json(golden(ODDS).as_bytes()).expect("a good event");
    let derived = |source: &str| {
        Envelope::derived(source, envelope.time, envelope.event.clone()).expect("a good event")
    };
    assert_eq!(derived("importer"), derived("importer"));
    assert_ne!(derived("importer").id, derived("another importer").id);
}

/// Checks that [`Envelope::derived`] and [`Envelope::from_json`] agree about an event.
fn check_derived(source: &str, time: Moment, event: Event, code: Option<&str>) {
    let derived = Envelope::derived(source, time, event.clone());
    let unchecked = Envelope {
        id: derived.as_ref().map_or("an id", |e| &e.id).to_owned(),
        source: source.to_owned(),
        time,
        event,
    };
    let read = Envelope::from_json(&unchecked.encode());
    assert_eq!(derived.is_ok(), read.is_ok(), "{derived:?} and {read:?}");
    if let (Ok(derived), Ok(read)) = (&derived, &read) {
        assert_eq!(derived, read);
    }
    for result in [derived, read] {
        assert_eq!(
            result.as_ref().err().map(DecodeError::code),
            code,
            "{result:?}"
        );
    }
}

#[test]
fn a_derived_envelope_is_checked_like_one_that_is_read() {
    for type_name in EVENT_TYPES {
        let Envelope { time, event, .. } = good(type_name);
        check_derived("importer", time, event.clone(), None);
        check_derived("", time, event.clone(), Some("not_cloud_event"));
        check_derived(
            &"s".repeat(129),
            time,
            event.clone(),
            Some("not_cloud_event"),
        );
        check_derived(&"s".repeat(70_000), time, event.clone(), Some("too_large"));
        let end_of_time = Moment::from(Timestamp::MAX);
        check_derived("importer", end_of_time, event, Some("not_cloud_event"));
    }
}

/// Checks that an event with a change that only code can make is rejected as invalid data.
fn check_invalid<T>(
    type_name: &str,
    fact_of: fn(&mut Event) -> Option<&mut T>,
    changes: &[fn(&mut T)],
) {
    for change in changes {
        let mut envelope = good(type_name);
        change(fact_of(&mut envelope.event).expect("a fact of this type"));
        check_derived(
            "importer",
            envelope.time,
            envelope.event,
            Some("invalid_data"),
        );
    }
}

fn date(year: i16) -> RacingDate {
    jiff::civil::date(year, 1, 1).into()
}

#[test]
fn a_derived_horse_is_checked() {
    fn horse(event: &mut Event) -> Option<&mut HorseRegistered> {
        match event {
            Event::HorseRegistered(fact) => Some(fact),
            _ => None,
        }
    }
    let changes: [fn(&mut HorseRegistered); 6] = [
        |horse| horse.foaled = Some(Foaled::Year(1699)),
        |horse| horse.foaled = Some(Foaled::Day(date(3000))),
        |horse| horse.age_as_of = Some(date(1699)),
        |horse| horse.age = Some(61),
        |horse| horse.age = None,
        |horse| horse.career.as_mut().expect("a career").total_stakes = u64::MAX,
    ];
    check_invalid(HORSE, horse, &changes);
}

#[test]
fn a_derived_card_is_checked() {
    fn card(event: &mut Event) -> Option<&mut RaceDeclared> {
        match event {
            Event::RaceDeclared(fact) => Some(fact),
            _ => None,
        }
    }
    let changes: [fn(&mut RaceDeclared); 5] = [
        |card| card.date = date(3000),
        |card| card.off_time = Some(Timestamp::MIN.into()),
        |card| card.distance = 100_001,
        |card| card.runners.clear(),
        |card| card.runners[1].horse_no = card.runners[0].horse_no.clone(),
    ];
    check_invalid(CARD, card, &changes);
}

#[test]
fn a_derived_result_is_checked() {
    fn result(event: &mut Event) -> Option<&mut ResultDeclared> {
        match event {
            Event::ResultDeclared(fact) => Some(fact),
            _ => None,
        }
    }
    let changes: [fn(&mut ResultDeclared); 5] = [
        |result| result.date = date(1699),
        |result| result.distance = Some(100_001),
        |result| result.runners[0].position = Some(0),
        |result| result.runners[0].position = None,
        |result| result.runners[1].stakes = Some(1_000_000_000_001),
    ];
    check_invalid(RESULT, result, &changes);
}

#[test]
fn derived_odds_are_checked() {
    fn odds(event: &mut Event) -> Option<&mut OddsQuoted> {
        match event {
            Event::OddsQuoted(fact) => Some(fact),
            _ => None,
        }
    }
    let changes: [fn(&mut OddsQuoted); 2] = [
        |odds| odds.date = date(0),
        |odds| (odds.runners[0].win, odds.runners[0].state) = (None, None),
    ];
    check_invalid(ODDS, odds, &changes);
}

/// The reason of a message that has `data` alone.
const NOT_STRUCTURED: &str = "it has no `specversion`, `id`, `source` or `type`. Events are in structured mode: the \
    attributes and `data` are one JSON object. Binary mode, with the attributes in headers, is not supported";

#[test]
fn a_message_that_is_not_a_cloud_event_is_rejected() {
    for (bytes, reason) in [
        ("", "EOF while parsing a value at line 1 column 0"),
        ("hello", "expected value at line 1 column 1"),
        ("{}", NOT_STRUCTURED),
        (
            "{\"horse_no\":\"A1\",\"time\":\"2026-11-21T06:00:00Z\"}",
            NOT_STRUCTURED,
        ),
        (
            "{\"id\":\"1\"}",
            "missing field `specversion` at line 1 column 10",
        ),
        (
            "[1]",
            "invalid type: sequence, expected an object at line 1 column 0",
        ),
        (
            "\"text\"",
            "invalid type: string \"text\", expected an object at line 1 column 6",
        ),
        (
            "{\"id\":\"\\ud800\"}",
            "unexpected end of hex escape at line 1 column 14",
        ),
    ] {
        let error = Envelope::decode("racing.horse.A1", bytes.as_bytes()).expect_err(bytes);
        assert_eq!(
            error.to_string(),
            format!("not a CloudEvents 1.0 JSON object: {reason}")
        );
        assert_eq!(error.code(), "not_cloud_event");
    }
    let not_utf8 = [b"{\"id\":\"".as_slice(), &[0xff, 0xfe], b"\"}"].concat();
    let error = Envelope::decode("racing.horse.A1", &not_utf8).expect_err("not UTF-8");
    assert_eq!(error.code(), "not_cloud_event");
}

#[test]
fn an_error_names_an_attribute_that_is_missing_or_invalid() {
    for attribute in ["specversion", "id", "source", "type", "time", "data"] {
        let error = rejected(HORSE, |event| remove(event, &format!("/{attribute}")));
        let reason = error.to_string();
        let expected = format!(
            "not a CloudEvents 1.0 JSON object: missing field `{attribute}` at line 1 column "
        );
        assert!(reason.starts_with(&expected), "{reason}");
    }
    let not = |reason: &str| format!("not a CloudEvents 1.0 JSON object: {reason}");
    check(
        HORSE,
        "/specversion",
        json!("0.3"),
        &not("specversion is \"0.3\", not 1.0"),
    );
    check(
        HORSE,
        "/id",
        json!(""),
        &not("id is 1 to 128 bytes of text, not \"\""),
    );
    check(
        HORSE,
        "/source",
        json!("a\nb"),
        &not("source is 1 to 128 bytes of text, not \"a\\nb\""),
    );
    let long = format!("id is 1 to 128 bytes of text, not {:?}", "é".repeat(40));
    check(HORSE, "/id", json!("é".repeat(65)), &not(&long));
    let error = rejected(HORSE, |event| event["time"] = json!("yesterday"));
    let reason = error.to_string();
    assert!(
        reason.contains("a time is RFC 3339 with an offset, not \"yesterday\""),
        "{reason}"
    );
}

#[test]
fn an_error_names_an_unknown_type() {
    check(
        HORSE,
        "/type",
        json!("racing.horse.registered.v2"),
        "unknown event type \"racing.horse.registered.v2\"",
    );
    let error = rejected(HORSE, |event| event["type"] = json!("x".repeat(10_000)));
    assert_eq!(error, DecodeError::UnknownType("x".repeat(80)));
    assert_eq!(error.code(), "unknown_type");
}

#[test]
fn an_event_that_is_too_large_is_rejected_before_it_is_parsed() {
    let name = "A".repeat(1024 * 1024);
    let event = changed(HORSE, |event| event["data"]["horse_name"] = json!(name)).to_string();
    let error = Envelope::decode("racing.horse.HK_2023_K417", event.as_bytes()).expect_err("1 MiB");
    assert_eq!(error, DecodeError::TooLarge(event.len()));
    assert_eq!(
        error.to_string(),
        format!("{} bytes, at most 65536 are accepted", event.len())
    );
    assert_eq!(error.code(), "too_large");

    // White space counts: the bound is on the bytes of the message.
    let golden = golden(HORSE);
    let padded = golden.clone() + &" ".repeat(EVENT_BYTES_MAX - golden.len());
    assert!(Envelope::from_json(padded.as_bytes()).is_ok());
    assert!(Envelope::from_json((padded + " ").as_bytes()).is_err());
}

#[test]
fn an_error_names_an_invalid_field_of_a_horse_by_its_path() {
    check(
        HORSE,
        "/data/horse_no",
        json!("A 1"),
        "data.horse_no: a horse number is 1 to 32 of A-Z a-z 0-9 _ -, not \"A 1\"",
    );
    let long = "N".repeat(60_000);
    let cut = format!(
        "data.horse_name: at most 256 bytes of text, not \"{}…\"",
        "N".repeat(40)
    );
    check(HORSE, "/data/horse_name", json!(long), &cut);
    check(
        HORSE,
        "/data/horse_name",
        json!("A\u{7}B"),
        "data.horse_name: text without control characters, not \"A\\u{7}B\"",
    );
    check(
        HORSE,
        "/data/horse_name",
        Value::Null,
        "data.horse_name: invalid type: null, expected a string",
    );
    check(
        HORSE,
        "/data/foaled",
        json!("14"),
        "data.foaled: foaled is YYYY or YYYY-MM-DD, not \"14\"",
    );
    check(
        HORSE,
        "/data/age",
        json!(61),
        "data.age: an age is 0 to 60 years",
    );
    check(
        HORSE,
        "/data/age_as_of",
        Value::Null,
        "data.age_as_of: age and age_as_of go together",
    );
    check(
        HORSE,
        "/data/career/starts",
        json!(-1),
        "data.career.starts: invalid value: integer `-1`, expected u32",
    );
    check(
        HORSE,
        "/data/career/total_stakes",
        json!(1_000_000_000_001_u64),
        "data.career.total_stakes: stakes are 0 to 1000000000000",
    );
}

#[test]
fn an_error_names_an_invalid_field_of_a_race_by_its_path() {
    check(
        CARD,
        "/data/date",
        json!("0000-13-99"),
        "data.date: a date is YYYY-MM-DD, not \"0000-13-99\"",
    );
    check(
        CARD,
        "/data/date",
        json!("2026-02-29"),
        "data.date: a date is YYYY-MM-DD, not \"2026-02-29\"",
    );
    check(
        CARD,
        "/data/venue",
        json!("st"),
        "data.venue: a venue code is 1 to 8 of A-Z 0-9, not \"st\"",
    );
    check(
        CARD,
        "/data/race_number",
        json!(0),
        "data.race_number: a race number is 1 to 999, not \"0\"",
    );
    check(
        CARD,
        "/data/off_time",
        json!("14:05"),
        "data.off_time: a time is RFC 3339 with an offset, not \"14:05\"",
    );
    check(
        CARD,
        "/data/distance",
        json!(100_001),
        "data.distance: a distance is 0 to 100000 metres",
    );
    check(
        CARD,
        "/data/runners/1/draw",
        json!(65_536),
        "data.runners[1].draw: invalid value: integer `65536`, expected u16",
    );
    check(
        STATUS,
        "/data/status",
        json!("running"),
        "data.status: unknown variant `running`, expected one of `scheduled`, `open`, `closed`, `off`, `finished`, `result`, `abandoned`",
    );
}

#[test]
fn an_error_names_an_invalid_field_of_a_result_or_a_quote_by_its_path() {
    check(
        RESULT,
        "/data/runners/2/outcome",
        json!("pulled up"),
        "data.runners[2].outcome: an outcome is a code such as PU, UR or WV-A, not \"pulled up\"",
    );
    check(
        RESULT,
        "/data/runners/0/finish_time",
        json!("94.07"),
        "data.runners[0].finish_time: a finish time is m:ss.cc, not \"94.07\"",
    );
    check(
        RESULT,
        "/data/runners/1/stakes",
        json!(1_000_000_000_001_u64),
        "data.runners[1].stakes: stakes are 0 to 1000000000000",
    );
    let odds = "odds are a number from 1 to 100000 with at most three decimals";
    check(
        RESULT,
        "/data/runners/1/win_odds",
        json!(-3.5),
        &format!("data.runners[1].win_odds: {odds}, not \"-3.5\""),
    );
    check(
        RESULT,
        "/data/runners/1/win_odds",
        json!("3.5"),
        &format!("data.runners[1].win_odds: invalid type: string \"3.5\", expected {odds}"),
    );
    check(
        ODDS,
        "/data/runners/0/win",
        json!(-4),
        &format!("data.runners[0].win: invalid value: integer `-4`, expected {odds}"),
    );
    check(
        ODDS,
        "/data/runners/0/place",
        json!(1.2345),
        &format!("data.runners[0].place: {odds}, not \"1.2345\""),
    );
}

#[test]
fn an_error_names_a_missing_field_and_its_object() {
    for (type_name, pointer, reason) in [
        (HORSE, "/data/owner", "data: missing field `owner`"),
        (
            HORSE,
            "/data/career/wins",
            "data.career: missing field `wins`",
        ),
        (
            RESULT,
            "/data/runners/1/trainer",
            "data.runners[1]: missing field `trainer`",
        ),
    ] {
        let error = rejected(type_name, |event| remove(event, pointer));
        assert_eq!(error.to_string(), reason);
        assert_eq!(error.code(), "invalid_data");
    }
    let twice =
        golden(WITHDRAWN).replace("\"venue\": \"ST\"", "\"venue\": \"HV\", \"venue\": \"ST\"");
    let error = Envelope::from_json(twice.as_bytes()).expect_err("two venues");
    assert!(
        error.to_string().ends_with(": duplicate field `venue`"),
        "{error}"
    );
}

#[test]
fn an_array_instead_of_an_object_is_rejected() {
    let positional = |event: &mut Value, pointer: &str| {
        let object = event
            .pointer(pointer)
            .and_then(Value::as_object)
            .expect("an object");
        let values = object.values().cloned().collect();
        *event.pointer_mut(pointer).expect("there") = Value::Array(values);
    };
    for (type_name, pointer, path) in [
        (CARD, "/data", "data"),
        (CARD, "/data/runners/0", "data.runners[0]"),
        (RESULT, "/data/runners/1", "data.runners[1]"),
        (ODDS, "/data/runners/0", "data.runners[0]"),
        (HORSE, "/data/career", "data.career"),
    ] {
        let error = rejected(type_name, |event| positional(event, pointer));
        assert_eq!(
            error.to_string(),
            format!("{path}: invalid type: sequence, expected an object")
        );
    }
    // By position, this is a withdrawal that a struct could be read from.
    let event = changed(WITHDRAWN, |event| {
        event["data"] = json!(["2026-11-21", "ST", 3, "A1", "Lame"])
    });
    let error = Envelope::from_json(event.to_string().as_bytes()).expect_err("an array");
    assert_eq!(
        error.to_string(),
        "data: invalid type: sequence, expected an object"
    );
    let event = format!(
        "[\"1.0\",\"1\",\"s\",\"{WITHDRAWN}\",\"2026-11-21T00:00:00Z\",{}]",
        changed(WITHDRAWN, |_| ())["data"]
    );
    assert_eq!(
        Envelope::from_json(event.as_bytes())
            .expect_err("an array")
            .code(),
        "not_cloud_event"
    );
}

#[test]
fn runners_are_1_to_64_and_no_horse_runs_twice() {
    for type_name in [CARD, RESULT, ODDS] {
        check(
            type_name,
            "/data/runners",
            json!([]),
            "data.runners: 0 runners, a race has 1 to 64",
        );
        let field = |count: usize| {
            changed(type_name, |event| {
                let one = event["data"]["runners"][0].clone();
                let runner = |i: usize| {
                    let mut runner = one.clone();
                    runner["horse_no"] = json!(format!("A{i}"));
                    runner
                };
                event["data"]["runners"] = (0..count).map(runner).collect();
            })
        };
        assert!(Envelope::from_json(field(64).to_string().as_bytes()).is_ok());
        let error = Envelope::from_json(field(65).to_string().as_bytes()).expect_err("65");
        assert_eq!(
            error.to_string(),
            "data.runners: 65 runners, a race has 1 to 64"
        );
        check(
            type_name,
            "/data/runners/1/horse_no",
            json!("HK_2023_K417"),
            "data.runners[1].horse_no: HK_2023_K417 is listed twice",
        );
    }
}

#[test]
fn a_runner_has_either_a_position_or_an_outcome() {
    check(
        RESULT,
        "/data/runners/0/outcome",
        json!("PU"),
        "data.runners[0]: has both a position and an outcome",
    );
    check(
        RESULT,
        "/data/runners/2/outcome",
        Value::Null,
        "data.runners[2]: has neither a position nor an outcome",
    );
    check(
        RESULT,
        "/data/runners/1/position",
        json!(0),
        "data.runners[1].position: positions begin at 1",
    );
}

#[test]
fn a_runner_without_a_price_has_a_state() {
    let reason = "data.runners[1].state: a runner without a win price has a state";
    check(ODDS, "/data/runners/1/win", Value::Null, reason);
    let error = rejected(ODDS, |event| remove(event, "/data/runners/1/win"));
    assert_eq!(error.to_string(), reason);
}

#[test]
fn an_event_on_the_wrong_subject_is_rejected() {
    let event = golden(ODDS);
    for subject in [
        "racing.odds.2026-11-21.ST.4",
        "racing.race.2026-11-21.ST.3",
        "racing.odds.2026-11-21.ST.03",
        "",
    ] {
        let error = Envelope::decode(subject, event.as_bytes()).expect_err(subject);
        assert_eq!(
            error.to_string(),
            format!("published on {subject}, but the data belongs on racing.odds.2026-11-21.ST.3")
        );
        assert_eq!(error.code(), "subject_mismatch");
    }
    let error = Envelope::decode("racing.horse.A1", golden(HORSE).as_bytes()).expect_err("A1");
    assert_eq!(
        error.to_string(),
        "published on racing.horse.A1, but the data belongs on racing.horse.HK_2023_K417"
    );
}

#[test]
fn no_error_is_longer_than_a_screen() {
    let long = "x".repeat(60_000);
    for bytes in [
        format!("\"{long}\""),
        golden(HORSE).replace("\"Bay\"", &format!("{{\"{long}\":1}}")),
        golden(HORSE).replace("\"Bay\"", &format!("\"{long}\"")),
        golden(HORSE).replace("registry", &long),
        golden(STATUS).replace("\"off\"", &format!("\"{long}\"")),
    ] {
        let error = Envelope::from_json(bytes.as_bytes()).expect_err("a long error");
        assert!(
            error.to_string().len() < 1_000,
            "{} bytes",
            error.to_string().len()
        );
    }
    let error = Envelope::decode(&long, golden(HORSE).as_bytes()).expect_err("a long subject");
    assert!(error.to_string().len() < 1_000);
}
