//! [`LiveUpdate`]: what the live channel tells of an event, and what it shows of the races that are open.

use std::collections::HashMap;

use events::{Event, HorseNo, RaceKey, RaceStatus, Subject};
use serde::{Deserialize, Serialize};

use crate::live_race::LiveRace;
use crate::{Race, Store, StoreError, StoredMessage, keys, store};

/// The kinds of messages of the live channel about a race.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum LiveKind {
    /// A board changed.
    #[serde(rename = "odds_update")]
    Odds,
    /// A race moved on, or back.
    #[serde(rename = "status_update")]
    Status,
    /// A runner was withdrawn or reinstated, or has another rider.
    #[serde(rename = "runner_update")]
    Runner,
    /// A result was declared or voided.
    #[serde(rename = "result_update")]
    Result,
}

impl LiveKind {
    /// Every kind.
    pub const ALL: [Self; 4] = [Self::Odds, Self::Status, Self::Runner, Self::Result];

    /// The word on the wire, in `event`.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Odds => "odds_update",
            Self::Status => "status_update",
            Self::Runner => "runner_update",
            Self::Result => "result_update",
        }
    }
}

/// A message of the live channel.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LiveMessage {
    /// What it is about.
    pub kind: LiveKind,
    /// The place of the last message of the same kind about the same race; 0 if there is none.
    pub prev_seq: u64,
    /// The whole message, a JSON object with `event`.
    pub json: Vec<u8>,
}

/// The image of a race's board.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LiveBoard {
    /// The place of the last `odds_update`.
    pub seq: u64,
    /// The board, as it lies in the store: a JSON object without `event`.
    pub json: Vec<u8>,
}

/// What an event changed of what is live in a race.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LiveUpdate {
    /// The event.
    pub seq: u64,
    /// The race.
    pub race: RaceKey,
    /// The racecourse's name.
    pub venue: String,
    /// What is told, in this order: of the result or the runner, then of the status, then of the odds. Empty where only
    /// the image or the card changed.
    pub messages: Vec<LiveMessage>,
    /// The board after the event, if the race has one.
    pub board: Option<LiveBoard>,
    /// The race has a board, and is not over.
    pub open: bool,
    /// The horses on its card or its board, sorted, each once.
    pub runners: Vec<HorseNo>,
}

/// What a board says of itself.
#[derive(Deserialize)]
struct Image {
    venue: String,
    status: RaceStatus,
    seq: u64,
    runners: Vec<ImageRunner>,
}

#[derive(Deserialize)]
struct ImageRunner {
    horse_no: HorseNo,
}

/// The image of every open race, as it lies in the store: updates without messages, each with the `seq` of its board.
/// By date, venue code and race number.
///
/// # Errors
/// The store failed or is damaged.
pub fn open_races(store: &Store) -> Result<Vec<LiveUpdate>, StoreError> {
    let mut open = Vec::new();
    for mark in store.scan(keys::OPEN_RACES) {
        let (mark, _) = mark?;
        if let Some(race) = keys::parse_race(&mark) {
            open.extend(open_race(store, race)?);
        }
    }
    Ok(open)
}

/// What a race shows. All but who is on its card is read from the one value of its board: a commit may fall between two.
fn open_race(store: &Store, race: RaceKey) -> Result<Option<LiveUpdate>, StoreError> {
    let key = keys::board(&race);
    let Some(board) = store.get(&key)? else {
        return Ok(None);
    };
    let image: Image = store::parse(&key, &board)?;
    if image.status.is_over() {
        return Ok(None);
    }
    let said: Race = store.read(&keys::race_state(&race))?.unwrap_or_default();
    Ok(Some(LiveUpdate {
        seq: image.seq,
        venue: image.venue,
        messages: Vec::new(),
        board: Some(LiveBoard {
            seq: image.seq,
            json: board.to_vec(),
        }),
        open: true,
        runners: said.horses(image.runners.iter().map(|runner| &runner.horse_no)),
        race,
    }))
}

/// Says again what was said of some races after a place in the log, without a store.
///
/// It holds each race that it was told of, until it is dropped: the caller bounds how many those are.
#[derive(Debug)]
pub struct RaceReplay {
    after: u64,
    races: HashMap<RaceKey, LiveRace>,
}

impl RaceReplay {
    /// Says again what was said after this place.
    #[must_use]
    pub fn new(after: u64) -> Self {
        Self {
            after,
            races: HashMap::new(),
        }
    }

    /// Folds the next message of a race. It is told all of a race's messages from the first on, in the order of the log,
    /// each once; one race's may come before, between or behind another's.
    ///
    /// What was said is given again for an event behind the place, if it changed what is live.
    pub fn fold(&mut self, message: StoredMessage<'_>) -> Option<LiveUpdate> {
        let recorded = message.decode().ok()?;
        let event = &recorded.envelope.event;
        let (Subject::Race(key) | Subject::Result(key) | Subject::Odds(key)) = event.subject()
        else {
            return None;
        };
        let race = self.races.entry(key.clone()).or_default();
        let due = match event {
            Event::OddsQuoted(quote) => race.quote(&recorded, quote).1,
            _ => race.fact(&recorded).1,
        };
        if recorded.seq <= self.after {
            return None;
        }
        Some(race.render_update(&key, &recorded, &due?))
    }
}
