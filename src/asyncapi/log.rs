//! The log in `/asyncapi.json`, and the announcements of rejections, made from the types of the events.

use events::{Envelope, SchemaFile, Subject};
use schemars::Schema;
use schemars::generate::Contract;
use serde_json::{Map, Value, json};

use super::document::{
    ChannelMessages, Document, apply_transforms, clean_schema, generator, reference,
};
use crate::log::RACING;
use crate::projector::announcer;

const SERVER: &str = "log";

/// Adds the channels that feeders use.
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
    events(document, &acknowledgements);
    rejections(document);
}

/// The kinds of subjects: name, title, and the parameters of the subjects, which are also in the data of each event.
const CHANNELS: [(&str, &str, &[&str]); 4] = [
    ("horse", "Facts about a horse.", &["horse_no"]),
    ("race", "A race before it is run.", RACE),
    ("result", "How a race ended.", RACE),
    ("odds", "Prices of a race.", RACE),
];
const RACE: &[&str] = &["date", "venue", "race_number"];

/// Adds the events, each on the channel of its subject.
fn events(document: &mut Document, acknowledgements: &[String]) {
    let events: Vec<(&str, String)> = events::schemas()
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
        document.channel(channel, &messages, json!({
            "address": format!("racing.{channel}{address}"),
            "title": title,
            "description": format!("Subjects of the stream `{}`. The subject must agree with the data.", RACING.name),
            "servers": [reference("servers", SERVER)],
            "parameters": parameters.iter().map(|name| parameter(name)).collect::<Map<_, _>>(),
        }));
        let (first, rest) = channel.split_at(1);
        document.operation(
            &format!("receive{}{rest}", first.to_uppercase()),
            ChannelMessages { channel, messages: &messages },
            Some(ChannelMessages { channel: "acknowledgement", messages: acknowledgements }),
            json!({
                "action": "receive",
                "summary": "A feeder publishes an event. JetStream acknowledges every message that it stores; the service validates it later.",
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
        "description": format!("The same as `data.{name}`."),
        "examples": [example],
        "location": format!("$message.payload#/data/{name}"),
    });
    (name.to_owned(), described)
}

/// Adds an event with its JSON Schema. Returns its channel and its name.
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
            Err(error) => unreachable!("the example of a schema is not an event: {error}"),
        };
    schema["description"] = schema["properties"]["data"]["description"].clone();
    let fields = schema
        .as_object_mut()
        .expect("a schema of an event is an object");
    for field in ["$schema", "title", "examples"] {
        fields.remove(field);
    }
    let definitions = fields.remove("$defs").unwrap_or_default();
    for (name, mut definition) in definitions.as_object().cloned().unwrap_or_default() {
        point_to_components(&mut definition);
        document.schema(&name, definition);
    }
    point_to_components(&mut schema);
    let schema = Schema::try_from(schema).expect("it is still an object");
    document.message(&name, &name, schema, &example, json!({
        "headers": message_id("The event's `id`. JetStream drops a second message with the same value within two minutes."),
        "summary": format!("JSON Schema: /schemas/{name}.json"),
    }));
    (channel, name)
}

/// Changes references to definitions of the schema into references to components of the document.
fn point_to_components(schema: &mut Value) {
    match schema {
        Value::Object(fields) => {
            for (name, value) in fields {
                match value {
                    Value::String(text) if name == "$ref" => {
                        *text = text.replace("#/$defs/", "#/components/schemas/");
                    }
                    Value::String(text) if name == "description" => *text = text.replace('\n', " "),
                    value => point_to_components(value),
                }
            }
        }
        Value::Array(items) => items.iter_mut().for_each(point_to_components),
        _ => {}
    }
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
    document.message(
        "acknowledgement",
        "Acknowledgement",
        schemars::json_schema!({
            "type": "object",
            "description": "The message is stored in the log. With `sync_interval: always` it is on disk.",
            "required": ["stream", "seq"],
            "properties": {
                "stream": stream,
                "seq": { "type": "integer", "minimum": 1, "description": "The log sequence of the event, which is `seq` everywhere." },
                "duplicate": {
                    "type": "boolean",
                    "description": "The log already had a message with the same `Nats-Msg-Id`.",
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
            "description": "The message is not stored: JetStream has no space, or an expectation in a header is not met.",
            "required": ["error"],
            "properties": {
                "error": { "$ref": "#/components/schemas/JetStreamError" },
                "stream": stream,
                "seq": { "type": "integer", "const": 0, "description": "Always 0." },
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
                "code": { "type": "integer", "description": "An HTTP status code." },
                "err_code": { "type": "integer", "description": "The error code of JetStream." },
                "description": { "type": "string", "description": "The error in words." },
            },
        }),
    );
    let messages = ["acknowledgement", "not_stored"].map(str::to_owned);
    document.channel("acknowledgement", &messages, json!({
        "address": null,
        "title": "Acknowledgements of JetStream",
        "description": "The reply subject of a publish request; NATS clients create one for each request. If no stream takes the \
            message, the reply has the status 503 and no payload, or there is no reply: publish the event again.",
        "servers": [reference("servers", SERVER)],
    }));
    messages.to_vec()
}

/// Adds the announcements of rejected messages.
fn rejections(document: &mut Document) {
    let mut generator = generator(Contract::Serialize, clean_schema);
    let schema = projections::rejections::announcement_schema(&mut generator);
    let schema = apply_transforms(schema, &mut generator);
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
        "headers": message_id("Log and sequence of the rejected message: the same from every replica."),
    }));
    document.channel("rejected", &messages, json!({
        "address": format!("{}{{subject}}", announcer::PREFIX),
        "title": "Rejected messages",
        "description": "Announcements on core NATS, which are not stored: only current subscribers receive them. Every replica announces every rejection.",
        "servers": [reference("servers", SERVER)],
        "parameters": { "subject": {
            "description": "The subject of the rejected message, with its dots. Characters that no subject of an event has become `_`.",
            "examples": ["racing.odds.2026-11-21.ST.4"],
        } },
    }));
    document.operation(
        "sendRejection",
        ChannelMessages {
            channel: "rejected",
            messages: &messages,
        },
        None,
        json!({ "action": "send", "summary": "The service announces a message that it rejected." }),
    );
}
