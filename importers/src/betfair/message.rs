//! A line of a stream file: what of Betfair's messages is read.

use std::borrow::Cow;

use events::{Moment, ParseError};
use jiff::Timestamp;
use serde::Deserialize;
use serde_json::value::RawValue;

/// A message. Of the many kinds `mcm` alone, market change message, is about markets.
#[derive(Debug, Deserialize)]
pub(super) struct Message<'a> {
    #[serde(borrow)]
    op: Cow<'a, str>,
    /// When it was published, in milliseconds since 1970.
    pt: Option<i64>,
    #[serde(borrow)]
    mc: Option<Vec<Change<'a>>>,
}

impl<'a> Message<'a> {
    /// When a message changed which markets, and how; `None` if it is not about markets.
    pub(super) fn read(line: &'a [u8]) -> Result<Option<(Moment, Vec<Change<'a>>)>, String> {
        let Self { op, pt, mc } = serde_json::from_slice(line).map_err(|error| short(&error))?;
        if op != "mcm" {
            return Ok(None);
        }
        let pt = pt.ok_or("missing field `pt`")?;
        let time = Timestamp::from_millisecond(pt)
            .map_err(|_| ParseError::new("pt is in milliseconds since 1970", pt).to_string())?;
        Ok(Some((time.into(), mc.unwrap_or_default())))
    }
}

/// What changed in a market.
#[derive(Debug, Deserialize)]
pub(super) struct Change<'a> {
    #[serde(borrow)]
    pub(super) id: Cow<'a, str>,
    /// Read by itself, so that a wrong one does not take the prices along.
    #[serde(borrow, rename = "marketDefinition")]
    pub(super) definition: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(super) rc: Option<Vec<RunnerChange<'a>>>,
}

/// What changed of a runner. Of all prices in it the last traded one alone is read.
#[derive(Debug, Deserialize)]
pub(super) struct RunnerChange<'a> {
    pub(super) id: u64,
    #[serde(borrow)]
    pub(super) ltp: Option<&'a RawValue>,
}

impl Change<'_> {
    /// The definition, if there is one of a market that is read.
    pub(super) fn definition(&self) -> Result<Option<Definition>, String> {
        match self.definition.map(Defined::read).transpose()? {
            Some(Defined::Win(definition)) => Ok(Some(definition)),
            Some(Defined::Other(_)) | None => Ok(None),
        }
    }
}

/// The market that is read: `WIN` of horse racing.
const HORSE_RACING: &str = "7";
const WIN: &str = "WIN";

/// What a definition defines.
#[derive(Debug)]
pub(super) enum Defined {
    Win(Definition),
    /// What is not read.
    Other(ParseError),
}

impl Defined {
    pub(super) fn read(definition: &RawValue) -> Result<Self, String> {
        let kind: Kind<'_> =
            serde_json::from_str(definition.get()).map_err(|error| short(&error))?;
        if kind.event_type_id == HORSE_RACING && kind.market_type == WIN {
            let definition =
                serde_json::from_str(definition.get()).map_err(|error| short(&error))?;
            return Ok(Self::Win(definition));
        }
        let found = format!("{} of event type {}", kind.market_type, kind.event_type_id);
        Ok(Self::Other(ParseError::new(
            "WIN markets of event type 7, horse racing, are read",
            found,
        )))
    }
}

/// What says whether a market is read.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Kind<'a> {
    #[serde(borrow)]
    event_type_id: Cow<'a, str>,
    #[serde(borrow)]
    market_type: Cow<'a, str>,
}

/// All that a market is. Each one replaces the one before.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Definition {
    pub(super) market_time: Moment,
    /// When the first race of the meeting is.
    pub(super) open_date: Option<Moment>,
    pub(super) timezone: String,
    pub(super) venue: String,
    pub(super) country_code: Option<String>,
    pub(super) name: Option<String>,
    pub(super) status: MarketStatus,
    #[serde(default)]
    pub(super) in_play: bool,
    pub(super) runners: Vec<Runner>,
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
pub(super) struct Runner {
    pub(super) id: u64,
    pub(super) status: RunnerStatus,
    pub(super) name: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub(super) enum RunnerStatus {
    Active,
    Winner,
    Loser,
    Placed,
    Removed,
    RemovedVacant,
    Hidden,
}

impl RunnerStatus {
    pub(super) fn is_out(self) -> bool {
        matches!(self, Self::Removed | Self::RemovedVacant)
    }
}

/// A reason quotes bad input only so far.
const REASON_CHARS_MAX: usize = 200;

fn short(error: &serde_json::Error) -> String {
    error.to_string().chars().take(REASON_CHARS_MAX).collect()
}
