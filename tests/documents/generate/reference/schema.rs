//! JSON Schemas of a document as Markdown: tables of fields, and the types that they name.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use serde_json::Value;

use crate::http::pages::docs::markdown::slug;

/// Patterns up to this length are shown. Longer ones, such as that of a date, say less than the name of the format.
const PATTERN_CHARS_MAX: usize = 40;

/// Writes the schemas of a document, and remembers the types that they name.
#[derive(Debug)]
pub(super) struct SchemaWriter<'a> {
    document: &'a Value,
    named: BTreeSet<String>,
}

impl<'a> SchemaWriter<'a> {
    pub(super) fn new(document: &'a Value) -> Self {
        let named = BTreeSet::new();
        Self { document, named }
    }

    /// A part of the document, or that which it refers to.
    pub(super) fn resolve(&self, part: &'a Value) -> &'a Value {
        let Some(reference) = part["$ref"].as_str() else {
            return part;
        };
        let target = self.document.pointer(reference.trim_start_matches('#'));
        target.map_or(part, |target| self.resolve(target))
    }

    /// Writes the fields of an object, or what another schema allows.
    pub(super) fn write(&mut self, out: &mut String, schema: &'a Value) {
        let mut rows = String::new();
        self.rows(&mut rows, "", schema);
        if !rows.is_empty() {
            out.push_str("| field | type | |\n|---|---|---|\n");
            out.push_str(&rows);
            out.push('\n');
            return;
        }
        let resolved = self.resolve(schema);
        let variants = alternatives(resolved);
        if variants.iter().all(|variant| variant["const"].is_string()) && !variants.is_empty() {
            for variant in variants {
                let _ = writeln!(
                    out,
                    "- `{}`: {}",
                    text(&variant["const"]),
                    line(&variant["description"])
                );
            }
            out.push('\n');
            return;
        }
        let _ = writeln!(out, "{}\n", self.type_of(resolved));
    }

    /// Writes a row for each field, those of objects without a name included.
    fn rows(&mut self, out: &mut String, prefix: &str, schema: &'a Value) {
        for (name, field, is_required) in self.fields(schema) {
            let path = format!("{prefix}{name}");
            let kind = self.type_of(field);
            let optional = if is_required { "" } else { ", optional" };
            let about = [line(&field["description"]), constraints(field)];
            let about: Vec<String> = about.into_iter().filter(|part| !part.is_empty()).collect();
            let about = about.join(" ");
            let _ = writeln!(
                out,
                "| `{path}` | {}{optional} | {} |",
                cell(&kind),
                cell(&about)
            );
            if field["properties"].is_object() || field["allOf"].is_array() {
                self.rows(out, &format!("{path}."), field);
            } else if field["items"]["properties"].is_object() || field["items"]["allOf"].is_array()
            {
                self.rows(out, &format!("{path}[]."), &field["items"]);
            }
        }
    }

    /// The fields of an object and of all that it is composed of, with whether they are required.
    fn fields(&self, schema: &'a Value) -> Vec<(&'a str, &'a Value, bool)> {
        let schema = self.resolve(schema);
        let required: Vec<&str> = array(&schema["required"])
            .iter()
            .filter_map(Value::as_str)
            .collect();
        let properties = schema["properties"].as_object().into_iter().flatten();
        let own = properties
            .map(|(name, field)| (name.as_str(), field, required.contains(&name.as_str())));
        let mut fields: Vec<_> = array(&schema["allOf"])
            .iter()
            .flat_map(|part| self.fields(part))
            .chain(own)
            .collect();
        // A part may say no more than that a field of another part is required.
        fields.sort_by_key(|(name, _, is_required)| (*name, !is_required));
        fields.dedup_by_key(|(name, ..)| *name);
        fields
    }

    fn type_of(&mut self, schema: &'a Value) -> String {
        if let Some(name) = schema["$ref"]
            .as_str()
            .and_then(|path| path.rsplit('/').next())
        {
            self.named.insert(name.to_owned());
            return format!("[{name}](#{})", slug(name));
        }
        if let Some(constant) = schema.get("const") {
            return format!("`{}`", text(constant));
        }
        if let Some(values) = schema["enum"].as_array() {
            let values: Vec<String> = values
                .iter()
                .map(|value| format!("`{}`", text(value)))
                .collect();
            return values.join(", ");
        }
        let variants = alternatives(schema);
        if !variants.is_empty() {
            let variants: Vec<String> = variants
                .into_iter()
                .map(|variant| self.type_of(variant))
                .collect();
            return variants.join(" or ");
        }
        if let ([part], true) = (array(&schema["allOf"]), schema["properties"].is_null()) {
            return self.type_of(part);
        }
        let types = match &schema["type"] {
            Value::Array(types) => types.iter().map(text).collect(),
            Value::Null if schema["properties"].is_object() || schema["allOf"].is_array() => {
                vec!["object".to_owned()]
            }
            Value::Null => vec!["any".to_owned()],
            one => vec![text(one)],
        };
        let mut kind = types.join(" or ");
        if let Some(items) = schema.get("items") {
            kind = format!("array of {}", self.type_of(items));
        }
        match schema["format"].as_str() {
            Some(format) => format!("{kind}, {format}"),
            None => kind,
        }
    }

    /// Writes the types that were named so far, and those that they name.
    pub(super) fn write_named(&mut self, out: &mut String) {
        if self.named.is_empty() {
            return;
        }
        let schemas = &self.document["components"]["schemas"];
        let mut written = BTreeSet::new();
        let mut parts = Vec::new();
        while let Some(name) = self.named.difference(&written).next().cloned() {
            let schema = &schemas[&name];
            let mut part = format!("### {name}\n\n");
            for about in [line(&schema["description"]), constraints(schema)] {
                if !about.is_empty() {
                    let _ = writeln!(part, "{about}\n");
                }
            }
            self.write(&mut part, schema);
            parts.push((name.clone(), part));
            written.insert(name);
        }
        parts.sort();
        out.push_str("## Types\n\n");
        out.extend(parts.into_iter().map(|(_, part)| part));
    }
}

/// The schemas of which a value meets one.
fn alternatives(schema: &Value) -> Vec<&Value> {
    let of = |name: &str| array(&schema[name]).iter();
    // Conditions that only constrain fields are no types of their own.
    of("oneOf")
        .chain(of("anyOf"))
        .filter(|part| part["required"].is_null() || !part["properties"].is_null())
        .collect()
}

pub(super) fn array(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

/// A value as text: a string without its quotes.
pub(super) fn text(value: &Value) -> String {
    value
        .as_str()
        .map_or_else(|| value.to_string(), str::to_owned)
}

/// A text on one line; empty if there is none.
pub(super) fn line(value: &Value) -> String {
    let text = value.as_str().unwrap_or_default();
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Text as a cell of a table.
pub(super) fn cell(text: &str) -> String {
    text.replace('|', "\\|")
}

/// The bounds, the pattern and the default of a value, in words.
pub(super) fn constraints(schema: &Value) -> String {
    let mut found = Vec::new();
    let bounds = [
        ("minimum", "maximum", ""),
        ("minLength", "maxLength", " characters"),
        ("minItems", "maxItems", " items"),
    ];
    for (minimum, maximum, unit) in bounds {
        found.extend(match (&schema[minimum], &schema[maximum]) {
            (Value::Null, Value::Null) => None,
            (least, Value::Null) => Some(format!("At least {least}{unit}.")),
            (Value::Null, most) => Some(format!("At most {most}{unit}.")),
            (least, most) => Some(format!("{least} to {most}{unit}.")),
        });
    }
    let pattern = schema["pattern"].as_str();
    let pattern = pattern.filter(|pattern| pattern.chars().count() <= PATTERN_CHARS_MAX);
    found.extend(pattern.map(|pattern| format!("Pattern: `{pattern}`.")));
    found.extend(
        schema
            .get("default")
            .map(|default| format!("Default: `{}`.", text(default))),
    );
    found.join(" ")
}
