//! [`Cells`]: the cells of a row by the names of their columns, as typed values.

use std::collections::HashMap;
use std::fmt::Display;
use std::str::FromStr;
use std::sync::Arc;

use csv::StringRecord;
use events::{ParseError, Text};

use crate::input::fields::NOT_KNOWN;
use crate::item::InputError;
use crate::units;

/// A row. A cell that is empty, a dash or `---`, or whose column the file does not have, is not known. Of the column
/// `off|time` the file may have either name; the first one takes precedence.
#[derive(Debug)]
pub(crate) struct Cells {
    pub(crate) columns: Arc<HashMap<String, usize>>,
    pub(crate) record: StringRecord,
}

impl Cells {
    pub(crate) fn has(&self, column: &str) -> bool {
        self.columns.contains_key(column)
    }

    fn get(&self, column: &str) -> &str {
        let at = column.split('|').find_map(|name| self.columns.get(name));
        at.and_then(|at| self.record.get(*at)).unwrap_or("").trim()
    }

    pub(crate) fn error(&self, column: &str, reason: impl Display) -> InputError {
        let name = column.split('|').find(|name| self.has(name));
        format!("{}: {reason}", name.unwrap_or(column)).into()
    }

    /// A required value.
    pub(crate) fn parsed<T>(
        &self,
        column: &str,
        parse: impl FnOnce(&str) -> Result<T, ParseError>,
    ) -> Result<T, InputError> {
        parse(self.get(column)).map_err(|error| self.error(column, error))
    }

    pub(crate) fn optional<T>(
        &self,
        column: &str,
        parse: impl FnOnce(&str) -> Result<T, ParseError>,
    ) -> Result<Option<T>, InputError> {
        match self.get(column) {
            "" | "-" | "–" | NOT_KNOWN => Ok(None),
            _ => self.parsed(column, parse).map(Some),
        }
    }

    /// The first value in some columns that is known.
    pub(crate) fn first<T>(
        &self,
        columns: &[&str],
        parse: impl Fn(&str) -> Result<T, ParseError>,
    ) -> Result<Option<T>, InputError> {
        let mut values = columns.iter().map(|column| self.optional(column, &parse));
        values.find_map(Result::transpose).transpose()
    }

    /// A text, empty where it is not known.
    pub(crate) fn text(&self, column: &str) -> Result<Text, InputError> {
        Ok(self.optional(column, Text::parse)?.unwrap_or_default())
    }

    /// A whole number, which may be written `12.0`.
    pub(crate) fn whole<T: FromStr>(&self, column: &str) -> Result<Option<T>, InputError> {
        self.optional(column, |text| {
            units::whole(text.strip_suffix(".0").unwrap_or(text))
                .ok_or_else(|| ParseError::new("a whole number in its range", text))
        })
    }
}
