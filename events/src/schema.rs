//! JSON Schemas of every event, generated from the types.

use serde_json::{Value, json};

use crate::Event;

/// A schema and the name of the file that holds it.
#[derive(Debug, Clone)]
pub struct SchemaFile {
    /// `<type>.json`.
    pub name: String,
    /// JSON Schema 2020-12.
    pub schema: Value,
}

/// The schema of each event type: the whole CloudEvent, with `data` as the type has it.
#[must_use]
pub fn schemas() -> Vec<SchemaFile> {
    Event::data_schemas().into_iter().map(|(type_name, data)| of_type(type_name, data.to_value())).collect()
}

fn of_type(type_name: &str, mut data: Value) -> SchemaFile {
    let mut schema = json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": type_name,
        "type": "object",
        "required": ["specversion", "id", "source", "type", "time", "data"],
        "properties": {
            "specversion": { "const": "1.0" },
            "id": { "type": "string", "minLength": 1, "maxLength": 128, "description": "The event's identity, and the Nats-Msg-Id." },
            "source": { "type": "string", "minLength": 1, "maxLength": 128, "description": "The feeder." },
            "type": { "const": type_name },
            "time": { "type": "string", "format": "date-time", "description": "When it happened, RFC 3339." },
        },
    });
    if let Some(data) = data.as_object_mut() {
        data.remove("$schema");
        if let Some(definitions) = data.remove("$defs") {
            schema["$defs"] = definitions;
        }
    }
    schema["properties"]["data"] = data;
    SchemaFile { name: format!("{type_name}.json"), schema }
}
