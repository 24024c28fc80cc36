//! Importers: files that people already have, read as events, with every refusal named by file and line.
//!
//! Reading alone: nothing here publishes. An importer never stops at bad input: it hands out [`Item::Refused`] and
//! goes on. The same files give the same events under the same ids, so importing twice changes nothing.

mod betfair;
mod hkjc;
mod horses_csv;
mod ids;
mod input;
mod join;
mod names;
mod placing;
mod rpscrape;
#[cfg(test)]
mod testing;
mod units;

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use events::{Envelope, Event, Moment, ParseError, RacingDate};
use jiff::tz::Offset;

pub use betfair::BetfairStream;
pub use hkjc::cards::hkjc_cards;
pub use hkjc::csv::hkjc_csv;
pub use hkjc::zh_horses::hkjc_zh_horses;
pub use hkjc::zh_results::hkjc_zh_results;
pub use horses_csv::horses_csv;
pub use join::hkjc_results;
pub use rpscrape::rpscrape;

/// What an importer hands out, in the order of the files.
pub type Items = Box<dyn Iterator<Item = Item> + Send>;

/// What came of a piece of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Item {
    /// A fact, ready to be published.
    Event(Box<Envelope>),
    /// A row, a race or a file that was refused: something is lost.
    Refused(Refused),
    /// A thing worth saying that lost nothing.
    Note(Refused),
}

/// Where in the input something is wrong, and what.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub struct Refused {
    /// The file or folder.
    pub file: PathBuf,
    /// The line, from 1; 0 is the whole file.
    pub line: u64,
    /// What is wrong.
    pub reason: String,
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line {
            0 => write!(f, "{}: {}", self.file.display(), self.reason),
            line => write!(f, "{}:{line}: {}", self.file.display(), self.reason),
        }
    }
}

/// A line of a file, to which a refusal or a note can be pinned.
#[derive(Debug, Clone)]
struct Location {
    file: Arc<Path>,
    line: u64,
}

impl Location {
    fn whole(file: &Path) -> Self {
        Self {
            file: file.into(),
            line: 0,
        }
    }

    fn at(&self, line: u64) -> Self {
        Self {
            file: Arc::clone(&self.file),
            line,
        }
    }

    fn refused(&self, reason: impl ToString) -> Item {
        Item::Refused(self.because(&reason))
    }

    fn note(&self, reason: impl ToString) -> Item {
        Item::Note(self.because(&reason))
    }

    fn because(&self, reason: &impl ToString) -> Refused {
        Refused {
            file: self.file.to_path_buf(),
            line: self.line,
            reason: reason.to_string(),
        }
    }
}

/// Wraps a fact, and holds it to the rules of the log here, where file and line are still known.
fn sealed(format: &str, time: Moment, event: Event, place: &Location) -> Item {
    match Envelope::derived(&format!("railbird/import/{format}"), time, event) {
        Ok(envelope) => Item::Event(Box::new(envelope)),
        Err(error) => place.refused(error),
    }
}

/// A clock time in Hong Kong, which has kept UTC+8 without summer time since 1979.
fn hong_kong(date: RacingDate, hour: i8, minute: i8) -> Result<Moment, ParseError> {
    Offset::constant(8)
        .to_timestamp(date.civil().at(hour, minute, 0, 0))
        .map(Moment::from)
        .map_err(|_| ParseError::new("a time that the clock can show", date))
}
