//! The live channel in `/asyncapi.json`, made from the types of its messages.

use schemars::generate::Contract;
use schemars::{JsonSchema as _, Schema, SchemaGenerator};
use serde_json::{Map, Value, json};

use super::document::{
    ChannelMessages, Document, apply_transforms, clean_schema, generator, reference,
};
use crate::live::{CONFLATE_MS, HEARTBEAT_MS, Op, Request, ServerMessage};

/// One message of each name, the same as in docs/live-odds.md.
const EXAMPLES: &str = include_str!("live_examples.json");

const ADDRESS: &str = "/ws/live/odds";
const SERVER: &str = "live";
/// The messages that answer a client message.
const ANSWERS: [&str; 2] = ["ack", "error"];

/// Adds the channels of `/ws/live/odds`.
pub(super) fn describe(document: &mut Document) {
    let examples: Value = serde_json::from_str(EXAMPLES).expect("the examples are JSON");
    let sent = server_messages(document, &examples);
    let requests = requests(document, &examples);
    server(document);
    document.channel("liveOdds", &[&sent[..], &requests].concat(), json!({
        "address": ADDRESS,
        "title": "Live odds",
        "description": "Every open race, then every change in the order of the log. Filters select races. A client that connects \
            and reads gets everything, without sending a message: `welcome`, an `odds_update` with `snapshot` for each open race, \
            `snapshot_complete`, then the changes. Ignore events and fields that you do not know.",
        "servers": [reference("servers", SERVER)],
        "bindings": binding(full_query()),
    }));
    document.channel("liveOddsOfRace", &[&sent[..], &requests].concat(), json!({
        "address": format!("{ADDRESS}/{{race_number}}"),
        "title": "Live odds of a race",
        "description": "The same, for one race of today's meeting. If there is no such race, the handshake fails with 404.",
        "servers": [reference("servers", SERVER)],
        "parameters": { "race_number": { "description": "The race's number, 1 to 999.", "examples": ["3"] } },
        "bindings": binding(race_query()),
    }));
    let (answers, updates): (Vec<_>, Vec<_>) = sent
        .into_iter()
        .partition(|name| ANSWERS.contains(&name.as_str()));
    for (channel, name) in [
        ("liveOdds", "LiveOdds"),
        ("liveOddsOfRace", "LiveOddsOfRace"),
    ] {
        let messages = |messages| ChannelMessages { channel, messages };
        let sends =
            json!({ "action": "send", "summary": "The service sends a client what happens." });
        document.operation(&format!("send{name}"), messages(&updates), None, sends);
        let receives = json!({
            "action": "receive",
            "summary": "A client changes its subscription. The answer is `ack` or `error`, before any message that results.",
        });
        document.operation(
            &format!("receive{name}Request"),
            messages(&requests),
            Some(messages(&answers)),
            receives,
        );
    }
}

fn server(document: &mut Document) {
    let key = |part: &str, name: &str| json!({ "type": "httpApiKey", "in": part, "name": name });
    document.security_scheme("keyInQuery", key("query", "api_key"));
    document.security_scheme("keyInHeader", key("header", "X-API-Key"));
    let schemes =
        ["keyInQuery", "keyInHeader"].map(|name| reference("components/securitySchemes", name));
    document.server(SERVER, json!({
        "host": "127.0.0.1:8080",
        "protocol": "ws",
        "description": "The service on this machine, without TLS. Behind a proxy that does TLS the protocol is wss. \
            Send the key in the query or in the header.",
        "security": schemes,
    }));
}

/// Adds the messages that the service sends. Returns their names.
fn server_messages(document: &mut Document, examples: &Value) -> Vec<String> {
    let mut generator = generator(Contract::Serialize, |schema| {
        clean_schema(schema);
        forbid_null_in_optional(schema);
    });
    let about_service = ServerMessage::<'static>::json_schema(&mut generator).to_value();
    let about_service = about_service["oneOf"]
        .as_array()
        .expect("messages are variants");
    let about_service = about_service
        .iter()
        .cloned()
        .filter_map(|schema| Schema::try_from(schema).ok());
    let about_races = projections::live_schemas(&mut generator)
        .into_iter()
        .map(|(_, schema)| with_more_field(schema));
    let mut names = Vec::new();
    for schema in about_service.chain(about_races) {
        let schema = apply_transforms(schema, &mut generator);
        let event = schema
            .pointer("/properties/event/const")
            .and_then(Value::as_str);
        let event = event
            .expect("a message has its event as a constant")
            .to_owned();
        let has_id = schema.pointer("/properties/id").is_some();
        let extra = if has_id { correlation_id() } else { json!({}) };
        document.message(
            &event,
            &pascal_case(&event),
            schema,
            &examples[&event],
            extra,
        );
        names.push(event);
    }
    definitions(document, &mut generator);
    names
}

/// Adds the field that the feed may add to a message about a race.
fn with_more_field(mut schema: Schema) -> Schema {
    let more = json!({
        "type": "boolean",
        "const": true,
        "description": "Only in conflated messages that belong together: this is not the last of them.",
    });
    let properties = schema.ensure_object().get_mut("properties");
    if let Some(properties) = properties.and_then(Value::as_object_mut) {
        properties.insert("more".to_owned(), more);
    }
    schema
}

/// Adds the messages that clients send. Returns their names.
fn requests(document: &mut Document, examples: &Value) -> Vec<String> {
    let mut generator = generator(Contract::Deserialize, clean_schema);
    let request = Request::json_schema(&mut generator);
    let request = apply_transforms(request, &mut generator).to_value();
    let ops = Op::json_schema(&mut generator);
    let ops = apply_transforms(ops, &mut generator).to_value();
    let names = Op::ALL.map(|op| {
        let op_schema = ops["oneOf"].as_array().into_iter().flatten();
        let op_schema = op_schema
            .into_iter()
            .find(|schema| schema["const"] == json!(op));
        let op_schema = op_schema.expect("every op is described");
        let op_name = op_schema["const"].as_str().unwrap_or_default();
        let name = format!("{op_name}_request");
        let schema = request_schema(&request, op, op_schema);
        document.message(
            &name,
            &pascal_case(&name),
            schema,
            &examples[&name],
            correlation_id(),
        );
        name
    });
    definitions(document, &mut generator);
    names.to_vec()
}

/// The schema of a request with this op: the fields that the op reads.
fn request_schema(request: &Value, op: Op, described: &Value) -> Schema {
    let field = |name: &str| (name.to_owned(), request["properties"][name].clone());
    let mut properties: Map<String, Value> = op.fields().iter().copied().map(field).collect();
    properties.extend([
        ("op".to_owned(), json!({ "type": "string", "const": op })),
        field("id"),
    ]);
    schemars::json_schema!({
        "type": "object",
        "description": described["description"],
        "required": request["required"],
        "properties": properties,
    })
}

fn correlation_id() -> Value {
    json!({ "correlationId": {
        "description": "An answer repeats the id of the client message.",
        "location": "$message.payload#/id",
    } })
}

/// Adds the schemas that messages share.
fn definitions(document: &mut Document, generator: &mut SchemaGenerator) {
    for (name, schema) in generator.take_definitions(true) {
        document.schema(&name, schema);
    }
}

/// The service leaves an optional field out, and never sends null instead.
fn forbid_null_in_optional(schema: &mut Schema) {
    let required = schema.get("required").cloned().unwrap_or_default();
    let is_optional = |name: &str| {
        let mut required = required.as_array().into_iter().flatten();
        required.all(|required| required != name)
    };
    let properties = schema.get_mut("properties").and_then(Value::as_object_mut);
    for (_, property) in properties
        .into_iter()
        .flatten()
        .filter(|(name, _)| is_optional(name))
    {
        if let Some(types) = property.get_mut("type").and_then(Value::as_array_mut) {
            types.retain(|name| name != "null");
            if let [only] = &types[..] {
                property["type"] = only.clone();
            }
        }
        if let Some(choices) = property.get_mut("anyOf").and_then(Value::as_array_mut) {
            choices.retain(|choice| choice["type"] != "null");
        }
    }
}

fn pascal_case(name: &str) -> String {
    let capitalize = |word: &str| {
        let (first, rest) = word.split_at(word.len().min(1));
        first.to_ascii_uppercase() + rest
    };
    name.split('_').map(capitalize).collect()
}

fn binding(query: Value) -> Value {
    json!({ "ws": {
        "method": "GET",
        "query": { "type": "object", "properties": query },
        "headers": { "type": "object", "properties": { "X-API-Key": {
            "type": "string",
            "description": "The key, unless it is in the query.",
        } } },
        "bindingVersion": "0.1.0",
    } })
}

/// The query parameters of a client that follows one race.
fn race_query() -> Value {
    let kinds = projections::LiveKind::ALL.map(projections::LiveKind::as_str);
    let kind = format!("({})", kinds.join("|"));
    json!({
        "api_key": { "type": "string", "description": "The key, unless it is in the header." },
        "venue": { "type": "string", "description": "The code or name of the venue, if there are two meetings today; case is ignored." },
        "events": list(&kind, "The kinds of messages about races that are sent, all by default."),
        "conflate_ms": {
            "type": "integer", "minimum": CONFLATE_MS.start(), "maximum": CONFLATE_MS.end(), "default": 0,
            "description": "Minimum time between two odds messages of a race, in milliseconds; 0 sends every update.",
        },
        "heartbeat_ms": {
            "type": "integer", "minimum": HEARTBEAT_MS.start(), "maximum": HEARTBEAT_MS.end(), "default": 5000,
            "description": "Time between two heartbeats, in milliseconds.",
        },
        "since": {
            "type": "integer", "minimum": 0,
            "description": "The highest `seq` that the client has received: every message after it is sent.",
        },
        "epoch": { "type": "string", "description": "The log that `since` belongs to, as in `welcome`." },
    })
}

/// The query parameters of a client.
fn full_query() -> Value {
    let mut query = race_query();
    query["date"] = list("[0-9]{4}-[0-9]{2}-[0-9]{2}", "Dates of meetings.");
    query["venue"] = json!({ "type": "string", "description": "Codes or names of venues; case is ignored. A comma-separated list." });
    query["race"] = list("[1-9][0-9]{0,2}", "Numbers of races.");
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
        "pattern": format!("^ *{pattern} *(, *{pattern} *)*$"),
        "description": format!("{description} A comma-separated list."),
    })
}
