//! [`Cells`]: the cells of a row by the names of their columns, as typed values.

use std::collections::HashMap;
use std::str::FromStr;
use std::sync::Arc;

use csv::StringRecord;
use events::{ParseError, Text};

use crate::input::fields::NOT_KNOWN;
use crate::item::InputError;

/// A row. A cell that is empty, a dash or `---`, or whose column the file does not have, is not known.
#[derive(Debug)]
pub(crate) struct Cells {
    pub(crate) columns: Arc<HashMap<String, usize>>,
    pub(crate) record: StringRecord,
}

impl Cells {
    fn get(&self, column: &str) -> &str {
        let at = self.columns.get(column);
        at.and_then(|at| self.record.get(*at)).unwrap_or("").trim()
    }

    /// A required value.
    pub(crate) fn parsed<T>(
        &self,
        column: &str,
        parse: impl FnOnce(&str) -> Result<T, ParseError>,
    ) -> Result<T, InputError> {
        parse(self.get(column)).map_err(|error| format!("{column}: {error}").into())
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

    /// A text, empty where it is not known.
    pub(crate) fn text(&self, column: &str) -> Result<Text, InputError> {
        Ok(self.optional(column, Text::parse)?.unwrap_or_default())
    }

    /// A whole number, which may be written `12.0`.
    pub(crate) fn whole<T: FromStr>(&self, column: &str) -> Result<Option<T>, InputError> {
        self.optional(column, |text| {
            let digits = text.strip_suffix(".0").unwrap_or(text);
            let plain = digits.bytes().all(|b| b.is_ascii_digit());
            let number = if plain { digits.parse().ok() } else { None };
            number.ok_or_else(|| ParseError::new("a whole number in its range", text))
        })
    }
}
