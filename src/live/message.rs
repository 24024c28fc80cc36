//! What client and service say to each other beside the messages about races.

use std::borrow::Cow;
use std::ops::RangeInclusive;

use projections::LiveKind;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value;

use super::filter::{Filter, Follows, Kinds};
use crate::live::feed::{Message, NotRecovered, Topic};

/// How far apart odds may be asked for.
pub(crate) const CONFLATE_MS: RangeInclusive<u64> = 0..=60_000;
/// How far apart heartbeats may be asked for.
pub(crate) const HEARTBEAT_MS: RangeInclusive<u64> = 1_000..=60_000;
const HEARTBEAT_MS_DEFAULT: u64 = 5_000;

/// What a client has asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct LiveSubscription {
    pub(crate) filter: Filter,
    pub(crate) kinds: Kinds,
    pub(crate) conflate_ms: u64,
    pub(crate) heartbeat_ms: u64,
}

impl Default for LiveSubscription {
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
pub(crate) struct InForce<'a> {
    /// How much is followed.
    follows: Follows,
    /// The lists that were given.
    filter: &'a Filter,
    /// The kinds of messages about races that are sent.
    events: Kinds,
    /// Odds come at most so often; 0 for every update.
    #[schemars(range(min = *CONFLATE_MS.start(), max = *CONFLATE_MS.end()))]
    conflate_ms: u64,
    /// A heartbeat comes so often.
    #[schemars(range(min = *HEARTBEAT_MS.start(), max = *HEARTBEAT_MS.end()))]
    heartbeat_ms: u64,
}

impl LiveSubscription {
    pub(crate) fn in_force(&self) -> InForce<'_> {
        InForce {
            follows: self.filter.follows(),
            filter: &self.filter,
            events: self.kinds,
            conflate_ms: self.conflate_ms,
            heartbeat_ms: self.heartbeat_ms,
        }
    }

    /// Whether messages of a kind about a race are to be sent.
    pub(crate) fn want(&self, topic: &Topic, kind: LiveKind) -> bool {
        self.kinds.contains(kind) && self.filter.passes(topic)
    }

    /// Whether a message is to be sent.
    pub(crate) fn want_message(&self, message: &Message) -> bool {
        self.want(&message.topic, message.kind)
    }

    /// Whether the odds of a race are to be sent.
    pub(crate) fn want_odds_of(&self, topic: &Topic) -> bool {
        self.want(topic, LiveKind::Odds)
    }

    /// Takes in the parts of a request that may be left out.
    ///
    /// # Errors
    /// A sentence that says what is out of bounds.
    pub(crate) fn set(
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
pub(crate) struct Request {
    /// What is to be done.
    #[serde(rename = "op")]
    #[schemars(with = "String", extend("enum" = Op::ALL))]
    _op: Op,
    /// A string or a number of the client's choice: it comes back in the answers to this message.
    #[serde(rename = "id", default)]
    _id: Option<Id>,
    #[serde(flatten)]
    pub(crate) filter: Filter,
    /// Kinds of messages about races.
    #[serde(default)]
    pub(crate) events: Option<Kinds>,
    /// Odds are to come at most so often; 0 for every update.
    #[serde(default)]
    #[schemars(range(min = *CONFLATE_MS.start(), max = *CONFLATE_MS.end()))]
    pub(crate) conflate_ms: Option<u64>,
    /// A heartbeat is to come so often.
    #[serde(default)]
    #[schemars(range(min = *HEARTBEAT_MS.start(), max = *HEARTBEAT_MS.end()))]
    pub(crate) heartbeat_ms: Option<u64>,
    /// The highest `seq` that was sent before: every message after it is to come.
    #[serde(default)]
    pub(crate) since: Option<u64>,
    /// The log that `since` is of.
    #[serde(default)]
    pub(crate) epoch: Option<String>,
}

/// What a client finds the answers to its message by. An answer has it as it came.
#[derive(Debug)]
pub(crate) struct Id;

impl<'de> Deserialize<'de> for Id {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        match Value::deserialize(deserializer)? {
            Value::String(_) | Value::Number(_) => Ok(Self),
            _ => Err(D::Error::custom("id is a string or a number")),
        }
    }
}

impl JsonSchema for Id {
    fn schema_name() -> Cow<'static, str> {
        "Id".into()
    }

    fn inline_schema() -> bool {
        true
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": ["string", "number"] })
    }
}

/// What a client wants done.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Op {
    /// Puts these lists in force instead of those before: without a list, every race is followed. `conflate_ms`,
    /// `heartbeat_ms` and `events` stay as they are if they are left out. Answered by `ack`, then snapshots of the open
    /// races that were not followed before, or what came after `since`, and `snapshot_complete`.
    Subscribe,
    /// Takes these values out of the lists in force; a list that is empty then lets nothing pass. Without a list, nothing is
    /// followed. Answered by `ack`.
    Unsubscribe,
    /// Asks for a snapshot of each open race that is followed. Answered by `ack`, the snapshots and `snapshot_complete`.
    Resync,
    /// Does nothing. Answered by `ack`.
    Ping,
}

impl Op {
    pub(crate) const ALL: [Self; 4] =
        [Self::Subscribe, Self::Unsubscribe, Self::Resync, Self::Ping];

    /// The fields of a request that mean something to it, beside `op` and `id`.
    pub(crate) fn fields(self) -> &'static [&'static str] {
        match self {
            Self::Subscribe => &[
                "dates",
                "venues",
                "races",
                "horses",
                "events",
                "conflate_ms",
                "heartbeat_ms",
                "since",
                "epoch",
            ],
            Self::Unsubscribe => &["dates", "venues", "races", "horses", "events"],
            Self::Resync | Self::Ping => &[],
        }
    }

    pub(crate) fn parse(name: &str) -> Option<Self> {
        Some(match name {
            "subscribe" => Self::Subscribe,
            "unsubscribe" => Self::Unsubscribe,
            "resync" => Self::Resync,
            "ping" => Self::Ping,
            _ => return None,
        })
    }
}

/// Why a resume did not work: the words of [`NotRecovered`](crate::live::feed::NotRecovered).
const NOT_RECOVERED: [&str; 3] = ["other_epoch", "too_far_behind", "ahead"];

/// What became of a resume, where one was asked for.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct Resumed {
    /// Whether a resume that was asked for worked.
    #[serde(skip_serializing_if = "Option::is_none")]
    recovered: Option<bool>,
    /// Why it did not.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("enum" = NOT_RECOVERED))]
    reason: Option<&'static str>,
}

impl From<Option<Result<(), NotRecovered>>> for Resumed {
    fn from(resumed: Option<Result<(), NotRecovered>>) -> Self {
        Self {
            recovered: resumed.map(|resumed| resumed.is_ok()),
            reason: resumed.and_then(Result::err).map(NotRecovered::as_str),
        }
    }
}

/// What the service says of itself and of the connection.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(tag = "event", rename_all = "snake_case")]
pub(crate) enum ServerMessage<'a> {
    /// The first message.
    Welcome {
        /// The place in the log that the views reflect.
        seq: u64,
        /// Names the log. Another epoch is another log, whose places mean something else.
        epoch: &'a str,
        /// RFC 3339, to the microsecond.
        #[schemars(extend("format" = "date-time"))]
        server_time: String,
        #[serde(flatten)]
        resumed: Resumed,
        #[serde(flatten)]
        in_force: InForce<'a>,
    },
    /// What was asked for has been sent, up to `seq`.
    SnapshotComplete {
        /// That of the client message that asked, if one did and had one.
        #[serde(skip_serializing_if = "Option::is_none")]
        #[schemars(with = "Option<Id>")]
        id: Option<&'a Value>,
        /// The place in the log up to which all has been sent.
        seq: u64,
        /// How many snapshots came.
        races: usize,
        /// How many messages of a resume came.
        replayed: usize,
    },
    /// The connection and the feed are alive, or what is wrong with the feed.
    Heartbeat {
        /// Everything for this client up to this place in the log has been sent.
        seq: u64,
        /// RFC 3339, to the microsecond.
        #[schemars(extend("format" = "date-time"))]
        server_time: String,
        /// Whether the service hears of what happens.
        feed: FeedHealth,
    },
    /// A client message was taken, and these are the values in force now.
    Ack {
        /// That of the client message.
        #[schemars(with = "String", extend("enum" = Op::ALL))]
        op: Op,
        /// That of the client message; null if it had none.
        #[schemars(with = "Option<Id>")]
        id: Option<&'a Value>,
        /// Everything for this client up to this place in the log has been sent.
        seq: u64,
        /// RFC 3339, to the microsecond.
        #[schemars(extend("format" = "date-time"))]
        server_time: String,
        #[serde(flatten)]
        resumed: Resumed,
        #[serde(flatten)]
        in_force: InForce<'a>,
    },
    /// A client message was not taken, and nothing has changed. The connection lives.
    Error {
        /// What is wrong, for machines. `not_subscribed`: the client message names a list that is not in force.
        #[schemars(extend("enum" = ["invalid_message", "unknown_op", "invalid_parameter", "not_subscribed"]))]
        error: &'a str,
        /// That of the client message; null if it had none.
        #[schemars(with = "Option<Id>")]
        id: Option<&'a Value>,
        /// What is wrong, for people.
        message: String,
    },
    /// What was said before no longer counts: forget every board and `seq`. Snapshots and `snapshot_complete` follow.
    Resync {
        /// The place in the log that the views reflect.
        seq: u64,
        /// Names the log.
        epoch: &'a str,
        /// Why, for people.
        reason: &'a str,
    },
    /// The last message before the service closes the connection.
    Closing {
        /// The WebSocket close code that follows.
        #[schemars(extend("enum" = [1001, 1002, 1003, 1007, 1008, 1009, 4401, 4403, 4408, 4429]))]
        code: u16,
        /// Why, for people.
        reason: &'a str,
        /// How long to wait before connecting again; 0 where that is of no use.
        retry_after_ms: u64,
    },
}

/// Whether the service hears of what happens.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub(crate) struct FeedHealth {
    /// `live`: nothing is being held up. `stale`: the log cannot be reached, or it has more and nothing has come of it for 10
    /// seconds. `down`: the log has been out of reach for 30 seconds.
    #[schemars(extend("enum" = ["live", "stale", "down"]))]
    pub(crate) state: &'static str,
    /// When the log took the last event that the views reflect, RFC 3339; empty before the first.
    pub(crate) last_event_at: String,
    /// For how long something has been held up; 0 while nothing is.
    pub(crate) lag_ms: u64,
}
