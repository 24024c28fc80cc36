//! [`Document`]: the parts of an AsyncAPI document, and the schemas in it.

use schemars::generate::{Contract, SchemaSettings};
use schemars::transform::RecursiveTransform;
use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde_json::{Value, json};

const DESCRIPTION: &str = "Horse racing data, folded from an event log. This document describes the messages that the service \
    sends (action `send`) and receives (action `receive`). The HTTP interface is described in `/openapi.json`.";

/// An example of each message that is not an event, the same that docs/live-odds.md and docs/feeding.md show.
const EXAMPLES: &str = include_str!("examples.json");

/// An AsyncAPI document, to which the live channel and the log add their parts.
#[derive(Debug)]
pub(super) struct Document {
    pub(super) json: Value,
    examples: Value,
}

/// A channel, and some of its messages.
pub(super) type ChannelMessages<'a> = (&'a str, &'a [String]);

impl Document {
    pub(super) fn new() -> Self {
        Self {
            json: json!({
                "asyncapi": "3.0.0",
                "info": {
                    "title": "railbird",
                    "version": env!("CARGO_PKG_VERSION"),
                    "description": DESCRIPTION,
                    "license": { "name": "MIT OR Apache-2.0" },
                },
                "defaultContentType": "application/json",
            }),
            examples: serde_json::from_str(EXAMPLES).expect("the examples are JSON"),
        }
    }

    /// Adds a part that [`reference`] refers to. It may be added twice, but no other under the same name.
    pub(super) fn insert(&mut self, path: &str, name: &str, part: Value) {
        let parts = path
            .split('/')
            .fold(&mut self.json, |parts, key| &mut parts[key]);
        let before = parts[name].take();
        debug_assert!(
            before.is_null() || before == part,
            "two different parts are named {name}"
        );
        parts[name] = part;
    }

    /// Adds a channel of a server with its messages in both directions.
    pub(super) fn channel(
        &mut self,
        server: &str,
        (name, messages): ChannelMessages<'_>,
        mut channel: Value,
    ) {
        let message = |name: &String| (name.clone(), reference("components/messages", name));
        channel["messages"] = messages.iter().map(message).collect();
        channel["servers"] = json!([reference("servers", server)]);
        self.insert("channels", name, channel);
    }

    /// Adds an operation on some messages of a channel, with the messages that answer them.
    pub(super) fn operation(
        &mut self,
        name: &str,
        messages: ChannelMessages<'_>,
        replies: Option<ChannelMessages<'_>>,
        action: &str,
        summary: &str,
    ) {
        let mut operation = references(messages);
        operation["action"] = action.into();
        operation["summary"] = summary.into();
        if let Some(replies) = replies {
            operation["reply"] = references(replies);
        }
        self.insert("operations", name, operation);
    }

    /// Adds a message with its example.
    pub(super) fn message(&mut self, name: &str, schema: Schema, message: Value) {
        let example = self.examples[name].clone();
        self.message_as(name, &pascal_case(name), schema, &example, message);
    }

    /// Adds a JSON message with its schema, whose description it takes.
    pub(super) fn message_as(
        &mut self,
        name: &str,
        schema_name: &str,
        schema: Schema,
        example: &Value,
        mut message: Value,
    ) {
        let schema = schema.to_value();
        message["name"] = name.into();
        message["contentType"] = "application/json".into();
        message["description"] = schema["description"].clone();
        message["payload"] = reference("components/schemas", schema_name);
        message["examples"] = json!([{ "payload": example }]);
        self.insert("components/messages", name, message);
        self.insert("components/schemas", schema_name, schema);
    }
}

pub(super) fn reference(path: &str, name: &str) -> Value {
    json!({ "$ref": format!("#/{path}/{name}") })
}

fn references((channel, messages): ChannelMessages<'_>) -> Value {
    let path = format!("channels/{channel}/messages");
    let messages = messages.iter().map(|name| reference(&path, name));
    json!({ "channel": reference("channels", channel), "messages": Vec::from_iter(messages) })
}

pub(super) fn pascal_case(name: &str) -> String {
    let capitalize = |word: &str| {
        let (first, rest) = word.split_at(word.len().min(1));
        first.to_ascii_uppercase() + rest
    };
    name.split('_').map(capitalize).collect()
}

/// Generates schemas of JSON Schema draft 7, which AsyncAPI uses.
pub(super) fn generator(contract: Contract, transform: fn(&mut Schema)) -> SchemaGenerator {
    let settings = SchemaSettings::draft07().with(|settings| {
        settings.definitions_path = "/components/schemas".into();
        settings.contract = contract;
        settings.meta_schema = None;
    });
    settings
        .with_transform(RecursiveTransform(transform))
        .into_generator()
}

pub(super) fn schema_of<T: JsonSchema>(generator: &mut SchemaGenerator) -> Schema {
    apply_transforms(T::json_schema(generator), generator)
}

/// Applies the transforms of the generator to a schema that was made without it.
pub(super) fn apply_transforms(mut schema: Schema, generator: &mut SchemaGenerator) -> Schema {
    for transform in generator.transforms_mut() {
        transform.transform(&mut schema);
    }
    schema
}

/// Removes what comes from Rust and means nothing to a reader: formats such as `uint64`, which JSON Schema does not
/// have, defaults of null, and the line breaks of comments.
pub(super) fn clean_schema(schema: &mut Schema) {
    let format = schema.get("format").and_then(Value::as_str);
    if format.is_some_and(|format| format.starts_with("uint") || format == "double") {
        schema.remove("format");
    }
    if schema.get("default") == Some(&Value::Null) {
        schema.remove("default");
    }
    join_lines(schema);
}

/// Replaces the line breaks of a description, which come from a comment.
pub(super) fn join_lines(schema: &mut Schema) {
    if let Some(Value::String(description)) = schema.get_mut("description") {
        *description = description.replace('\n', " ");
    }
}
