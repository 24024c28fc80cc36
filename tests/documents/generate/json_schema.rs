//! The JSON Schemas of what the service sends and receives: the same types, written in the same way, in the OpenAPI and
//! the AsyncAPI document.

use schemars::generate::{Contract, SchemaSettings};
use schemars::transform::RecursiveTransform;
use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde_json::Value;

use super::event_schemas::list_values;

/// Generates schemas of what the service sends ([`Contract::Serialize`]) or receives ([`Contract::Deserialize`]).
pub(crate) fn generator(settings: SchemaSettings, contract: Contract) -> SchemaGenerator {
    let settings = settings.with(|settings| {
        settings.definitions_path = "/components/schemas".into();
        if contract.is_serialize() {
            // Before the transforms of a draft, which may wrap the references that it leaves.
            let transform = Box::new(RecursiveTransform(forbid_null_in_optional));
            settings.transforms.insert(0, transform);
        }
        settings.contract = contract;
        settings.meta_schema = None;
    });
    settings
        .with_transform(RecursiveTransform(list_values))
        .with_transform(RecursiveTransform(clean_schema))
        .into_generator()
}

pub(crate) fn schema_of<T: JsonSchema>(generator: &mut SchemaGenerator) -> Schema {
    apply_transforms(T::json_schema(generator), generator)
}

/// Applies the transforms of the generator to a schema that was made without it.
pub(crate) fn apply_transforms(mut schema: Schema, generator: &mut SchemaGenerator) -> Schema {
    for transform in generator.transforms_mut() {
        transform.transform(&mut schema);
    }
    schema
}

/// Removes what comes from Rust and means nothing to a reader: formats such as `uint64`, which JSON Schema does not
/// have, defaults of null, and the line breaks of comments.
fn clean_schema(schema: &mut Schema) {
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
pub(crate) fn join_lines(schema: &mut Schema) {
    if let Some(Value::String(description)) = schema.get_mut("description") {
        *description = description.replace('\n', " ");
    }
}

/// The service leaves an optional field out, and never sends null instead.
fn forbid_null_in_optional(schema: &mut Schema) {
    let required = schema.get("required").cloned().unwrap_or_default();
    let required = required.as_array().map_or(&[][..], Vec::as_slice);
    let properties = schema.get_mut("properties").and_then(Value::as_object_mut);
    for (name, property) in properties.into_iter().flatten() {
        if required.iter().any(|required| required == name) {
            continue;
        }
        if let Some(types) = property.get_mut("type").and_then(Value::as_array_mut) {
            types.retain(|name| name != "null");
            if let [only] = &types[..] {
                property["type"] = only.clone();
            }
        }
        if let Some(choices) = property.get_mut("anyOf").and_then(Value::as_array_mut) {
            choices.retain(|choice| choice["type"] != "null");
            if let [Value::Object(only)] = &choices[..] {
                let only = only.clone();
                if let Some(property) = property.as_object_mut() {
                    property.remove("anyOf");
                    property.extend(only);
                }
            }
        }
    }
}
