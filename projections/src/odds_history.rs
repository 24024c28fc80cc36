//! The history of the quotes of a race, and the prices that they make by steps of time.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::time::Duration;

use events::{
    Event, HorseNo, Moment, Odds, OddsQuoted, PoolCode, PriceState, QuotedRunner, Recorded,
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::keys::TICKS_PER_CHUNK;
use crate::log_clock::{LogClock, Micros};
use crate::markets::{MarketKey, MarketPrice, Markets};
use crate::newest::{Order, identity_of};
use crate::odds_board::QuotedPrices;
use crate::store::{StoreError, StoreResult};

/// A quote in the history.
#[derive(Debug, Serialize, JsonSchema)]
pub struct OddsTick<'a> {
    /// The log sequence of the quote.
    pub seq: u64,
    /// When it was quoted, RFC 3339.
    time: Moment,
    /// When the log stored it, RFC 3339, to the microsecond.
    pub recorded_at: Moment,
    /// The feeder.
    pub source: &'a str,
    /// The event's identity.
    event_id: Cow<'a, str>,
    /// Whether it was older than the prices of its source, and did not change them.
    pub stale: bool,
    /// The quoted runners; none in another market than win and place.
    runners: Vec<QuotedPrices<'a>>,
    /// The quoted combinations of another market.
    #[serde(skip_serializing_if = "Option::is_none")]
    prices: Option<Vec<MarketPrice<'a>>>,
}

impl OddsTick<'_> {
    /// Keeps the prices of a runner, and of combinations with it. Returns whether there are any.
    pub fn retain(&mut self, horse_no: &str, number: u16) -> bool {
        self.runners.retain(|runner| runner.horse_no == horse_no);
        if let Some(prices) = &mut self.prices {
            prices.retain(|price| price.combination.contains(&number));
        }
        !self.runners.is_empty() || self.prices.iter().any(|prices| !prices.is_empty())
    }

    fn prices(&self) -> impl Iterator<Item = (Priced, Option<Odds>)> {
        let runner = |runner: &QuotedPrices<'_>| Priced {
            horse_no: Some(runner.horse_no.to_owned()),
            combination: None,
        };
        let combination = |price: &MarketPrice<'_>| Priced {
            horse_no: None,
            combination: Some(price.combination.to_vec()),
        };
        let runners = self.runners.iter().map(move |it| (runner(it), it.win));
        let combinations = self.prices.iter().flatten();
        runners.chain(combinations.map(move |price| (combination(price), price.odds)))
    }
}

/// A quote of win and place prices as it is stored, with others in a chunk.
#[derive(Serialize, Deserialize)]
struct StoredTick<'a> {
    seq: u64,
    time: Micros,
    /// How long after `time`: most are short.
    recorded_after: Micros,
    source: &'a str,
    #[serde(borrow)]
    event_id: StoredId<'a>,
    stale: bool,
    #[serde(borrow)]
    runners: Vec<StoredPrices<'a>>,
}

/// The id of an event, which compression does not shorten: a UUID in 16 bytes.
#[derive(Serialize, Deserialize)]
enum StoredId<'a> {
    Uuid(uuid::Bytes),
    Text(&'a str),
}

/// The prices of a runner, in thousandths.
#[derive(Serialize, Deserialize)]
struct StoredPrices<'a> {
    horse_no: &'a str,
    win: Option<u32>,
    place: Option<u32>,
    state: Option<PriceState>,
}

impl<'a> StoredTick<'a> {
    fn tick(&self) -> Option<OddsTick<'a>> {
        let runners = self.runners.iter().map(StoredPrices::prices);
        Some(OddsTick {
            seq: self.seq,
            time: Moment::from_microseconds(self.time)?,
            recorded_at: Moment::from_microseconds(self.time.wrapping_add(self.recorded_after))?,
            source: self.source,
            event_id: self.event_id.text(),
            stale: self.stale,
            runners: runners.collect::<Option<_>>()?,
            prices: None,
        })
    }
}

impl<'a> StoredId<'a> {
    fn of(id: &'a str) -> Self {
        let uuid = Uuid::parse_str(id).ok();
        // A UUID may be written in capitals, or without hyphens.
        let usual =
            uuid.filter(|uuid| uuid.hyphenated().encode_lower(&mut Uuid::encode_buffer()) == id);
        usual.map_or(Self::Text(id), |uuid| Self::Uuid(uuid.into_bytes()))
    }

    fn text(&self) -> Cow<'a, str> {
        match self {
            Self::Uuid(bytes) => Uuid::from_bytes(*bytes).to_string().into(),
            Self::Text(id) => (*id).into(),
        }
    }
}

impl<'a> StoredPrices<'a> {
    fn of(runner: &'a QuotedRunner) -> Self {
        Self {
            horse_no: runner.horse_no.as_str(),
            win: runner.win.map(Odds::thousandths),
            place: runner.place.map(Odds::thousandths),
            state: runner.state,
        }
    }

    fn prices(&self) -> Option<QuotedPrices<'a>> {
        let odds = |stored: Option<u32>| stored.map(Odds::from_thousandths).transpose().ok();
        Some(QuotedPrices {
            horse_no: self.horse_no,
            win: odds(self.win)?,
            place: odds(self.place)?,
            state: self.state,
        })
    }
}

/// Appends a quote to a chunk of the history.
pub(crate) fn append_tick(
    chunk: &mut Vec<u8>,
    recorded: &Recorded,
    odds: &OddsQuoted,
    stale: bool,
) {
    let time = recorded.envelope.time.microseconds();
    let tick = StoredTick {
        seq: recorded.seq,
        time,
        recorded_after: recorded.recorded_at.microseconds().wrapping_sub(time),
        source: &recorded.envelope.source,
        event_id: StoredId::of(&recorded.envelope.id),
        stale,
        runners: odds.runners.iter().map(StoredPrices::of).collect(),
    };
    *chunk = postcard::to_extend(&tick, std::mem::take(chunk)).expect("a vector has room");
}

/// The quotes in a chunk of the history.
///
/// # Errors
/// Returns [`StoreError::Corrupt`] if the chunk has anything else.
pub fn ticks<'a>(key: &str, mut chunk: &'a [u8]) -> StoreResult<Vec<OddsTick<'a>>> {
    let mut ticks = Vec::with_capacity(TICKS_PER_CHUNK as usize);
    while !chunk.is_empty() {
        let taken = postcard::take_from_bytes::<StoredTick<'_>>(chunk).ok();
        let tick = taken.and_then(|(stored, rest)| Some((stored.tick()?, rest)));
        let (tick, rest) = tick.ok_or_else(|| StoreError::corrupt(key, "it has no quotes"))?;
        ticks.push(tick);
        chunk = rest;
    }
    Ok(ticks)
}

/// The quotes of a market among the events of a race up to a later state of the log's clock. Those that are repeated
/// are left out.
pub fn market_ticks<'a>(
    clock: &LogClock,
    market: &PoolCode,
    events: &'a [Recorded],
) -> Vec<OddsTick<'a>> {
    let mut markets = Markets::default();
    let mut ticks = Vec::new();
    for recorded in events {
        let Event::MarketQuoted(quote) = &recorded.envelope.event else {
            continue;
        };
        let order = markets.quote(&MarketKey::of(quote, recorded), recorded, quote, clock);
        if quote.market == *market && order != Order::Repeated {
            ticks.push(OddsTick {
                seq: recorded.seq,
                time: recorded.envelope.time,
                recorded_at: recorded.recorded_at,
                source: &recorded.envelope.source,
                event_id: recorded.envelope.id.as_str().into(),
                stale: order == Order::Stale,
                runners: Vec::new(),
                prices: Some(quote.prices.iter().map(MarketPrice::of).collect()),
            });
        }
    }
    ticks
}

/// The identities of the quotes in a chunk.
pub(crate) fn identities(key: &str, chunk: &[u8]) -> StoreResult<impl Iterator<Item = u64>> {
    let ticks = ticks(key, chunk)?.into_iter();
    Ok(ticks.map(|tick| identity_of(tick.source, &tick.event_id)))
}

/// What a price is of.
#[serde_with::skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, JsonSchema)]
pub struct Priced {
    /// The horse whose win price it is; left out in another market.
    #[schemars(with = "Option<HorseNo>")]
    pub horse_no: Option<String>,
    /// The saddle-cloth numbers in another market than win and place.
    pub combination: Option<Vec<u16>>,
}

impl Priced {
    /// Whether it is a runner, or a combination with it.
    pub fn has(&self, runner: &str, runner_number: u16) -> bool {
        let mut numbers = self.combination.iter().flatten();
        self.horse_no.as_deref() == Some(runner) || numbers.any(|number| *number == runner_number)
    }
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
    /// The first and the last price in the step.
    #[serde(skip)]
    ends: Option<(Odds, Odds)>,
}

/// How the win price of a runner, or that of a combination, moved until the race was off.
#[derive(Debug, Serialize, JsonSchema)]
pub struct OddsMove {
    #[serde(flatten)]
    of: Priced,
    /// The first price.
    opening: Odds,
    /// The highest price.
    high: Odds,
    /// The lowest price.
    low: Odds,
    /// The last price.
    closing: Odds,
    /// The implied probability of `closing` (100 divided by the price) less that of `opening`, in percentage points.
    probability_change: f64,
    /// The number of quotes.
    quotes: u32,
}

impl OddsStep {
    /// The move in a step; `None` if it has no price.
    pub fn into_move(self) -> Option<OddsMove> {
        let (opening, closing) = self.ends?;
        // In hundredths of a percent.
        let implied = |odds: Odds| (10_000_000.0 / f64::from(odds.thousandths())).round();
        Some(OddsMove {
            of: self.of,
            opening,
            high: self.high?,
            low: self.low?,
            closing,
            probability_change: (implied(closing) - implied(opening)) / 100.0,
            quotes: self.quotes,
        })
    }
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
    pub fn take(
        &mut self,
        tick: &OddsTick<'_>,
        is_chosen: impl Fn(&Priced) -> bool,
    ) -> Vec<OddsStep> {
        // Where the log's clock stepped back, no step is there twice.
        let from = self.from.max(Some(tick.recorded_at.floor(self.length)));
        let is_over = from > self.from;
        let over = if is_over { self.finish() } else { Vec::new() };
        self.from = from;
        for (priced, odds) in tick.prices().filter(|(priced, _)| is_chosen(priced)) {
            self.price(tick.recorded_at, priced, odds);
        }
        over
    }

    fn price(&mut self, at: Moment, of: Priced, win: Option<Odds>) {
        let open = self.closes.insert(of.clone(), win).unwrap_or(win);
        let step = self.quoted.entry(of.clone()).or_insert(OddsStep {
            from: self.from.unwrap_or(at),
            of,
            open,
            high: open,
            low: open,
            close: open,
            quotes: 0,
            ends: None,
        });
        step.high = step.high.max(win);
        step.low = step.low.into_iter().chain(win).min();
        step.close = win;
        step.quotes += 1;
        if let Some(win) = win {
            step.ends.get_or_insert((win, win)).1 = win;
        }
    }

    /// The steps of the latest quote.
    pub fn finish(&mut self) -> Vec<OddsStep> {
        std::mem::take(&mut self.quoted).into_values().collect()
    }
}

#[cfg(test)]
mod tests {
    use events::{Envelope, RaceNumber, RacingDate, VenueCode};
    use proptest::prelude::*;

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

    /// A quote of some runners, each with a number, and perhaps a price, a place price and a state.
    fn recorded(id: &str, time: i64, runners: &[(u8, Option<u32>, Option<u32>, bool)]) -> Recorded {
        let odds = |thousandths: u32| Odds::from_thousandths(thousandths).expect("in range");
        let runner =
            |(n, win, place, is_scratched): &(u8, Option<u32>, Option<u32>, bool)| QuotedRunner {
                horse_no: HorseNo::parse(&format!("HK_{n}")).expect("a number"),
                horse_name: None,
                number: None,
                win: win.map(odds),
                place: place.map(odds),
                state: is_scratched.then_some(PriceState::Scratched),
            };
        Recorded {
            seq: time.unsigned_abs(),
            recorded_at: Moment::from_microseconds(time + 7).expect("in range"),
            envelope: Envelope {
                id: id.to_owned(),
                source: "tote".to_owned(),
                time: Moment::from_microseconds(time).expect("in range"),
                event: Event::OddsQuoted(OddsQuoted {
                    date: RacingDate::parse("2026-11-21").expect("a date"),
                    venue: VenueCode::parse("ST").expect("a code"),
                    race_number: RaceNumber::parse("1").expect("a number"),
                    runners: runners.iter().map(runner).collect(),
                }),
            },
        }
    }

    proptest! {
        /// Each tick is compared with the event's own JSON.
        #[test]
        fn what_is_stored_of_quotes_is_what_they_state(
            quotes in prop::collection::vec((
                "[ -~é馬]{1,9}|[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}|[0-9A-F]{32}",
                -62_135_596_800_000_000..253_370_764_800_000_000_i64,
                prop::collection::vec((
                    any::<u8>(),
                    prop::option::of(1_000..100_000_001_u32),
                    prop::option::of(1_000..100_000_001_u32),
                    any::<bool>(),
                ), 0..4),
                any::<bool>(),
            ), 0..9),
            cut in 1_usize..9,
        ) {
            let mut chunk = Vec::new();
            let mut stated = Vec::new();
            for (id, time, runners, stale) in &quotes {
                let recorded = recorded(id, *time, runners);
                let Event::OddsQuoted(odds) = &recorded.envelope.event else { unreachable!() };
                append_tick(&mut chunk, &recorded, odds, *stale);
                let mut row = serde_json::to_value(odds).expect("JSON");
                row.as_object_mut().expect("an object").retain(|field, _| field == "runners");
                row["seq"] = recorded.seq.into();
                row["time"] = recorded.envelope.time.to_string().into();
                row["recorded_at"] = recorded.recorded_at.to_string().into();
                row["source"] = "tote".into();
                row["event_id"] = id.as_str().into();
                row["stale"] = (*stale).into();
                for (runner, (_, win, ..)) in row["runners"].as_array_mut().expect("runners").iter_mut().zip(runners) {
                    if win.is_none() {
                        runner["win"] = serde_json::Value::Null;
                    }
                }
                stated.push(row);
            }
            let found = ticks("", &chunk).expect("quotes");
            prop_assert_eq!(serde_json::to_value(&found).expect("JSON"), serde_json::Value::from(stated));
            if chunk.len() > cut && !quotes.is_empty() {
                let whole = ticks("", &chunk[..chunk.len() - cut]);
                prop_assert!(whole.is_err() || whole.expect("some").len() < quotes.len());
            }
        }

        #[test]
        fn steps_are_those_of_each_runner_alone(
            mut quotes in prop::collection::vec((0_i64..600, 0_u8..3, 3_u32..20), 1..60),
            length in 1_i64..120,
        ) {
            quotes.sort_by_key(|quote| quote.0);
            let mut steps = PriceSteps::of(Duration::from_secs(length.unsigned_abs()));
            let mut rows = Vec::new();
            for quoted in &quotes {
                let horse_no = format!("H{}", quoted.1);
                let tick = OddsTick {
                    seq: 1,
                    time: Moment::from(jiff::Timestamp::UNIX_EPOCH),
                    recorded_at: Moment::from(jiff::Timestamp::from_second(quoted.0).expect("in range")),
                    source: "",
                    event_id: "".into(),
                    stale: false,
                    runners: vec![QuotedPrices {
                        horse_no: &horse_no,
                        win: price(quoted),
                        place: None,
                        state: None,
                    }],
                    prices: None,
                };
                rows.extend(steps.take(&tick, |_| true));
            }
            rows.extend(steps.finish());
            let found: Vec<_> = rows
                .iter()
                .map(|step| {
                    let horse_no = step.of.horse_no.as_deref().expect("a runner");
                    let prices = [step.open, step.high, step.low, step.close];
                    let from = step.from.timestamp().as_second();
                    (from, horse_no[1..].parse().expect("a number"), prices, step.quotes)
                })
                .collect();
            prop_assert_eq!(found, expected(&quotes, length));
        }
    }
}
