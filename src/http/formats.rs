//! [`Accepted`]: the formats in which a request accepts its answer: JSON, and the rows of a list as NDJSON or CSV.

use std::borrow::Cow;
use std::collections::HashMap;
use std::fmt;

use axum::http::header::ACCEPT;
use axum::http::{HeaderMap, HeaderValue};
use serde::de::{Deserialize, Deserializer, MapAccess, Visitor};
use serde_json::value::RawValue;

use super::error::ApiError;
use super::header_list::elements;

/// The lists that have the rows of an answer, level by level: lists of the answer, and lists of their objects.
pub(crate) type RowLists = &'static [&'static [&'static str]];

/// A row of races is a runner.
pub(crate) const RACES: RowLists = &[&["races"], &["runners", "unplaced", "withdrawn"]];
pub(crate) const FORM: RowLists = &[&["form", "unplaced"]];
/// The lists of answers that have one list.
const LISTS: &str = "changes steps moves history horses meetings revisions jockeys trainers owners \
    venues rides groups movers";
/// The field of a row that names its list, where an answer has several.
pub(crate) const LIST: &str = "list";
/// The fields about the next page, which `Link` has.
pub(crate) const OF_PAGE: [&str; 2] = ["more", "next"];

/// The format of the body of an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum BodyFormat {
    Json,
    NdJson,
    Csv,
    Parquet,
}

impl BodyFormat {
    /// Those of lists. The last one is chosen of those that a client accepts equally.
    const OF_LISTS: [Self; 3] = [Self::Csv, Self::NdJson, Self::Json];
    /// Those of files, in the same order.
    const OF_FILES: [Self; 3] = [Self::NdJson, Self::Csv, Self::Parquet];

    /// The media type, and the ranges that it is in.
    fn media_ranges(self) -> [&'static str; 3] {
        match self {
            Self::Json => ["application/json", "application/*", "*/*"],
            Self::NdJson => ["application/x-ndjson", "application/*", "*/*"],
            Self::Csv => ["text/csv", "text/*", "*/*"],
            Self::Parquet => ["application/vnd.apache.parquet", "application/*", "*/*"],
        }
    }

    pub(super) fn content_type(self) -> HeaderValue {
        HeaderValue::from_static(match self {
            Self::Csv => "text/csv; charset=utf-8; header=present",
            _ => self.media_ranges()[0],
        })
    }

    /// How much a client accepts it: the weight of the most specific range of `Accept`, and how specific that is.
    /// `None` if it does not (RFC 9110, 12.5.1).
    fn preference(self, accept: &[(&str, u32)]) -> Option<(u32, usize)> {
        let ranges = self.media_ranges().into_iter().zip([2, 1, 0]);
        let mut weights = ranges.filter_map(|(range, specificity)| {
            let mut named = accept.iter();
            let (_, weight) = named.find(|(name, _)| name.eq_ignore_ascii_case(range))?;
            Some((*weight, specificity))
        });
        weights.next().filter(|(weight, _)| *weight > 0)
    }
}

/// The media ranges of `Accept`, with their weights in thousandths.
fn accepted_ranges(headers: &HeaderMap) -> Vec<(&str, u32)> {
    let ranges = elements(headers, ACCEPT).map(|(name, mut parameters)| {
        let weight = parameters.find_map(|it| it.strip_prefix("q=")?.parse::<f32>().ok());
        (name, (weight.unwrap_or(1.0) * 1000.0).round() as u32)
    });
    ranges.filter(|(name, _)| !name.is_empty()).collect()
}

/// The formats that a request accepts.
#[derive(Debug, Clone, Copy)]
pub(super) struct Accepted {
    /// The best one of a list.
    of_list: Option<BodyFormat>,
    /// The best one of a file.
    pub(super) of_file: Option<BodyFormat>,
    /// Whether other answers are accepted.
    json: bool,
}

impl Accepted {
    /// Those of a request that accepts anything.
    const ALL: Self = Self {
        of_list: Some(BodyFormat::Json),
        of_file: Some(BodyFormat::Parquet),
        json: true,
    };

    /// # Errors
    /// Returns [`ApiError::NotAcceptable`] if it accepts none.
    pub(super) fn of(headers: &HeaderMap) -> Result<Self, ApiError> {
        // As most programs send it.
        if headers.get(ACCEPT).is_none_or(|ranges| ranges == "*/*") {
            return Ok(Self::ALL);
        }
        let accept = accepted_ranges(headers);
        if accept.is_empty() {
            return Ok(Self::ALL);
        }
        let preference = |format: &BodyFormat| format.preference(&accept);
        let best = |formats: [BodyFormat; 3]| {
            let accepted = formats.into_iter();
            let accepted = accepted.filter(|format| preference(format).is_some());
            accepted.max_by_key(preference)
        };
        let [of_list, of_file] = [BodyFormat::OF_LISTS, BodyFormat::OF_FILES].map(best);
        if of_list.or(of_file).is_none() {
            return Err(ApiError::NotAcceptable);
        }
        Ok(Self {
            of_list,
            of_file,
            json: preference(&BodyFormat::Json).is_some(),
        })
    }

    /// The body of an answer that is rendered as JSON, and its format.
    ///
    /// # Errors
    /// Returns [`ApiError::NotAcceptable`] if it is not a list, and no JSON is accepted.
    pub(super) fn body(self, json: Vec<u8>) -> Result<(BodyFormat, Vec<u8>), ApiError> {
        let of_list = self.of_list.ok_or(ApiError::NotAcceptable)?;
        if of_list == BodyFormat::Json {
            return Ok((BodyFormat::Json, json));
        }
        let answer: RowFields<'_> = serde_json::from_slice(&json)?;
        let has = |list: &str| answer.get(list).is_some();
        let rows = match LISTS.split(' ').find(|list| has(list)) {
            _ if has("races") => answer.rows(RACES)?,
            _ if has("form") => answer.rows(FORM)?,
            Some(list) => answer.rows(&[&[list]])?,
            None if self.json => return Ok((BodyFormat::Json, json)),
            None => return Err(ApiError::NotAcceptable),
        };
        let body = match of_list {
            BodyFormat::Csv => csv(&rows).map_err(ApiError::internal)?,
            _ => rows.iter().flat_map(RowFields::line).collect(),
        };
        Ok((of_list, body))
    }
}

/// The fields of an object in their order, with their values as JSON.
#[derive(Debug, Default, Clone)]
pub(crate) struct RowFields<'a>(Vec<(String, Cow<'a, str>)>);

impl<'a> RowFields<'a> {
    /// The value of a field, JSON.
    pub(crate) fn get(&self, name: &str) -> Option<&Cow<'a, str>> {
        let field = self.0.iter().find(|(known, _)| known == name);
        field.map(|(_, value)| value)
    }

    /// The rows of an answer.
    ///
    /// # Errors
    /// Returns an error if a list has anything but objects.
    pub(crate) fn rows(&self, lists: &[&[&str]]) -> serde_json::Result<Vec<Self>> {
        let mut rows = vec![self.clone()];
        for lists in lists {
            // Races in which two horses are compared have no runners.
            let has_lists = |row: &Self| lists.iter().any(|list| row.get(list).is_some());
            if !rows.iter().any(has_lists) {
                break;
            }
            let of_rows: Result<Vec<_>, _> = rows.iter().map(|row| row.rows_of(lists)).collect();
            rows = of_rows?.into_iter().flatten().collect();
        }
        Ok(rows)
    }

    /// The rows of lists, behind the other fields that are no lists. A field of the row replaces one of its name.
    fn rows_of(&self, lists: &[&str]) -> serde_json::Result<Vec<Self>> {
        let mut rows = Vec::new();
        for list in lists {
            let Some(Cow::Borrowed(json)) = self.get(list) else {
                continue;
            };
            for row in serde_json::from_str::<Vec<RowFields<'a>>>(json)? {
                let around = self.0.iter().filter(|(name, value)| {
                    !value.starts_with('[') && !OF_PAGE.contains(&name.as_str())
                });
                let mut fields: Vec<_> = around.cloned().collect();
                if lists.len() > 1 {
                    fields.push((LIST.to_owned(), format!("\"{list}\"").into()));
                }
                for field in row.0 {
                    match fields.iter_mut().find(|(name, _)| *name == field.0) {
                        Some(replaced) => *replaced = field,
                        None => fields.push(field),
                    }
                }
                rows.push(Self(fields));
            }
        }
        Ok(rows)
    }

    /// The object on a line.
    pub(crate) fn line(&self) -> Vec<u8> {
        let fields = self.0.iter();
        let fields = fields.map(|(name, value)| format!("{}:{value}", serde_json::json!(name)));
        format!("{{{}}}\n", fields.collect::<Vec<_>>().join(",")).into()
    }

    /// The names and texts of the columns. A column of a nested object has both names.
    ///
    /// # Errors
    /// Returns an error if a value is not JSON.
    pub(crate) fn columns(&self) -> serde_json::Result<Vec<(String, String)>> {
        let mut columns = Vec::new();
        for (name, value) in &self.0 {
            let text = match value.as_bytes().first() {
                Some(b'{') => {
                    let nested: RowFields<'_> = serde_json::from_str(value)?;
                    let nested = nested.columns()?.into_iter();
                    columns.extend(nested.map(|(inner, text)| (format!("{name}.{inner}"), text)));
                    continue;
                }
                Some(b'"') => serde_json::from_str(value)?,
                _ if value == "null" => String::new(),
                _ => value.to_string(),
            };
            columns.push((name.clone(), text));
        }
        Ok(columns)
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for RowFields<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Object;
        impl<'de> Visitor<'de> for Object {
            type Value = RowFields<'de>;

            fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                formatter.write_str("an object")
            }

            fn visit_map<M: MapAccess<'de>>(self, mut map: M) -> Result<Self::Value, M::Error> {
                let mut fields = Vec::new();
                while let Some((name, value)) = map.next_entry::<String, &RawValue>()? {
                    fields.push((name, value.get().into()));
                }
                Ok(RowFields(fields))
            }
        }
        deserializer.deserialize_map(Object)
    }
}

/// Rows as RFC 4180 has them, under the names of the columns that any of them has.
fn csv(rows: &[RowFields<'_>]) -> Result<Vec<u8>, Box<dyn std::error::Error>> {
    let records = rows.iter().map(RowFields::columns);
    let records = records.collect::<Result<Vec<_>, _>>()?;
    let mut names = Vec::new();
    let mut indices = HashMap::new();
    for (name, _) in records.iter().flatten() {
        indices.entry(name.as_str()).or_insert_with(|| {
            names.push(name.as_str());
            names.len() - 1
        });
    }
    let mut writer = csv::WriterBuilder::new();
    let mut writer = writer
        .terminator(csv::Terminator::CRLF)
        .from_writer(Vec::new());
    if !names.is_empty() {
        writer.write_record(&names)?;
    }
    for record in &records {
        let mut texts = vec![""; names.len()];
        for (name, text) in record {
            texts[indices[name.as_str()]] = text;
        }
        writer.write_record(texts)?;
    }
    Ok(writer.into_inner()?)
}
