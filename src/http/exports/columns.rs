//! [`ExportColumns`]: the columns of rows, by the schemas in the OpenAPI document.

use std::collections::BTreeMap;

use parquet::basic::Type;
use serde_json::Value;

use crate::http::formats::{LIST, OF_PAGE, RowLists};

/// The columns that stand first, where a kind has them. The others follow by name.
const FIRST: &str =
    "date venue_code venue race_number list position horse_no horse_name pool combination";

/// The names and types of columns, in their order. Lists are text, JSON.
pub(super) type ExportColumns = Vec<(String, Type)>;

/// The schemas of fields, by name.
type SchemaFields<'a> = BTreeMap<String, &'a Value>;

/// The columns of the rows in the answers of a path, as [`RowFields`](crate::http::formats::RowFields) makes them.
/// `None` if the document has no such path.
pub(super) fn columns_of(document: &Value, path: &str, lists: RowLists) -> Option<ExportColumns> {
    let answer = &document["paths"].get(path)?["get"]["responses"]["200"]["content"];
    let answer = resolve(document, &answer["application/json"]["schema"]);
    let mut fields = properties(document, answer)?;
    for lists in lists {
        let mut row = fields.clone();
        row.retain(|name, schema| !is_type(schema, "array") && !OF_PAGE.contains(&&**name));
        if lists.len() > 1 {
            row.insert(LIST.to_owned(), &Value::Null);
        }
        for list in lists.iter().filter_map(|list| fields.get(*list)) {
            row.extend(properties(document, resolve(document, &list["items"]))?);
        }
        fields = row;
    }
    let mut columns = flatten(document, &fields);
    let rank = |name: &String| FIRST.split(' ').position(|first| first == name);
    columns.sort_by_key(|(name, _)| (rank(name).unwrap_or(usize::MAX), name.clone()));
    Some(columns)
}

fn flatten(document: &Value, fields: &SchemaFields<'_>) -> ExportColumns {
    let mut columns = Vec::new();
    for (name, schema) in fields {
        if let Some(nested) = properties(document, schema) {
            let nested = flatten(document, &nested).into_iter();
            columns.extend(nested.map(|(inner, of)| (format!("{name}.{inner}"), of)));
        } else {
            columns.push((name.clone(), type_of(schema)));
        }
    }
    columns
}

/// The fields of an object.
fn properties<'a>(document: &'a Value, schema: &'a Value) -> Option<SchemaFields<'a>> {
    let fields = schema.get("properties")?.as_object()?.iter();
    let fields = fields.map(|(name, schema)| (name.clone(), resolve(document, schema)));
    Some(fields.collect())
}

/// A schema, or the one that it refers to.
fn resolve<'a>(document: &'a Value, mut schema: &'a Value) -> &'a Value {
    while let Some(pointer) = schema["$ref"].as_str() {
        let found = document.pointer(pointer.trim_start_matches('#'));
        schema = found.unwrap_or(&Value::Null);
    }
    schema
}

fn type_of(schema: &Value) -> Type {
    match () {
        () if is_type(schema, "integer") => Type::INT64,
        () if is_type(schema, "number") => Type::DOUBLE,
        () if is_type(schema, "boolean") => Type::BOOLEAN,
        () => Type::BYTE_ARRAY,
    }
}

/// Whether a schema has a type, alone or among others, such as `null`.
fn is_type(schema: &Value, name: &str) -> bool {
    let mut types = schema["type"].as_array().into_iter().flatten();
    schema["type"] == name || types.any(|of| of == name)
}
