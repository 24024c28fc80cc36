//! What is invested in the pools of a race: the latest total of each, as each source states it.

use std::collections::BTreeMap;

use events::{Amount, Currency, Moment, PoolCode, PoolInvested, Recorded, SOURCES_MAX};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::log_clock::LogClock;
use crate::newest::{Newest, Order};

/// The pools of a race that a source may state: as many as its markets.
const POOLS_PER_SOURCE_MAX: usize = 16;

/// The pools of a race, by source.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Pools(BTreeMap<String, BTreeMap<PoolCode, LatestTotal>>);

/// The latest total of a pool of a source.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct LatestTotal {
    totals: Newest,
    /// When it was stated, and when the log stored it.
    time: Moment,
    recorded_at: Moment,
    currency: Currency,
    invested: Amount,
}

impl Pools {
    /// Takes a total. Of too many sources or pools it is stale.
    pub(crate) fn take(
        &mut self,
        recorded: &Recorded,
        stated: &PoolInvested,
        clock: &LogClock,
    ) -> Order {
        let source = &recorded.envelope.source;
        let has_room = match self.0.get(source) {
            Some(pools) => pools.len() < POOLS_PER_SOURCE_MAX || pools.contains_key(&stated.pool),
            None => self.0.len() < SOURCES_MAX,
        };
        if !has_room {
            return Order::Stale;
        }
        let pools = self.0.entry(source.clone()).or_default();
        let earlier = pools.get(&stated.pool);
        let mut totals = earlier.map_or_else(Newest::default, |latest| latest.totals.clone());
        let order = totals.take(recorded, clock);
        if order == Order::New {
            let latest = LatestTotal {
                totals,
                time: recorded.envelope.time,
                recorded_at: recorded.recorded_at,
                currency: stated.currency.clone(),
                invested: stated.invested,
            };
            pools.insert(stated.pool.clone(), latest);
        }
        order
    }

    pub(crate) fn last_stated_at(&self) -> Option<Moment> {
        let latest = self.0.values().flat_map(BTreeMap::values);
        latest.map(|latest| latest.recorded_at).max()
    }

    /// All totals, by source and pool.
    pub(crate) fn totals(&self) -> Vec<PoolTotal<'_>> {
        let mut totals = Vec::new();
        for (source, pools) in &self.0 {
            totals.extend(pools.iter().map(|(pool, latest)| PoolTotal {
                pool,
                source,
                currency: &latest.currency,
                invested: latest.invested,
                time: latest.time,
                recorded_at: latest.recorded_at,
            }));
        }
        totals
    }
}

/// What is invested in a pool, as a source states it.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct PoolTotal<'a> {
    /// The pool.
    pool: &'a PoolCode,
    /// The feeder.
    source: &'a str,
    /// The currency of the amount.
    currency: &'a Currency,
    /// What is invested.
    invested: Amount,
    /// When that was stated, RFC 3339.
    time: Moment,
    /// When the log stored it, RFC 3339, to the microsecond.
    recorded_at: Moment,
}
