//! `/asyncapi.json`: the channels of the service, each described where it is made, from the types of its messages.

use schemars::generate::{Contract, SchemaSettings};
use schemars::transform::RecursiveTransform;
use schemars::{Schema, SchemaGenerator};
use serde_json::{Map, Value, json};

const DESCRIPTION: &str = "Horse racing data, folded from an event log. What is sent or received over channels is described \
    here, from the service's point of view: it sends what the action `send` has, and receives what the action `receive` has. \
    The HTTP interface is described in `/openapi.json`.";

/// What is known of the channels. Each part of the service that has some adds what it knows.
#[derive(Debug, Default)]
pub(super) struct Document {
    servers: Map<String, Value>,
    channels: Map<String, Value>,
    operations: Map<String, Value>,
    messages: Map<String, Value>,
    schemas: Map<String, Value>,
    security: Map<String, Value>,
}

/// Some messages of a channel.
#[derive(Debug, Clone, Copy)]
pub(super) struct Of<'a> {
    pub(super) channel: &'a str,
    pub(super) messages: &'a [String],
}

impl Of<'_> {
    fn references(&self) -> (Value, Value) {
        let path = format!("channels/{}/messages", self.channel);
        let messages = self.messages.iter().map(|name| reference(&path, name));
        (reference("channels", self.channel), messages.collect())
    }
}

impl Document {
    pub(super) fn server(&mut self, name: &str, server: Value) {
        add(&mut self.servers, name, server);
    }

    pub(super) fn security_scheme(&mut self, name: &str, scheme: Value) {
        add(&mut self.security, name, scheme);
    }

    /// A channel on which these messages go, one way or the other.
    pub(super) fn channel(&mut self, name: &str, messages: &[String], mut channel: Value) {
        let to_message = |name: &String| (name.clone(), reference("components/messages", name));
        channel["messages"] = messages.iter().map(to_message).collect();
        add(&mut self.channels, name, channel);
    }

    /// What is done with some messages of a channel, and what they are answered by.
    pub(super) fn operation(
        &mut self,
        name: &str,
        messages: Of<'_>,
        replies: Option<Of<'_>>,
        mut operation: Value,
    ) {
        if let Some(replies) = replies {
            let (channel, messages) = replies.references();
            operation["reply"] = json!({ "channel": channel, "messages": messages });
        }
        (operation["channel"], operation["messages"]) = messages.references();
        add(&mut self.operations, name, operation);
    }

    /// A message, JSON of this schema. Its description is that of the schema.
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
        add(&mut self.messages, name, message);
        self.schema(schema_name, schema);
    }

    /// A schema that others refer to.
    pub(super) fn schema(&mut self, name: &str, schema: Value) {
        add(&mut self.schemas, name, schema);
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

/// Schemas in the dialect of AsyncAPI, which is draft 7.
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

pub(super) fn transformed(mut schema: Schema, generator: &mut SchemaGenerator) -> Schema {
    for transform in generator.transforms_mut() {
        transform.transform(&mut schema);
    }
    schema
}

/// `uint64` and the like are no formats of JSON Schema; the bounds say it all. Nor is a default of null worth a word, or where a
/// comment's line ends.
pub(super) fn without_rust_traces(schema: &mut Schema) {
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

/// Parts may say the same thing twice, but not two things under one name.
fn add(map: &mut Map<String, Value>, name: &str, value: Value) {
    let before = map.insert(name.to_owned(), value);
    debug_assert!(
        before.is_none_or(|before| Some(&before) == map.get(name)),
        "{name} means two things"
    );
}
