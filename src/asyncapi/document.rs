//! [`Document`]: the parts of an AsyncAPI document, and the schemas in it.

use schemars::generate::{Contract, SchemaSettings};
use schemars::transform::RecursiveTransform;
use schemars::{Schema, SchemaGenerator};
use serde_json::{Map, Value, json};

const DESCRIPTION: &str = "Horse racing data, folded from an event log. This document describes the messages that the service \
    sends (action `send`) and receives (action `receive`). The HTTP interface is described in `/openapi.json`.";

/// An AsyncAPI document, to which the live channel and the log add their parts.
#[derive(Debug, Default)]
pub(super) struct Document {
    servers: Map<String, Value>,
    channels: Map<String, Value>,
    operations: Map<String, Value>,
    messages: Map<String, Value>,
    schemas: Map<String, Value>,
    security: Map<String, Value>,
}

/// Some of the messages of a channel.
#[derive(Debug, Clone, Copy)]
pub(super) struct ChannelMessages<'a> {
    pub(super) channel: &'a str,
    pub(super) messages: &'a [String],
}

impl ChannelMessages<'_> {
    fn references(&self) -> (Value, Value) {
        let path = format!("channels/{}/messages", self.channel);
        let messages = self.messages.iter().map(|name| reference(&path, name));
        (reference("channels", self.channel), messages.collect())
    }
}

impl Document {
    pub(super) fn server(&mut self, name: &str, server: Value) {
        insert(&mut self.servers, name, server);
    }

    pub(super) fn security_scheme(&mut self, name: &str, scheme: Value) {
        insert(&mut self.security, name, scheme);
    }

    /// Adds a channel with its messages in both directions.
    pub(super) fn channel(&mut self, name: &str, messages: &[String], mut channel: Value) {
        let message = |name: &String| (name.clone(), reference("components/messages", name));
        channel["messages"] = messages.iter().map(message).collect();
        insert(&mut self.channels, name, channel);
    }

    /// Adds an operation on some messages of a channel, with the messages that answer them.
    pub(super) fn operation(
        &mut self,
        name: &str,
        messages: ChannelMessages<'_>,
        replies: Option<ChannelMessages<'_>>,
        mut operation: Value,
    ) {
        if let Some(replies) = replies {
            let (channel, messages) = replies.references();
            operation["reply"] = json!({ "channel": channel, "messages": messages });
        }
        (operation["channel"], operation["messages"]) = messages.references();
        insert(&mut self.operations, name, operation);
    }

    /// Adds a JSON message with its schema, whose description it takes.
    pub(super) fn message(
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
        insert(&mut self.messages, name, message);
        self.schema(schema_name, schema);
    }

    /// Adds a schema that others refer to.
    pub(super) fn schema(&mut self, name: &str, schema: Value) {
        insert(&mut self.schemas, name, schema);
    }

    pub(super) fn finish(self) -> Value {
        json!({
            "asyncapi": "3.0.0",
            "info": {
                "title": "railbird",
                "version": env!("CARGO_PKG_VERSION"),
                "description": DESCRIPTION,
                "license": { "name": "MIT OR Apache-2.0" },
            },
            "defaultContentType": "application/json",
            "servers": self.servers,
            "channels": self.channels,
            "operations": self.operations,
            "components": {
                "messages": self.messages,
                "schemas": self.schemas,
                "securitySchemes": self.security,
            },
        })
    }
}

pub(super) fn reference(path: &str, name: &str) -> Value {
    json!({ "$ref": format!("#/{path}/{name}") })
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

/// Applies the transforms of the generator to a schema that was made without it.
pub(super) fn apply_transforms(mut schema: Schema, generator: &mut SchemaGenerator) -> Schema {
    for transform in generator.transforms_mut() {
        transform.transform(&mut schema);
    }
    schema
}

/// Removes what comes from Rust and means nothing to a reader: formats such as `uint64`, which JSON Schema does not have,
/// defaults of null, and the line breaks of comments.
pub(super) fn clean_schema(schema: &mut Schema) {
    let format = schema.get("format").and_then(Value::as_str);
    if format.is_some_and(|format| format.starts_with("uint") || format == "double") {
        schema.remove("format");
    }
    if schema.get("default") == Some(&Value::Null) {
        schema.remove("default");
    }
    if let Some(Value::String(description)) = schema.get_mut("description") {
        *description = description.replace('\n', " ");
    }
}

/// Inserts a part. The same part may be inserted twice, but no other under the same name.
fn insert(map: &mut Map<String, Value>, name: &str, value: Value) {
    let before = map.insert(name.to_owned(), value);
    debug_assert!(
        before.is_none_or(|before| Some(&before) == map.get(name)),
        "two different parts are named {name}"
    );
}
