//! The live channel in `/asyncapi.json`, described from the types of its messages.

use schemars::generate::Contract;
use schemars::{JsonSchema as _, Schema, SchemaGenerator};
use serde_json::{Map, Value, json};

use super::document::{Document, Of, generator, reference, transformed, without_rust_traces};
use crate::live::{CONFLATE_MS, HEARTBEAT_MS, Op, Request, ServerMessage};

/// A message of each name, as docs/live-odds.md shows it.
const EXAMPLES: &str = include_str!("live_examples.json");

const ADDRESS: &str = "/ws/live/odds";
const SERVER: &str = "live";
/// The messages that answer a client's; the others come by themselves.
const ANSWERS: [&str; 2] = ["ack", "error"];

/// Adds what there is to know of `/ws/live/odds`.
pub(super) fn describe(document: &mut Document) {
    let examples: Value = serde_json::from_str(EXAMPLES).expect("the examples are JSON");
    let said = said(document, &examples);
    let asked = asked(document, &examples);
    server(document);
    document.channel("liveOdds", &[&said[..], &asked].concat(), json!({
        "address": ADDRESS,
        "title": "Live odds",
        "description": "Every open race, then every change in the order of the log; filters choose among them. A client that \
            connects and reads gets everything: it need not say a word. First `welcome`, an `odds_update` with `snapshot` for each \
            open race, `snapshot_complete`, then what changes. Ignore events and fields that you do not know.",
        "servers": [reference("servers", SERVER)],
        "bindings": binding(every_race()),
    }));
    document.channel("liveOddsOfRace", &[&said[..], &asked].concat(), json!({
        "address": format!("{ADDRESS}/{{race_number}}"),
        "title": "Live odds of a race",
        "description": "The same, with a filter for one race of today's meeting. The handshake is answered with 404 where there is none.",
        "servers": [reference("servers", SERVER)],
        "parameters": { "race_number": { "description": "The race's number, 1 to 999.", "examples": ["3"] } },
        "bindings": binding(one_race()),
    }));
    let (answers, news): (Vec<_>, Vec<_>) = said
        .into_iter()
        .partition(|name| ANSWERS.contains(&name.as_str()));
    for (channel, of) in [
        ("liveOdds", "LiveOdds"),
        ("liveOddsOfRace", "LiveOddsOfRace"),
    ] {
        let messages = |messages| Of { channel, messages };
        let sends =
            json!({ "action": "send", "summary": "The service tells a client what happens." });
        document.operation(&format!("send{of}"), messages(&news), None, sends);
        let receives = json!({
            "action": "receive",
            "summary": "A client says what it wants; `ack` or `error` is the answer, before anything that it causes.",
        });
        document.operation(
            &format!("receive{of}Request"),
            messages(&asked),
            Some(messages(&answers)),
            receives,
        );
    }
}

fn server(document: &mut Document) {
    let key = |place: &str, name: &str| json!({ "type": "httpApiKey", "in": place, "name": name });
    document.security_scheme("keyInQuery", key("query", "api_key"));
    document.security_scheme("keyInHeader", key("header", "X-API-Key"));
    let schemes =
        ["keyInQuery", "keyInHeader"].map(|name| reference("components/securitySchemes", name));
    document.server(SERVER, json!({
        "host": "127.0.0.1:8080",
        "protocol": "ws",
        "description": "The service on this machine. It speaks plain HTTP; behind a proxy that does TLS the protocol is wss. \
            The key is in the query or in the header.",
        "security": schemes,
    }));
}

/// Describes what the service says. Returns the names of the messages.
fn said(document: &mut Document, examples: &Value) -> Vec<String> {
    let mut generator = generator(Contract::Serialize, |schema| {
        without_rust_traces(schema);
        never_null_if_optional(schema);
    });
    let of_itself = ServerMessage::<'static>::json_schema(&mut generator).to_value();
    let of_itself = of_itself["oneOf"]
        .as_array()
        .expect("messages are variants");
    let of_itself = of_itself
        .iter()
        .cloned()
        .filter_map(|schema| Schema::try_from(schema).ok());
    let of_races = projections::live_schemas(&mut generator)
        .into_iter()
        .map(|(_, schema)| with_more(schema));
    let mut names = Vec::new();
    for schema in of_itself.chain(of_races) {
        let schema = transformed(schema, &mut generator);
        let event = schema
            .pointer("/properties/event/const")
            .and_then(Value::as_str);
        let event = event.expect("a message says which it is").to_owned();
        let has_id = schema.pointer("/properties/id").is_some();
        let more = if has_id { correlated() } else { json!({}) };
        document.message(
            &event,
            &pascal_case(&event),
            schema,
            &examples[&event],
            more,
        );
        names.push(event);
    }
    definitions(document, &mut generator);
    names
}

/// What the feed may put before a message about a race.
fn with_more(mut schema: Schema) -> Schema {
    let more = json!({
        "type": "boolean",
        "const": true,
        "description": "Only where several messages belong together: this is not the last of them.",
    });
    let properties = schema.ensure_object().get_mut("properties");
    if let Some(properties) = properties.and_then(Value::as_object_mut) {
        properties.insert("more".to_owned(), more);
    }
    schema
}

/// Describes what clients say. Returns the names of the messages.
fn asked(document: &mut Document, examples: &Value) -> Vec<String> {
    let mut generator = generator(Contract::Deserialize, without_rust_traces);
    let request = Request::json_schema(&mut generator);
    let request = transformed(request, &mut generator).to_value();
    let ops = Op::json_schema(&mut generator);
    let ops = transformed(ops, &mut generator).to_value();
    let names = Op::ALL.map(|op| {
        let op_schema = ops["oneOf"].as_array().into_iter().flatten();
        let op_schema = op_schema
            .into_iter()
            .find(|schema| schema["const"] == json!(op));
        let op_schema = op_schema.expect("every op is described");
        let word = op_schema["const"].as_str().unwrap_or_default();
        let name = format!("{word}_request");
        let schema = request_schema(&request, op, op_schema);
        document.message(
            &name,
            &pascal_case(&name),
            schema,
            &examples[&name],
            correlated(),
        );
        name
    });
    definitions(document, &mut generator);
    names.to_vec()
}

/// The schema of a request with this op: the fields that mean something to it.
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

fn correlated() -> Value {
    json!({ "correlationId": {
        "description": "An answer has the id of the client message that it answers.",
        "location": "$message.payload#/id",
    } })
}

/// What the schemas of the messages share.
fn definitions(document: &mut Document, generator: &mut SchemaGenerator) {
    for (name, schema) in generator.take_definitions(true) {
        document.schema(&name, schema);
    }
}

/// What the service may leave out, it leaves out; it never says null instead.
fn never_null_if_optional(schema: &mut Schema) {
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
            "description": "The key, if it is not in the query.",
        } } },
        "bindingVersion": "0.1.0",
    } })
}

/// What the URL of a client that follows one race may say.
fn one_race() -> Value {
    let kinds = projections::LiveKind::ALL.map(projections::LiveKind::as_str);
    let kind = format!("({})", kinds.join("|"));
    json!({
        "api_key": { "type": "string", "description": "The key, if it is not in the header." },
        "venue": { "type": "string", "description": "Which meeting of today, where there are two: a code or a name, in either case." },
        "events": list(&kind, "The kinds of messages about races that are sent, all by default."),
        "conflate_ms": {
            "type": "integer", "minimum": CONFLATE_MS.start(), "maximum": CONFLATE_MS.end(), "default": 0,
            "description": "Odds are to come at most so often; 0 for every update.",
        },
        "heartbeat_ms": {
            "type": "integer", "minimum": HEARTBEAT_MS.start(), "maximum": HEARTBEAT_MS.end(), "default": 5000,
            "description": "A heartbeat is to come so often.",
        },
        "since": {
            "type": "integer", "minimum": 0,
            "description": "The highest `seq` that the socket before has sent: every message after it is to come.",
        },
        "epoch": { "type": "string", "description": "The log that `since` is of, as `welcome` said." },
    })
}

/// What the URL of a client may say.
fn every_race() -> Value {
    let mut query = one_race();
    query["date"] = list("[0-9]{4}-[0-9]{2}-[0-9]{2}", "Dates of meetings.");
    query["venue"] = json!({ "type": "string", "description": "Codes or names of venues, in either case. A list with commas." });
    query["race"] = list("[1-9][0-9]{0,2}", "Numbers of races.");
    query["horse"] = list(
        "[A-Za-z0-9_-]{1,32}",
        "Horses on the card or the board of a race.",
    );
    query
}

/// Values of this form.
fn list(form: &str, what: &str) -> Value {
    json!({
        "type": "string",
        "pattern": format!("^ *{form} *(, *{form} *)*$"),
        "description": format!("{what} A list with commas."),
    })
}
