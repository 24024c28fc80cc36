//! [`Cells`]: the cells of a row by the names of their columns, as typed values.

use std::collections::HashMap;
use std::fmt::Display;
use std::str::FromStr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use csv::StringRecord;
use events::{ParseError, Text, cut_reason};

use crate::input::fields::NOT_KNOWN;
use crate::item::{InputError, Omitted, Result};
use crate::units;

/// The columns of a file.
pub(crate) struct Columns {
    pub(crate) names: Vec<String>,
    by_name: HashMap<String, usize>,
    /// Whether the importer has asked for the column.
    read: Vec<AtomicBool>,
}

impl Columns {
    pub(crate) fn new(names: Vec<String>) -> Self {
        Self {
            by_name: names.iter().cloned().zip(0..).collect(),
            read: names.iter().map(|_| AtomicBool::new(false)).collect(),
            names,
        }
    }

    pub(crate) fn has(&self, name: &str) -> bool {
        self.by_name.contains_key(name)
    }

    /// The counts of known cells, of the columns that nobody has asked for.
    pub(crate) fn omitted(&self, known: &[u64]) -> Omitted {
        let columns = self.names.iter().zip(&self.read).zip(known);
        let omitted = columns.filter(|((_, read), known)| !read.load(Relaxed) && **known > 0);
        let shown = |name: &str| match name {
            "" => "(unnamed)".to_owned(),
            name => cut_reason(name),
        };
        let omitted = omitted.map(|((name, _), known)| (shown(name), *known));
        omitted.collect()
    }
}

/// A row. A cell that is empty, a dash or `---`, or whose column the file does not have, is not known. Of the column
/// `off|time` the file may have either name; the first one takes precedence.
pub(crate) struct Cells {
    pub(crate) columns: Arc<Columns>,
    pub(crate) record: StringRecord,
}

impl Cells {
    pub(crate) fn has(&self, column: &str) -> bool {
        self.columns.has(column)
    }

    fn get(&self, column: &str) -> &str {
        let mut names = column.split('|');
        let at = names.find_map(|name| self.columns.by_name.get(name).copied());
        if let Some(at) = at {
            self.columns.read[at].store(true, Relaxed);
        }
        at.and_then(|at| self.record.get(at)).unwrap_or("").trim()
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
    ) -> Result<T> {
        parse(self.get(column)).map_err(|error| self.error(column, error))
    }

    pub(crate) fn optional<T>(
        &self,
        column: &str,
        parse: impl FnOnce(&str) -> Result<T, ParseError>,
    ) -> Result<Option<T>> {
        match self.get(column) {
            text if !is_known(text) => Ok(None),
            _ => self.parsed(column, parse).map(Some),
        }
    }

    /// Counts the cells that are known, by column.
    pub(crate) fn count_known(&self, known: &mut Vec<u64>) {
        known.resize(self.columns.names.len(), 0);
        for (count, cell) in known.iter_mut().zip(&self.record) {
            *count += u64::from(is_known(cell.trim()));
        }
    }

    /// The first value in some columns that is known.
    pub(crate) fn first<T>(
        &self,
        columns: &[&str],
        parse: impl Fn(&str) -> Result<T, ParseError>,
    ) -> Result<Option<T>> {
        let values = columns.iter().map(|column| self.optional(column, &parse));
        first(values.collect::<Vec<_>>())
    }

    /// A text, empty where it is not known.
    pub(crate) fn text(&self, column: &str) -> Result<Text> {
        Ok(self.optional(column, Text::parse)?.unwrap_or_default())
    }

    /// A whole number, which may be written `12.0`.
    pub(crate) fn whole<T: FromStr>(&self, column: &str) -> Result<Option<T>> {
        self.optional(column, |text| {
            units::whole(text.strip_suffix(".0").unwrap_or(text))
                .ok_or_else(|| ParseError::new("a whole number in its range", text))
        })
    }
}

/// The first value that is known of columns that state the same. The others have been read, too.
pub(crate) fn first<T>(values: impl IntoIterator<Item = Result<Option<T>>>) -> Result<Option<T>> {
    values.into_iter().find_map(Result::transpose).transpose()
}

fn is_known(cell: &str) -> bool {
    !["", "-", "–", NOT_KNOWN].contains(&cell)
}
