//! [`Facts`]: what boards and race cards must show of what the log has, by the rules that docs/feeding.md publishes.
//! It shares no code with the folds.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};

use events::{Moment, RaceKey, RaceNumber, RacingDate, VenueCode};
use jiff::Timestamp;
use jiff::tz::Offset;
use projections::{Checkpoint, Store, board_of_source, open_races};
use serde_json::Value;

use super::streams::{Stored, Stream};
use crate::feed::{Content, Feed};

/// A smaller step back of the log's clock is none.
const JITTER_US: i64 = 50_000;
/// The servers of a cluster differ by less.
const SKEW_US: i64 = 1_000_000;
/// After a correction of the log's clock, events of the last 10 minutes are no older than those before it.
const LATE_US: i64 = 600_000_000;
/// Stands for the price of a horse whose quotes may all be stale.
const NOT_QUOTED: &str = "not quoted";
/// A repetition after more statements of a result may be listed once more.
const STATEMENTS_MAX: usize = 16;

/// The facts of the messages of a log, in its order.
#[derive(Default)]
pub(super) struct Facts {
    /// When the log was created, and when it stored the last message.
    log: Option<(Timestamp, Timestamp)>,
    seq: u64,
    clock_us: Option<i64>,
    /// The log's clock stepped back.
    has_stepped: bool,
    /// The latest time at which the log stored a message.
    stored_max: Option<Timestamp>,
    /// By `date/venue/number`.
    races: BTreeMap<String, RaceFacts>,
    /// The ids of events that are later than the log's clock when it stored them, which counts for their order.
    ahead: BTreeSet<String>,
}

#[derive(Default)]
struct RaceFacts {
    ids: BTreeSet<String>,
    /// Of each source, in the order of their first quotes: the board shows the first.
    books: Vec<BookFacts>,
    statuses: Order,
    status: Possible,
    has_result: bool,
    /// The statements of the result, by their ids.
    results: BTreeSet<String>,
    cards: Order,
    /// The distance on the card.
    card: Possible,
    /// Whether each horse is withdrawn.
    withdrawals: BTreeMap<String, (Order, Possible)>,
}

/// The prices of a source.
#[derive(Default)]
struct BookFacts {
    source: String,
    quotes: Order,
    /// The win price of each horse.
    wins: BTreeMap<String, Possible>,
}

/// The values that a view may show: one, but where the rules leave it open.
pub(super) type Possible = BTreeSet<String>;

/// The time of the latest event: at least, and at most.
#[derive(Clone, Copy)]
struct Order {
    least: i64,
    most: i64,
}

impl Default for Order {
    fn default() -> Self {
        Self {
            least: i64::MIN,
            most: i64::MIN,
        }
    }
}

/// An event as it is ordered.
struct Event {
    time: i64,
    stored: i64,
    /// It has the id of an earlier one, which the views may have forgotten.
    is_repeated: bool,
}

impl Order {
    /// Takes an event that says `value`.
    fn take(&mut self, event: &Event, possible: &mut Possible, value: String) {
        let &Event { time, stored, .. } = event;
        let as_of = |latest: i64| time.min(stored.max(latest));
        if time < self.least {
            return;
        }
        if time < self.most || event.is_repeated {
            self.most = self.most.max(as_of(self.most));
        } else {
            (self.least, self.most) = (as_of(self.least), as_of(self.most));
            possible.clear();
        }
        possible.insert(value);
    }

    /// The clock of the log has stepped back to a time.
    fn step_back(&mut self, to: i64, is_correction: bool) {
        self.least = self.least.min(to - LATE_US);
        self.most = (self.most).min(to - if is_correction { LATE_US } else { SKEW_US });
    }
}

impl Facts {
    /// Takes what the log has; from its beginning, if it has another history.
    pub(super) fn follow(&mut self, stream: &Stream) {
        let last = |seq| Some((stream.created, stream.messages.get(&seq)?.recorded_at));
        if self.seq > 0 && last(self.seq) != self.log {
            *self = Self::default();
        }
        for (seq, message) in stream.messages.range(self.seq + 1..) {
            self.take(message);
            self.seq = *seq;
        }
        self.log = last(self.seq);
    }

    fn take(&mut self, message: &Stored) {
        let stored = message.recorded_at.as_microsecond();
        self.stored_max = self.stored_max.max(Some(message.recorded_at));
        self.pass_clock(stored);
        let Some((race, event)) = parse(&message.subject, &message.payload) else {
            return;
        };
        let facts = self.races.entry(race).or_default();
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let time: Timestamp = text(&event["time"]).parse().expect("a time");
        let is_repeated = !facts.ids.insert(text(&event["id"]));
        if is_repeated && !self.has_stepped {
            return;
        }
        if time > message.recorded_at {
            self.ahead.insert(text(&event["id"]));
        }
        let data = &event["data"];
        let order = Event {
            time: time.as_microsecond(),
            stored,
            is_repeated,
        };
        match event["type"].as_str().unwrap_or_default() {
            "racing.odds.quoted.v1" => {
                let runner = &data["runners"][0];
                let book = facts.book_of(text(&event["source"]));
                let win = book.wins.entry(text(&runner["horse_no"]));
                let win = win.or_insert_with(|| Possible::from([NOT_QUOTED.to_owned()]));
                book.quotes.take(&order, win, price(&runner["win"]));
            }
            "racing.race.status_changed.v1" => {
                let status = text(&data["status"]);
                facts.statuses.take(&order, &mut facts.status, status);
            }
            "racing.race.declared.v1" => {
                let distance = data["distance"].to_string();
                facts.cards.take(&order, &mut facts.card, distance);
            }
            "racing.result.declared.v1" => {
                facts.has_result = true;
                facts.results.insert(text(&event["id"]));
            }
            "racing.market.quoted.v1" | "racing.going.changed.v1" => {}
            kind => {
                let horse = text(&data["horse_no"]);
                let (latest, is_withdrawn) = facts.withdrawals.entry(horse).or_default();
                let withdraws = kind == "racing.runner.withdrawn.v1";
                latest.take(&order, is_withdrawn, withdraws.to_string());
            }
        }
    }

    fn pass_clock(&mut self, stored: i64) {
        let back = self.clock_us.unwrap_or(stored) - stored;
        if back <= JITTER_US {
            self.clock_us = self.clock_us.max(Some(stored));
            return;
        }
        self.clock_us = Some(stored);
        self.has_stepped = true;
        for race in self.races.values_mut() {
            let horses = race.withdrawals.values_mut().map(|(order, _)| order);
            let books = race.books.iter_mut().map(|book| &mut book.quotes);
            let others = [&mut race.statuses, &mut race.cards];
            for order in horses.chain(books).chain(others) {
                order.step_back(stored, back > SKEW_US);
            }
        }
    }

    /// Whether views at a checkpoint are to show these facts.
    pub(super) fn are_of(&self, checkpoint: &Checkpoint) -> bool {
        let created = |at| Moment::from(at).timestamp().to_string();
        let is_of_log = |(created_at, recorded_at)| {
            created(created_at) == checkpoint.log.created
                && Some(Moment::from(recorded_at)) == checkpoint.recorded_at
        };
        self.seq == checkpoint.seq && self.log.is_some_and(is_of_log)
    }

    /// Whether an event was later than the log's clock when it was stored: the order of the log counts for it, in which
    /// quotes in flight together may have changed places.
    pub(super) fn was_ahead(&self, id: &str) -> bool {
        self.ahead.contains(id)
    }

    /// The win prices that the board of a source may have for a horse.
    pub(super) fn win(&self, race: &str, source: &str, horse: &str) -> Option<&Possible> {
        let mut books = self.races.get(race)?.books.iter();
        books.find(|book| book.source == source)?.wins.get(horse)
    }

    /// Checks that new clients get an image of each race that is open: it has a board, it is not over, and its date
    /// has not ended everywhere.
    pub(super) fn check_images(&self, feed: &Feed) -> Result<(), String> {
        let open = RefCell::new(BTreeSet::new());
        feed.snapshots(|topic, _| {
            let RaceKey {
                date,
                venue,
                race_number,
            } = &topic.race;
            open.borrow_mut()
                .insert(format!("{date}/{venue}/{race_number}"));
            true
        });
        let open = open.into_inner();
        let last_zone = Offset::constant(-12);
        let earliest = self.stored_max.map(|at| last_zone.to_datetime(at).date());
        let earliest = earliest.map_or(String::new(), |date| date.to_string());
        let is_open = |(race, facts): &(&String, &RaceFacts)| {
            !facts.has_result && facts.books.iter().any(BookFacts::has_price) && **race >= earliest
        };
        let mut missing = self.races.iter().filter(is_open);
        match missing.find(|(race, _)| !open.contains(*race)) {
            None => Ok(()),
            Some((race, _)) => Err(format!("new clients get no image of {race}")),
        }
    }

    /// Checks that views show them.
    pub(super) fn check(&self, store: &Store) -> Result<(), String> {
        self.races
            .iter()
            .try_for_each(|(race, facts)| facts.check(race, store))
    }
}

/// Checks that new clients get the prices of every market of the open races as the views have them: what a quote
/// changes has a base.
pub(super) fn check_market_images(feed: &Feed, store: &Store) -> Result<(), String> {
    let summary = |message: &[u8]| {
        let message: Value = serde_json::from_slice(message).expect("JSON");
        let fields = [
            "date",
            "venue_code",
            "race_number",
            "source",
            "market",
            "seq",
            "prev_seq",
            "prices",
            "runners",
        ];
        fields.map(|field| message[field].to_string()).join(" ")
    };
    let open = open_races(store).map_err(|error| error.to_string())?;
    let markets = open.iter().flat_map(|race| race.markets.iter().flatten());
    let expected: BTreeSet<String> = markets.map(|market| summary(&market.message())).collect();
    let images = feed
        .snapshots(|_, content| *content != Content::ODDS)
        .images;
    let found: BTreeSet<String> = images.iter().map(|image| summary(image.json())).collect();
    match expected.symmetric_difference(&found).next() {
        None => Ok(()),
        Some(market) => Err(format!(
            "the image of a market, or of what the views have, is {market}"
        )),
    }
}

impl RaceFacts {
    /// Each statement of the result is listed once.
    fn check_revisions(&self, race: &str, store: &Store) -> Result<(), String> {
        let listed = store.scan(&format!("{}/", key("revision", race))).count();
        let stated = self.results.len();
        match listed == stated || stated > STATEMENTS_MAX {
            true => Ok(()),
            false => Err(format!(
                "{listed} revisions of {race} are listed, of {stated}"
            )),
        }
    }

    fn book_of(&mut self, source: String) -> &mut BookFacts {
        let at = self.books.iter().position(|book| book.source == source);
        let at = at.unwrap_or(self.books.len());
        if at == self.books.len() {
            self.books.push(BookFacts {
                source,
                ..BookFacts::default()
            });
        }
        &mut self.books[at]
    }

    /// Checks the board of each source, and that the first is the one that is shown.
    fn check_boards(&self, race: &str, store: &Store) -> Result<(), String> {
        let shown = view(store, "odds", race)?;
        let key = race_key(race);
        for (n, book) in self
            .books
            .iter()
            .filter(|book| book.has_price())
            .enumerate()
        {
            let source = &book.source;
            let board = board_of_source(store, &key, source).map_err(|error| error.to_string())?;
            let board = board.map(|json| serde_json::from_slice::<Value>(&json).expect("JSON"));
            if n == 0 && board != shown {
                return Err(format!("the board of {race} is not that of {source}"));
            }
            let board = board.ok_or_else(|| format!("{source} has no board of {race}"))?;
            self.check_board(&format!("the board of {source} of {race}"), book, &board)?;
        }
        Ok(())
    }

    fn check_board(&self, of: &str, book: &BookFacts, board: &Value) -> Result<(), String> {
        let runners = board["runners"].as_array().cloned().unwrap_or_default();
        let quoted = runners.iter();
        let shown = quoted.map(|runner| (runner["horse_no"].as_str(), price(&runner["win"])));
        let shown: BTreeMap<_, _> = shown.collect();
        // The price of a withdrawn horse is not shown.
        let may_be_withdrawn = |horse: &String| {
            let withdrawal = self.withdrawals.get(horse);
            withdrawal.is_some_and(|(_, possible)| possible.contains("true"))
        };
        let not_quoted = NOT_QUOTED.to_owned();
        for (horse, win) in book
            .wins
            .iter()
            .filter(|(horse, _)| !may_be_withdrawn(horse))
        {
            let what = format!("the price of {horse} on {of}");
            let shown = shown.get(&Some(horse.as_str())).unwrap_or(&not_quoted);
            is_one_of(&what, win, Some(shown))?;
        }
        Ok(())
    }

    fn check(&self, race: &str, store: &Store) -> Result<(), String> {
        self.check_boards(race, store)?;
        let Some(card) = view(store, "card", race)? else {
            return match self.card.is_empty() {
                true => Ok(()),
                false => Err(format!("there is no card of {race}")),
            };
        };
        self.check_revisions(race, store)?;
        let shown = card["distance"].to_string();
        is_one_of(&format!("the distance of {race}"), &self.card, Some(&shown))?;
        let result = Possible::from(["result".to_owned()]);
        let status = if self.has_result {
            &result
        } else {
            &self.status
        };
        if !status.is_empty() {
            let shown = card["status"].as_str().map(str::to_owned);
            is_one_of(&format!("the status of {race}"), status, shown.as_ref())?;
        }
        let withdrawn = card["withdrawn"].as_array().cloned().unwrap_or_default();
        let withdrawals = self.withdrawals.iter();
        for (horse, (_, is_withdrawn)) in withdrawals.filter(|(_, (_, of))| !of.is_empty()) {
            let shown = withdrawn.iter().any(|shown| shown["horse_no"] == **horse);
            let what = format!("whether {horse} is withdrawn");
            is_one_of(&what, is_withdrawn, Some(&shown.to_string()))?;
        }
        Ok(())
    }
}

impl BookFacts {
    fn has_price(&self) -> bool {
        let mut wins = self.wins.values().flatten();
        wins.any(|win| win != NOT_QUOTED)
    }
}

fn is_one_of(what: &str, possible: &Possible, shown: Option<&String>) -> Result<(), String> {
    match shown {
        Some(shown) if possible.contains(shown) => Ok(()),
        _ => Err(format!("{what} is {shown:?}, and the log has {possible:?}")),
    }
}

fn race_key(race: &str) -> RaceKey {
    let mut parts = race.split('/');
    let mut part = || parts.next().expect("a date, a venue and a number");
    RaceKey {
        date: RacingDate::parse(part()).expect("a date"),
        venue: VenueCode::parse(part()).expect("a venue"),
        race_number: RaceNumber::parse(part()).expect("a number"),
    }
}

fn key(kind: &str, race: &str) -> String {
    let (meeting, number) = race.rsplit_once('/').expect("a race");
    format!("{kind}/{meeting}/{number:0>3}")
}

fn view(store: &Store, kind: &str, race: &str) -> Result<Option<Value>, String> {
    let view = store
        .get(&key(kind, race))
        .map_err(|error| error.to_string())?;
    Ok(view.map(|view| serde_json::from_slice(&view).expect("a view is JSON")))
}

/// A price as it is compared.
pub(super) fn price(price: &Value) -> String {
    format!("{:?}", price.as_f64())
}

/// The race and the event of a message; `None` if it is no event.
pub(super) fn parse(subject: &str, payload: &[u8]) -> Option<(String, Value)> {
    let event: Value = serde_json::from_slice(payload).ok()?;
    event["specversion"].as_str()?;
    let race = subject.splitn(3, '.').last()?;
    Some((race.replace('.', "/"), event))
}
