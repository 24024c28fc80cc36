//! [`PlaceMarket`]: the prices of a PLACE market, which are quoted with those of its WIN market.

use std::collections::{BTreeMap, HashMap};

use events::{Moment, Odds};

use super::message::MarketChange;
use crate::item::{LineItems, Omitted};

/// Prices in memory, of 32 bytes: those of a month in Britain.
pub(super) const PRICES_MAX: usize = if cfg!(test) { 100 } else { 2_000_000 };

#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct PlaceMarket {
    /// The last traded prices, by time.
    pub(super) prices: Vec<PlacePrice>,
    pub(super) starting_prices: BTreeMap<u64, Odds>,
}

/// When a runner was traded at which price.
pub(super) type PlacePrice = (Moment, u64, Odds);

/// PLACE markets by their ids, from a first reading.
#[derive(Debug, Default)]
pub(super) struct PlaceMarkets {
    markets: HashMap<String, PlaceMarket>,
    count: usize,
}

impl PlaceMarkets {
    /// Adds the prices of a change. Those that are invalid are rejected by the second reading.
    pub(super) fn add(&mut self, change: &MarketChange<'_>, time: Moment) {
        for runner in change.rc.iter().flatten() {
            if let Some(Ok(Some(price))) = runner.price() {
                self.count += 1;
                if self.count <= PRICES_MAX {
                    let prices = &mut self.market(&change.id).prices;
                    prices.push((time, runner.id, price));
                }
            }
        }
    }

    /// Appends the prices of another file.
    pub(super) fn append(&mut self, more: Self) {
        self.count += more.count;
        for (id, more) in more.markets {
            if self.count <= PRICES_MAX {
                let market = self.market(&id);
                market.prices.extend(more.prices);
                market.starting_prices.extend(more.starting_prices);
            }
        }
    }

    /// Removes a market; `None` if there are too many prices, so that some of them are missing.
    pub(super) fn take(&mut self, id: &str) -> Option<PlaceMarket> {
        let mut market = self.markets.remove(id).unwrap_or_default();
        market.prices.sort_by_key(|(time, ..)| *time);
        (self.count <= PRICES_MAX).then_some(market)
    }

    pub(super) fn market(&mut self, id: &str) -> &mut PlaceMarket {
        self.markets.entry(id.to_owned()).or_default()
    }
}

/// Rejects the invalid prices of a change of a PLACE market.
pub(super) fn check(change: &MarketChange<'_>, omitted: &mut Omitted, out: &mut LineItems) {
    match change.definition(omitted) {
        Ok(Some(definition)) => drop(definition.starting_prices(|reason| out.reject(reason))),
        Ok(None) => {}
        Err(reason) => out.reject(format!("the definition of market {}: {reason}", change.id)),
    }
    for runner in change.rc.iter().flatten() {
        match runner.price() {
            Some(Err(reason)) => out.reject(reason),
            // A quote cannot withdraw a place price.
            Some(Ok(None)) => *omitted.entry("ltp".to_owned()).or_default() += 1,
            _ => {}
        }
    }
}
