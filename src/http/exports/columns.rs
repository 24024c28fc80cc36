//! [`ExportColumns`]: the columns of rows, by the schemas in the OpenAPI document.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::http::formats::{LIST, OF_PAGE, RowLists};

/// The columns that stand first, where a kind has them. The others follow by name.
const FIRST: &str =
    "date venue_code venue race_number list position horse_no horse_name pool combination";

/// The type of a column. Lists are text, JSON.
#[derive(Debug, Clone, Copy)]
pub(super) enum ColumnType {
    Integer,
    Number,
    Boolean,
    Text,
}

/// The names and types of columns, in their order.
#[derive(Debug, Clone)]
pub(super) struct ExportColumns(pub(super) Vec<(String, ColumnType)>);

/// The schemas of fields, by name.
type SchemaFields<'a> = BTreeMap<String, &'a Value>;

impl ExportColumns {
    /// The columns of the rows in the answers of a path, as [`RowFields`](crate::http::formats::RowFields) makes them.
    /// `None` if the document has no such path.
    pub(super) fn of_rows(document: &Value, path: &str, lists: RowLists) -> Option<Self> {
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
        let mut columns = Vec::new();
        flatten(document, "", &fields, &mut columns);
        let rank = |name: &String| FIRST.split(' ').position(|first| first == name);
        columns.sort_by_key(|(name, _)| (rank(name).unwrap_or(usize::MAX), name.clone()));
        Some(Self(columns))
    }
}

fn flatten(
    document: &Value,
    prefix: &str,
    fields: &SchemaFields<'_>,
    columns: &mut Vec<(String, ColumnType)>,
) {
    for (name, schema) in fields {
        let name = format!("{prefix}{name}");
        match properties(document, schema) {
            Some(nested) => flatten(document, &format!("{name}."), &nested, columns),
            None => columns.push((name, type_of(schema))),
        }
    }
}

/// The fields of an object.
fn properties<'a>(document: &'a Value, schema: &'a Value) -> Option<SchemaFields<'a>> {
    let fields = schema.get("properties")?.as_object()?.iter();
    Some(
        fields
            .map(|(name, schema)| (name.clone(), resolve(document, schema)))
            .collect(),
    )
}

/// A schema, or the one that it refers to.
fn resolve<'a>(document: &'a Value, mut schema: &'a Value) -> &'a Value {
    while let Some(pointer) = schema["$ref"].as_str() {
        let found = document.pointer(pointer.trim_start_matches('#'));
        schema = found.unwrap_or(&Value::Null);
    }
    schema
}

fn type_of(schema: &Value) -> ColumnType {
    match () {
        () if is_type(schema, "integer") => ColumnType::Integer,
        () if is_type(schema, "number") => ColumnType::Number,
        () if is_type(schema, "boolean") => ColumnType::Boolean,
        () => ColumnType::Text,
    }
}

/// Whether a schema has a type, alone or among others, such as `null`.
fn is_type(schema: &Value, name: &str) -> bool {
    let types = &schema["type"];
    types == name
        || types
            .as_array()
            .is_some_and(|types| types.contains(&name.into()))
}
