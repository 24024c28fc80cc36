//! Makes the JSON Schemas of all events of their types.

use events::{ATTRIBUTE_BYTES_MAX, Moment};
use schemars::generate::SchemaSettings;
use schemars::transform::RecursiveTransform;
use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde_json::{Value, json};

/// A schema and the name of its file.
#[derive(Debug, Clone)]
pub(crate) struct SchemaFile {
    /// `<type>.json`.
    pub(crate) name: String,
    /// JSON Schema 2020-12.
    pub(crate) schema: Value,
}

macro_rules! schemas {
    ($settings:ident, $($payload:ident = $type:literal),* $(,)?) => {
        vec![$({
            let data = $settings.clone().into_generator().into_root_schema_for::<events::$payload>();
            let example = include_str!(concat!("../golden/", $type, ".json"));
            of_type($type, data.to_value(), example)
        }),*]
    };
}

/// The schema of each event type: of the whole CloudEvent with its `data`.
pub(crate) fn schemas() -> Vec<SchemaFile> {
    let settings = SchemaSettings::draft2020_12()
        .with_transform(RecursiveTransform(without_rust_formats))
        .with_transform(RecursiveTransform(list_values));
    schemas! {
        settings,
        HorseRegistered = "racing.horse.registered.v1",
        RaceDeclared = "racing.race.declared.v1",
        RunnerWithdrawn = "racing.runner.withdrawn.v1",
        RunnerReinstated = "racing.runner.reinstated.v1",
        RiderChanged = "racing.rider.changed.v1",
        GoingChanged = "racing.going.changed.v1",
        RaceStatusChanged = "racing.race.status_changed.v1",
        ResultDeclared = "racing.result.declared.v1",
        ResultVoided = "racing.result.voided.v1",
        DividendsDeclared = "racing.dividends.declared.v1",
        OddsQuoted = "racing.odds.quoted.v1",
        MarketQuoted = "racing.market.quoted.v1",
        PoolInvested = "racing.pool.invested.v1",
        SourcesRanked = "racing.sources.ranked.v1",
    }
}

fn of_type(type_name: &str, mut data: Value, example: &str) -> SchemaFile {
    let example: Value = serde_json::from_str(example).expect("a golden file is JSON");
    let mut schema = json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": type_name,
        "type": "object",
        "required": ["specversion", "id", "source", "type", "time", "data"],
        "properties": {
            "specversion": { "type": "string", "const": "1.0", "description": "The version of CloudEvents." },
            "id": attribute("The event's identity."),
            "source": attribute("The feeder."),
            "type": { "type": "string", "const": type_name, "description": "The kind of fact." },
            "time": Moment::json_schema(&mut SchemaGenerator::default()),
        },
        "examples": [example],
    });
    schema["properties"]["time"]["description"] =
        "When it happened, RFC 3339 with an offset.".into();
    if let Some(data) = data.as_object_mut() {
        data.remove("$schema");
        if let Some(definitions) = data.remove("$defs") {
            schema["$defs"] = definitions;
        }
    }
    schema["properties"]["data"] = data;
    SchemaFile {
        name: format!("{type_name}.json"),
        schema,
    }
}

fn attribute(description: &str) -> Value {
    json!({
        "type": "string",
        "minLength": 1,
        "maxLength": ATTRIBUTE_BYTES_MAX,
        "pattern": r"^[^\u0000-\u001f\u007f-\u009f]*$",
        "description": description,
    })
}

/// Writes an enum of strings as `type: string` with `enum`, and describes its values in one text. schemars makes a
/// `oneOf` of constants of it, for which many generators make a type without values.
pub(crate) fn list_values(schema: &mut Schema) {
    let choices = schema.get("oneOf").and_then(Value::as_array);
    let Some(choices) = choices.filter(|choices| !choices.is_empty()) else {
        return;
    };
    let mut values = Vec::new();
    let mut descriptions = Vec::new();
    descriptions.extend(
        schema
            .get("description")
            .and_then(Value::as_str)
            .map(str::to_owned),
    );
    for choice in choices {
        let value = choice.get("const").and_then(Value::as_str);
        let (Some(value), Some(meaning)) = (value, choice["description"].as_str()) else {
            return;
        };
        values.push(value.to_owned());
        descriptions.push(format!("`{value}`: {meaning}"));
    }
    schema.remove("oneOf");
    schema.insert("type".into(), "string".into());
    schema.insert("enum".into(), values.into());
    schema.insert("description".into(), descriptions.join(" ").into());
}

/// Replaces the formats of Rust integers, such as `uint16`, by their bounds. They are not formats of JSON Schema, and
/// strict validators reject them.
fn without_rust_formats(schema: &mut Schema) {
    let Some(format) = schema.get("format").and_then(Value::as_str) else {
        return;
    };
    if !format.starts_with("uint") {
        return;
    }
    if format == "uint32" && schema.get("maximum").is_none() {
        schema.insert("maximum".into(), u32::MAX.into());
    }
    schema.remove("format");
}
