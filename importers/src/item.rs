//! [`Item`]: the outcome of a piece of a file, and [`Location`]: where that piece is.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use events::{Envelope, Event, Moment, ParseError, cut_reason};

/// The items of an import, in the order of the files.
pub type Items = Box<dyn Iterator<Item = Item> + Send>;

/// The outcome of a piece of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Item {
    /// An event, ready to be published.
    Event(Box<Envelope>),
    /// A row, a race or a file that is not imported.
    Rejected(Diagnostic),
    /// A remark about input from which nothing is lost.
    Note(Diagnostic),
    /// Values for which no event has a place.
    Omitted(Omitted),
}

/// Counts of values for which no event has a place, by the names of their columns or fields.
pub type Omitted = BTreeMap<String, u64>;

/// Adds counts to others.
pub(crate) fn add_up(counts: &mut Omitted, more: impl IntoIterator<Item = (String, u64)>) {
    for (name, count) in more {
        *counts.entry(name).or_default() += count;
    }
}

/// A message about a line of a file.
#[derive(Debug, derive_more::Display, Clone, PartialEq, Eq)]
#[display("{}{}: {reason}", file.display(), if *line > 0 { format!(":{line}") } else { String::new() })]
pub struct Diagnostic {
    /// The file or folder.
    pub file: PathBuf,
    /// The line, from 1; 0 is the whole file.
    pub line: u64,
    /// The reason of a rejection, or the text of a note.
    pub reason: String,
}

/// A line of a file.
#[derive(Debug, Clone)]
pub(crate) struct Location {
    pub(crate) file: Arc<Path>,
    /// From 1; 0 is the whole file.
    pub(crate) line: u64,
}

impl Location {
    /// A whole file or folder.
    pub(crate) fn file(path: &Path) -> Self {
        Self {
            file: path.into(),
            line: 0,
        }
    }

    pub(crate) fn at(&self, line: u64) -> Self {
        Self {
            file: Arc::clone(&self.file),
            line,
        }
    }

    pub(crate) fn rejected(&self, reason: impl ToString) -> Item {
        Item::Rejected(self.diagnostic(&reason))
    }

    pub(crate) fn note(&self, reason: impl ToString) -> Item {
        Item::Note(self.diagnostic(&reason))
    }

    fn diagnostic(&self, reason: &impl ToString) -> Diagnostic {
        Diagnostic {
            file: self.file.to_path_buf(),
            line: self.line,
            reason: cut_reason(&reason.to_string()),
        }
    }

    /// An event that was read here, with an id derived from its content; a rejection if the log would reject it.
    pub(crate) fn event(&self, format: &str, time: Moment, event: Event) -> Item {
        match Envelope::derived(&format!("railbird/import/{format}"), time, event) {
            Ok(envelope) => Item::Event(Box::new(envelope)),
            Err(error) => self.rejected(error),
        }
    }
}

/// The items about a line of a file.
pub(crate) struct LineItems {
    pub(crate) location: Location,
    pub(crate) items: Vec<Item>,
}

impl LineItems {
    pub(crate) fn new(location: Location) -> Self {
        let items = Vec::new();
        Self { location, items }
    }

    pub(crate) fn reject(&mut self, reason: impl ToString) {
        self.items.push(self.location.rejected(reason));
    }

    /// Counts values that are omitted, if there are any.
    pub(crate) fn omit(&mut self, values: Omitted) {
        let mut named = Omitted::new();
        let values = values.into_iter();
        add_up(&mut named, values.map(|(name, n)| (cut_reason(&name), n)));
        if !named.is_empty() {
            self.items.push(Item::Omitted(named));
        }
    }

    pub(crate) fn note(&mut self, reason: impl ToString) {
        self.items.push(self.location.note(reason));
    }

    pub(crate) fn event(&mut self, format: &str, time: Moment, event: Event) {
        self.items.push(self.location.event(format, time, event));
    }
}

/// What reading a piece of a file returns.
pub(crate) type Result<T, E = InputError> = std::result::Result<T, E>;

/// Why a row, an element or a line is rejected.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error, derive_more::From)]
#[error("{0}")]
#[from(String, &str)]
pub(crate) struct InputError(String);

impl From<serde_json::Error> for InputError {
    fn from(error: serde_json::Error) -> Self {
        Self(error.to_string())
    }
}

impl From<ParseError> for InputError {
    fn from(error: ParseError) -> Self {
        Self(error.to_string())
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::Location;

    #[test]
    fn a_reason_is_short_and_has_no_control_characters() {
        let reason = "\u{1b}[31m".repeat(1 << 20);
        let rejected = Location::file(Path::new("a.csv")).diagnostic(&reason);
        assert!(rejected.reason.starts_with("\\u{1b}[31m"));
        assert_eq!(rejected.reason.len(), 300);
    }
}
