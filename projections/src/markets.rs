//! The markets of a race beside win and place: the latest prices of each as each source quotes them. Views of them are
//! made of the state when they are read.

use std::collections::{BTreeMap, BTreeSet};

use events::{
    MarketQuoted, Moment, Odds, PoolCode, PriceState, QuotedPrice, RaceKey, Recorded, SOURCES_MAX,
    Text,
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::log_clock::LogClock;
use crate::newest::{Newest, Order, identity};
use crate::odds_board::{self, BoardImage, OddsBoard, OddsSource};
use crate::race::Race;
use crate::source_rankings::rank;
use crate::store::{self, Store, StoreError};
use crate::{json, keys};

/// The markets of a race that a source may quote: about twice the pools of the largest totes.
pub(crate) const MARKETS_PER_SOURCE_MAX: usize = 16;
/// The combinations of a market that have a price: all orders of three of 16 runners are 3,360.
const COMBINATIONS_MAX: usize = 4_096;

/// The markets of a race.
#[derive(Debug, Default)]
pub(crate) struct Markets(pub(crate) BTreeMap<MarketKey, QuotedMarket>);

/// A market of a source.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct MarketKey {
    pub(crate) market: PoolCode,
    pub(crate) source: String,
}

impl MarketKey {
    /// That of a quote.
    pub(crate) fn of(quote: &MarketQuoted, recorded: &Recorded) -> Self {
        Self {
            market: quote.market.clone(),
            source: recorded.envelope.source.clone(),
        }
    }
}

/// The prices of a market of a source.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct QuotedMarket {
    /// The sequence of its first quote. A quote that cannot be stale made it.
    first_seq: u64,
    /// The sequence of the latest quote that changed a price, and of the change before; 0 if there is none.
    pub(crate) seq: u64,
    pub(crate) prev_seq: u64,
    /// When the latest one was quoted, and when the log stored it.
    time: Moment,
    recorded_at: Moment,
    quotes: Newest,
    /// By combination.
    prices: Vec<QuotedPrice>,
}

impl Markets {
    /// Takes a quote. Of too many sources or markets it is stale.
    pub(crate) fn quote(
        &mut self,
        key: &MarketKey,
        recorded: &Recorded,
        quote: &MarketQuoted,
        clock: &LogClock,
    ) -> Order {
        if !self.0.contains_key(key) && !self.has_room(&key.source) {
            return Order::Stale;
        }
        let market = self.0.entry(key.clone());
        let market = market.or_insert_with(|| QuotedMarket {
            first_seq: recorded.seq,
            seq: 0,
            prev_seq: 0,
            time: recorded.envelope.time,
            recorded_at: recorded.recorded_at,
            quotes: Newest::default(),
            prices: Vec::new(),
        });
        market.quote(recorded, quote, clock)
    }

    fn has_room(&self, source: &str) -> bool {
        let sources: BTreeSet<&str> = self.0.keys().map(|key| key.source.as_str()).collect();
        let of_source = self.0.keys().filter(|key| key.source == source).count();
        let is_known = of_source > 0 || sources.len() < SOURCES_MAX;
        is_known && of_source < MARKETS_PER_SOURCE_MAX
    }

    pub(crate) fn last_quoted_at(&self) -> Option<Moment> {
        self.0.values().map(|market| market.recorded_at).max()
    }

    /// The source that is shown of a market: the one that ranks highest, as of boards.
    fn primary(&self, market: &PoolCode, ranking: &[Text]) -> Option<&MarketKey> {
        let quoted = self.0.iter().filter(|(key, _)| key.market == *market);
        let highest =
            quoted.min_by_key(|(key, market)| (rank(ranking, &key.source), market.first_seq));
        highest.map(|(key, _)| key)
    }

    pub(crate) fn sources(&self, ranking: &[Text]) -> Vec<MarketSource<'_>> {
        let markets = self.0.iter().map(|(key, market)| MarketSource {
            market: &key.market,
            quoted: OddsSource {
                source: &key.source,
                primary: self.primary(&key.market, ranking) == Some(key),
                seq: market.seq,
                time: market.time.to_string(),
                recorded_at: market.recorded_at.to_string(),
            },
        });
        markets.collect()
    }

    /// Renders a market of a source, or of the primary one.
    pub(crate) fn render(
        &self,
        key: &RaceKey,
        race: &Race,
        market: &PoolCode,
        source: Option<&str>,
        ranking: &[Text],
    ) -> Option<Vec<u8>> {
        let named = |source: &str| MarketKey {
            market: market.clone(),
            source: source.to_owned(),
        };
        let chosen = match source {
            Some(source) => named(source),
            None => self.primary(market, ranking)?.clone(),
        };
        let latest = self.0.get(&chosen)?;
        let image = BoardImage {
            source: &chosen.source,
            seq: latest.seq,
            prev_seq: latest.prev_seq,
            recorded_at: latest.recorded_at.to_string(),
        };
        Some(json::render(&OddsMarket {
            board: odds_board::of(key, race, image, Vec::new()),
            market: Some(market),
            prices: Some(latest.prices.iter().map(MarketPrice::of).collect()),
        }))
    }
}

impl QuotedMarket {
    fn quote(&mut self, recorded: &Recorded, quote: &MarketQuoted, clock: &LogClock) -> Order {
        let identity = identity(&recorded.envelope);
        let order = self.quotes.take(recorded, identity, clock);
        if order == Order::New {
            (self.time, self.recorded_at) = (recorded.envelope.time, recorded.recorded_at);
            let mut changed = self.seq == 0;
            for price in &quote.prices {
                changed |= self.price(price);
            }
            if changed {
                self.prev_seq = std::mem::replace(&mut self.seq, recorded.seq);
            }
        }
        order
    }

    /// Returns whether it was another price.
    fn price(&mut self, quoted: &QuotedPrice) -> bool {
        let by_combination = |price: &QuotedPrice| price.combination.cmp(&quoted.combination);
        match self.prices.binary_search_by(by_combination) {
            Ok(index) if self.prices[index] == *quoted => false,
            Ok(index) => {
                self.prices[index] = quoted.clone();
                true
            }
            Err(_) if self.prices.len() == COMBINATIONS_MAX => false,
            Err(index) => {
                self.prices.insert(index, quoted.clone());
                true
            }
        }
    }

    /// The number of prices.
    pub(crate) fn len(&self) -> usize {
        self.prices.len()
    }
}

/// The key of a market's state, after [`keys::market_states`].
pub(crate) fn state_key(race: &RaceKey, MarketKey { market, source }: &MarketKey) -> String {
    format!("{}{market}/{source}", keys::market_states(race))
}

/// The markets of a race as they are stored: all, or one.
pub(crate) fn read(
    store: &Store,
    race: &RaceKey,
    market: Option<&PoolCode>,
) -> Result<Markets, StoreError> {
    let prefix = keys::market_states(race);
    let market = market.map_or_else(String::new, |market| format!("{market}/"));
    let mut markets = Markets::default();
    for row in store.scan(&(prefix.clone() + &market)) {
        let (key, state) = row?;
        let name = key
            .strip_prefix(&prefix)
            .and_then(|name| name.split_once('/'));
        if let Some((market, source)) = name
            && let Ok(market) = PoolCode::parse(market)
        {
            let source = source.to_owned();
            let state = store::parse(&key, &state)?;
            markets.0.insert(MarketKey { market, source }, state);
        }
    }
    Ok(markets)
}

/// A race's odds board, or another market of it.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "OddsBoard")]
pub(crate) struct OddsMarket<'a> {
    #[serde(flatten)]
    board: OddsBoard<'a>,
    /// Only of another market than win and place: its pool. `runners` is empty, and the sequences are those of the
    /// quotes that changed it.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "PoolCode")]
    market: Option<&'a PoolCode>,
    /// Only with a `market`: its prices, ordered by combination.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Vec<MarketPrice<'a>>")]
    prices: Option<Vec<MarketPrice<'a>>>,
}

/// The price of a combination.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct MarketPrice<'a> {
    /// Saddle-cloth numbers, in the order of the finish where the pool asks for it.
    combination: &'a [u16],
    /// The price; left out if there is none, and of a range.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "f64")]
    odds: Option<Odds>,
    /// The lowest price of a range.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "f64")]
    low: Option<Odds>,
    /// The highest price of a range.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "f64")]
    high: Option<Odds>,
    /// Why there is no price; left out if nothing was stated.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "PriceState")]
    state: Option<PriceState>,
}

impl<'a> MarketPrice<'a> {
    fn of(price: &'a QuotedPrice) -> Self {
        Self {
            combination: &price.combination,
            odds: price.odds,
            low: price.low,
            high: price.high,
            state: price.state,
        }
    }
}

/// A market of a source and its latest quote.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct MarketSource<'a> {
    /// The pool.
    market: &'a PoolCode,
    #[serde(flatten)]
    quoted: OddsSource<'a>,
}
