//! The history of the quotes of a race, and the prices that they make by steps of time.

use std::collections::BTreeMap;
use std::time::Duration;

use events::{Event, HorseNo, Moment, Odds, OddsQuoted, PoolCode, Recorded};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::json;
use crate::log_clock::LogClock;
use crate::markets::{MarketKey, MarketPrice, Markets};
use crate::newest::{Order, identity_of};
use crate::odds_board::QuotedPrices;

/// A quote in the history.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct OddsTick<'a> {
    /// The log sequence of the quote.
    seq: u64,
    /// When it was quoted, RFC 3339.
    #[schemars(extend("format" = "date-time"))]
    time: String,
    /// When the log stored it, RFC 3339, to the microsecond.
    #[schemars(extend("format" = "date-time"))]
    recorded_at: String,
    /// The feeder.
    source: &'a str,
    /// The event's identity.
    event_id: &'a str,
    /// Whether it was older than the prices of its source, and did not change them.
    stale: bool,
    /// The quoted runners; none in another market than win and place.
    runners: Vec<QuotedPrices<'a>>,
    /// The quoted combinations of another market.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Vec<MarketPrice<'a>>")]
    prices: Option<Vec<MarketPrice<'a>>>,
}

impl<'a> OddsTick<'a> {
    fn of(recorded: &'a Recorded, stale: bool) -> Self {
        Self {
            seq: recorded.seq,
            time: recorded.envelope.time.to_string(),
            recorded_at: recorded.recorded_at.to_string(),
            source: &recorded.envelope.source,
            event_id: &recorded.envelope.id,
            stale,
            runners: Vec::new(),
            prices: None,
        }
    }
}

/// Appends a quote to a chunk of the history: JSON objects with commas between them.
pub(crate) fn append_tick(
    chunk: &mut Vec<u8>,
    recorded: &Recorded,
    quote: &OddsQuoted,
    stale: bool,
) {
    let runners = quote.runners.iter().map(|runner| QuotedPrices {
        horse_no: &runner.horse_no,
        win: runner.win,
        place: runner.place,
        state: runner.state,
    });
    let tick = OddsTick {
        runners: runners.collect(),
        ..OddsTick::of(recorded, stale)
    };
    json::append_row(chunk, &tick);
}

/// The quotes of a market among the events of a race up to a later state of the log's clock: JSON objects as in the
/// history of the board, with commas between them. Those that are repeated are left out.
pub fn market_history(clock: &LogClock, market: &PoolCode, events: &[Recorded]) -> Vec<u8> {
    let mut markets = Markets::default();
    let mut rows = Vec::new();
    for recorded in events {
        let Event::MarketQuoted(quote) = &recorded.envelope.event else {
            continue;
        };
        let key = MarketKey::of(quote, recorded);
        let order = markets.quote(&key, recorded, quote, clock);
        if quote.market == *market && order != Order::Repeated {
            let prices = quote.prices.iter().map(MarketPrice::of).collect();
            let tick = OddsTick {
                prices: Some(prices),
                ..OddsTick::of(recorded, order == Order::Stale)
            };
            json::append_row(&mut rows, &tick);
        }
    }
    rows
}

/// The identities of the quotes in a chunk.
pub(crate) fn identities(chunk: &[u8]) -> impl Iterator<Item = u64> {
    #[derive(Deserialize)]
    struct TickId {
        source: String,
        event_id: String,
    }
    let list = [b"[", chunk, b"]"].concat();
    let ids: Vec<TickId> = serde_json::from_slice(&list).unwrap_or_default();
    ids.into_iter()
        .map(|id| identity_of(&id.source, &id.event_id))
}

/// A quote in the history, as it is stored.
#[derive(Debug, Serialize, Deserialize)]
pub struct StoredQuote<'a> {
    seq: u64,
    #[serde(borrow)]
    time: &'a RawValue,
    pub recorded_at: Moment,
    pub source: String,
    #[serde(borrow)]
    event_id: &'a RawValue,
    pub stale: bool,
    #[serde(borrow)]
    pub runners: Vec<&'a RawValue>,
    #[serde(borrow, default, skip_serializing_if = "Vec::is_empty")]
    pub prices: Vec<&'a RawValue>,
}

/// What a price is of.
#[serde_with::skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
pub struct Priced {
    /// The horse whose win price it is; left out in another market.
    #[schemars(with = "HorseNo")]
    pub horse_no: Option<HorseNo>,
    /// The saddle-cloth numbers in another market than win and place.
    #[schemars(with = "Vec<u16>")]
    pub combination: Option<Vec<u16>>,
}

impl Priced {
    /// Whether it is a runner, or a combination with it.
    pub fn has(&self, runner: &str, runner_number: u16) -> bool {
        let horse_no = self.horse_no.as_ref().map(HorseNo::as_str);
        let mut numbers = self.combination.iter().flatten();
        horse_no == Some(runner) || numbers.any(|number| *number == runner_number)
    }
}

#[derive(Deserialize)]
struct StatedPrice {
    #[serde(flatten)]
    of: Priced,
    #[serde(alias = "odds")]
    win: Option<Odds>,
}

/// The win price of a runner, or that of a combination, in a step of time in which it was quoted.
#[derive(Debug, Serialize, JsonSchema)]
pub struct OddsStep {
    /// When the step begins: a multiple of its length, RFC 3339 in UTC.
    pub from: Moment,
    #[serde(flatten)]
    of: Priced,
    /// The price before the first quote of the step, or that of the first quote of all; null without one.
    #[schemars(with = "Option<f64>")]
    open: Option<Odds>,
    /// The highest price in the step, with that.
    #[schemars(with = "Option<f64>")]
    high: Option<Odds>,
    /// The lowest one.
    #[schemars(with = "Option<f64>")]
    low: Option<Odds>,
    /// The price at the end of the step; null without one.
    #[schemars(with = "Option<f64>")]
    close: Option<Odds>,
    /// The number of quotes.
    quotes: u32,
}

/// Prices by steps of time.
#[derive(Debug, Default)]
pub struct PriceSteps {
    length: Duration,
    /// The beginning of the step of the latest quote.
    from: Option<Moment>,
    closes: BTreeMap<Priced, Option<Odds>>,
    /// The prices that were quoted in that step.
    quoted: BTreeMap<Priced, OddsStep>,
}

impl PriceSteps {
    /// Steps of a length.
    pub fn of(length: Duration) -> Self {
        Self {
            length,
            ..Self::default()
        }
    }

    /// Takes the chosen prices of the next quote. Returns the steps that are over.
    ///
    /// # Errors
    /// Returns the error of a price that has another form.
    pub fn take(
        &mut self,
        quote: &StoredQuote<'_>,
        is_chosen: impl Fn(&Priced) -> bool,
    ) -> serde_json::Result<Vec<OddsStep>> {
        // Where the log's clock stepped back, no step is there twice.
        let from = self.from.max(Some(quote.recorded_at.floor(self.length)));
        let over = if from > self.from {
            self.finish()
        } else {
            Vec::new()
        };
        self.from = from;
        for price in quote.runners.iter().chain(&quote.prices) {
            let StatedPrice { of, win } = serde_json::from_str(price.get())?;
            if is_chosen(&of) {
                self.price(quote.recorded_at, of, win);
            }
        }
        Ok(over)
    }

    fn price(&mut self, at: Moment, of: Priced, win: Option<Odds>) {
        let before = self.closes.insert(of.clone(), win);
        let open = before.unwrap_or(win);
        let step = self.quoted.entry(of.clone()).or_insert(OddsStep {
            from: self.from.unwrap_or(at),
            of,
            open,
            high: open,
            low: open,
            close: open,
            quotes: 0,
        });
        step.high = step.high.max(win);
        step.low = step.low.into_iter().chain(win).min();
        step.close = win;
        step.quotes += 1;
    }

    /// The steps of the latest quote.
    pub fn finish(&mut self) -> Vec<OddsStep> {
        std::mem::take(&mut self.quoted).into_values().collect()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::value::to_raw_value;

    use super::*;

    /// Seconds after the beginning, the runner and its price in halves; no price below 2.
    type Quoted = (i64, u8, u32);

    fn price((_, _, halves): &Quoted) -> Option<Odds> {
        Odds::from_thousandths(halves * 500)
            .ok()
            .filter(|_| *halves >= 4)
    }

    /// The steps, computed for each runner and step alone.
    fn expected(quotes: &[Quoted], length: i64) -> Vec<(i64, u8, [Option<Odds>; 4], u32)> {
        let mut keys: Vec<_> = quotes
            .iter()
            .map(|(at, runner, _)| (at / length, *runner))
            .collect();
        keys.sort_unstable();
        keys.dedup();
        let row = |(step, runner): (i64, u8)| {
            let of_runner: Vec<_> = quotes.iter().filter(|quote| quote.1 == runner).collect();
            let before = of_runner.iter().rev().find(|quote| quote.0 / length < step);
            let inside: Vec<_> = of_runner
                .iter()
                .filter(|quote| quote.0 / length == step)
                .collect();
            let open = price(before.unwrap_or(inside[0]));
            let all = || inside.iter().filter_map(|quote| price(quote)).chain(open);
            let close = price(inside[inside.len() - 1]);
            (
                step * length,
                runner,
                [open, all().max(), all().min(), close],
                inside.len() as u32,
            )
        };
        keys.into_iter().map(row).collect()
    }

    proptest! {
        #[test]
        fn steps_are_those_of_each_runner_alone(
            mut quotes in prop::collection::vec((0_i64..600, 0_u8..3, 3_u32..20), 1..60),
            length in 1_i64..120,
        ) {
            quotes.sort_by_key(|quote| quote.0);
            let mut steps = PriceSteps::of(Duration::from_secs(length.unsigned_abs()));
            let mut rows = Vec::new();
            for quoted in &quotes {
                let prices = serde_json::json!({ "horse_no": format!("H{}", quoted.1), "win": price(quoted) });
                let prices = to_raw_value(&prices).expect("JSON");
                let text = to_raw_value("").expect("JSON");
                let quote = StoredQuote {
                    seq: 1,
                    time: &text,
                    recorded_at: Moment::from(jiff::Timestamp::from_second(quoted.0).expect("in range")),
                    source: String::new(),
                    event_id: &text,
                    stale: false,
                    runners: vec![&prices],
                    prices: Vec::new(),
                };
                rows.extend(steps.take(&quote, |_| true).expect("prices"));
            }
            rows.extend(steps.finish());
            let found: Vec<_> = rows
                .iter()
                .map(|step| {
                    let horse_no = step.of.horse_no.as_ref().expect("a runner").as_str();
                    let prices = [step.open, step.high, step.low, step.close];
                    let from = step.from.timestamp().as_second();
                    (from, horse_no[1..].parse().expect("a number"), prices, step.quotes)
                })
                .collect();
            prop_assert_eq!(found, expected(&quotes, length));
        }
    }
}
