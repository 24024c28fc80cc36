//! Stream files of the Betfair exchange: JSON lines of market change messages, plain or packed.
//!
//! The files are read twice, line by line: first for the definitions of all markets, which identify the races, and the
//! prices of PLACE markets, then for the events.

mod market;
mod member;
mod message;
mod place_market;
mod races;
mod unpack;

#[cfg(test)]
mod archive_tests;
#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::io::{self, BufRead};
use std::path::PathBuf;
use std::sync::Arc;

use events::{Moment, RaceNumber};
use serde::de::IgnoredAny;
use serde_json::value::RawValue;

use self::market::Market;
use self::member::MarketFile;
use self::message::{MarketChange, MarketMessage};
use self::place_market::PlaceMarkets;
use self::races::{MarketMeaning, MarketRaces, MarketSurvey};
use self::unpack::{Damage, Unpacked};
use crate::input::files;
use crate::input::lines::{LineFault, LineRules, Lines, TextLine};
use crate::item::{Item, Items, LineItems, Omitted, Result, add_up};

/// A message with the full images of some hundred markets has a few MB.
const LINES: LineRules = LineRules {
    cr_ends: false,
    bytes_max: 16 * 1024 * 1024,
};

/// The stream files that some paths name.
#[derive(Debug)]
pub struct BetfairStream {
    files: Vec<MarketFile>,
    items: Vec<Item>,
}

impl BetfairStream {
    /// Finds the named files, all files in named folders, and the members of archives.
    pub fn find(paths: &[PathBuf]) -> Self {
        let (found, mut items) = files::find(paths, &[]);
        let mut files = Vec::new();
        for path in found {
            let (read, unread) = MarketFile::at(&path);
            files.extend(read);
            items.extend(unread);
        }
        Self { files, items }
    }

    /// The number of files and members.
    pub fn count(&self) -> usize {
        self.files.len()
    }

    /// Reads all files for the first time, and returns the items of the second reading. `number` is that of the only
    /// race.
    pub fn items(self, number: Option<RaceNumber>) -> Items {
        let mut survey = MarketSurvey::default();
        let mut readable = Vec::new();
        let mut items = self.items;
        for file in self.files {
            match survey_file(&file, &mut survey) {
                Ok(()) => readable.push(file),
                Err(reason) => items.push(file.location.rejected(reason)),
            }
        }
        let races = Arc::new(survey.finish(number));
        let events = readable.into_iter().flat_map(move |file| -> Items {
            match FileReader::open(&file, Arc::clone(&races)) {
                Ok(mut reader) => Box::new(std::iter::from_fn(move || reader.step()).flatten()),
                Err(error) => Box::new(std::iter::once(file.location.rejected(error))),
            }
        });
        Box::new(items.into_iter().chain(events))
    }
}

/// Adds the markets of a file. Invalid lines are rejected by the second reading.
fn survey_file(file: &MarketFile, survey: &mut MarketSurvey) -> Result<()> {
    file.verify()?;
    let mut unpacked = file.open().map_err(|error| error.to_string())?;
    // A read error is reported below.
    if let Some(archive) = unpacked.fill_buf().ok().and_then(member::archive) {
        return Err(format!("a {archive} archive: unpack it first").into());
    }
    let mut lines = Lines::new(unpacked, LINES);
    let mut prices = PlaceMarkets::default();
    let mut is_stream = None;
    while let Some(TextLine { text, fault, .. }) = lines.next_filled() {
        match fault {
            None => {
                is_stream.get_or_insert(text.trim_ascii_start().starts_with(b"{"));
                if let Ok(Some(message)) = MarketMessage::read(&text) {
                    let changes = message.changes.iter();
                    changes
                        .filter_map(|change| MarketChange::read(change, &mut Omitted::new()).ok())
                        .for_each(|change| survey.add(&change, message.time, &mut prices));
                }
            }
            Some(LineFault::Unreadable(error)) if damages_the_whole_file(&error) => {
                return Err(error.to_string().into());
            }
            Some(_) => is_stream = is_stream.or(Some(true)),
        }
    }
    match is_stream {
        Some(true) => {
            survey.places.append(prices);
            Ok(())
        }
        Some(false) => Err("not a stream file: its first line is not a JSON object".into()),
        None => Err("the file is empty".into()),
    }
}

fn damages_the_whole_file(error: &io::Error) -> bool {
    matches!(Damage::of(error), Some(Damage::Somewhere { .. }))
}

/// Whether a text is the beginning of a JSON value.
fn is_cut_off(text: &[u8]) -> bool {
    let value: Result<IgnoredAny, _> = serde_json::from_slice(text);
    value.is_err_and(|error| error.is_eof())
}

/// Reads the events of a file.
struct FileReader {
    lines: Lines<Unpacked>,
    file: MarketFile,
    races: Arc<MarketRaces>,
    /// The markets so far; `None` for one that is not read.
    markets: HashMap<String, Option<Market>>,
    /// The names that are not read.
    omitted: Omitted,
}

impl FileReader {
    fn open(file: &MarketFile, races: Arc<MarketRaces>) -> io::Result<Self> {
        Ok(Self {
            lines: Lines::new(file.open()?, LINES),
            file: file.clone(),
            races,
            markets: HashMap::new(),
            omitted: Omitted::new(),
        })
    }

    /// The items of one more line; behind the last one, notes about markets that are still open, and what was omitted.
    fn step(&mut self) -> Option<Vec<Item>> {
        if let Some(line) = self.lines.next_filled() {
            let mut out = LineItems::new(self.file.location.at(line.number));
            self.line(&line, &mut out);
            return Some(out.items);
        }
        let markets = std::mem::take(&mut self.markets).into_values().flatten();
        let mut notes: Vec<String> = markets.flat_map(|market| market.notes()).collect();
        notes.sort();
        let mut out = LineItems::new(self.file.location.clone());
        notes.iter().for_each(|note| out.note(note));
        out.omit(std::mem::take(&mut self.omitted));
        (!out.items.is_empty()).then_some(out.items)
    }

    fn line(&mut self, line: &TextLine, out: &mut LineItems) {
        let message = match &line.fault {
            None => MarketMessage::read(&line.text),
            Some(LineFault::Unreadable(error)) => Err(error.to_string().into()),
            Some(fault) => Err(fault.to_string().into()),
        };
        match message {
            Ok(Some(message)) => {
                let mut omitted = message.omitted;
                for change in message.changes {
                    if let Err(reason) = self.change(change, message.time, &mut omitted, out) {
                        out.reject(reason);
                    }
                }
                add_up(&mut self.omitted, omitted);
            }
            Ok(None) => {}
            Err(_) if line.is_unended && line.fault.is_none() && is_cut_off(&line.text) => {
                let end = self.lines.file.offset();
                let reason = format!("the file ends in the middle of this line, at byte {end}");
                out.reject(reason);
            }
            Err(reason) => out.reject(reason),
        }
    }

    fn change(
        &mut self,
        change: &RawValue,
        time: Moment,
        omitted: &mut Omitted,
        out: &mut LineItems,
    ) -> Result<()> {
        let mut of_change = Omitted::new();
        let change = MarketChange::read(change, &mut of_change)?;
        if let Some(MarketMeaning::Place(_)) = self.races.meaning(&change.id) {
            place_market::check(&change, &mut of_change, out);
            add_up(omitted, of_change);
        } else if let Some(market) = self.market(&change, out) {
            market.apply(&change, time, &mut of_change, out);
            add_up(omitted, of_change);
        }
        Ok(())
    }

    /// The market of a change, if it is one that is read. Its first change is noted or rejected if it is not read.
    fn market(&mut self, change: &MarketChange<'_>, out: &mut LineItems) -> Option<&mut Market> {
        let id = &*change.id;
        if !self.markets.contains_key(id) {
            let Some(meaning) = self.races.meaning(id) else {
                out.reject(self.races.unknown(change));
                return None;
            };
            let mut market = None;
            match meaning {
                MarketMeaning::Race(race) => {
                    race.note.iter().for_each(|note| out.note(note));
                    market = Some(Market::new(id, race.clone()));
                }
                MarketMeaning::Other(kind) => out.note(format!("market {id} is not read: {kind}")),
                MarketMeaning::NoVenue => {
                    out.reject(format!("market {id}: none of its definitions has a venue"));
                }
                MarketMeaning::Rejected(reason) => out.reject(format!("market {id}: {reason}")),
                // Its prices are those of another market.
                MarketMeaning::Place(_) => {}
            }
            self.markets.insert(id.to_owned(), market);
        }
        self.markets.get_mut(id)?.as_mut()
    }
}
