//! The odds board of a race: current, opening and previous prices, and the history of quotes.

use std::collections::BTreeMap;

use events::{
    DeclaredRunner, Envelope, HorseNo, Moment, Odds, OddsQuoted, PriceState, QuotedRunner, RaceKey,
    RaceNumber, RaceStatus, RacingDate, Recorded, SOURCES_MAX, Text, VenueCode,
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::keys::TICKS_PER_CHUNK;
use crate::newest::{Newest, Order};
use crate::quotes::{LatestQuote, Quoted};
use crate::race::{Race, has_room};
use crate::source_rankings::rank;
use crate::{LogClock, PriceLine, json};

/// The prices of a race: a book for each source, of which one is shown.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Board {
    /// The sequence of the latest event that changed the image; 0 before the first.
    pub(crate) seq: u64,
    pub(crate) prev_seq: u64,
    recorded_at: Option<Moment>,
    #[serde(default, skip_serializing_if = "json::is_default")]
    quotes: Newest,
    /// The number of quotes in the history.
    pub(crate) ticks: u32,
    /// The index of the primary source's book, which is the one that is shown.
    primary: usize,
    /// In the order of their first quotes, at most [`SOURCES_MAX`].
    books: Vec<Book>,
}

/// The prices of a source.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Book {
    source: String,
    quotes: LatestQuote,
    runners: BTreeMap<HorseNo, Price>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
struct Price {
    name: Text,
    number: u16,
    win: Option<Odds>,
    place: Option<Odds>,
    state: Option<PriceState>,
    opening: Option<Odds>,
    previous: Option<Odds>,
}

impl Book {
    /// Returns whether it was another price.
    fn price(&mut self, quoted: &QuotedRunner) -> bool {
        if !has_room(&self.runners, &quoted.horse_no) {
            return false;
        }
        let Some(price) = self.runners.get_mut(&quoted.horse_no) else {
            let unknown = Price::default();
            self.runners.insert(quoted.horse_no.clone(), unknown);
            self.price(quoted);
            return true;
        };
        let before = (price.win, price.place, price.state);
        if let Some(name) = &quoted.horse_name {
            price.name.clone_from(name);
        }
        price.number = quoted.number.unwrap_or(price.number);
        if quoted.win != price.win {
            price.previous = price.win.or(price.previous);
            price.win = quoted.win;
        }
        price.opening = price.opening.or(quoted.win);
        let last_place = price.place.filter(|_| quoted.win.is_some());
        price.place = quoted.place.or(last_place);
        price.state = quoted.state;
        before != (price.win, price.place, price.state)
    }
}

impl Board {
    /// Takes a quote of the source's book; of too many sources it is stale. `ranking` is that of the sources. The image
    /// changed if `seq` is then that of the quote.
    pub(crate) fn quote(
        &mut self,
        recorded: &Recorded,
        quote: &OddsQuoted,
        clock: &LogClock,
        ranking: &[Text],
    ) -> Order {
        let Envelope { source, .. } = &recorded.envelope;
        let known = self.books.iter().position(|book| book.source == *source);
        if known.is_none() && self.books.len() == SOURCES_MAX {
            return Order::Stale;
        }
        let order = self.quotes.take(recorded, clock);
        if order != Order::New {
            return order;
        }
        let index = known.unwrap_or(self.books.len());
        if known.is_none() {
            self.books.push(Book {
                source: source.clone(),
                quotes: LatestQuote::first(recorded),
                runners: BTreeMap::new(),
            });
        }
        let book = &mut self.books[index];
        let mut changed = false;
        for runner in &quote.runners {
            changed |= book.price(runner);
        }
        if known.is_some() {
            book.quotes.take(recorded, changed);
        }
        let primary = self.highest_ranked(ranking);
        let was_primary = std::mem::replace(&mut self.primary, primary);
        if primary == index || primary != was_primary {
            self.touch(recorded.seq, recorded.recorded_at);
        }
        order
    }

    /// The index of the book whose source ranks highest. Those that are not ranked follow in the order of their first
    /// quotes.
    fn highest_ranked(&self, ranking: &[Text]) -> usize {
        let books = self.books.iter().enumerate();
        let highest = books.min_by_key(|(_, book)| rank(ranking, &book.source));
        highest.map_or(0, |(index, _)| index)
    }

    /// Records that the event at `seq` changed the image.
    pub(crate) fn touch(&mut self, seq: u64, recorded_at: Moment) {
        self.prev_seq = std::mem::replace(&mut self.seq, seq);
        self.recorded_at = Some(recorded_at);
    }

    /// The book that is shown; `None` before the first quote.
    fn shown(&self) -> Option<&Book> {
        self.books.get(self.primary)
    }

    pub(crate) fn sources(&self) -> impl Iterator<Item = OddsSource<'_>> {
        let books = self.books.iter().enumerate();
        books.map(|(index, book)| OddsSource {
            primary: index == self.primary,
            ..OddsSource::of(&book.source, &book.quotes)
        })
    }

    /// The prices of a source: those of a quote, or all.
    pub(crate) fn quoted(&self, source: &str, quote: Option<&OddsQuoted>) -> Option<Quoted<'_>> {
        let book = self.books.iter().find(|book| book.source == source)?;
        let line = |(horse_no, price): (&HorseNo, &Price)| {
            let prices = QuotedPrices {
                horse_no: horse_no.as_str(),
                win: price.win,
                place: price.place,
                state: price.state,
            };
            PriceLine::new(horse_no.as_str().into(), &prices)
        };
        let prices = match quote {
            None => book.runners.iter().map(line).collect(),
            Some(quote) => {
                let horses = quote.runners.iter().map(|runner| &runner.horse_no);
                let known = horses.filter_map(|horse| book.runners.get_key_value(horse));
                known.map(line).collect()
            }
        };
        Some((&book.quotes, prices))
    }

    pub(crate) fn last_quoted_at(&self) -> Option<Moment> {
        let books = self.books.iter();
        books.map(|book| book.quotes.latest.recorded_at).max()
    }

    /// The index of the last chunk of the history.
    pub(crate) fn last_chunk(&self) -> u32 {
        self.ticks.saturating_sub(1) / TICKS_PER_CHUNK
    }

    /// Whether the last chunk of the history is full, or there is none.
    pub(crate) fn is_last_chunk_full(&self) -> bool {
        self.ticks.is_multiple_of(TICKS_PER_CHUNK)
    }

    pub(crate) fn horses(&self) -> impl Iterator<Item = &HorseNo> {
        let shown = self.shown().into_iter();
        shown.flat_map(|book| book.runners.keys())
    }

    /// A horse's name and number: those of the card, else as last quoted; empty and 0 if unknown.
    pub(crate) fn name_and_number<'a>(
        &'a self,
        race: &'a Race,
        horse_no: &HorseNo,
    ) -> (&'a str, u16) {
        let price = self.shown().and_then(|book| book.runners.get(horse_no));
        name_and_number(race.declared_runner(horse_no), price)
    }
}

fn name_and_number<'a>(
    card: Option<&'a DeclaredRunner>,
    price: Option<&'a Price>,
) -> (&'a str, u16) {
    let quoted = price.map_or(("", 0), |price| (price.name.as_str(), price.number));
    let (name, number) = card.map_or(quoted, |card| (card.horse_name.as_str(), card.number));
    let name = if name.is_empty() { quoted.0 } else { name };
    (name, if number == 0 { quoted.1 } else { number })
}

/// A race's board. With `"event":"odds_update"` before these fields, it is the message of the live channel.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct OddsBoard<'a> {
    /// The meeting's date.
    date: RacingDate,
    /// The racecourse's name.
    venue: &'a str,
    /// The racecourse's code.
    venue_code: &'a VenueCode,
    /// The race's number.
    race_number: RaceNumber,
    /// The status of the race at the latest change.
    status: RaceStatus,
    /// When the log stored the latest change, RFC 3339, to the microsecond; empty before the first quote.
    #[schemars(extend("pattern" = json::TIME_OR_EMPTY))]
    recorded_at: String,
    /// The log sequence of the latest change; 0 before the first quote.
    seq: u64,
    /// The log sequence of the change before; 0 if there is none.
    prev_seq: u64,
    /// The source of all prices; empty before the first quote.
    source: &'a str,
    /// All runners that the source has quoted, ordered by number.
    runners: Vec<BoardRunner<'a>>,
}

/// A runner on the board. A missing price is null, and `state` is the reason.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct BoardRunner<'a> {
    /// The horse.
    horse_no: &'a HorseNo,
    /// Its saddle-cloth number; 0 if unknown.
    number: u16,
    /// Its name; empty if unknown.
    horse_name: &'a str,
    /// The win price.
    #[schemars(with = "Option<f64>")]
    win: Option<Odds>,
    /// The place price.
    #[schemars(with = "Option<f64>")]
    place: Option<Odds>,
    /// Why the win price is missing.
    #[serde(skip_serializing_if = "Option::is_none")]
    state: Option<PriceState>,
    /// The first win price.
    #[schemars(with = "Option<f64>")]
    opening: Option<Odds>,
    /// The win price before the current one.
    #[schemars(with = "Option<f64>")]
    previous: Option<Odds>,
}

/// The latest prices of a source, and the changes that led to them.
pub(crate) struct BoardImage<'a> {
    pub(crate) source: &'a str,
    pub(crate) seq: u64,
    pub(crate) prev_seq: u64,
    pub(crate) recorded_at: String,
}

impl<'a> BoardImage<'a> {
    /// The prices of a source as of the latest quote that changed them.
    pub(crate) fn of(source: &'a str, quotes: &LatestQuote) -> Self {
        let changed = quotes.changed();
        Self {
            source,
            seq: changed.seq,
            prev_seq: quotes.prev_seq,
            recorded_at: changed.recorded_at.to_string(),
        }
    }
}

/// Renders the board of a race, which is that of the primary source.
pub(crate) fn render(key: &RaceKey, race: &Race, board: &Board) -> Vec<u8> {
    let image = BoardImage {
        source: board.shown().map_or("", |book| &book.source),
        seq: board.seq,
        prev_seq: board.prev_seq,
        recorded_at: json::text(board.recorded_at),
    };
    json::render(&of(key, race, image, runners(race, board.shown())))
}

/// Renders the board of a source. Unless it is the primary source, the sequences are those of the quotes that changed
/// it.
pub(crate) fn render_of_source(
    key: &RaceKey,
    race: &Race,
    board: &Board,
    source: &str,
) -> Option<Vec<u8>> {
    let index = board.books.iter().position(|book| book.source == source)?;
    if index == board.primary {
        return Some(render(key, race, board));
    }
    let book = &board.books[index];
    let image = BoardImage::of(source, &book.quotes);
    let runners = runners(race, Some(book));
    Some(json::render(&of(key, race, image, runners)))
}

fn runners<'a>(race: &'a Race, book: Option<&'a Book>) -> Vec<BoardRunner<'a>> {
    let prices = book.into_iter().flat_map(|book| &book.runners);
    let runners = prices.map(|(horse_no, price)| board_runner(race, horse_no, price));
    let mut runners = Vec::from_iter(runners);
    runners.sort_by_key(|runner| runner.number);
    runners
}

pub(crate) fn of<'a>(
    key: &'a RaceKey,
    race: &'a Race,
    image: BoardImage<'a>,
    runners: Vec<BoardRunner<'a>>,
) -> OddsBoard<'a> {
    OddsBoard {
        date: key.date,
        venue: race.venue_name(key),
        venue_code: &key.venue,
        race_number: key.race_number,
        status: race.status(),
        recorded_at: image.recorded_at,
        seq: image.seq,
        prev_seq: image.prev_seq,
        source: image.source,
        runners,
    }
}

fn board_runner<'a>(race: &'a Race, horse_no: &'a HorseNo, price: &'a Price) -> BoardRunner<'a> {
    let (horse_name, number) = name_and_number(race.declared_runner(horse_no), Some(price));
    let scratched = race.withdrawal(horse_no).map(|_| PriceState::Scratched);
    BoardRunner {
        horse_no,
        number,
        horse_name,
        win: price.win.filter(|_| scratched.is_none()),
        place: price.place.filter(|_| scratched.is_none()),
        state: scratched.or(price.state),
        opening: price.opening,
        previous: price.previous,
    }
}

/// A source and its latest quote.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct OddsSource<'a> {
    /// The feeder.
    pub(crate) source: &'a str,
    /// Whether it is shown where no source is chosen.
    pub(crate) primary: bool,
    /// The log sequence of its latest quote.
    pub(crate) seq: u64,
    /// When that was quoted, RFC 3339.
    pub(crate) time: Moment,
    /// When the log stored it, RFC 3339, to the microsecond.
    pub(crate) recorded_at: Moment,
}

impl<'a> OddsSource<'a> {
    /// A source that is not the primary one.
    pub(crate) fn of(source: &'a str, quotes: &LatestQuote) -> Self {
        let latest = quotes.latest;
        Self {
            source,
            primary: false,
            seq: latest.seq,
            time: latest.time,
            recorded_at: latest.recorded_at,
        }
    }
}

/// A runner's prices in a quote.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct QuotedPrices<'a> {
    /// The horse.
    #[schemars(with = "HorseNo")]
    pub(crate) horse_no: &'a str,
    /// The win price; null without one.
    #[schemars(with = "Option<f64>")]
    pub(crate) win: Option<Odds>,
    /// The place price; left out if none was quoted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) place: Option<Odds>,
    /// Why there is no price; left out if nothing was stated.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) state: Option<PriceState>,
}
