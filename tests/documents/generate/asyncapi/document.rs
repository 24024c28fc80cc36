//! [`Document`]: the parts of an AsyncAPI document, and the schemas in it.

use schemars::Schema;
use serde_json::{Value, json};

const DESCRIPTION: &str = "Horse racing data, folded from an event log. This document describes the messages that the service \
    sends (action `send`) and receives (action `receive`). The HTTP interface is described in `/openapi.json`.";

/// An example of each message that is not an event, the same that docs/live-odds.md and docs/feeding.md show.
const EXAMPLES: &str = include_str!("examples.json");

/// An AsyncAPI document, to which the live channel and the log add their parts.
#[derive(Debug)]
pub(crate) struct Document {
    pub(crate) json: Value,
    examples: Value,
}

/// A channel, and some of its messages.
pub(crate) type ChannelMessages<'a> = (&'a str, &'a [String]);

impl Document {
    pub(crate) fn new() -> Self {
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
    pub(crate) fn insert(&mut self, path: &str, name: &str, part: Value) {
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
    pub(crate) fn channel(
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
    pub(crate) fn operation(
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
    pub(crate) fn message(&mut self, name: &str, schema: Schema, message: Value) {
        let example = self.examples[name].clone();
        self.message_as(name, &pascal_case(name), schema, &example, message);
    }

    /// Adds a JSON message with its schema, whose description it takes.
    pub(crate) fn message_as(
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

pub(crate) fn reference(path: &str, name: &str) -> Value {
    json!({ "$ref": format!("#/{path}/{name}") })
}

fn references((channel, messages): ChannelMessages<'_>) -> Value {
    let path = format!("channels/{channel}/messages");
    let messages = messages.iter().map(|name| reference(&path, name));
    json!({ "channel": reference("channels", channel), "messages": Vec::from_iter(messages) })
}

pub(crate) fn pascal_case(name: &str) -> String {
    let capitalize = |word: &str| {
        let (first, rest) = word.split_at(word.len().min(1));
        first.to_ascii_uppercase() + rest
    };
    name.split('_').map(capitalize).collect()
}
