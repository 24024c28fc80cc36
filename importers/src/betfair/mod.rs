//! Stream files of the Betfair exchange: JSON lines of market change messages, plain or packed.
//!
//! The files are read twice, line by line: first for the definitions of all markets, which identify the races, then
//! for the events.

mod market;
mod message;
mod races;
mod unpack;

#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use events::RaceNumber;
use serde::de::IgnoredAny;

use self::market::Market;
use self::message::{MarketChange, MarketMessage};
use self::races::{MarketMeaning, MarketRaces, MarketSurvey};
use self::unpack::{Damage, Unpacked};
use crate::input::files;
use crate::input::lines::{LineFault, LineRules, Lines, TextLine};
use crate::item::{InputError, Item, Items, LineItems, Location};

/// A message with the full images of some hundred markets has a few MB.
const LINES: LineRules = LineRules {
    cr_ends: false,
    bytes_max: 16 * 1024 * 1024,
};

/// The stream files that some paths name.
#[derive(Debug)]
pub struct BetfairStream {
    files: Vec<PathBuf>,
    items: Vec<Item>,
}

impl BetfairStream {
    /// Finds the named files, and all files in named folders.
    #[must_use]
    pub fn find(paths: &[PathBuf]) -> Self {
        let (files, items) = files::find(paths, &[]);
        Self { files, items }
    }

    /// The number of files.
    #[must_use]
    pub fn count(&self) -> usize {
        self.files.len()
    }

    /// Reads all files for the first time, and returns the items of the second reading. `number` is that of the only
    /// race.
    #[must_use]
    pub fn items(self, number: Option<RaceNumber>) -> Items {
        let mut survey = MarketSurvey::default();
        let mut readable = Vec::new();
        let mut items = self.items;
        for path in self.files {
            match survey_file(&path, &mut survey) {
                Ok(()) => readable.push(path),
                Err(reason) => items.push(Location::file(&path).rejected(reason)),
            }
        }
        let races = Arc::new(survey.finish(number));
        let events = readable.into_iter().flat_map(move |path| -> Items {
            match FileReader::open(&path, Arc::clone(&races)) {
                Ok(mut reader) => Box::new(std::iter::from_fn(move || reader.step()).flatten()),
                Err(error) => Box::new(std::iter::once(Location::file(&path).rejected(error))),
            }
        });
        Box::new(items.into_iter().chain(events))
    }
}

/// Adds the markets of a file. Invalid lines are rejected by the second reading.
fn survey_file(path: &Path, survey: &mut MarketSurvey) -> Result<(), InputError> {
    let mut unpacked = Unpacked::open(path).map_err(|error| error.to_string())?;
    if let Some(archive) = unpacked.archive() {
        return Err(format!("a {archive} archive: unpack it first").into());
    }
    let mut lines = Lines::new(unpacked, LINES);
    let mut is_stream = None;
    while let Some(TextLine { text, fault, .. }) = lines.next_filled() {
        match fault {
            None => {
                is_stream.get_or_insert(text.trim_ascii_start().starts_with(b"{"));
                if let Ok(Some((_, changes))) = MarketMessage::read(&text) {
                    changes.iter().for_each(|change| survey.add(change));
                }
            }
            Some(LineFault::Unreadable(error)) if damages_the_whole_file(&error) => {
                return Err(error.to_string().into());
            }
            Some(_) => is_stream = is_stream.or(Some(true)),
        }
    }
    match is_stream {
        Some(true) => Ok(()),
        Some(false) => Err("not a stream file: its first line is not a JSON object".into()),
        None => Err("the file is empty".into()),
    }
}

fn damages_the_whole_file(error: &io::Error) -> bool {
    let damage = error.get_ref().and_then(|error| error.downcast_ref());
    matches!(damage, Some(Damage::Somewhere { .. }))
}

/// Whether a text is the beginning of a JSON value.
fn is_cut_off(text: &[u8]) -> bool {
    let value: Result<IgnoredAny, _> = serde_json::from_slice(text);
    value.is_err_and(|error| error.is_eof())
}

/// Reads the events of a file.
struct FileReader {
    lines: Lines<Unpacked>,
    file: Location,
    races: Arc<MarketRaces>,
    /// The markets so far; `None` for one that is not read.
    markets: HashMap<String, Option<Market>>,
}

impl FileReader {
    fn open(path: &Path, races: Arc<MarketRaces>) -> io::Result<Self> {
        Ok(Self {
            lines: Lines::new(Unpacked::open(path)?, LINES),
            file: Location::file(path),
            races,
            markets: HashMap::new(),
        })
    }

    /// The items of one more line; behind the last one, notes about markets that are still open.
    fn step(&mut self) -> Option<Vec<Item>> {
        if let Some(line) = self.lines.next_filled() {
            let mut out = LineItems::new(self.file.at(line.number));
            self.line(&line, &mut out);
            return Some(out.items);
        }
        let markets = std::mem::take(&mut self.markets).into_values().flatten();
        let mut notes: Vec<String> = markets.flat_map(|market| market.notes()).collect();
        notes.sort();
        (!notes.is_empty()).then(|| notes.iter().map(|note| self.file.note(note)).collect())
    }

    fn line(&mut self, line: &TextLine, out: &mut LineItems) {
        let message = match &line.fault {
            None => MarketMessage::read(&line.text),
            Some(LineFault::Unreadable(error)) => Err(error.to_string().into()),
            Some(fault) => Err(fault.to_string().into()),
        };
        match message {
            Ok(Some((time, changes))) => {
                for change in &changes {
                    if let Some(market) = self.market(change, out) {
                        market.apply(change, time, out);
                    }
                }
            }
            Ok(None) => {}
            Err(_) if line.is_unended && line.fault.is_none() && is_cut_off(&line.text) => {
                let end = self.lines.file().offset();
                out.reject(format!(
                    "the file ends in the middle of this line, at byte {end}"
                ));
            }
            Err(reason) => out.reject(reason),
        }
    }

    /// The market of a change, if it is one that is read. Its first change is noted or rejected if it is not read.
    fn market(&mut self, change: &MarketChange<'_>, out: &mut LineItems) -> Option<&mut Market> {
        let id = &*change.id;
        if !self.markets.contains_key(id) {
            let market = match self.races.meaning(id) {
                Some(MarketMeaning::Race(race)) => {
                    if let Some(note) = &race.note {
                        out.note(note);
                    }
                    Some(Market::new(id, race.clone()))
                }
                Some(MarketMeaning::Other(kind)) => {
                    out.note(format!("market {id} is not read: {kind}"));
                    None
                }
                Some(MarketMeaning::NoVenue) => {
                    out.reject(format!("market {id}: none of its definitions has a venue"));
                    None
                }
                Some(MarketMeaning::Rejected(reason)) => {
                    out.reject(format!("market {id}: {reason}"));
                    None
                }
                None => {
                    out.reject(self.races.unknown(change));
                    return None;
                }
            };
            self.markets.insert(id.to_owned(), market);
        }
        self.markets.get_mut(id)?.as_mut()
    }
}
