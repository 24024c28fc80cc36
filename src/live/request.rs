//! [`Request`]: a message from a client.

use std::borrow::Cow;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value;

use super::filter::{Filter, Kinds};
use super::subscription::{CONFLATE_MS, HEARTBEAT_MS};

/// Characters of an unknown op that the error message repeats.
const REPEATED_CHARS_MAX: usize = 40;

/// A message from a client. Unknown fields are ignored.
#[derive(Debug, Deserialize, JsonSchema)]
pub(crate) struct Request {
    /// The operation.
    #[schemars(with = "String", extend("enum" = Op::ALL))]
    pub(crate) op: Op,
    /// A string or a number of the client's choice. The answers to this message repeat it.
    #[serde(rename = "id", default)]
    _id: Option<Id>,
    #[serde(flatten)]
    pub(crate) filter: Filter,
    /// Kinds of messages about races.
    #[serde(default)]
    pub(crate) events: Option<Kinds>,
    /// Minimum time between two odds messages of a race, in milliseconds; 0 sends every update.
    #[serde(default)]
    #[schemars(range(min = *CONFLATE_MS.start(), max = *CONFLATE_MS.end()))]
    pub(crate) conflate_ms: Option<u64>,
    /// Time between two heartbeats, in milliseconds.
    #[serde(default)]
    #[schemars(range(min = *HEARTBEAT_MS.start(), max = *HEARTBEAT_MS.end()))]
    pub(crate) heartbeat_ms: Option<u64>,
    /// The highest `seq` that the client has received: every message after it is sent.
    #[serde(default)]
    pub(crate) since: Option<u64>,
    /// The log that `since` belongs to, as in `welcome`.
    #[serde(default)]
    pub(crate) epoch: Option<String>,
}

/// The id of a client message. Answers repeat it as it was sent.
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

/// The operation of a client message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Op {
    /// Replaces the lists in force by these; without a list, every race is followed. `conflate_ms`, `heartbeat_ms` and
    /// `events` keep their values if they are left out. Answered by `ack`, then by snapshots of the open races that were not
    /// followed before, or by the messages after `since`, and by `snapshot_complete`.
    Subscribe,
    /// Removes these values from the lists in force; if a list is then empty, no race is followed. Without a list, no race is
    /// followed. Answered by `ack`.
    Unsubscribe,
    /// Requests a snapshot of each open race that is followed. Answered by `ack`, the snapshots and `snapshot_complete`.
    Resync,
    /// Answered by `ack`.
    Ping,
}

impl Op {
    pub(crate) const ALL: [Self; 4] =
        [Self::Subscribe, Self::Unsubscribe, Self::Resync, Self::Ping];

    /// The fields that this operation reads, beside `op` and `id`.
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
}

/// Why a client message is rejected: the code of an `error` message, and its text.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct RequestError {
    pub(super) error: &'static str,
    pub(super) message: String,
}

impl RequestError {
    /// The codes, as in messages.
    pub(super) const CODES: [&str; 4] = [
        "invalid_message",
        "unknown_op",
        "invalid_parameter",
        "not_subscribed",
    ];

    fn invalid_message() -> Self {
        Self {
            error: "invalid_message",
            message: "A message is a JSON object with op: subscribe, unsubscribe, resync or ping"
                .to_owned(),
        }
    }

    fn unknown_op(name: &Value) -> Self {
        let name = name.as_str().unwrap_or_default();
        let name: String = name.chars().take(REPEATED_CHARS_MAX).collect();
        Self {
            error: "unknown_op",
            message: format!("op is subscribe, unsubscribe, resync or ping, not {name:?}"),
        }
    }

    pub(super) fn invalid_parameter(error: impl ToString) -> Self {
        Self {
            error: "invalid_parameter",
            message: error.to_string(),
        }
    }

    pub(super) fn not_subscribed(list: &str) -> Self {
        Self {
            error: "not_subscribed",
            message: format!("The filter in force has no {list}"),
        }
    }
}

impl Request {
    /// Parses a client message. Returns its id as well, which an error repeats, too.
    ///
    /// # Errors
    /// Returns [`RequestError`] if the text is not a JSON object with a known op, or a field of it is invalid.
    pub(super) fn parse(text: &str) -> (Option<Value>, Result<Self, RequestError>) {
        let message: Value = serde_json::from_str(text).unwrap_or_default();
        let id = message
            .get("id")
            .filter(|id| id.is_string() || id.is_number())
            .cloned();
        (id, Self::from_json(message))
    }

    fn from_json(message: Value) -> Result<Self, RequestError> {
        let op = message.get("op").filter(|op| op.is_string());
        let op = op.ok_or_else(RequestError::invalid_message)?;
        Op::deserialize(op).map_err(|_| RequestError::unknown_op(op))?;
        serde_json::from_value(message).map_err(RequestError::invalid_parameter)
    }
}
