//! The odds board of a race: current, opening and previous prices, and every quote in order.

use std::collections::BTreeMap;

use events::{
    DeclaredRunner, Envelope, HorseNo, Moment, Odds, OddsQuoted, PriceState, QuotedRunner, RaceKey,
    RaceNumber, RaceStatus, Recorded, Text,
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::race::has_place;
use crate::seen_ids::SeenIds;
use crate::{Race, json};

/// Quotes in one value of the history: about 10 KiB, so that a value stays small and a full chunk is never rewritten.
pub(crate) const TICKS_PER_CHUNK: u32 = 32;

/// A feeder that sends a quote again has a few in flight behind it. One that is repeated later is mostly older than the
/// board, and stale.
const QUOTE_IDS_MAX: usize = 16;

/// The prices of a race, and the place in the log that they are of.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Board {
    /// The latest event that changed the image; 0 before the first.
    pub(crate) seq: u64,
    pub(crate) prev_seq: u64,
    recorded_at: Option<Moment>,
    time: Option<Moment>,
    #[serde(default, skip_serializing_if = "SeenIds::is_empty")]
    seen: SeenIds<QUOTE_IDS_MAX>,
    /// Quotes in the history.
    pub(crate) ticks: u32,
    runners: BTreeMap<HorseNo, Price>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Price {
    name: Text,
    number: u16,
    win: Option<Odds>,
    place: Option<Odds>,
    state: Option<PriceState>,
    opening: Option<Odds>,
    previous: Option<Odds>,
}

/// What a quote did to a board.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Quote {
    /// It is one of the quotes that came last, said again.
    Repeated,
    /// It is older than what the board shows: it is history, and changes nothing.
    Stale,
    /// It is what the board shows now.
    Shown,
}

impl Board {
    /// Takes in a quote.
    pub(crate) fn quote(&mut self, recorded: &Recorded, quote: &OddsQuoted) -> Quote {
        let Envelope { id, time, .. } = &recorded.envelope;
        if !self.seen.is_new(id) {
            return Quote::Repeated;
        }
        self.ticks += 1;
        // A feeder whose clock is ahead must not make stale what is quoted until then.
        let time = recorded.recorded_at.min(*time);
        if self.time.is_some_and(|shown| time < shown) {
            return Quote::Stale;
        }
        self.time = Some(time);
        for runner in &quote.runners {
            self.price(runner);
        }
        self.touch(recorded.seq, recorded.recorded_at);
        Quote::Shown
    }

    /// Notes that the event at `seq` changed the image.
    pub(crate) fn touch(&mut self, seq: u64, recorded_at: Moment) {
        self.prev_seq = std::mem::replace(&mut self.seq, seq);
        self.recorded_at = Some(recorded_at);
    }

    fn price(&mut self, quoted: &QuotedRunner) {
        if !has_place(&self.runners, &quoted.horse_no) {
            return;
        }
        let Some(price) = self.runners.get_mut(&quoted.horse_no) else {
            let first = Price {
                name: quoted.horse_name.clone().unwrap_or_default(),
                number: quoted.number.unwrap_or(0),
                win: quoted.win,
                place: quoted.place,
                state: quoted.state,
                opening: quoted.win,
                previous: None,
            };
            self.runners.insert(quoted.horse_no.clone(), first);
            return;
        };
        if let Some(name) = &quoted.horse_name {
            price.name.clone_from(name);
        }
        price.number = quoted.number.unwrap_or(price.number);
        if quoted.win != price.win {
            price.previous = price.win.or(price.previous);
            price.win = quoted.win;
        }
        price.opening = price.opening.or(quoted.win);
        price.place = quoted.place.or(if quoted.win.is_some() {
            price.place
        } else {
            None
        });
        price.state = quoted.state;
    }

    /// The horses that were quoted.
    pub(crate) fn horses(&self) -> impl Iterator<Item = &HorseNo> {
        self.runners.keys()
    }

    /// A horse's name and number: the card's where it says them, else as quoted last; empty and 0 where nobody said them.
    pub(crate) fn name_and_number<'a>(
        &'a self,
        race: &'a Race,
        horse_no: &HorseNo,
    ) -> (&'a str, u16) {
        name_and_number(race.declared_runner(horse_no), self.runners.get(horse_no))
    }
}

fn name_and_number<'a>(
    card: Option<&'a DeclaredRunner>,
    price: Option<&'a Price>,
) -> (&'a str, u16) {
    let (name, number) = price.map_or(("", 0), |price| (price.name.as_str(), price.number));
    (
        card.map(|c| c.horse_name.as_str())
            .filter(|name| !name.is_empty())
            .unwrap_or(name),
        card.map(|c| c.number)
            .filter(|number| *number > 0)
            .unwrap_or(number),
    )
}

/// A race's board. With `"event":"odds_update"` before it, it is the message of the live channel.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct OddsBoard<'a> {
    /// The meeting's date.
    #[schemars(extend("format" = "date"))]
    date: String,
    /// The racecourse's name.
    venue: &'a str,
    /// The racecourse's code.
    venue_code: &'a str,
    /// The race's number.
    #[schemars(with = "RaceNumber")]
    race_number: u16,
    /// Where the race stood at the latest change.
    #[schemars(with = "RaceStatus")]
    status: &'a str,
    /// When the log took the latest change, RFC 3339, to the microsecond.
    #[schemars(extend("format" = "date-time"))]
    recorded_at: String,
    /// The place in the log of the latest change.
    seq: u64,
    /// The place in the log of the change before; 0 if there is none.
    prev_seq: u64,
    /// All runners that have been quoted, in the order of their numbers.
    runners: Vec<Line<'a>>,
}

/// A runner on the board. A price is null where there is none, and `state` says why.
#[derive(Debug, Serialize, JsonSchema)]
struct Line<'a> {
    /// The horse.
    horse_no: &'a str,
    /// Its saddle-cloth number; 0 where it is not known.
    number: u16,
    /// Its name; empty where it is not known.
    horse_name: &'a str,
    /// The win price.
    #[schemars(with = "Option<f64>")]
    win: Option<Odds>,
    /// The place price.
    #[schemars(with = "Option<f64>")]
    place: Option<Odds>,
    /// Why there is no price.
    #[serde(skip_serializing_if = "Option::is_none")]
    state: Option<PriceState>,
    /// The first win price.
    #[schemars(with = "Option<f64>")]
    opening: Option<Odds>,
    /// The win price before this one.
    #[schemars(with = "Option<f64>")]
    previous: Option<Odds>,
}

/// The board of a race, runners in the order of their numbers.
#[must_use]
pub fn render(key: &RaceKey, race: &Race, board: &Board) -> Vec<u8> {
    let mut runners: Vec<Line<'_>> = board
        .runners
        .iter()
        .map(|(horse_no, price)| line(race, horse_no, price))
        .collect();
    runners.sort_by_key(|line| line.number);
    json::render(&OddsBoard {
        date: key.date.to_string(),
        venue: race.venue_name(key),
        venue_code: key.venue.as_str(),
        race_number: key.race_number.get(),
        status: race.status().as_str(),
        recorded_at: board
            .recorded_at
            .map(|time| time.to_string())
            .unwrap_or_default(),
        seq: board.seq,
        prev_seq: board.prev_seq,
        runners,
    })
}

fn line<'a>(race: &'a Race, horse_no: &'a HorseNo, price: &'a Price) -> Line<'a> {
    let (horse_name, number) = name_and_number(race.declared_runner(horse_no), Some(price));
    let scratched = race.withdrawn.contains_key(horse_no);
    Line {
        horse_no: horse_no.as_str(),
        number,
        horse_name,
        win: price.win.filter(|_| !scratched),
        place: price.place.filter(|_| !scratched),
        state: if scratched {
            Some(PriceState::Scratched)
        } else {
            price.state
        },
        opening: price.opening,
        previous: price.previous,
    }
}

/// A quote in the history.
#[derive(Debug, Serialize, JsonSchema)]
struct OddsTick<'a> {
    seq: u64,
    /// When it was quoted, RFC 3339.
    time: String,
    /// When the log took it, RFC 3339.
    recorded_at: String,
    source: &'a str,
    /// Older than what the board showed: it changed nothing.
    stale: bool,
    runners: Vec<TickRunner<'a>>,
}

#[derive(Debug, Serialize, JsonSchema)]
struct TickRunner<'a> {
    horse_no: &'a str,
    #[schemars(with = "Option<f64>")]
    win: Option<Odds>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<f64>")]
    place: Option<Odds>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<String>")]
    state: Option<PriceState>,
}

/// Appends a quote to a chunk: JSON objects with commas between them.
pub(crate) fn append_tick(
    chunk: &mut Vec<u8>,
    recorded: &Recorded,
    quote: &OddsQuoted,
    stale: bool,
) {
    let tick = OddsTick {
        seq: recorded.seq,
        time: recorded.envelope.time.to_string(),
        recorded_at: recorded.recorded_at.to_string(),
        source: &recorded.envelope.source,
        stale,
        runners: quote
            .runners
            .iter()
            .map(|runner| TickRunner {
                horse_no: runner.horse_no.as_str(),
                win: runner.win,
                place: runner.place,
                state: runner.state,
            })
            .collect(),
    };
    json::append_row(chunk, &tick);
}

pub(crate) fn schema(generator: &mut schemars::SchemaGenerator) -> schemars::Schema {
    OddsBoard::<'_>::json_schema(generator)
}

pub(crate) fn tick_schema(generator: &mut schemars::SchemaGenerator) -> schemars::Schema {
    OddsTick::<'_>::json_schema(generator)
}
