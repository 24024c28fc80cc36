//! [`Request`]: a message from a client.

use events::{Moment, PoolCode, cut_reason};
use schemars::JsonSchema;
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value;

use super::filter::{Filter, Kinds, VALUES_MAX, cut_name};
use super::subscription::{CONFLATE_MS, HEARTBEAT_MS, check_range};
use crate::past::{PlaybackControl, SPEED};

/// Characters of an unknown op that the error message repeats.
const REPEATED_CHARS_MAX: usize = 40;

/// A message from a client. A field that its operation does not have is an error.
#[derive(Debug, Deserialize, JsonSchema)]
pub(crate) struct Request {
    /// The operation.
    #[schemars(with = "String", extend("enum" = Op::ALL))]
    pub(crate) op: Op,
    /// A string or a number of the client's choice. The answers to this message repeat it.
    #[serde(rename = "id")]
    _id: Option<Id>,
    #[serde(flatten)]
    pub(crate) filter: Filter,
    /// Kinds of messages about races.
    pub(crate) events: Option<Kinds>,
    /// Markets whose quotes are sent: pools, or `win_place`. None by default.
    #[schemars(length(max = VALUES_MAX))]
    pub(crate) markets: Option<Vec<PoolCode>>,
    /// Minimum time between two odds messages of a race, in milliseconds; 0 sends every update.
    #[schemars(range(min = *CONFLATE_MS.start(), max = *CONFLATE_MS.end()))]
    pub(crate) conflate_ms: Option<u64>,
    /// Time between two heartbeats, in milliseconds.
    #[schemars(range(min = *HEARTBEAT_MS.start(), max = *HEARTBEAT_MS.end()))]
    pub(crate) heartbeat_ms: Option<u64>,
    /// The `seq` of the latest message that the client counts: every message after it is sent.
    pub(crate) since: Option<u64>,
    /// The `recorded_at` of that message. It proves that the log still has that event; `since` 0 needs no proof.
    pub(crate) recorded_at: Option<String>,
    /// The log that `since` belongs to, as in `welcome`.
    pub(crate) epoch: Option<String>,
    #[serde(flatten)]
    pub(crate) play: PlayRequest,
}

/// What a message changes of a replay.
#[derive(Debug, Deserialize, JsonSchema)]
pub(crate) struct PlayRequest {
    /// How many seconds of the log are played in one second.
    #[schemars(range(min = *SPEED.start(), max = *SPEED.end()))]
    speed: Option<f64>,
    /// Whether the replay stands still.
    paused: Option<bool>,
    /// When the log stored the next message that is played.
    seek: Option<Moment>,
}

impl PlayRequest {
    fn check(&self) -> Result<(), RequestError> {
        let speed = self.speed.map(|speed| check_range("speed", speed, &SPEED));
        speed.transpose().map(drop).map_err(invalid_parameter)
    }

    pub(super) fn change(&self, control: &mut PlaybackControl) {
        control.speed = self.speed.unwrap_or(control.speed);
        control.is_paused = self.paused.unwrap_or(control.is_paused);
        if self.seek.is_some() {
            control.sought = (control.sought.0 + 1, self.seek);
        }
    }
}

/// The id of a client message. Answers repeat it as it was sent.
#[derive(Debug, JsonSchema)]
#[schemars(inline, extend("type" = ["string", "number"]))]
pub(crate) struct Id;

impl<'de> Deserialize<'de> for Id {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        match Value::deserialize(deserializer)? {
            Value::String(_) | Value::Number(_) => Ok(Self),
            _ => Err(D::Error::custom("id is a string or a number")),
        }
    }
}

/// The operation of a client message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[derive(strum::VariantArray)]
pub(crate) enum Op {
    /// Replaces the lists in force by these; without a list, every race is followed. `conflate_ms`, `heartbeat_ms`,
    /// `events` and `markets` keep their values if they are left out. Answered by `ack`, then by snapshots of the open
    /// races that were not followed before, or by the messages after `since`, and by `snapshot_complete`.
    Subscribe,
    /// Removes these values from the lists in force; if a list is then empty, no race is followed. Without a list, no
    /// race is followed. Answered by `ack`.
    Unsubscribe,
    /// Requests a snapshot of each open race that is followed. Answered by `ack`, the snapshots and
    /// `snapshot_complete`.
    Resync,
    /// Changes a replay, which live odds are not. Answered by `ack`; after a `seek`, snapshots follow.
    Play,
    /// Answered by `ack`.
    Ping,
}

impl Op {
    pub(crate) const ALL: &'static [Self] = <Self as strum::VariantArray>::VARIANTS;

    /// The fields of a message with this operation. One that it would ignore is an error, as a mistyped one is: who
    /// sends `races` with a `resync` expects less than every race.
    pub(crate) fn fields(self) -> Vec<&'static str> {
        let fields = match self {
            Self::Subscribe => {
                "op id dates venues races horses events markets conflate_ms heartbeat_ms since recorded_at epoch"
            }
            Self::Unsubscribe => "op id dates venues races horses events markets",
            Self::Play => "op id speed paused seek",
            Self::Resync | Self::Ping => "op id",
        };
        fields.split(' ').collect()
    }
}

/// The fields of a race in `races`.
const RACE_FIELDS: [&str; 3] = ["date", "venue", "race_number"];

/// The error about a parameter or a field that does not exist. Without it, a client that mistypes the name of a filter
/// would be sent everything.
pub(crate) fn unknown_name(name: &str, known: &[&str]) -> String {
    let name = cut_name(name);
    match known {
        [] => format!("there is no {name:?}, nor any other parameter"),
        known => format!("there is no {name:?}; there are {}", known.join(", ")),
    }
}

/// Checks that all fields of an object are among these. Any other value passes.
fn check_names(object: &Value, known: &[&str]) -> Result<(), RequestError> {
    let mut fields = object.as_object().into_iter().flatten();
    match fields.find(|(name, _)| !known.contains(&name.as_str())) {
        Some((name, _)) => Err(invalid_parameter(unknown_name(name, known))),
        None => Ok(()),
    }
}

/// Why a client message is rejected.
#[derive(Debug, PartialEq, Eq, thiserror::Error, strum::IntoStaticStr, strum::VariantNames)]
#[strum(serialize_all = "snake_case")]
pub(super) enum RequestError {
    #[error("A message is a JSON object with op: subscribe, unsubscribe, resync, play or ping")]
    InvalidMessage,
    #[error("op is subscribe, unsubscribe, resync, play or ping, not {0:?}")]
    UnknownOp(String),
    #[error("{0}")]
    InvalidParameter(String),
    #[error("Only a replay can be played")]
    NotReplay,
    #[error("The filter in force has no {0}")]
    NotSubscribed(&'static str),
}

impl RequestError {
    /// The codes, as in messages.
    pub(super) const CODES: &'static [&'static str] = <Self as strum::VariantNames>::VARIANTS;

    /// The code, as in messages.
    pub(super) fn code(&self) -> &'static str {
        self.into()
    }
}

pub(super) fn invalid_parameter(error: impl ToString) -> RequestError {
    RequestError::InvalidParameter(cut_reason(&error.to_string()))
}

impl Request {
    /// Parses a client message. Returns its id as well, which an error repeats, too.
    ///
    /// # Errors
    /// Returns [`RequestError`] if the text is not a JSON object with a known op, or a field of it is invalid.
    pub(super) fn parse(text: &str) -> (Option<Value>, Result<Self, RequestError>) {
        let message: Value = serde_json::from_str(text).unwrap_or_default();
        let id = message.get("id").cloned();
        let id = id.filter(|id| id.is_string() || id.is_number());
        (id, Self::from_json(message))
    }

    fn from_json(message: Value) -> Result<Self, RequestError> {
        let op = message.get("op").and_then(Value::as_str);
        let op = op.ok_or(RequestError::InvalidMessage)?;
        let unknown = |_| RequestError::UnknownOp(op.chars().take(REPEATED_CHARS_MAX).collect());
        let op = Op::deserialize(&message["op"]).map_err(unknown)?;
        check_names(&message, &op.fields())?;
        let lists = ["dates", "venues", "races", "horses", "markets"];
        let lists = lists.map(|name| message[name].as_array());
        let values = lists.into_iter().flatten().map(Vec::len).sum();
        Filter::check_count(values).map_err(invalid_parameter)?;
        for race in message["races"].as_array().into_iter().flatten() {
            check_names(race, &RACE_FIELDS)?;
        }
        let request: Self = serde_json::from_value(message).map_err(invalid_parameter)?;
        request.filter.check_venues().map_err(invalid_parameter)?;
        request.play.check()?;
        Ok(request)
    }
}

#[cfg(test)]
mod tests {
    use schemars::schema_for;
    use serde_json::{Value, json};

    use super::{Op, RACE_FIELDS, Request};

    /// The error about a message.
    fn error(message: &Value) -> String {
        let (_, request) = Request::parse(&message.to_string());
        request.expect_err("invalid").to_string()
    }

    #[test]
    fn values_are_counted_before_they_are_parsed() {
        let many = "A filter has at most 1000 values, not 1001";
        for op in ["subscribe", "unsubscribe"] {
            let values = vec![json!({ "not": "a value" }); 500];
            let values = json!({ "op": op, "races": values, "horses": values, "dates": [0] });
            assert_eq!(error(&values), many);
            let venue = json!({ "op": op, "venues": ["x".repeat(257)] });
            assert_eq!(error(&venue), "A venue has at most 256 bytes");
        }
    }

    #[test]
    fn an_error_is_short_and_has_no_control_characters() {
        let long = "\u{1b}[31m".repeat(1000);
        for (field, value) in [
            ("conflate_ms", json!(long)),
            ("horses", json!([long])),
            ("events", json!([long])),
            ("races", json!([{ "race_number": long }])),
            (long.as_str(), json!(1)),
        ] {
            let mut message = json!({ "op": "subscribe" });
            message[field] = value;
            let error = error(&message);
            assert!(error.chars().count() <= 300, "{error}");
            assert!(!error.contains('\u{1b}'), "{error}");
        }
    }

    #[test]
    fn the_names_of_fields_are_those_of_the_schema() {
        let schema = schema_for!(Request).to_value();
        let properties = schema["properties"].as_object().expect("an object");
        let mut names: Vec<&str> = properties.keys().map(String::as_str).collect();
        let mut known = [Op::Subscribe.fields(), Op::Play.fields()].concat();
        names.sort_unstable();
        known.sort_unstable();
        known.dedup();
        assert_eq!(names, known);
        let race = schema.pointer("/properties/races/items/properties");
        let race = race.and_then(|race| race.as_object()).expect("an object");
        assert_eq!(race.len(), RACE_FIELDS.len());
        assert!(RACE_FIELDS.iter().all(|name| race.contains_key(*name)));
    }

    #[test]
    fn a_mistyped_name_is_an_error_that_repeats_no_key() {
        let error = |message: serde_json::Value| {
            let (_, request) = Request::parse(&message.to_string());
            request.expect_err("an unknown name").to_string()
        };
        assert_eq!(
            error(json!({ "op": "subscribe", "venue": ["ST"] })),
            format!(
                "there is no \"venue\"; there are {}",
                Op::Subscribe.fields().join(", ")
            )
        );
        assert_eq!(
            error(json!({ "op": "resync", "venues": ["ST"] })),
            "there is no \"venues\"; there are op, id"
        );
        let race = json!({ "race_number": 3, "vanue": "ST" });
        assert_eq!(
            error(json!({ "op": "subscribe", "races": [race] })),
            "there is no \"vanue\"; there are date, venue, race_number"
        );
        let key = "rb_live_abcdefgh_0123456789abcdef";
        let secret = error(json!({ "op": "ping", key: 1 }));
        assert!(!secret.contains("0123"), "{secret}");
    }
}
