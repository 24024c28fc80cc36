//! Stream files of the Betfair exchange: JSON lines of market change messages, as they are or packed.
//!
//! The files are read twice: first for the definitions of the markets, which say together which race is which, then for
//! the events. Both times line by line.

mod lines;
mod market;
mod message;
mod races;
mod unpack;

#[cfg(test)]
mod tests;

use std::collections::{HashMap, VecDeque};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use events::{Moment, RaceNumber};

use self::lines::{LINE_BYTES_MAX, Line, Lines};
use self::market::{At, Market};
use self::message::{Change, Message};
use self::races::{Races, Standing, Survey};
use self::unpack::Damage;
use crate::input::files::{self, Kind};
use crate::{Item, Items, Location};

const FORMAT: &str = "betfair-stream";

/// The stream files that some paths mean.
#[derive(Debug)]
pub struct BetfairStream {
    files: Vec<PathBuf>,
    said: Vec<Item>,
}

impl BetfairStream {
    /// Finds files: named ones, whatever their names are, and all that are in named folders.
    #[must_use]
    pub fn find(paths: &[PathBuf]) -> Self {
        let found = files::find(paths, Kind::ANY);
        Self {
            files: found.files.into_iter().map(|(path, _)| path).collect(),
            said: found.said,
        }
    }

    /// How many there are.
    #[must_use]
    pub fn count(&self) -> usize {
        self.files.len()
    }

    /// Reads all of them for the first time, and then hands out what they say. `number` is that of the only race.
    #[must_use]
    pub fn items(self, number: Option<RaceNumber>) -> Items {
        let mut survey = Survey::default();
        let mut readable = Vec::new();
        let mut said = self.said;
        for path in self.files {
            match look_through(&path, &mut survey) {
                Ok(()) => readable.push(path),
                Err(reason) => said.push(Location::whole(&path).refused(reason)),
            }
        }
        let races = Arc::new(survey.finish(number));
        let messages = readable.into_iter().flat_map(move |path| -> Items {
            match Messages::open(&path, Arc::clone(&races)) {
                Ok(messages) => Box::new(messages),
                Err(error) => Box::new(std::iter::once(Location::whole(&path).refused(error))),
            }
        });
        Box::new(said.into_iter().chain(messages))
    }
}

/// Notes the markets of a file. What is wrong with a line is said when it is read again.
fn look_through(path: &Path, survey: &mut Survey) -> Result<(), String> {
    let mut lines = Lines::open(path).map_err(|error| error.to_string())?;
    let mut is_stream = None;
    while let Some((_, line)) = lines.next() {
        match line {
            Line::Whole(text) | Line::Unended(text, _) => {
                is_stream.get_or_insert(text.trim_ascii_start().starts_with(b"{"));
                if let Ok(Some((_, changes))) = Message::read(text) {
                    changes.iter().for_each(|change| survey.note(change));
                }
            }
            Line::Damaged(damage @ Damage::Somewhere { .. }) => return Err(damage.to_string()),
            Line::TooLong | Line::Damaged(_) => is_stream = is_stream.or(Some(true)),
        }
    }
    match is_stream {
        Some(true) => Ok(()),
        Some(false) => Err("no stream file: its first line is no JSON object".to_owned()),
        None => Err("there is nothing in it".to_owned()),
    }
}

/// What a file says, line by line.
struct Messages {
    lines: Lines,
    telling: FileReader,
    ended: bool,
}

impl Messages {
    fn open(path: &Path, races: Arc<Races>) -> io::Result<Self> {
        Ok(Self {
            lines: Lines::open(path)?,
            telling: FileReader {
                file: Location::whole(path),
                races,
                markets: HashMap::new(),
                said: VecDeque::new(),
            },
            ended: false,
        })
    }
}

impl Iterator for Messages {
    type Item = Item;

    fn next(&mut self) -> Option<Item> {
        loop {
            if let Some(item) = self.telling.said.pop_front() {
                return Some(item);
            }
            if self.ended {
                return None;
            }
            match self.lines.next() {
                Some((number, line)) => self.telling.line(number, line),
                None => {
                    self.ended = true;
                    self.telling.end();
                }
            }
        }
    }
}

/// What was said of a file so far, and what is to be said.
struct FileReader {
    file: Location,
    races: Arc<Races>,
    /// The markets that were met; none where nothing is said of one.
    markets: HashMap<String, Option<Market>>,
    /// What is not handed out yet.
    said: VecDeque<Item>,
}

impl FileReader {
    fn line(&mut self, number: u64, line: Line<'_>) {
        let place = self.file.at(number);
        let message = match line {
            Line::Whole(text) => Message::read(text),
            Line::Unended(text, end) => Message::read(text).map_err(|_| {
                format!("the file breaks off in the middle of this line, at byte {end}")
            }),
            Line::TooLong => Err(format!("more than {LINE_BYTES_MAX} bytes")),
            Line::Damaged(damage) => Err(damage.to_string()),
        };
        match message {
            Ok(Some((time, changes))) => self.message(time, &changes, &place),
            Ok(None) => {}
            Err(reason) => self.said.push_back(place.refused(reason)),
        }
    }

    fn message(&mut self, time: Moment, changes: &[Change<'_>], place: &Location) {
        for change in changes {
            if let Some(market) = self.meet(change, place) {
                let said = market.tell(change, At { time, place });
                self.said.extend(said);
            }
        }
    }

    /// The market of a change, if it is one that is read. When it is met first, what it is gets said.
    fn meet(&mut self, change: &Change<'_>, place: &Location) -> Option<&mut Market> {
        let id = &*change.id;
        if !self.markets.contains_key(id) {
            let (market, said) = match self.races.standing(id) {
                Some(Standing::Race(race)) => {
                    let note = race.note.as_ref().map(|note| place.note(note));
                    (Some(Market::new(id, race.clone())), note)
                }
                Some(Standing::Other(kind)) => {
                    let note = place.note(format!("market {id} is not read: {kind}"));
                    (None, Some(note))
                }
                Some(Standing::Refused(reason)) => {
                    let refused = place.refused(format!("market {id}: {reason}"));
                    (None, Some(refused))
                }
                None => {
                    self.said
                        .push_back(place.refused(self.races.why_not(change)));
                    return None;
                }
            };
            self.said.extend(said);
            self.markets.insert(id.to_owned(), market);
        }
        self.markets.get_mut(id)?.as_mut()
    }

    fn end(&mut self) {
        let markets = self.markets.values().flatten();
        let mut open: Vec<String> = markets.filter_map(Market::unfinished).collect();
        open.sort();
        self.said
            .extend(open.iter().map(|reason| self.file.note(reason)));
    }
}
