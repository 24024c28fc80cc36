//! [`ServerMessage`]: the messages of the service about itself and the connection. Those about races are in the feed.

use events::Moment;
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;

use super::filter::Follows;
use super::request::{Id, Op, RequestError};
use super::{CloseReason, LiveSubscription};
use crate::feed::NotRecovered;
use crate::health::FeedHealth;
use crate::past::PlaybackSpan;

/// The fields that `welcome` and `ack` share: the outcome of a resume, and the values in force.
#[serde_with::skip_serializing_none]
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct InForce<'a> {
    /// RFC 3339, to the microsecond.
    server_time: Moment,
    /// Only after a request to resume: whether every message after `since` follows.
    recovered: Option<bool>,
    /// Why the client cannot resume.
    #[schemars(with = "Option<String>", extend("enum" = NotRecovered::ALL))]
    reason: Option<NotRecovered>,
    /// How many races are followed.
    follows: Follows,
    #[serde(flatten)]
    subscription: &'a LiveSubscription,
}

impl<'a> InForce<'a> {
    /// `resumed` is the outcome of a resume, if the client requested one.
    pub(super) fn new(
        subscription: &'a LiveSubscription,
        resumed: Option<Result<(), NotRecovered>>,
    ) -> Self {
        Self {
            server_time: server_time(),
            recovered: resumed.map(|resumed| resumed.is_ok()),
            reason: resumed.and_then(Result::err),
            follows: subscription.filter.follows(),
            subscription,
        }
    }
}

/// The messages of the service about itself and the connection.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(tag = "event", rename_all = "snake_case")]
pub(crate) enum ServerMessage<'a> {
    /// The first message.
    Welcome {
        /// The log sequence that the views reflect.
        seq: u64,
        /// Identifies the log. Sequences of another epoch belong to another log.
        epoch: &'a str,
        /// Whether the service receives what happens.
        feed: FeedHealth,
        /// All messages that a replay can play; only in a replay that has any.
        #[serde(skip_serializing_if = "Option::is_none")]
        replay: Option<PlaybackSpan>,
        #[serde(flatten)]
        in_force: InForce<'a>,
    },
    /// All requested snapshots or messages have been sent.
    SnapshotComplete {
        /// The id of the client message that this answers, if it had one.
        #[serde(skip_serializing_if = "Option::is_none")]
        #[schemars(with = "Option<Id>")]
        id: Option<&'a Value>,
        /// Everything up to this log sequence has been sent.
        seq: u64,
        /// When the log recorded the event at `seq`, RFC 3339, to the microsecond; empty if that is not
        /// known, as before the first event.
        recorded_at: String,
        /// Number of snapshots.
        races: usize,
        /// Number of messages that a resume sent.
        replayed: usize,
    },
    /// The connection is alive, with the health of the feed.
    Heartbeat {
        /// Everything for this client up to this log sequence has been sent.
        seq: u64,
        /// When the log recorded the event at `seq`, RFC 3339, to the microsecond; empty if that is not
        /// known, as before the first event.
        recorded_at: String,
        /// RFC 3339, to the microsecond.
        server_time: Moment,
        /// Whether the service receives what happens.
        feed: FeedHealth,
    },
    /// The state of a source has changed.
    FeedUpdate {
        /// RFC 3339, to the microsecond.
        server_time: Moment,
        /// Whether the service receives what happens.
        feed: FeedHealth,
    },
    /// A client message was accepted. The values in force follow.
    Ack {
        /// The op of the client message.
        #[schemars(with = "String", extend("enum" = Op::ALL))]
        op: Op,
        /// The id of the client message; null if it had none.
        #[schemars(with = "Option<Id>")]
        id: Option<&'a Value>,
        /// Everything for this client up to this log sequence has been sent.
        seq: u64,
        #[serde(flatten)]
        in_force: InForce<'a>,
    },
    /// A client message was rejected, and nothing has changed. The connection stays open.
    Error {
        /// The error code. `not_subscribed`: the client message names a list that is not in force.
        #[schemars(extend("enum" = RequestError::CODES))]
        error: &'a str,
        /// The id of the client message; null if it had none.
        #[schemars(with = "Option<Id>")]
        id: Option<&'a Value>,
        /// The error in words.
        message: &'a str,
    },
    /// Earlier messages no longer hold: discard every board and `seq`. Snapshots and `snapshot_complete` follow.
    Resync {
        /// The log sequence that the views reflect.
        seq: u64,
        /// Identifies the log.
        epoch: &'a str,
        /// The reason in words.
        reason: &'a str,
    },
    /// The last message before the service closes the connection.
    Closing {
        /// The WebSocket close code that follows.
        #[schemars(extend("enum" = CloseReason::CODES))]
        code: u16,
        /// The reason in words.
        reason: &'a str,
        /// Milliseconds to wait before connecting again; 0 if the same request would fail again.
        retry_after_ms: u64,
    },
}

/// The current time for messages.
pub(super) fn server_time() -> Moment {
    crate::clock::now().into()
}
