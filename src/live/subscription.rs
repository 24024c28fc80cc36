//! [`LiveSubscription`]: what a client is sent, and how often.

use std::fmt::Display;
use std::ops::RangeInclusive;
use std::time::Duration;

use events::{Moment, PoolCode};
use schemars::JsonSchema;
use serde::Serialize;

use super::filter::{Filter, Follows, Kinds};
use crate::feed::{Content, FeedMessage, Topic};

/// Milliseconds between odds messages that a client may ask for.
pub(crate) const CONFLATE_MS: RangeInclusive<u64> = 0..=60_000;
/// Milliseconds between heartbeats that a client may ask for.
pub(crate) const HEARTBEAT_MS: RangeInclusive<u64> = 1_000..=60_000;
const HEARTBEAT_MS_DEFAULT: u64 = 5_000;

#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub(crate) struct LiveSubscription {
    /// The lists of the filter.
    pub(crate) filter: Filter,
    /// The kinds of messages about races that are sent.
    #[serde(rename = "events")]
    pub(crate) kinds: Kinds,
    /// The markets whose quotes are sent; left out if there is none.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) markets: Vec<PoolCode>,
    /// Minimum time between two odds messages of a race, in milliseconds; 0 sends every update.
    #[schemars(range(min = *CONFLATE_MS.start(), max = *CONFLATE_MS.end()))]
    pub(crate) conflate_ms: u64,
    /// Time between two heartbeats, in milliseconds.
    #[schemars(range(min = *HEARTBEAT_MS.start(), max = *HEARTBEAT_MS.end()))]
    pub(crate) heartbeat_ms: u64,
}

/// The last message that a client received before it connected again.
#[derive(Debug, Clone)]
pub(crate) struct ResumePoint {
    pub(crate) seq: u64,
    pub(crate) epoch: Option<String>,
    /// When the log recorded the event at `seq`.
    pub(crate) recorded_at: Option<Moment>,
}

impl ResumePoint {
    /// A point as requests name it. A text that is not a time proves nothing, as if it were missing.
    pub(crate) fn new(seq: u64, epoch: Option<String>, recorded_at: Option<&str>) -> Self {
        let recorded_at = recorded_at.and_then(|text| Moment::parse(text).ok());
        Self {
            seq,
            epoch,
            recorded_at,
        }
    }
}

/// Checks that a number is in a range.
///
/// # Errors
/// Returns the reason if it is not.
pub(super) fn check_range<T: PartialOrd + Display>(
    name: &str,
    value: T,
    range: &RangeInclusive<T>,
) -> Result<T, String> {
    let (start, end) = (range.start(), range.end());
    match range.contains(&value) {
        true => Ok(value),
        false => Err(format!("{name} is {start} to {end}, not {value}")),
    }
}

impl Default for LiveSubscription {
    fn default() -> Self {
        Self {
            filter: Filter::default(),
            kinds: Kinds::ALL,
            markets: Vec::new(),
            conflate_ms: 0,
            heartbeat_ms: HEARTBEAT_MS_DEFAULT,
        }
    }
}

impl LiveSubscription {
    pub(super) fn heartbeat_interval(&self) -> Duration {
        Duration::from_millis(self.heartbeat_ms)
    }

    pub(super) fn conflation_interval(&self) -> Option<Duration> {
        (self.conflate_ms > 0).then(|| Duration::from_millis(self.conflate_ms))
    }

    pub(super) fn wants(&self, topic: &Topic, content: &Content) -> bool {
        let is_chosen = match content {
            Content::Kind(kind) => self.kinds.contains(*kind),
            Content::Quote(quoted) => self.markets.contains(&quoted.market),
        };
        is_chosen && self.filter.matches(topic)
    }

    pub(super) fn wants_message(&self, message: &FeedMessage) -> bool {
        self.wants(&message.topic, &message.content)
    }

    /// Whether every message but quotes is sent.
    pub(super) fn wants_everything(&self) -> bool {
        self.has_default_content() && self.filter.follows() == Follows::All
    }

    /// Whether every message but quotes about its races is sent.
    pub(super) fn has_default_content(&self) -> bool {
        self.kinds == Kinds::ALL && self.markets.is_empty()
    }

    /// Changes the values that are given.
    ///
    /// # Errors
    /// Returns the reason if a number is out of range.
    pub(crate) fn set(
        &mut self,
        kinds: Option<Kinds>,
        conflate_ms: Option<u64>,
        heartbeat_ms: Option<u64>,
    ) -> Result<(), String> {
        self.kinds = kinds.unwrap_or(self.kinds);
        let conflate_ms = conflate_ms.unwrap_or(self.conflate_ms);
        self.conflate_ms = check_range("conflate_ms", conflate_ms, &CONFLATE_MS)?;
        let heartbeat_ms = heartbeat_ms.unwrap_or(self.heartbeat_ms);
        self.heartbeat_ms = check_range("heartbeat_ms", heartbeat_ms, &HEARTBEAT_MS)?;
        Ok(())
    }
}
