//! [`MarketFeed`]: all prices of a market of a source, for clients that begin to follow it.

use std::collections::BTreeMap;
use std::sync::OnceLock;

use projections::{LiveQuote, json, quote_message};

use super::frame::Frame;

#[derive(Debug, Default)]
pub(super) struct MarketFeed {
    /// The latest message up to its first price.
    head: Vec<u8>,
    /// Each as last quoted.
    prices: BTreeMap<Vec<u8>, Vec<u8>>,
    /// Encoded when it is first needed.
    image: OnceLock<Frame>,
    /// The index of the latest message; `None` before the first one in this process.
    pub(super) latest_index: Option<u64>,
}

impl MarketFeed {
    pub(super) fn take(&mut self, quote: LiveQuote) {
        self.head = quote.head;
        let prices = quote.prices.into_iter();
        self.prices.extend(prices.map(|line| (line.of, line.json)));
        self.image = OnceLock::new();
    }

    /// Keeps no prices.
    pub(super) fn clear(&mut self) {
        self.prices.clear();
        self.image = OnceLock::new();
    }

    /// The number of prices.
    pub(super) fn len(&self) -> usize {
        self.prices.len()
    }

    /// The image, encoded once for all clients.
    pub(super) fn image(&self) -> Frame {
        let encoded = || {
            let message = quote_message(&self.head, self.prices.values());
            Frame::text(&[br#"{"snapshot":true,"#, json::fields(&message), b"}"])
        };
        self.image.get_or_init(encoded).clone()
    }
}
