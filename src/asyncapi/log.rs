//! The log in `/asyncapi.json`, with what is announced beside it: described from the types of the events.

use events::{Envelope, SchemaFile, Subject};
use schemars::Schema;
use schemars::generate::Contract;
use serde_json::{Map, Value, json};

use super::document::{Document, Of, generator, reference, transformed, without_rust_traces};
use crate::log::RACING;
use crate::projector::announcer;

const SERVER: &str = "log";

/// Adds what there is to know of the log for those who feed it.
pub(super) fn describe(document: &mut Document) {
    document.security_scheme(
        "natsUser",
        json!({
            "type": "userPassword",
            "description": "A user of nats.conf, such as `feeder`.",
        }),
    );
    document.server(
        SERVER,
        json!({
            "host": "127.0.0.1:4222",
            "protocol": "nats",
            "description": "NATS with JetStream, on this machine.",
            "security": [reference("components/securitySchemes", "natsUser")],
        }),
    );
    let acknowledgements = acknowledgements(document);
    facts(document, &acknowledgements);
    rejections(document);
}

/// The kinds of subjects: a name, what stands under it, and the parameters of its subjects, which the data of each message has.
const CHANNELS: [(&str, &str, &[&str]); 4] = [
    ("horse", "Facts about a horse.", &["horse_no"]),
    ("race", "A race before it is run.", RACE),
    ("result", "How a race ended.", RACE),
    ("odds", "Prices of a race.", RACE),
];
const RACE: &[&str] = &["date", "venue", "race_number"];

/// Describes the events, on the subjects where they belong.
fn facts(document: &mut Document, acknowledgements: &[String]) {
    let events: Vec<(&str, String)> = events::schemas()
        .into_iter()
        .map(|file| event(document, file))
        .collect();
    for (channel, what, parameters) in CHANNELS {
        let of_channel = events.iter().filter(|(of, _)| *of == channel);
        let messages: Vec<String> = of_channel.map(|(_, name)| name.clone()).collect();
        let address: String = parameters
            .iter()
            .map(|name| format!(".{{{name}}}"))
            .collect();
        document.channel(channel, &messages, json!({
            "address": format!("racing.{channel}{address}"),
            "title": what,
            "description": format!("Subjects of the stream `{}`. The subject has to agree with the data.", RACING.name),
            "servers": [reference("servers", SERVER)],
            "parameters": parameters.iter().map(|name| parameter(name)).collect::<Map<_, _>>(),
        }));
        let (first, rest) = channel.split_at(1);
        document.operation(
            &format!("receive{}{rest}", first.to_uppercase()),
            Of { channel, messages: &messages },
            Some(Of { channel: "acknowledgement", messages: acknowledgements }),
            json!({
                "action": "receive",
                "summary": "A feeder says what happened. JetStream answers when it is in the log, whatever it says.",
            }),
        );
    }
}

fn parameter(name: &str) -> (String, Value) {
    let example = match name {
        "horse_no" => "HK_2016_A123",
        "date" => "2026-11-21",
        "venue" => "ST",
        _ => "3",
    };
    let described = json!({
        "description": format!("As `data.{name}` has it."),
        "examples": [example],
        "location": format!("$message.payload#/data/{name}"),
    });
    (name.to_owned(), described)
}

/// Describes an event by its JSON Schema. Returns the channel that it belongs on, and its name.
fn event(document: &mut Document, file: SchemaFile) -> (&'static str, String) {
    let SchemaFile { name, mut schema } = file;
    let name = name.trim_end_matches(".json").to_owned();
    let example = schema["examples"][0].take();
    let channel =
        match Envelope::from_json(example.to_string().as_bytes()).map(|e| e.event.subject()) {
            Ok(Subject::Horse(_)) => "horse",
            Ok(Subject::Race(_)) => "race",
            Ok(Subject::Result(_)) => "result",
            Ok(Subject::Odds(_)) => "odds",
            Err(error) => unreachable!("the example of a type is an event: {error}"),
        };
    schema["description"] = schema["properties"]["data"]["description"].clone();
    let fields = schema
        .as_object_mut()
        .expect("a schema of an event is an object");
    for of_the_file in ["$schema", "title", "examples"] {
        fields.remove(of_the_file);
    }
    let definitions = fields.remove("$defs").unwrap_or_default();
    for (name, mut definition) in definitions.as_object().cloned().unwrap_or_default() {
        in_place(&mut definition);
        document.schema(&name, definition);
    }
    in_place(&mut schema);
    let schema = Schema::try_from(schema).expect("a schema stays one");
    document.message(&name, &name, schema, &example, json!({
        "headers": message_id("The event's `id`. NATS drops a second message with the same one within two minutes."),
        "summary": format!("Its schema as a file: /schemas/{name}.json"),
    }));
    (channel, name)
}

/// Lets a schema refer to definitions where they stand in the document.
fn in_place(schema: &mut Value) {
    match schema {
        Value::Object(fields) => {
            for (name, value) in fields {
                match value {
                    Value::String(text) if name == "$ref" => {
                        *text = text.replace("#/$defs/", "#/components/schemas/");
                    }
                    Value::String(text) if name == "description" => *text = text.replace('\n', " "),
                    value => in_place(value),
                }
            }
        }
        Value::Array(items) => items.iter_mut().for_each(in_place),
        _ => {}
    }
}

fn message_id(what: &str) -> Value {
    json!({
        "type": "object",
        "properties": { "Nats-Msg-Id": { "type": "string", "description": what } },
    })
}

/// Describes how JetStream answers. Returns the names of the messages.
fn acknowledgements(document: &mut Document) -> Vec<String> {
    let stream = json!({ "type": "string", "const": RACING.name, "description": "The stream." });
    document.message(
        "acknowledgement",
        "Acknowledgement",
        schemars::json_schema!({
            "type": "object",
            "description": "The message is in the log. With `sync_interval: always` it is on disk.",
            "required": ["stream", "seq"],
            "properties": {
                "stream": stream,
                "seq": { "type": "integer", "minimum": 1, "description": "Its place, which is `seq` everywhere." },
                "duplicate": {
                    "type": "boolean",
                    "description": "The log had it already, under the same `Nats-Msg-Id`.",
                },
            },
        }),
        &json!({ "stream": RACING.name, "seq": 48210 }),
        json!({}),
    );
    document.message(
        "not_stored",
        "NotStored",
        schemars::json_schema!({
            "type": "object",
            "description": "The message is not in the log: JetStream has no room, or an expectation in a header does not hold.",
            "required": ["error"],
            "properties": {
                "error": { "$ref": "#/components/schemas/JetStreamError" },
                "stream": stream,
                "seq": { "type": "integer", "const": 0, "description": "It has no place." },
            },
        }),
        &json!({
            "error": { "code": 503, "err_code": 10077, "description": "insufficient storage resources available" },
            "stream": RACING.name,
            "seq": 0,
        }),
        json!({}),
    );
    document.schema(
        "JetStreamError",
        json!({
            "type": "object",
            "description": "An error of JetStream.",
            "required": ["code", "description"],
            "properties": {
                "code": { "type": "integer", "description": "As in HTTP." },
                "err_code": { "type": "integer", "description": "Which error it is." },
                "description": { "type": "string", "description": "The error in words." },
            },
        }),
    );
    let messages = ["acknowledgement", "not_stored"].map(str::to_owned);
    document.channel("acknowledgement", &messages, json!({
        "address": null,
        "title": "The answer of JetStream",
        "description": "The subject that a feeder names for the reply; NATS clients make one for each request. Where nobody \
            takes the message there is a reply with the status 503 and no payload, or none at all: publish it again.",
        "servers": [reference("servers", SERVER)],
    }));
    messages.to_vec()
}

/// Describes what feeders are told of what was refused.
fn rejections(document: &mut Document) {
    let mut generator = generator(Contract::Serialize, without_rust_traces);
    let schema = projections::rejections::announcement_schema(&mut generator);
    let schema = transformed(schema, &mut generator);
    let example = json!({
        "seq": 48211,
        "recorded_at": "2026-11-21T06:03:12.482907Z",
        "subject": "racing.odds.2026-11-21.ST.4",
        "source": "tote",
        "id": "0190a5c0-0000-7000-8000-000000000010",
        "code": "subject_mismatch",
        "reason": "published on racing.odds.2026-11-21.ST.4, but the data belongs on racing.odds.2026-11-21.ST.3",
        "payload_bytes": 391,
    });
    let messages = ["rejection".to_owned()];
    document.message("rejection", "Rejection", schema, &example, json!({
        "headers": message_id("The log and the place in it: the same from every replica that announces it."),
    }));
    document.channel("rejected", &messages, json!({
        "address": format!("{}{{subject}}", announcer::PREFIX),
        "title": "What was refused",
        "description": "Core NATS: those who listen hear it, and nobody else ever does. Every replica announces every rejection.",
        "servers": [reference("servers", SERVER)],
        "parameters": { "subject": {
            "description": "The subject that the message came on, dots and all. What no event's subject has becomes `_`.",
            "examples": ["racing.odds.2026-11-21.ST.4"],
        } },
    }));
    document.operation(
        "sendRejection",
        Of { channel: "rejected", messages: &messages },
        None,
        json!({ "action": "send", "summary": "The service tells feeders what it could not understand." }),
    );
}
