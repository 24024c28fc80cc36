//! [`RaceFeed`]: what the feed knows of a race beside its messages: the image, and which messages led to it.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, OnceLock};

use events::{Moment, RaceKey, RacingDate, VenueCode};
use projections::{LiveBoard, LiveQuote, LiveUpdate, json};

use super::frame::Frame;
use super::market::MarketFeed;
use super::message::{ConflatedBy, Content, FeedMessage, Topic};

#[derive(Debug)]
pub(super) struct RaceFeed {
    pub(super) topic: Arc<Topic>,
    pub(super) open: bool,
    pub(super) on_card: bool,
    pub(super) off_time: Option<Moment>,
    board: Option<LiveBoard>,
    /// The image, encoded when it is first needed.
    snapshot: OnceLock<Frame>,
    /// The odds messages: the index of each, and the sequence of the one before it.
    pub(super) marks: VecDeque<(u64, u64)>,
    markets: BTreeMap<Content, MarketFeed>,
    /// Whether the markets have all of their prices. False before the race is open, and once these were too many.
    has_prices: bool,
}

impl RaceFeed {
    pub(super) fn new(race: RaceKey) -> Self {
        Self {
            topic: Arc::new(Topic {
                race,
                venue: String::new(),
                runners: Vec::new(),
            }),
            open: false,
            on_card: false,
            off_time: None,
            board: None,
            snapshot: OnceLock::new(),
            marks: VecDeque::new(),
            markets: BTreeMap::new(),
            has_prices: false,
        }
    }

    /// Takes the state of the race out of an update, and leaves the messages.
    pub(super) fn update(&mut self, update: &mut LiveUpdate) {
        if self.topic.venue != update.venue || self.topic.runners != update.runners {
            self.topic = Arc::new(Topic {
                race: update.race.clone(),
                venue: std::mem::take(&mut update.venue),
                runners: std::mem::take(&mut update.runners),
            });
        }
        self.open = update.open;
        self.on_card = update.on_card;
        self.off_time = update.off_time;
        if let Some(board) = update.board.take() {
            self.board = Some(board);
            self.snapshot = OnceLock::new();
        }
    }

    /// Takes all prices of its markets.
    pub(super) fn begin_markets(&mut self, markets: Vec<LiveQuote>) {
        self.has_prices = true;
        for market in markets {
            self.quote(market);
        }
    }

    /// Takes the prices of a quote. They change what is known.
    pub(super) fn quote(&mut self, quote: LiveQuote) {
        if self.has_prices {
            let market = Content::Quote(quote.market.clone());
            self.markets.entry(market).or_default().take(quote);
        }
    }

    /// The number of prices of its markets.
    pub(super) fn prices(&self) -> usize {
        self.markets.values().map(MarketFeed::len).sum()
    }

    /// Keeps no prices of its markets from now on.
    pub(super) fn drop_markets(&mut self) {
        self.has_prices = false;
        self.markets.values_mut().for_each(MarketFeed::clear);
    }

    pub(super) fn meeting(&self) -> (RacingDate, &VenueCode) {
        let race = &self.topic.race;
        (race.date, &race.venue)
    }

    /// Records an odds message, or a quote. False if no image has what it says, because the prices are not kept.
    pub(super) fn mark(&mut self, message: &FeedMessage) -> bool {
        let index = message.index;
        if message.content == Content::ODDS {
            self.marks.push_back((index, message.prev_seq));
        } else if self.has_prices {
            let market = self.markets.entry(message.content.clone());
            market.or_default().latest_index = Some(index);
        } else {
            return false;
        }
        true
    }

    /// Drops the marks of the odds messages before an index.
    pub(super) fn drop_marks_before(&mut self, index: u64) {
        let old = self.marks.partition_point(|(known, _)| *known < index);
        self.marks.drain(..old);
        self.marks.shrink_to_fit();
    }

    /// The index of the latest message that may be conflated; `None` before the first one in this process.
    pub(super) fn last_index(&self) -> Option<u64> {
        let markets = self.markets.values();
        let quoted = markets.filter_map(|market| market.latest_index).max();
        self.latest_index().max(quoted)
    }

    /// The index of the latest odds message; `None` before the first one in this process.
    pub(super) fn latest_index(&self) -> Option<u64> {
        self.marks.back().map(|(index, _)| *index)
    }

    /// The image, encoded once for all clients.
    fn snapshot(&self) -> Option<Frame> {
        const HEAD: &[u8] = br#"{"event":"odds_update","snapshot":true,"#;
        let board = self.board.as_ref()?;
        let encoded = || Frame::text(&[HEAD, json::fields(&board.json), b"}"]);
        Some(self.snapshot.get_or_init(encoded).clone())
    }

    /// The images that `wants` selects.
    pub(super) fn images(&self, wants: impl Fn(&Topic, &Content) -> bool) -> Vec<Frame> {
        let wants = |content: &Content| wants(&self.topic, content);
        let board = self.snapshot().filter(|_| wants(&Content::ODDS));
        let markets = self.markets.iter().filter(|_| self.has_prices);
        let wanted = markets.filter(|(market, _)| wants(market));
        let markets = wanted.map(|(_, market)| market.image());
        board.into_iter().chain(markets).collect()
    }

    /// What replaces the messages from an index on that `wants` selects, but for those that are never conflated. Each
    /// with the index of its last message.
    pub(super) fn conflated(
        &self,
        from: u64,
        by: ConflatedBy,
        wants: impl Fn(&Topic, &Content) -> bool,
    ) -> Vec<(u64, Frame)> {
        let wants = |content: &Content| wants(&self.topic, content);
        let odds = self.latest_index() >= Some(from) && wants(&Content::ODDS);
        let odds = odds.then(|| self.conflated_odds(from, by)).flatten();
        let markets = self.markets.iter().filter(|_| self.has_prices);
        let changed = markets.filter_map(|(content, market)| {
            let last = market.latest_index.filter(|last| *last >= from)?;
            wants(content).then(|| (last, market.image()))
        });
        odds.into_iter().chain(changed).collect()
    }

    /// One message for all odds messages from an index on, with the index of the last of them.
    fn conflated_odds(&self, from: u64, by: ConflatedBy) -> Option<(u64, Frame)> {
        let board = self.board.as_ref()?;
        let (last, _) = self.marks.back()?;
        let start = self.marks.partition_point(|(index, _)| *index < from);
        let (_, prev_seq) = self.marks.get(start)?;
        let merged = self.marks.len() - start;
        let fields = json::fields(&board.json);
        let encoded = if merged == 1 {
            Frame::text(&[br#"{"event":"odds_update","#, fields, b"}"])
        } else {
            let by = match by {
                ConflatedBy::Client => "client",
                ConflatedBy::Backpressure => "backpressure",
            };
            let head =
                format!(r#"{{"event":"odds_update","conflated":{merged},"conflated_by":"{by}","#);
            let (before, after) = json::around_number(fields, "prev_seq")?;
            let prev_seq = prev_seq.to_string();
            Frame::text(&[head.as_bytes(), before, prev_seq.as_bytes(), after, b"}"])
        };
        Some((*last, encoded))
    }
}
