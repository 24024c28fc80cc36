//! What client and service say to each other beside the messages about races.

use std::ops::RangeInclusive;

use projections::LiveKind;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::filter::{Filter, Follows, Kinds};
use crate::feed::Topic;

/// How far apart odds may be asked for.
pub(super) const CONFLATE_MS: RangeInclusive<u64> = 0..=60_000;
/// How far apart heartbeats may be asked for.
pub(super) const HEARTBEAT_MS: RangeInclusive<u64> = 1_000..=60_000;
const HEARTBEAT_MS_DEFAULT: u64 = 5_000;

/// What a client has asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Wishes {
    pub(super) filter: Filter,
    pub(super) kinds: Kinds,
    pub(super) conflate_ms: u64,
    pub(super) heartbeat_ms: u64,
}

impl Default for Wishes {
    fn default() -> Self {
        Self {
            filter: Filter::default(),
            kinds: Kinds::ALL,
            conflate_ms: 0,
            heartbeat_ms: HEARTBEAT_MS_DEFAULT,
        }
    }
}

/// The values in force, as a client is told them.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct InForce<'a> {
    follows: Follows,
    filter: &'a Filter,
    #[schemars(with = "Vec<String>")]
    events: Kinds,
    conflate_ms: u64,
    heartbeat_ms: u64,
}

impl Wishes {
    pub(super) fn in_force(&self) -> InForce<'_> {
        InForce {
            follows: self.filter.follows(),
            filter: &self.filter,
            events: self.kinds,
            conflate_ms: self.conflate_ms,
            heartbeat_ms: self.heartbeat_ms,
        }
    }

    /// Whether messages of a kind about a race are wanted.
    pub(super) fn want(&self, topic: &Topic, kind: LiveKind) -> bool {
        self.kinds.contains(kind) && self.filter.passes(topic)
    }

    /// Takes in the parts of a request that may be left out.
    ///
    /// # Errors
    /// A sentence that says what is out of bounds.
    pub(super) fn set(
        &mut self,
        kinds: Option<Kinds>,
        conflate_ms: Option<u64>,
        heartbeat_ms: Option<u64>,
    ) -> Result<(), String> {
        self.kinds = kinds.unwrap_or(self.kinds);
        self.conflate_ms = within(
            "conflate_ms",
            conflate_ms.unwrap_or(self.conflate_ms),
            &CONFLATE_MS,
        )?;
        self.heartbeat_ms = within(
            "heartbeat_ms",
            heartbeat_ms.unwrap_or(self.heartbeat_ms),
            &HEARTBEAT_MS,
        )?;
        Ok(())
    }
}

fn within(name: &str, value: u64, bounds: &RangeInclusive<u64>) -> Result<u64, String> {
    if bounds.contains(&value) {
        return Ok(value);
    }
    Err(format!(
        "{name} is {} to {}, not {value}",
        bounds.start(),
        bounds.end()
    ))
}

/// What a client asks for. Fields that are not known are ignored.
#[derive(Debug, Deserialize, JsonSchema)]
pub(super) struct Request {
    #[serde(flatten)]
    pub(super) filter: Filter,
    #[serde(default)]
    #[schemars(with = "Option<Vec<String>>")]
    pub(super) events: Option<Kinds>,
    #[serde(default)]
    pub(super) conflate_ms: Option<u64>,
    #[serde(default)]
    pub(super) heartbeat_ms: Option<u64>,
    /// The highest `seq` that was sent before.
    #[serde(default)]
    pub(super) since: Option<u64>,
    /// The log that it is of.
    #[serde(default)]
    pub(super) epoch: Option<String>,
}

/// What a client wants done.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(super) enum Op {
    Subscribe,
    Unsubscribe,
    Resync,
    Ping,
}

impl Op {
    pub(super) fn parse(name: &str) -> Option<Self> {
        Some(match name {
            "subscribe" => Self::Subscribe,
            "unsubscribe" => Self::Unsubscribe,
            "resync" => Self::Resync,
            "ping" => Self::Ping,
            _ => return None,
        })
    }
}

/// What the service says of itself and of the connection.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(tag = "event", rename_all = "snake_case")]
pub(super) enum Said<'a> {
    /// The first message.
    Welcome {
        /// The place in the log that the views reflect.
        seq: u64,
        /// Names the log.
        epoch: &'a str,
        server_time: String,
        /// Whether a resume that was asked for worked.
        #[serde(skip_serializing_if = "Option::is_none")]
        recovered: Option<bool>,
        /// Why it did not: other_epoch, too_far_behind or ahead.
        #[serde(skip_serializing_if = "Option::is_none")]
        reason: Option<&'a str>,
        #[serde(flatten)]
        in_force: InForce<'a>,
    },
    /// What was asked for has been sent, up to `seq`.
    SnapshotComplete {
        /// That of the client message that asked.
        #[serde(skip_serializing_if = "Option::is_none")]
        id: Option<&'a Value>,
        seq: u64,
        /// How many snapshots came.
        races: usize,
        /// How many messages of a resume came.
        replayed: usize,
    },
    /// The connection and the feed are alive, or what is wrong with the feed.
    Heartbeat {
        /// Everything up to this place has been sent.
        seq: u64,
        server_time: String,
        feed: FeedHealth,
    },
    /// A client message was taken.
    Ack {
        op: Op,
        id: Option<&'a Value>,
        seq: u64,
        server_time: String,
        /// Whether a resume that was asked for worked.
        #[serde(skip_serializing_if = "Option::is_none")]
        recovered: Option<bool>,
        /// Why it did not: other_epoch, too_far_behind or ahead.
        #[serde(skip_serializing_if = "Option::is_none")]
        reason: Option<&'a str>,
        #[serde(flatten)]
        in_force: InForce<'a>,
    },
    /// A client message was not taken, and nothing has changed.
    Error {
        /// invalid_message, unknown_op, invalid_parameter or not_subscribed
        error: &'a str,
        id: Option<&'a Value>,
        message: String,
    },
    /// What was said before no longer counts. Snapshots follow.
    Resync {
        seq: u64,
        epoch: &'a str,
        reason: &'a str,
    },
    /// The service closes the connection.
    Closing {
        code: u16,
        reason: &'a str,
        /// How long to wait before connecting again; 0 where that is of no use.
        retry_after_ms: u64,
    },
}

/// Whether the service hears of what happens.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub(super) struct FeedHealth {
    /// live, stale or down
    pub(super) state: &'static str,
    /// When the log took the last event that the views reflect; empty before the first.
    pub(super) last_event_at: String,
    /// For how long something has been held up.
    pub(super) lag_ms: u64,
}
