//! `/asyncapi.json`: equal to the documentation, and true of all messages on the live channel and the log.

use std::collections::{BTreeMap, BTreeSet};

use futures::{SinkExt, StreamExt};
use jsonschema::Validator;
use railbird::log::RACING;
use railbird::public_url::PublicUrl;
use serde_json::{Map, Value, json};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::{MaybeTlsStream, WebSocketStream, connect_async};

use crate::generators::{Oracle, changed, edges};
use crate::support::*;

const LIVE_ODDS: &str = include_str!("../../docs/live-odds.md");
const FEEDING: &str = include_str!("../../docs/feeding.md");

/// The prefix of the events that feeders publish. These may have more fields than are described.
const EVENTS: &str = "racing.";

fn document() -> Value {
    railbird::http::asyncapi()
}

/// Validators of the document's messages. Those of what the service sends are strict: no field may be missing, and none
/// may be there that is not described, although a client must expect it.
struct Messages(BTreeMap<String, Validator>);

impl Messages {
    fn of(document: &Value) -> Self {
        let messages = document["components"]["messages"].as_object().unwrap();
        let held = messages.iter().map(|(name, message)| {
            let mut schemas = document["components"]["schemas"].clone();
            let is_sent = !name.starts_with(EVENTS) && !name.ends_with("_request");
            if is_sent {
                let needed = reachable(document, &message["payload"]);
                let is_needed =
                    |name: &str| needed.contains(&format!("#/components/schemas/{name}"));
                schemas
                    .as_object_mut()
                    .unwrap()
                    .retain(|name, _| is_needed(name));
                allow_nothing_else(&mut schemas);
            }
            let schema = json!({
                "allOf": [message["payload"]],
                "components": { "schemas": schemas },
            });
            (name.clone(), validator(&schema))
        });
        Self(held.collect())
    }

    fn check(&self, name: &str, message: &Value) {
        let validator = self.0.get(name);
        let validator = validator.unwrap_or_else(|| panic!("{name} is not described: {message}"));
        let errors: Vec<String> = validator
            .iter_errors(message)
            .map(|error| format!("{error} at {:?}", error.instance_path().to_string()))
            .collect();
        assert!(errors.is_empty(), "{errors:#?} in {message}");
    }

    /// Whether the schema of its op allows a request.
    fn allow(&self, message: &Value) -> bool {
        let op = message["op"].as_str().unwrap_or_default();
        self.0
            .get(&format!("{op}_request"))
            .is_some_and(|validator| validator.is_valid(message))
    }
}

/// All references in a part of the document, directly or not.
fn reachable(document: &Value, part: &Value) -> BTreeSet<String> {
    let (mut found, mut parts) = (BTreeSet::new(), vec![part]);
    while let Some(part) = parts.pop() {
        let mut references = BTreeSet::new();
        references_of(part, &mut references);
        for reference in references {
            if found.insert(reference.to_owned()) {
                parts.extend(document.pointer(&reference[1..]));
            }
        }
    }
    found
}

fn references_of<'a>(value: &'a Value, found: &mut BTreeSet<&'a str>) {
    match value {
        Value::Object(fields) => {
            found.extend(fields.get("$ref").and_then(Value::as_str));
            fields
                .values()
                .for_each(|value| references_of(value, found));
        }
        Value::Array(items) => items.iter().for_each(|value| references_of(value, found)),
        _ => {}
    }
}

fn validator(schema: &Value) -> Validator {
    jsonschema::draft7::options()
        .should_validate_formats(true)
        .build(schema)
        .unwrap()
}

fn allow_nothing_else(schema: &mut Value) {
    match schema {
        Value::Object(fields) => {
            if fields.get("properties").is_some_and(Value::is_object) {
                let whole = ["allOf", "anyOf", "oneOf"]
                    .iter()
                    .all(|key| !fields.contains_key(*key));
                assert!(whole, "its properties are in several places: {fields:?}");
                fields.insert("additionalProperties".to_owned(), false.into());
            }
            fields.values_mut().for_each(allow_nothing_else);
        }
        Value::Array(items) => items.iter_mut().for_each(allow_nothing_else),
        _ => {}
    }
}

/// A client that validates every message by the document.
struct Client<'a> {
    socket: WebSocketStream<MaybeTlsStream<TcpStream>>,
    messages: &'a Messages,
    received: Vec<Value>,
}

impl<'a> Client<'a> {
    async fn open(railbird: &Railbird, messages: &'a Messages, query: &str) -> Self {
        let (http, key) = (railbird.http, &railbird.key);
        let url = format!("ws://{http}/ws/live/odds?api_key={key}{query}");
        Self {
            socket: connect_async(url).await.unwrap().0,
            messages,
            received: Vec::new(),
        }
    }

    async fn send(&mut self, text: &str) {
        self.socket.send(Message::text(text)).await.unwrap();
    }

    async fn next(&mut self) -> Option<Value> {
        loop {
            let frame = timeout(PATIENCE, self.socket.next()).await;
            match frame.expect("a message in time") {
                Some(Ok(Message::Text(text))) => {
                    let message: Value = serde_json::from_str(&text).unwrap();
                    self.messages
                        .check(message["event"].as_str().unwrap(), &message);
                    self.received.push(message.clone());
                    return Some(message);
                }
                Some(Ok(Message::Close(_)) | Err(_)) | None => return None,
                Some(Ok(_)) => {}
            }
        }
    }

    /// Receives up to and including a message.
    async fn until(&mut self, what: impl Fn(&Value) -> bool) -> Value {
        loop {
            let message = self.next().await;
            let message = message.unwrap_or_else(|| panic!("closed: {:?}", self.received.last()));
            if what(&message) {
                return message;
            }
        }
    }

    /// Sends a request, and receives up to the answer.
    async fn request(&mut self, text: &str) -> Value {
        self.send(text).await;
        self.until(|m| m["event"] == "ack" || m["event"] == "error")
            .await
    }

    /// Receives to the end.
    async fn closing(&mut self) -> Value {
        while self.next().await.is_some() {}
        self.received.last().unwrap().clone()
    }
}

#[test]
fn every_reference_resolves_and_every_part_is_referenced() {
    let document = document();
    let mut found = BTreeSet::new();
    references_of(&document, &mut found);
    for reference in &found {
        assert!(
            document.pointer(&reference[1..]).is_some(),
            "{reference} is not there"
        );
    }
    for kind in ["messages", "schemas", "securitySchemes"] {
        for name in document["components"][kind].as_object().unwrap().keys() {
            let reference = format!("#/components/{kind}/{name}");
            assert!(
                found.contains(reference.as_str()),
                "nothing refers to {reference}"
            );
        }
    }
    for (name, channel) in document["channels"].as_object().unwrap() {
        for message in channel["messages"].as_object().unwrap().keys() {
            let reference = format!("#/channels/{name}/messages/{message}");
            assert!(
                found.contains(reference.as_str()),
                "nobody sends {reference}"
            );
        }
    }
}

#[test]
fn every_message_and_field_of_the_service_is_described() {
    let document = document();
    for (name, message) in document["components"]["messages"].as_object().unwrap() {
        assert!(message["description"].is_string(), "{name}");
    }
    for (name, schema) in document["components"]["schemas"].as_object().unwrap() {
        for (field, property) in schema["properties"].as_object().into_iter().flatten() {
            let is_named_by_its_value = ["event", "op"].contains(&field.as_str());
            let described = property["description"].is_string() || property["$ref"].is_string();
            assert!(is_named_by_its_value || described, "{name}.{field}");
        }
    }
}

/// The messages in a page of the documentation, and whether fields are left out.
fn documented(page: &str) -> Vec<(Value, bool)> {
    let mut blocks: Vec<String> = Vec::new();
    let mut inside = false;
    for line in page.lines() {
        let Some(line) = line.strip_prefix("    ") else {
            inside = false;
            continue;
        };
        if inside {
            blocks.last_mut().unwrap().push_str(line);
        } else {
            blocks.push(line.to_owned());
        }
        inside = true;
    }
    let messages = blocks
        .into_iter()
        .filter(|block| block.starts_with("{\"") || block.starts_with("{  \""));
    messages
        .map(|block| {
            let whole = block.replace(", ...", "");
            let message = serde_json::from_str(&whole);
            (
                message.unwrap_or_else(|error| panic!("{error}: {block}")),
                whole != block,
            )
        })
        .collect()
}

/// Overwrites a message with the fields of a partial one.
fn put_into(whole: &mut Value, part: &Value) {
    match (whole, part) {
        (Value::Object(whole), Value::Object(part)) => {
            for (name, value) in part {
                put_into(whole.entry(name.clone()).or_insert(Value::Null), value);
            }
        }
        (Value::Array(whole), Value::Array(part)) => {
            assert!(whole.len() >= part.len());
            whole
                .iter_mut()
                .zip(part)
                .for_each(|(whole, part)| put_into(whole, part));
        }
        (whole, part) => *whole = part.clone(),
    }
}

#[test]
fn examples_match_their_schemas_and_the_documentation() {
    let document = document();
    let strict = Messages::of(&document);
    let messages = document["components"]["messages"].as_object().unwrap();
    let example = |name: &str| messages[name]["examples"][0]["payload"].clone();
    for name in messages.keys() {
        strict.check(name, &example(name));
    }
    let mut more = example("heartbeat");
    more["feed"]["mood"] = json!("good");
    assert!(
        !strict.0["heartbeat"].is_valid(&more),
        "a field that is not described is noticed"
    );
    let mut less = example("odds_update");
    less["runners"][0]
        .as_object_mut()
        .unwrap()
        .remove("opening");
    assert!(
        !strict.0["odds_update"].is_valid(&less),
        "a missing field is noticed"
    );
    let mut seen = BTreeSet::new();
    for (message, is_part) in [LIVE_ODDS, FEEDING].into_iter().flat_map(documented) {
        let name = match [&message["event"], &message["type"], &message["op"]].map(Value::as_str) {
            [Some(name), _, _] | [_, Some(name), _] => name.to_owned(),
            [_, _, Some(op)] => format!("{op}_request"),
            _ => "rejection".to_owned(),
        };
        if is_part {
            let mut whole = example(&name);
            put_into(&mut whole, &message);
            strict.check(&name, &whole);
        } else {
            assert_eq!(message, example(&name));
        }
        seen.insert(name);
    }
    let unseen: Vec<_> = messages
        .keys()
        .filter(|name| !seen.contains(*name) && !name.starts_with(EVENTS))
        .collect();
    let in_words = [
        "acknowledgement",
        "not_stored",
        "ping_request",
        "resync_request",
        "unsubscribe_request",
    ];
    assert_eq!(
        unseen, in_words,
        "the documentation shows every other message"
    );
}

/// Events about a race of today that make each kind of message about it.
fn eventful_race(race_number: u16) -> Vec<Value> {
    let of = |kind: &str, n: u64, data: Value| {
        event(kind, &second(n), of_race(DAY, "ST", race_number, data))
    };
    let quoted = json!({ "runners": [
        { "horse_no": "H1", "win": 2.5, "place": 1.2 },
        { "horse_no": "H2", "win": null, "state": "suspended" },
        { "horse_no": "H3", "win": null, "state": "no_market" },
    ] });
    let mut void = json!({ "revision": 3 });
    void["reason"] = "objection".into();
    vec![
        of("odds.quoted", 20, quoted),
        of(
            "runner.withdrawn",
            21,
            json!({ "horse_no": "H2", "reason": "lame" }),
        ),
        of("runner.reinstated", 22, json!({ "horse_no": "H2" })),
        of("runner.withdrawn", 23, json!({ "horse_no": "X9" })),
        of(
            "rider.changed",
            24,
            json!({ "horse_no": "H1", "jockey": "Another", "weight": 120 }),
        ),
        of("going.changed", 25, json!({ "going": "SOFT" })),
        of(
            "market.quoted",
            25,
            json!({ "market": "quinella", "prices": [{ "combination": [1, 2], "odds": 7.5 }] }),
        ),
        of(
            "race.status_changed",
            26,
            json!({ "status": "closed", "reason": "late" }),
        ),
        of("race.status_changed", 27, json!({ "status": "off" })),
        result(DAY, "ST", race_number, 2, 1),
        result(DAY, "ST", race_number, 3, 2),
        dividends(DAY, "ST", race_number, 1),
        of("result.voided", 28, void),
        of("race.status_changed", 29, json!({ "status": "abandoned" })),
    ]
}

fn seen<'a>(received: impl IntoIterator<Item = &'a Value>, field: &str) -> BTreeSet<String> {
    let values = received.into_iter().map(|message| &message[field]);
    values
        .filter(|value| !value.is_null())
        .map(ToString::to_string)
        .collect()
}

fn words<const N: usize>(words: [&str; N]) -> BTreeSet<String> {
    words.iter().map(|word| format!("{word:?}")).collect()
}

/// Sends every operation, and every kind of invalid request.
async fn send_every_op(client: &mut Client<'_>) {
    for text in [
        r#"{"op":"subscribe","id":"1","venues":["st"],"races":[{"race_number":1},{"date":"2026-10-03","race_number":2}]}"#,
        r#"{"op":"unsubscribe","id":2.5,"venues":["st"]}"#,
        r#"{"op":"subscribe","horses":["H1"],"dates":["2026-10-03"],"events":["odds_update"]}"#,
        r#"{"op":"subscribe"}"#,
        r#"{"op":"resync","id":3}"#,
        r#"{"op":"ping"}"#,
        r#"{"op":"unsubscribe"}"#,
    ] {
        assert_eq!(client.request(text).await["event"], "ack", "{text}");
    }
    for (text, error) in [
        ("gallop", "invalid_message"),
        ("[]", "invalid_message"),
        (r#"{"id":"4"}"#, "invalid_message"),
        (r#"{"op":"gallop","id":"5"}"#, "unknown_op"),
        (
            r#"{"op":"subscribe","id":6,"heartbeat_ms":5}"#,
            "invalid_parameter",
        ),
        (
            r#"{"op":"unsubscribe","id":"7","dates":["2026-10-03"]}"#,
            "not_subscribed",
        ),
    ] {
        assert_eq!(client.request(text).await["error"], error, "{text}");
    }
}

/// Clients that resume by the URL and by a message.
async fn resume<'a>(
    nats: &Nats,
    railbird: &Railbird,
    messages: &'a Messages,
    epoch: &str,
    seq: u64,
    last: u64,
) -> [Client<'a>; 2] {
    let recorded_at = nats.recorded_at(seq).await;
    let query = format!("&since={seq}&recorded_at={recorded_at}&epoch={epoch}");
    let mut resumed = Client::open(railbird, messages, &query).await;
    let complete = resumed.until(|m| m["event"] == "snapshot_complete").await;
    assert!(complete["replayed"].as_u64() > Some(10), "{complete}");
    let mut not_resumed = Client::open(railbird, messages, "&since=1&epoch=other").await;
    not_resumed
        .until(|m| m["event"] == "snapshot_complete")
        .await;
    let other = nats.recorded_at(last).await;
    for (since, proof, reason) in [
        (last + 1_000, json!(recorded_at), json!("ahead")),
        (seq, json!(other), json!("other_history")),
        (seq, json!(null), json!("unproven")),
        (seq, json!(""), json!("unproven")),
        (seq, json!("yesterday"), json!("unproven")),
        (seq, json!(recorded_at), json!(null)),
    ] {
        let text = json!({
            "op": "subscribe", "id": "8", "since": since, "recorded_at": proof, "epoch": epoch,
        });
        let ack = resumed.request(&text.to_string()).await;
        assert_eq!(
            (&ack["recovered"], &ack["reason"]),
            (&json!(reason.is_null()), &reason)
        );
        resumed
            .until(|m| m["event"] == "snapshot_complete" && m["id"] == "8")
            .await;
    }
    [resumed, not_resumed]
}

/// Clients that are closed because they violate the protocol or their quota.
async fn violate_the_protocol<'a>(railbird: &Railbird, messages: &'a Messages) -> [Client<'a>; 3] {
    let mut binary = Client::open(railbird, messages, "").await;
    binary.socket.send(Message::binary("x")).await.unwrap();
    assert_eq!(binary.closing().await["code"], 1003);
    let mut large = Client::open(railbird, messages, "").await;
    large.send(&"x".repeat(17 * 1024)).await;
    assert_eq!(large.closing().await["code"], 1009);
    let mut frequent = Client::open(railbird, messages, "").await;
    for _ in 0..150 {
        let _ = frequent
            .socket
            .send(Message::text(r#"{"op":"ping"}"#))
            .await;
    }
    assert_eq!(frequent.closing().await["code"], 1008);
    [binary, large, frequent]
}

/// Checks that every message was received, and every value of the fields with few values.
fn check_coverage(received: &[&Value]) {
    assert_eq!(
        seen(received.iter().copied(), "event"),
        words([
            "welcome",
            "snapshot_complete",
            "heartbeat",
            "ack",
            "error",
            "resync",
            "closing",
            "odds_update",
            "status_update",
            "runner_update",
            "result_update",
            "dividends_update",
            "card_update",
            "quote",
            "feed_update",
        ])
    );
    let all = |field| seen(received.iter().copied(), field);
    assert_eq!(
        all("op"),
        words(["subscribe", "unsubscribe", "resync", "ping"])
    );
    assert_eq!(
        all("error"),
        words([
            "invalid_message",
            "unknown_op",
            "invalid_parameter",
            "not_subscribed"
        ])
    );
    assert_eq!(all("follows"), words(["all", "some", "none"]));
    assert_eq!(
        all("change"),
        words(["withdrawn", "reinstated", "rider_changed"])
    );
    assert_eq!(all("snapshot"), ["true".to_owned()].into());
    assert!(all("conflated_by").contains("\"client\""));
    assert!(all("reason").is_superset(&words([
        "other_epoch",
        "ahead",
        "unproven",
        "other_history"
    ])));
    let of_results = received
        .iter()
        .copied()
        .filter(|m| m["event"] == "result_update");
    assert_eq!(seen(of_results, "status"), words(["official", "void"]));
    let runners = received.iter().filter(|m| m["event"] == "odds_update");
    let runners = runners.flat_map(|m| m["runners"].as_array().unwrap());
    assert_eq!(
        seen(runners, "state"),
        words(["scratched", "suspended", "no_market"])
    );
}

#[tokio::test]
async fn every_message_of_the_service_matches_its_schema() {
    let mut nats = Nats::start();
    let railbird = Railbird::start(&nats).await;
    let messages = Messages::of(&railbird.get_open("/asyncapi.json").await.json());
    let seq = nats
        .publish([
            card(DAY, "ST", 1, 3),
            odds("ST", 1, &second(0), &[3.5, 4.0]),
            odds("HV", 2, &second(1), &[9.0]),
        ])
        .await;
    railbird.until_seq(seq).await;

    // Updates, at once and conflated.
    let chosen = "&heartbeat_ms=1000&markets=win_place,quinella";
    let mut client = Client::open(&railbird, &messages, chosen).await;
    let mut patient = Client::open(&railbird, &messages, "&conflate_ms=60000").await;
    for client in [&mut client, &mut patient] {
        client.until(|m| m["event"] == "snapshot_complete").await;
    }
    let welcome = client.received[0].clone();
    let more = (2..9).map(|n| {
        odds(
            "ST",
            1,
            &second(n),
            &[3.5, 4.0 + f64::from(u8::try_from(n).unwrap())],
        )
    });
    let last = nats.publish(more.chain(eventful_race(1))).await;
    for client in [&mut client, &mut patient] {
        client
            .until(|m| m["event"] == "status_update" && m["seq"] == last)
            .await;
    }
    client.until(|m| m["event"] == "heartbeat").await;

    send_every_op(&mut client).await;

    let epoch = welcome["epoch"].as_str().unwrap();
    let resumed = resume(&nats, &railbird, &messages, epoch, seq, last).await;
    let violators = violate_the_protocol(&railbird, &messages).await;

    tokio::select! {
        _ = client.until(|m| m["event"] == "feed_update") => {}
        never = nats.keep_alive("tote") => match never {},
    }

    // A new log, and the end of the service.
    nats.kill();
    client.until(|m| m["feed"]["state"] == "stale").await;
    nats.start_again();
    client.until(|m| m["feed"]["state"] == "live").await;
    nats.lose_log().await;
    railbird.accept_log(RACING).await;
    client.until(|m| m["event"] == "resync").await;
    client.until(|m| m["event"] == "snapshot_complete").await;
    let stopping = tokio::spawn(railbird.stop());
    assert_eq!(client.closing().await["code"], 1001);
    stopping.await.unwrap();

    let received: Vec<&Value> = [&client, &patient]
        .into_iter()
        .chain(&resumed)
        .chain(&violators)
        .flat_map(|client| &client.received)
        .collect();
    check_coverage(&received);
}

#[test]
fn events_match_the_same_instances_as_their_schema_files() {
    let document = document();
    let messages = Messages::of(&document);
    let oracle = Oracle::new();
    for (name, schema) in oracle.schemas() {
        let of_the_file = jsonschema::options()
            .should_validate_formats(true)
            .build(schema)
            .unwrap();
        for changes in edges(schema) {
            let event = changed(schema, &changes);
            assert_eq!(
                messages.0[name].is_valid(&event),
                of_the_file.is_valid(&event),
                "{event}"
            );
        }
    }
}

/// The channel that a subject belongs to, by its address in the document.
fn channel<'a>(document: &'a Value, subject: &str) -> (&'a str, &'a Value) {
    let mut of_the_log = document["channels"].as_object().unwrap().iter();
    let is_it = |channel: &Value| {
        let address = channel["address"].as_str().unwrap_or_default();
        let is_parameter = |token: &str| token.starts_with('{');
        let same = |(wanted, token): (&str, &str)| wanted == token || is_parameter(wanted);
        match address.strip_suffix("{subject}") {
            Some(prefix) => subject.starts_with(prefix),
            None => {
                address.split('.').count() == subject.split('.').count()
                    && address.split('.').zip(subject.split('.')).all(same)
            }
        }
    };
    let found = of_the_log.find(|(_, channel)| is_it(channel));
    let (name, channel) = found.unwrap_or_else(|| panic!("no channel has {subject}"));
    (name, channel)
}

#[tokio::test]
async fn messages_of_the_log_match_their_schemas() {
    let nats = Nats::start();
    let railbird = Railbird::start(&nats).await;
    let document = railbird.get_open("/asyncapi.json").await.json();
    let messages = Messages::of(&document);
    let feeder = nats.client_of("feeder").await;
    let mut rejections = feeder.subscribe("rejected.>").await.unwrap();
    let ask = async |subject: &str, header: (&str, &str), payload: &str| -> Value {
        let mut headers = async_nats::HeaderMap::new();
        headers.insert(header.0, header.1);
        let payload = payload.to_owned().into();
        let replied = feeder.request_with_headers(subject.to_owned(), headers, payload);
        serde_json::from_slice(&replied.await.unwrap().payload).unwrap()
    };
    let described = document["components"]["messages"].as_object().unwrap();
    for (name, message) in described
        .iter()
        .filter(|(name, _)| name.starts_with(EVENTS))
    {
        let event = &message["examples"][0]["payload"];
        messages.check(name, event);
        let sent = outgoing(event);
        let (channel, described) = channel(&document, &sent.subject);
        assert!(
            described["messages"][name].is_object(),
            "{name} is not on {channel}"
        );
        let mut subject = described["address"].as_str().unwrap().to_owned();
        for (parameter, described) in described["parameters"].as_object().unwrap() {
            let location = described["location"].as_str().unwrap();
            let pointer = location.strip_prefix("$message.payload#").unwrap();
            let value = event.pointer(pointer).unwrap();
            let text = value
                .as_str()
                .map_or_else(|| value.to_string(), str::to_owned);
            subject = subject.replace(&format!("{{{parameter}}}"), &text);
        }
        assert_eq!(subject, sent.subject);
        for duplicate in [false, true] {
            let ack = ask(&sent.subject, ("Nats-Msg-Id", &sent.id), &event.to_string()).await;
            messages.check("acknowledgement", &ack);
            assert_eq!(ack["duplicate"] == true, duplicate);
        }
        let expected = ("Nats-Expected-Last-Sequence", "100000");
        let error = ask(&sent.subject, expected, &event.to_string()).await;
        messages.check("not_stored", &error);

        let ack = ask(&sent.subject, ("A", "b"), "garbage").await;
        let rejection = timeout(PATIENCE, rejections.next()).await.unwrap().unwrap();
        let announced: Value = serde_json::from_slice(&rejection.payload).unwrap();
        messages.check("rejection", &announced);
        assert_eq!(announced["seq"], ack["seq"]);
        assert_eq!(self::channel(&document, &rejection.subject).0, "rejected");
        assert!(rejection.headers.unwrap().get("Nats-Msg-Id").is_some());
    }
    assert_eq!(
        railbird.get_admin("/rejections").await.json()["rejections"]
            .as_array()
            .unwrap()
            .len(),
        14
    );
}

/// Valid and invalid values of a field of a request.
fn values(field: &str) -> (Vec<Value>, Vec<Value>) {
    let long = |n: usize| "x".repeat(n);
    let list = |value: Value| match value {
        Value::Array(values) => values,
        other => vec![other],
    };
    let (right, wrong) = match field {
        "id" => (
            json!(["a", "", 7, -1.5, null]),
            json!([true, ["a"], { "a": 1 }]),
        ),
        "dates" => (
            json!([[], ["2026-11-21", "2026-11-22"], null]),
            json!([
                "2026-11-21",
                [1],
                ["2026-13-01"],
                ["2026-02-30"],
                ["21.11.2026"],
                [null]
            ]),
        ),
        "venues" => (
            json!([["ST", "sha tin"], [long(256)], null]),
            json!(["ST", [3], { "a": 1 }]),
        ),
        "races" => (
            json!([
                [{ "race_number": 1 }, { "race_number": 999, "venue": "ST", "date": "2026-11-21" }],
                [{ "race_number": 1, "date": null, "venue": null }], [],
            ]),
            json!([
                [3], [{}], { "race_number": 3 }, [{ "race_number": 0 }], [{ "race_number": 1000 }], [{ "race_number": "3" }],
                [{ "race_number": 1, "date": "today" }], [{ "race_number": 1, "venue": 1 }], [{ "venue": "ST" }],
            ]),
        ),
        "horses" => (
            json!([["RB_014", "H-1"], null]),
            json!(["RB_014", ["a b"], [""], [long(33)], [1]]),
        ),
        "events" => (
            json!([[], ["odds_update", "result_update"], null]),
            json!(["odds_update", ["heartbeat"], [""], [1]]),
        ),
        "markets" => (
            json!([[], ["win_place", "quinella"], null]),
            json!(["quinella", ["Quinella"], [""], [long(33)], [1]]),
        ),
        "conflate_ms" => (
            json!([0, 1, 60_000, null]),
            json!([-1, 60_001, 1.5, "1", [1]]),
        ),
        "heartbeat_ms" => (
            json!([1_000, 60_000, null]),
            json!([0, 999, 60_001, 1_000.5, "1000"]),
        ),
        "since" => (json!([0, 1, u64::MAX, null]), json!([-1, 1.5, "1"])),
        "recorded_at" => (
            json!(["", "2026-11-21T06:32:00.123456Z", "yesterday", null]),
            json!([1, ["2026-11-21T06:32:00Z"]]),
        ),
        "epoch" => (json!(["", "5f1c0a2b9d3e4f60", null]), json!([1, ["a"]])),
        other => panic!("there are no values for {other}"),
    };
    (list(right), list(wrong))
}

/// Requests of each op with one field, which the op may have or not, and some others.
fn cases(document: &Value) -> Vec<Value> {
    let fields = |op: &str| {
        let message = &document["components"]["messages"][format!("{op}_request")];
        let schema = message["payload"]["$ref"].as_str().unwrap();
        let fields = document.pointer(&format!("{}/properties", &schema[1..]));
        fields.unwrap().as_object().unwrap()
    };
    let mut cases = Vec::new();
    for op in ["subscribe", "unsubscribe", "resync", "ping"] {
        for field in fields("subscribe").keys().filter(|field| *field != "op") {
            let (right, wrong) = values(field);
            let wrong = wrong.into_iter().filter(|_| fields(op).contains_key(field));
            cases.extend(right.into_iter().chain(wrong).map(|value| {
                let message = [("op".to_owned(), op.into()), (field.clone(), value)];
                Value::Object(Map::from_iter(message))
            }));
        }
        cases.extend([
            json!({ "op": op, "venue": ["ST"] }),
            json!({ "op": op, "": null }),
            json!({ "op": op, "Id": 1 }),
        ]);
    }
    cases.extend([
        json!({}),
        json!([]),
        json!("ping"),
        json!({ "op": 1 }),
        json!({ "op": "PING" }),
        json!({ "op": "subscribe", "races": [{ "race_number": 1, "race": 1 }] }),
        json!({ "op": "unsubscribe", "races": [{ "race_number": 1 }, { "race_number": 1, "id": 1 }] }),
        json!({ "op": "subscribe", "venues": ["x".repeat(257)] }),
        json!({ "op": "subscribe", "races": [{ "race_number": 1, "venue": "x".repeat(257) }] }),
        json!({ "op": "subscribe", "dates": vec!["2026-11-21"; 1_000] }),
        json!({ "op": "subscribe", "dates": vec!["2026-11-21"; 1_001] }),
    ]);
    cases
}

#[tokio::test]
async fn requests_are_accepted_exactly_when_their_schema_allows_them() {
    // A filter with each list, so that values can be removed from it.
    const EVERYTHING: &str = r#"{"op":"subscribe","dates":[],"venues":[],"races":[],"horses":[]}"#;
    /// A client may send 100 messages at once.
    const A_CLIENT: usize = 40;
    let nats = Nats::start();
    let railbird = Railbird::start(&nats).await;
    let document = railbird.get_open("/asyncapi.json").await.json();
    let messages = Messages::of(&document);
    let cases = cases(&document);
    let (mut taken, mut refused) = (0, 0);
    for cases in cases.chunks(A_CLIENT) {
        let mut client = Client::open(&railbird, &messages, "").await;
        for case in cases {
            client.request(EVERYTHING).await;
            let answer = client.request(&case.to_string()).await;
            let allowed = messages.allow(case);
            assert_eq!(
                answer["event"] == "ack",
                allowed,
                "{case} is answered by {answer}"
            );
            *(if allowed { &mut taken } else { &mut refused }) += 1;
        }
    }
    assert!(
        taken > 40 && refused > 60,
        "{taken} taken, {refused} refused"
    );
}

#[tokio::test]
async fn query_parameters_match_their_schemas() {
    let nats = Nats::start();
    let railbird = Railbird::start(&nats).await;
    let document = railbird.get_open("/asyncapi.json").await.json();
    let messages = Messages::of(&document);
    let query = &document["channels"]["liveOdds"]["bindings"]["ws"]["query"]["properties"];
    for (name, right, wrong) in [
        ("date", "2026-11-21,2026-11-22", "21.11.2026"),
        ("venue", "ST,sha+tin", ""),
        ("race", "1,999", "1,1000"),
        ("horse", "HK_2016_A123,H-1", "a+b"),
        (
            "events",
            "odds_update,result_update",
            "odds_update,heartbeat",
        ),
        ("markets", "win_place,quinella", "Quinella"),
        ("conflate_ms", "60000", "60001"),
        ("heartbeat_ms", "1000", "999"),
        ("since", "0", "-1"),
        ("recorded_at", "2026-11-21T06:32:00.123456Z", ""),
        ("epoch", "5f1c0a2b9d3e4f60", ""),
    ] {
        let schema = validator(&query[name]);
        let value = |text: &str| match query[name]["type"].as_str() {
            Some("integer") => text.parse::<i64>().unwrap().into(),
            _ => Value::from(text.replace('+', " ")),
        };
        assert!(schema.is_valid(&value(right)), "{name}={right}");
        let mut client = Client::open(&railbird, &messages, &format!("&{name}={right}")).await;
        client.until(|m| m["event"] == "snapshot_complete").await;
        if !wrong.is_empty() {
            assert!(!schema.is_valid(&value(wrong)), "{name}={wrong}");
            let path = format!("/ws/live/odds?api_key={}&{name}={wrong}", railbird.key);
            let reply = Socket::refused(railbird.http, &path).await;
            assert_eq!(reply.status, 400, "{}", reply.text());
            assert_eq!(reply.json()["error"], "invalid_parameter");
        }
    }
    let names: BTreeSet<&str> = query
        .as_object()
        .unwrap()
        .keys()
        .map(String::as_str)
        .collect();
    assert_eq!(names.len(), 12, "those above, and api_key: {names:?}");
    // Any other name is an error, also of the channel that selects a race by its path.
    for (channel, path, names) in [
        ("liveOdds", "/ws/live/odds", ["dates", "op"]),
        ("liveOddsOfRace", "/ws/live/odds/1", ["date", "race"]),
    ] {
        let query = validator(&document["channels"][channel]["bindings"]["ws"]["query"]);
        assert!(query.is_valid(&json!({ "venue": "ST" })), "{channel}");
        for name in names {
            assert!(!query.is_valid(&json!({ name: "1" })), "{channel} {name}");
            let path = format!("{path}?api_key={}&{name}=1", railbird.key);
            let reply = Socket::refused(railbird.http, &path).await;
            let message = reply.json()["message"].as_str().unwrap().to_owned();
            assert_eq!(reply.status, 400, "{path}");
            assert!(
                message.contains(&format!("there is no {name:?}")),
                "{message}"
            );
        }
    }
}

#[tokio::test]
async fn the_document_names_the_host_that_was_asked() {
    let nats = Nats::start();
    let server = async |railbird: &Railbird, host: &str| -> (String, String) {
        let reply = request(railbird.http, "GET", "/asyncapi.json", &[("host", host)]).await;
        let server = &reply.json()["servers"]["live"];
        let text = |name: &str| server[name].as_str().unwrap().to_owned();
        (text("host"), text("protocol"))
    };
    let is = |host: &str, protocol: &str| (host.to_owned(), protocol.to_owned());
    let railbird = Railbird::start_with(&nats, |config| {
        config.public_url = Some(PublicUrl::parse("https://racing.example/").unwrap());
    })
    .await;
    assert_eq!(
        server(&railbird, "localhost:8080").await,
        is("localhost:8080", "ws")
    );
    for other in ["racing.example", "a@b", "a b", ""] {
        assert_eq!(
            server(&railbird, other).await,
            is("racing.example", "wss"),
            "{other:?}"
        );
    }
    // Of many hosts, the first are kept.
    for n in 0..40 {
        server(&railbird, &format!("host-{n}.example")).await;
    }
    assert_eq!(
        server(&railbird, "host-1.example").await,
        is("host-1.example", "ws")
    );
    assert_eq!(
        server(&railbird, "host-39.example").await,
        is("racing.example", "wss")
    );
}
