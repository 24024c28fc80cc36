//! [`LatestQuote`] and [`PriceLine`]: what the board and the other markets know of the quotes of a source.

use events::{Moment, Recorded};
use serde::{Deserialize, Serialize};

use crate::json;

/// A price of a live quote.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PriceLine {
    /// The horse, or the numbers of the combination, as bytes that order prices.
    pub of: Vec<u8>,
    /// A JSON object.
    pub json: Vec<u8>,
}

impl PriceLine {
    pub(crate) fn new(of: Vec<u8>, price: &impl Serialize) -> Self {
        let json = json::render(price);
        Self { of, json }
    }
}

/// Prices, and the quotes that led to them.
pub(crate) type Quoted<'a> = (&'a LatestQuote, Vec<PriceLine>);

/// How far the quotes of a source are.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct LatestQuote {
    pub(crate) latest: EventTimes,
    /// The latest one that changed a price, unless that is the latest one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    changed: Option<EventTimes>,
    /// The sequence of the change before; 0 if there is none.
    pub(crate) prev_seq: u64,
}

/// When an event happened, and where it is in the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct EventTimes {
    pub(crate) seq: u64,
    pub(crate) time: Moment,
    pub(crate) recorded_at: Moment,
}

impl From<&Recorded> for EventTimes {
    fn from(recorded: &Recorded) -> Self {
        Self {
            seq: recorded.seq,
            time: recorded.envelope.time,
            recorded_at: recorded.recorded_at,
        }
    }
}

impl LatestQuote {
    /// The first quote of a source.
    pub(crate) fn first(recorded: &Recorded) -> Self {
        Self {
            latest: recorded.into(),
            changed: None,
            prev_seq: 0,
        }
    }

    /// Takes the next quote of the source.
    pub(crate) fn take(&mut self, recorded: &Recorded, changes_prices: bool) {
        let changed = self.changed();
        self.latest = recorded.into();
        self.changed = (!changes_prices).then_some(changed);
        if changes_prices {
            self.prev_seq = changed.seq;
        }
    }

    /// The latest quote that changed a price.
    pub(crate) fn changed(&self) -> EventTimes {
        self.changed.unwrap_or(self.latest)
    }
}
