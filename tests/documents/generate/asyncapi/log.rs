//! The log in `schemas/asyncapi.json`, and the announcements of rejections, made from the types of the events.

use events::Envelope;
use schemars::Schema;
use schemars::generate::{Contract, SchemaSettings};
use schemars::transform::{RecursiveTransform, Transform as _};
use serde_json::{Map, Value, json};

use super::document::{Document, pascal_case, reference};
use crate::documents::event_schemas::{SchemaFile, schemas};
use crate::documents::json_schema::{apply_transforms, generator, join_lines};
use crate::log::RACING;
use crate::projector::announcer;

const SERVER: &str = "log";

/// Adds the channels that feeders use.
pub(super) fn describe(document: &mut Document) {
    let user = json!({
        "type": "userPassword",
        "description": "A user of nats.conf, such as `feeder`.",
    });
    document.insert("components/securitySchemes", "natsUser", user);
    let server = json!({
        "host": "127.0.0.1:4222",
        "protocol": "nats",
        "description": "NATS with JetStream, on this machine.",
        "security": [reference("components/securitySchemes", "natsUser")],
    });
    document.insert("servers", SERVER, server);
    let acknowledgements = acknowledgements(document);
    events(document, &acknowledgements);
    rejections(document);
}

/// The kinds of subjects: name, title, and the parameters of the subjects, which are also in the data of each event.
const CHANNELS: [(&str, &str, &[&str]); 5] = [
    ("horse", "Facts about a horse.", &["horse_no"]),
    ("race", "A race before it is run.", RACE),
    ("result", "How a race ended.", RACE),
    ("odds", "Prices of a race.", RACE),
    ("sources", "Which sources operators prefer.", &[]),
];
const RACE: &[&str] = &["date", "venue", "race_number"];

/// Adds the events, each on the channel of its subject.
fn events(document: &mut Document, acknowledgements: &[String]) {
    let events: Vec<(String, String)> = schemas()
        .into_iter()
        .map(|file| event(document, file))
        .collect();
    for (channel, title, parameters) in CHANNELS {
        let messages = events.iter().filter(|(name, _)| *name == channel);
        let messages: Vec<String> = messages.map(|(_, name)| name.clone()).collect();
        let address: String = parameters
            .iter()
            .map(|name| format!(".{{{name}}}"))
            .collect();
        document.channel(SERVER, (channel, &messages), json!({
            "address": format!("racing.{channel}{address}"),
            "title": title,
            "description": format!("Subjects of the stream `{}`. The subject must agree with the data.", RACING.name),
            "parameters": parameters.iter().map(|name| parameter(name)).collect::<Map<_, _>>(),
        }));
        document.operation(
            &format!("receive{}", pascal_case(channel)),
            (channel, &messages),
            Some(("acknowledgement", acknowledgements)),
            "receive",
            "A feeder publishes an event. JetStream acknowledges every message that it stores; the service validates it later.",
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
        "description": format!("The same as `data.{name}`."),
        "examples": [example],
        "location": format!("$message.payload#/data/{name}"),
    });
    (name.to_owned(), described)
}

/// Adds an event with its JSON Schema. Returns its channel and its name.
fn event(document: &mut Document, file: SchemaFile) -> (String, String) {
    let SchemaFile { name, mut schema } = file;
    let name = name.trim_end_matches(".json").to_owned();
    let example = schema["examples"][0].take();
    let envelope = Envelope::from_json(example.to_string().as_bytes());
    let envelope = envelope.expect("the example of a schema is an event");
    let subject = envelope.event.subject().to_string();
    let channel = subject.split('.').nth(1).unwrap_or_default().to_owned();
    schema["description"] = schema["properties"]["data"]["description"].clone();
    let mut schema = Schema::try_from(schema).expect("a schema of an event is an object");
    RecursiveTransform(point_to_components).transform(&mut schema);
    for field in ["$schema", "title", "examples"] {
        schema.remove(field);
    }
    let definitions = schema.remove("$defs").unwrap_or_default();
    for (name, definition) in definitions.as_object().into_iter().flatten() {
        document.insert("components/schemas", name, definition.clone());
    }
    document.message_as(&name, &name, schema, &example, json!({
        "headers": message_id("The event's `id`. JetStream drops a second message with the same value within two minutes."),
        "summary": format!("JSON Schema: /schemas/{name}.json"),
    }));
    (channel, name)
}

/// Changes references to definitions of the schema into references to components of the document.
fn point_to_components(schema: &mut Schema) {
    if let Some(Value::String(reference)) = schema.get_mut("$ref") {
        *reference = reference.replace("#/$defs/", "#/components/schemas/");
    }
    join_lines(schema);
}

fn message_id(description: &str) -> Value {
    json!({
        "type": "object",
        "properties": { "Nats-Msg-Id": { "type": "string", "description": description } },
    })
}

/// Adds the answers of JetStream. Returns their names.
fn acknowledgements(document: &mut Document) -> Vec<String> {
    let stream = json!({ "type": "string", "const": RACING.name, "description": "The stream." });
    let stored = schemars::json_schema!({
        "type": "object",
        "description": "The message is stored in the log. With `sync_interval: always` it is on disk.",
        "required": ["stream", "seq"],
        "properties": {
            "stream": stream,
            "seq": { "type": "integer", "minimum": 1, "description": "The log sequence of the event, which is `seq` everywhere." },
            "duplicate": { "type": "boolean", "description": "The log already had a message with the same `Nats-Msg-Id`." },
        },
    });
    document.message("acknowledgement", stored, json!({}));
    let not_stored = schemars::json_schema!({
        "type": "object",
        "description": "The message is not stored: JetStream has no space, or an expectation in a header is not met.",
        "required": ["error"],
        "properties": {
            "error": reference("components/schemas", "JetStreamError"),
            "stream": stream,
            "seq": { "type": "integer", "const": 0, "description": "Always 0." },
        },
    });
    document.message("not_stored", not_stored, json!({}));
    let error = json!({
        "type": "object",
        "description": "An error of JetStream.",
        "required": ["code", "description"],
        "properties": {
            "code": { "type": "integer", "description": "An HTTP status code." },
            "err_code": { "type": "integer", "description": "The error code of JetStream." },
            "description": { "type": "string", "description": "The error in words." },
        },
    });
    document.insert("components/schemas", "JetStreamError", error);
    let messages = ["acknowledgement", "not_stored"].map(str::to_owned);
    document.channel(SERVER, ("acknowledgement", &messages), json!({
        "address": null,
        "title": "Acknowledgements of JetStream",
        "description": "The reply subject of a publish request; NATS clients create one for each request. If no stream takes the \
            message, the reply has the status 503 and no payload, or there is no reply: publish the event again.",
    }));
    messages.to_vec()
}

/// Adds the announcements of rejected messages.
fn rejections(document: &mut Document) {
    let mut generator = generator(SchemaSettings::draft07(), Contract::Serialize);
    let schema = projections::schemas::announcement_schema(&mut generator);
    let schema = apply_transforms(schema, &mut generator);
    let messages = ["rejection".to_owned()];
    document.message("rejection", schema, json!({
        "headers": message_id("Log and sequence of the rejected message: the same from every replica."),
    }));
    document.channel(SERVER, ("rejected", &messages), json!({
        "address": format!("{}{{subject}}", announcer::PREFIX),
        "title": "Rejected messages",
        "description": "Announcements on core NATS, which are not stored: only current subscribers receive them. Every replica announces every rejection.",
        "parameters": { "subject": {
            "description": "The subject of the rejected message, with its dots. Characters that no subject of an event has become `_`.",
            "examples": ["racing.odds.2026-11-21.ST.4"],
        } },
    }));
    document.operation(
        "sendRejection",
        ("rejected", &messages),
        None,
        "send",
        "The service announces a message that it rejected.",
    );
}
