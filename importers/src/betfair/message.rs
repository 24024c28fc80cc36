//! [`MarketMessage`]: a line of a stream file, with the fields that are read.

use std::borrow::Cow;
use std::collections::BTreeMap;

use events::{Moment, Odds, ParseError};
use jiff::Timestamp;
use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_ignored::Path;
use serde_json::value::RawValue;

use crate::item::{Omitted, Result};
use crate::units;

/// A line. Only those with `op` `mcm`, market change messages, are about markets.
#[derive(Debug, Deserialize)]
struct StreamMessage<'a> {
    #[serde(borrow)]
    op: Cow<'a, str>,
    /// When it was published, in milliseconds since 1970.
    pt: Option<i64>,
    mc: Option<Vec<&'a RawValue>>,
}

/// A message about markets.
pub(super) struct MarketMessage<'a> {
    pub(super) time: Moment,
    /// Each is parsed apart, so that an invalid one does not affect the others.
    pub(super) changes: Vec<&'a RawValue>,
    /// The names that are not read.
    pub(super) omitted: Omitted,
}

impl<'a> MarketMessage<'a> {
    /// Reads a line: a message, or `None` if it is not about markets.
    pub(super) fn read(line: &'a [u8]) -> Result<Option<Self>> {
        let mut omitted = Omitted::new();
        let StreamMessage { op, pt, mc } = parse(line, &mut omitted)?;
        if op != "mcm" {
            return Ok(None);
        }
        let pt = pt.ok_or("missing field `pt`")?;
        let time = Timestamp::from_millisecond(pt);
        let time = time.map_err(|_| ParseError::new("pt is in milliseconds since 1970", pt))?;
        Ok(Some(Self {
            time: time.into(),
            changes: mc.unwrap_or_default(),
            omitted,
        }))
    }
}

/// Parses JSON, and counts the names in it that are not read.
fn parse<'a, T: Deserialize<'a>>(json: &'a [u8], omitted: &mut Omitted) -> serde_json::Result<T> {
    let mut deserializer = serde_json::Deserializer::from_slice(json);
    let value = serde_ignored::deserialize(&mut deserializer, |path| {
        let value = match &path {
            Path::Some { parent } => *parent,
            path => path,
        };
        if let Path::Map { key, .. } = value {
            *omitted.entry(key.clone()).or_default() += 1;
        }
    })?;
    deserializer.end()?;
    Ok(value)
}

#[derive(Debug, Deserialize)]
pub(super) struct MarketChange<'a> {
    #[serde(borrow)]
    pub(super) id: Cow<'a, str>,
    /// Parsed apart, so that the prices are read even if it is invalid.
    #[serde(borrow, rename = "marketDefinition")]
    pub(super) definition: Option<&'a RawValue>,
    pub(super) rc: Option<Vec<MarketRunnerChange<'a>>>,
}

/// Of a runner's prices only the last traded one is read.
#[derive(Debug, Deserialize)]
pub(super) struct MarketRunnerChange<'a> {
    pub(super) id: u64,
    #[serde(borrow)]
    pub(super) ltp: Option<&'a RawValue>,
    /// The amounts traded at each price.
    pub(super) trd: Option<IgnoredAny>,
}

impl MarketRunnerChange<'_> {
    /// The last traded price, if the change has it; within it `None` for `"NaN"`.
    pub(super) fn price(&self) -> Option<Result<Option<Odds>>> {
        let price = match self.ltp?.get() {
            NO_PRICE => return Some(Ok(None)),
            number => Odds::parse(number).map(Some),
        };
        Some(price.map_err(|error| format!("the ltp of runner {}: {error}", self.id).into()))
    }
}

const NO_PRICE: &str = r#""NaN""#;

/// A starting price, which is computed, rounded to the nearest thousandth; `None` for `"NaN"`.
fn starting_price(bsp: &str) -> Result<Option<Odds>, ParseError> {
    // The digits after the fourth do not change how it is rounded.
    let (whole, decimals) = bsp.split_once('.').unwrap_or((bsp, ""));
    let is_plain = decimals.bytes().all(|byte| byte.is_ascii_digit());
    match units::whole::<u32>(&format!("{whole}{decimals:0<4.4}")) {
        _ if bsp == NO_PRICE => Ok(None),
        Some(price) if is_plain => Odds::from_thousandths(price.saturating_add(5) / 10).map(Some),
        _ => Odds::parse(bsp).map(Some),
    }
}

impl<'a> MarketChange<'a> {
    pub(super) fn read(change: &'a RawValue, omitted: &mut Omitted) -> Result<Self> {
        Ok(parse(change.get().as_bytes(), omitted)?)
    }

    /// The definition, if the market is one that is read.
    pub(super) fn definition(&self, omitted: &mut Omitted) -> Result<Option<MarketDefinition>> {
        let read = |definition| MarketDefinition::read(definition, omitted);
        Ok(self.definition.map(read).transpose()?.and_then(Result::ok))
    }
}

/// Only `WIN` and `PLACE` markets of horse racing are read.
const HORSE_RACING: &str = "7";
const WIN: &str = "WIN";
pub(super) const PLACE: &str = "PLACE";

/// The fields that decide whether a market is read.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct MarketKind<'a> {
    #[serde(borrow)]
    event_type_id: Cow<'a, str>,
    #[serde(borrow)]
    market_type: Cow<'a, str>,
}

/// The state of a market. Each definition replaces the earlier one.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct MarketDefinition {
    pub(super) market_type: String,
    /// The meeting.
    pub(super) event_id: Option<String>,
    pub(super) market_time: Moment,
    /// The time of the first race of the meeting.
    pub(super) open_date: Option<Moment>,
    pub(super) timezone: String,
    /// The first definitions of a market may lack it.
    pub(super) venue: Option<String>,
    pub(super) country_code: Option<String>,
    pub(super) name: Option<String>,
    pub(super) status: MarketStatus,
    #[serde(default)]
    pub(super) in_play: bool,
    pub(super) runners: Vec<MarketRunner>,
}

impl MarketDefinition {
    /// A definition, or why its kind of market is not read.
    pub(super) fn read(
        definition: &RawValue,
        omitted: &mut Omitted,
    ) -> Result<Result<Self, ParseError>> {
        let kind: MarketKind<'_> = serde_json::from_str(definition.get())?;
        if kind.event_type_id == HORSE_RACING && [WIN, PLACE].contains(&&*kind.market_type) {
            let definition = parse(definition.get().as_bytes(), omitted)?;
            omitted.remove("eventTypeId");
            return Ok(Ok(definition));
        }
        let found = format!("{} of event type {}", kind.market_type, kind.event_type_id);
        let expected = "only WIN and PLACE markets of event type 7 (horse racing) are read";
        Ok(Err(ParseError::new(expected, found)))
    }

    /// The starting prices by runner, without those that are invalid.
    pub(super) fn starting_prices(&self, mut reject: impl FnMut(String)) -> BTreeMap<u64, Odds> {
        let valid = self.runners.iter().filter_map(|runner| {
            let price = starting_price(runner.bsp.as_deref()?.get()).unwrap_or_else(|error| {
                reject(format!("the bsp of runner {}: {error}", runner.id));
                None
            });
            Some((runner.id, price?))
        });
        valid.collect()
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub(super) enum MarketStatus {
    Inactive,
    Open,
    Suspended,
    Closed,
}

#[derive(Debug, Deserialize)]
pub(super) struct MarketRunner {
    pub(super) id: u64,
    pub(super) status: MarketRunnerStatus,
    pub(super) name: Option<String>,
    /// The starting price, once it is reconciled.
    bsp: Option<Box<RawValue>>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub(super) enum MarketRunnerStatus {
    Active,
    Winner,
    Loser,
    Placed,
    Removed,
    RemovedVacant,
    Hidden,
}

impl MarketRunnerStatus {
    pub(super) fn is_out(self) -> bool {
        matches!(self, Self::Removed | Self::RemovedVacant)
    }
}

#[cfg(test)]
mod tests {
    use super::starting_price;

    #[test]
    fn a_starting_price_is_rounded_to_the_nearest_thousandth() {
        for (bsp, thousandths) in [
            ("26", 26_000),
            ("4.15", 4_150),
            ("26.0", 26_000),
            ("3.6284", 3_628),
            ("3.6285", 3_629),
            ("3.62849999999999", 3_628),
            ("9.9995", 10_000),
            ("1000.0", 1_000_000),
            ("1E3", 1_000_000),
            ("1.00000e1", 10_000),
        ] {
            let price = starting_price(bsp).expect(bsp).expect(bsp);
            assert_eq!(price.thousandths(), thousandths, "{bsp}");
        }
        assert_eq!(starting_price("\"NaN\""), Ok(None));
        for bsp in ["0.5", "-3.5", "\"3.5\"", "\"Infinity\"", "{}", "1.é"] {
            assert!(starting_price(bsp).is_err(), "{bsp}");
        }
    }
}
