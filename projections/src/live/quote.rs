//! [`LiveQuote`]: the prices of a market as a source quotes them, for those who chose the market.

use events::{PoolCode, RaceKey, RaceNumber};
use schemars::JsonSchema;
use serde::Serialize;

use super::message_fields::{LogFields, MeetingFields};
use crate::quotes::LatestQuote;
use crate::race::Race;
use crate::{MarketKey, PriceLine, json};

/// The prices of a quote after it, or all prices of a market of a source.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LiveQuote {
    /// The market and the source.
    pub market: MarketKey,
    /// The `seq` of the previous quote of the market and the source that changed a price; 0 if there is none.
    pub prev_seq: u64,
    /// The message up to its first price.
    pub head: Vec<u8>,
    /// The prices.
    pub prices: Vec<PriceLine>,
}

impl LiveQuote {
    /// Renders prices of a market, which is at its latest quote that changed one.
    pub(crate) fn new(
        key: &RaceKey,
        race: &Race,
        market: MarketKey,
        (latest, prices): (&LatestQuote, Vec<PriceLine>),
    ) -> Self {
        let list: &[u8] = match market.is_of_runners() {
            true => br#","runners":["#,
            false => br#","prices":["#,
        };
        let fields = json::render(&QuoteHead {
            event: "quote",
            meeting: MeetingFields::of(key, race),
            race_number: key.race_number,
            source: &market.source,
            market: &market.market,
            log: LogFields::of(latest.changed(), latest.prev_seq),
        });
        let fields = fields.strip_suffix(b"}").unwrap_or(&fields);
        Self {
            prev_seq: latest.prev_seq,
            head: [fields, list].concat(),
            market,
            prices,
        }
    }

    /// The message.
    pub fn message(&self) -> Vec<u8> {
        quote_message(&self.head, self.prices.iter().map(|line| &line.json))
    }
}

/// A message of prices, each a JSON object.
pub fn quote_message<'a>(head: &[u8], prices: impl Iterator<Item = &'a Vec<u8>>) -> Vec<u8> {
    let prices: Vec<&[u8]> = prices.map(Vec::as_slice).collect();
    [head, &prices.join(&b","[..]), b"]}"].concat()
}

/// The fields of a message before its prices.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct QuoteHead<'a> {
    #[schemars(extend("const" = "quote"))]
    event: &'a str,
    #[serde(flatten)]
    meeting: MeetingFields<'a>,
    /// The race's number.
    race_number: RaceNumber,
    /// The feeder.
    source: &'a str,
    /// The pool, or `win_place`.
    market: &'a PoolCode,
    #[serde(flatten)]
    log: LogFields,
}
