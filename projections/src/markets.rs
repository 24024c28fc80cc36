//! The markets of a race beside win and place: the latest prices of each as each source quotes them. Views of them are
//! made of the state when they are read.

use std::collections::{BTreeMap, BTreeSet};

use events::{
    MarketQuoted, Moment, Odds, PoolCode, PriceState, QuotedPrice, RaceKey, Recorded, SOURCES_MAX,
    Text,
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::newest::{Newest, Order};
use crate::odds_board::{self, BoardImage, OddsBoard, OddsSource};
use crate::quotes::{LatestQuote, Quoted};
use crate::race::Race;
use crate::source_rankings::rank;
use crate::store::{self, StoreResult};
use crate::{LogClock, PriceLine, Store, json, keys};

/// The markets of a race that a source may quote: about twice the pools of the largest totes.
const MARKETS_PER_SOURCE_MAX: usize = 16;
/// The combinations of a market that have a price: all orders of three of 16 runners are 3,360.
const COMBINATIONS_MAX: usize = 4_096;

/// The markets of a race.
#[derive(Debug, Default)]
pub(crate) struct Markets(pub(crate) BTreeMap<MarketKey, QuotedMarket>);

/// A market of a source.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct MarketKey {
    /// The pool, or `win_place`.
    pub market: PoolCode,
    /// The feeder.
    pub source: String,
}

impl MarketKey {
    /// That of a source's prices of runners, which the board has.
    fn new(market: PoolCode, source: &str) -> Self {
        let source = source.to_owned();
        Self { market, source }
    }

    pub(crate) fn of_runners(source: &str) -> Self {
        Self::new(PoolCode::win_place(), source)
    }

    pub(crate) fn is_of_runners(&self) -> bool {
        self.market == PoolCode::win_place()
    }

    /// That of a quote.
    pub(crate) fn of(quote: &MarketQuoted, recorded: &Recorded) -> Self {
        Self::new(quote.market.clone(), &recorded.envelope.source)
    }
}

/// The prices of a market of a source.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct QuotedMarket {
    /// The sequence of its first quote. A quote that cannot be stale made it.
    first_seq: u64,
    latest: LatestQuote,
    quotes: Newest,
    /// By combination.
    pub(crate) prices: Vec<QuotedPrice>,
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
        let market = self.0.entry(key.clone()).or_insert_with(|| QuotedMarket {
            first_seq: recorded.seq,
            latest: LatestQuote::first(recorded),
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
        let markets = self.0.values();
        markets.map(|market| market.latest.latest.recorded_at).max()
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
                primary: self.primary(&key.market, ranking) == Some(key),
                ..OddsSource::of(&key.source, &market.latest)
            },
        });
        markets.collect()
    }

    /// The prices of a market: those of a quote, or all.
    pub(crate) fn quoted(
        &self,
        key: &MarketKey,
        quote: Option<&MarketQuoted>,
    ) -> Option<Quoted<'_>> {
        let market = self.0.get(key)?;
        let line = |price: &QuotedPrice| {
            let numbers = price.combination.iter().copied();
            let numbers = numbers.flat_map(u16::to_be_bytes).collect();
            PriceLine::new(numbers, &MarketPrice::of(price))
        };
        let prices = match quote {
            None => market.prices.iter().map(line).collect(),
            Some(quote) => {
                let quoted = quote.prices.iter();
                let known = quoted.filter_map(|price| market.prices.get(market.index(price).ok()?));
                known.map(line).collect()
            }
        };
        Some((&market.latest, prices))
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
        let chosen = match source {
            Some(source) => MarketKey::new(market.clone(), source),
            None => self.primary(market, ranking)?.clone(),
        };
        let quoted = self.0.get(&chosen)?;
        let image = BoardImage::of(&chosen.source, &quoted.latest);
        Some(json::render(&OddsMarket {
            board: odds_board::of(key, race, image, Vec::new()),
            market: Some(market),
            prices: Some(quoted.prices.iter().map(MarketPrice::of).collect()),
        }))
    }
}

impl QuotedMarket {
    fn quote(&mut self, recorded: &Recorded, quote: &MarketQuoted, clock: &LogClock) -> Order {
        let order = self.quotes.take(recorded, clock);
        if order == Order::New {
            let mut changed = false;
            for price in &quote.prices {
                changed |= self.price(price);
            }
            if self.first_seq != recorded.seq {
                self.latest.take(recorded, changed);
            }
        }
        order
    }

    /// Where the price of a combination is, or belongs.
    fn index(&self, price: &QuotedPrice) -> Result<usize, usize> {
        let prices = &self.prices;
        prices.binary_search_by(|known| known.combination.cmp(&price.combination))
    }

    /// Returns whether it was another price.
    fn price(&mut self, quoted: &QuotedPrice) -> bool {
        match self.index(quoted) {
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
}

/// The key of a market's state, after [`keys::market_states`].
pub(crate) fn state_key(race: &RaceKey, MarketKey { market, source }: &MarketKey) -> String {
    format!("{}{market}/{source}", keys::market_states(race))
}

/// The markets of a race as they are stored: all, or one.
pub(crate) fn read(store: &Store, race: &RaceKey, pool: Option<&PoolCode>) -> StoreResult<Markets> {
    let prefix = keys::market_states(race);
    let market = pool.map_or_else(String::new, |market| format!("{market}/"));
    let mut markets = Markets::default();
    for row in store.scan(&(prefix.clone() + &market)) {
        let (key, state) = row?;
        if let Some((market, source)) = key[prefix.len()..].split_once('/')
            && let Ok(market) = PoolCode::parse(market)
        {
            let state = store::parse(&key, &state)?;
            markets.0.insert(MarketKey::new(market, source), state);
        }
    }
    Ok(markets)
}

/// A race's odds board, or another market of it.
#[serde_with::skip_serializing_none]
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "OddsBoard")]
pub(crate) struct OddsMarket<'a> {
    #[serde(flatten)]
    board: OddsBoard<'a>,
    /// Only of another market than win and place: its pool. `runners` is empty, and the sequences are those of the
    /// quotes that changed it.
    market: Option<&'a PoolCode>,
    /// Only with a `market`: its prices, ordered by combination.
    prices: Option<Vec<MarketPrice<'a>>>,
}

/// The price of a combination.
#[serde_with::skip_serializing_none]
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct MarketPrice<'a> {
    /// Saddle-cloth numbers, in the order of the finish where the pool asks for it.
    pub(crate) combination: &'a [u16],
    /// The price; left out if there is none, and of a range.
    pub(crate) odds: Option<Odds>,
    /// The lowest price of a range.
    low: Option<Odds>,
    /// The highest price of a range.
    high: Option<Odds>,
    /// Why there is no price; left out if nothing was stated.
    state: Option<PriceState>,
}

impl<'a> MarketPrice<'a> {
    pub(crate) fn of(price: &'a QuotedPrice) -> Self {
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
