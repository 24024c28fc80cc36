//! The live channel in `schemas/asyncapi.json`, made from the types of its messages.

use events::RacingDate;
use schemars::generate::{Contract, SchemaSettings};
use schemars::transform::{RecursiveTransform, Transform as _};
use schemars::{JsonSchema as _, Schema, SchemaGenerator};
use serde::Deserialize as _;
use serde_json::{Map, Value, json};

use super::LiveSubscription;
use super::request::{Op, Request};
use super::server_message::ServerMessage;
use crate::documents::asyncapi::document::{Document, reference};
use crate::documents::json_schema::{apply_transforms, generator, schema_of};

const ADDRESS: &str = "/ws/live/odds";
const SERVER: &str = "live";
/// The messages that answer a client message.
const ANSWERS: [&str; 2] = ["ack", "error"];

/// Adds the channels of `/ws/live/odds`. The service names its own host and protocol.
pub(crate) fn describe(document: &mut Document) {
    server(document);
    let sent = server_messages(document);
    let mut generator = generator(SchemaSettings::draft07(), Contract::Deserialize);
    let request = schema_of::<Request>(&mut generator).to_value();
    // Without the transforms, each op has a description of its own.
    let ops = Op::json_schema(&mut generator).to_value();
    definitions(document, generator);
    let requests = requests(document, &request, &ops);
    let messages = [&sent[..], &requests].concat();
    let race_query = race_query(&request);
    document.channel(SERVER, ("liveOdds", &messages), json!({
        "address": ADDRESS,
        "title": "Live odds",
        "description": "Every open race, then every change in the order of the log. Filters select races. A client that connects \
            and reads gets everything, without sending a message: `welcome`, an `odds_update` with `snapshot` for each open race, \
            `snapshot_complete`, then the changes. Ignore events and fields that you do not know.",
        "bindings": binding(full_query(race_query.clone())),
    }));
    document.channel(SERVER, ("liveOddsOfRace", &messages), json!({
        "address": format!("{ADDRESS}/{{race_number}}"),
        "title": "Live odds of a race",
        "description": "The same, for one race of today's meeting. If there is no such race, the handshake fails with 404.",
        "parameters": { "race_number": { "description": "The race's number, 1 to 999.", "examples": ["3"] } },
        "bindings": binding(race_query),
    }));
    let (answers, updates): (Vec<_>, Vec<_>) = sent
        .into_iter()
        .partition(|name| ANSWERS.contains(&name.as_str()));
    for (channel, name) in [
        ("liveOdds", "LiveOdds"),
        ("liveOddsOfRace", "LiveOddsOfRace"),
    ] {
        document.operation(
            &format!("send{name}"),
            (channel, &updates),
            None,
            "send",
            "The service sends a client what happens.",
        );
        document.operation(
            &format!("receive{name}Request"),
            (channel, &requests),
            Some((channel, &answers)),
            "receive",
            "A client changes its subscription. The answer is `ack` or `error`, before any message that results.",
        );
    }
}

fn server(document: &mut Document) {
    const SCHEMES: &str = "components/securitySchemes";
    let keys = [
        ("keyInQuery", "query", "api_key"),
        ("keyInHeader", "header", "X-API-Key"),
    ];
    for (scheme, part, name) in keys {
        let key = json!({ "type": "httpApiKey", "in": part, "name": name });
        document.insert(SCHEMES, scheme, key);
    }
    document.insert("servers", SERVER, json!({
        "host": "127.0.0.1:8080",
        "protocol": "ws",
        "description": "The service that serves this document. Behind a proxy that does TLS the protocol is wss. \
            Send the key in the query or in the header.",
        "security": keys.map(|(scheme, ..)| reference(SCHEMES, scheme)),
    }));
}

/// Adds the messages that the service sends. Returns their names.
fn server_messages(document: &mut Document) -> Vec<String> {
    let mut generator = generator(SchemaSettings::draft07(), Contract::Serialize);
    let about_service = ServerMessage::<'static>::json_schema(&mut generator)
        .remove("oneOf")
        .unwrap_or_default();
    let about_service: Vec<Schema> =
        serde_json::from_value(about_service).expect("messages are variants");
    let about_races = projections::schemas::live_schemas(&mut generator);
    let about_races = about_races.into_iter().map(with_more_field);
    let mut names = Vec::new();
    for schema in about_service.into_iter().chain(about_races) {
        let schema = apply_transforms(schema, &mut generator);
        let event = schema.pointer("/properties/event/const");
        let event = event.and_then(Value::as_str).map(str::to_owned);
        let event = event.expect("a message has its event as a constant");
        let has_id = schema.pointer("/properties/id").is_some();
        let extra = if has_id { correlation_id() } else { json!({}) };
        document.message(&event, schema, extra);
        names.push(event);
    }
    definitions(document, generator);
    names
}

/// Adds the field that the feed may add to a message about a race.
fn with_more_field(mut schema: Schema) -> Schema {
    if let Some(properties) = schema.get_mut("properties") {
        properties["more"] = json!({
            "type": "boolean",
            "const": true,
            "description": "Only in conflated messages that belong together: this is not the last of them.",
        });
    }
    schema
}

/// Adds the messages that clients send. Returns their names.
fn requests(document: &mut Document, request: &Value, ops: &Value) -> Vec<String> {
    let mut names = Vec::new();
    for described in ops["oneOf"].as_array().expect("ops are variants") {
        let op = described["const"].as_str().unwrap_or_default();
        let name = format!("{op}_request");
        let schema = request_schema(request, described);
        document.message(&name, schema, correlation_id());
        names.push(name);
    }
    names
}

/// The schema of a request with an op.
fn request_schema(request: &Value, described: &Value) -> Schema {
    let op = Op::deserialize(&described["const"]).expect("a variant is an op");
    let fields = request["properties"].as_object().into_iter().flatten();
    let mut properties: Map<String, Value> = fields
        .filter(|(name, _)| op.fields().contains(&name.as_str()))
        .map(|(name, field)| (name.clone(), field.clone()))
        .collect();
    let op = json!({ "type": "string", "const": op });
    properties.insert("op".to_owned(), op);
    let mut schema = schemars::json_schema!({
        "type": "object",
        "description": described["description"],
        "required": request["required"],
        "properties": properties,
    });
    RecursiveTransform(forbid_unknown_fields).transform(&mut schema);
    schema
}

/// The service rejects a field of an unknown name in a request. Clients ignore one in what it sends.
fn forbid_unknown_fields(schema: &mut Schema) {
    if schema.get("properties").is_some() {
        schema.insert("additionalProperties".to_owned(), false.into());
    }
}

fn correlation_id() -> Value {
    json!({ "correlationId": {
        "description": "An answer repeats the id of the client message.",
        "location": "$message.payload#/id",
    } })
}

/// Adds the schemas that messages share.
fn definitions(document: &mut Document, mut generator: SchemaGenerator) {
    for (name, schema) in generator.take_definitions(true) {
        document.insert("components/schemas", &name, schema);
    }
}

fn binding(query: Value) -> Value {
    json!({ "ws": {
        "method": "GET",
        "query": { "type": "object", "properties": query, "additionalProperties": false },
        "headers": { "type": "object", "properties": { "X-API-Key": {
            "type": "string",
            "description": "The key, unless it is in the query.",
        } } },
        "bindingVersion": "0.1.0",
    } })
}

/// The query parameters of a client that follows one race. Some are fields of a request as well.
fn race_query(request: &Value) -> Value {
    let field = |name: &str| {
        let mut field = request["properties"][name].clone();
        field["type"] = field["type"][0].take();
        field
    };
    let kinds = projections::LiveKind::ALL.map(projections::LiveKind::as_str);
    let kind = format!("({})", kinds.join("|"));
    let mut query = json!({
        "api_key": { "type": "string", "description": "The key, unless it is in the header." },
        "venue": { "type": "string", "description": "The code or name of the venue, if there are two meetings today; case is ignored." },
        "events": list(&kind, "The kinds of messages about races that are sent, all by default."),
        "markets": list("[a-z][a-z0-9_]{0,31}", "Markets whose quotes are sent: pools, or win_place. None by default."),
        "conflate_ms": field("conflate_ms"),
        "heartbeat_ms": field("heartbeat_ms"),
        "since": field("since"),
        "recorded_at": field("recorded_at"),
        "epoch": field("epoch"),
    });
    let default = LiveSubscription::default();
    query["conflate_ms"]["default"] = default.conflate_ms.into();
    query["heartbeat_ms"]["default"] = default.heartbeat_ms.into();
    query
}

/// The query parameters of a client that follows any races.
fn full_query(mut query: Value) -> Value {
    let date = RacingDate::PATTERN.trim_matches(['^', '$']);
    query["date"] = list(date, "Dates of meetings.");
    query["venue"] = json!({ "type": "string", "description": "Codes or names of venues; case is ignored. A comma-separated list." });
    query["race"] = list(
        "([^/,]+/){0,2}[1-9][0-9]{0,2}",
        "Races: 3, ST/3, 2026-11-21/3 or 2026-11-21/ST/3.",
    );
    query["horse"] = list(
        "[A-Za-z0-9_-]{1,32}",
        "Horses on the card or the board of a race.",
    );
    query
}

/// A comma-separated list of values that match a pattern.
fn list(pattern: &str, description: &str) -> Value {
    json!({
        "type": "string",
        "pattern": format!("^(none| *{pattern} *(, *{pattern} *)*)$"),
        "description": format!("{description} A comma-separated list, or none for an empty one."),
    })
}

#[test]
fn the_dates_of_a_query_are_those_of_the_parser() {
    let schema = full_query(json!({}))["date"].clone();
    let schema = jsonschema::validator_for(&schema).expect("a schema");
    for (text, valid) in [
        ("2026-11-21", true),
        (" 2026-11-21 , 2024-02-29", true),
        ("0195-05-26", false),
        ("2026-02-29", false),
        ("2026-11-21,3000-01-01", false),
    ] {
        assert_eq!(schema.is_valid(&json!(text)), valid, "{text}");
    }
}
