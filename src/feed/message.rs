//! [`FeedMessage`] and what else the feed hands out: positions, tails, images.

use std::sync::Arc;

use events::{HorseNo, Moment, RaceKey};
use projections::{Checkpoint, LiveKind, LiveUpdate, MarketKey};
use serde::Serialize;

use super::frame::Frame;
use crate::log::LogMessage;

/// A message of the live channel about a race.
#[derive(Debug)]
pub struct FeedMessage {
    /// Its number in this process, from 0, without gaps.
    pub index: u64,
    /// The log sequence of its event.
    pub seq: u64,
    pub(super) prev_seq: u64,
    pub content: Content,
    pub topic: Arc<Topic>,
    pub frame: Frame,
}

/// What a message about a race has, as subscriptions see it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Content {
    /// What a subscription chooses by its `events`.
    Kind(LiveKind),
    /// A quote, which it chooses by its `markets`.
    Quote(MarketKey),
}

impl Content {
    pub const ODDS: Self = Self::Kind(LiveKind::OddsUpdate);

    /// Whether one message with all prices may replace several.
    pub fn is_conflated(&self) -> bool {
        matches!(self, Self::Kind(LiveKind::OddsUpdate) | Self::Quote(_))
    }
}

/// A race, as filters see it.
#[derive(Debug, PartialEq, Eq)]
pub struct Topic {
    pub race: RaceKey,
    /// The racecourse's name.
    pub venue: String,
    /// The horses on its card or its board, sorted.
    pub runners: Vec<HorseNo>,
}

/// An event of the log: its sequence, and when the log stored it.
///
/// A log that has lost its last events uses their sequences again, at other times. So an event time that the log has
/// proves that its holder knows the history up to there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EventTime {
    pub seq: u64,
    pub recorded_at: Moment,
}

impl EventTime {
    pub fn of(message: &LogMessage) -> Self {
        Self {
            seq: message.seq,
            recorded_at: message.recorded_at,
        }
    }
}

/// How far the feed is.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Position {
    /// Counts resets: messages of an earlier generation may not hold.
    pub generation: u64,
    /// Identifies the log.
    pub epoch: Arc<str>,
    /// The index of the next message.
    pub head: u64,
    /// The log sequence that all messages so far reflect.
    pub seq: u64,
}

impl Position {
    /// Whether a client's position has this epoch, or names none.
    pub fn is_of(&self, epoch: Option<&str>) -> bool {
        epoch.is_none_or(|epoch| *epoch == *self.epoch)
    }
}

/// The messages from an index on, and how far the feed was when they were taken.
#[derive(Debug)]
pub struct FeedTail {
    pub messages: Vec<Arc<FeedMessage>>,
    /// The position after the last message of the feed.
    pub position: Position,
}

/// Images of open races and of their markets, and how far the feed was when they were taken.
#[derive(Debug)]
pub struct Snapshots {
    pub images: Vec<Frame>,
    /// The position that they reflect.
    pub position: Position,
}

/// Why a message merges several.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ConflatedBy {
    /// The client asked for it.
    Client,
    /// The client was too slow.
    Backpressure,
}

/// Why a client cannot resume.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, strum::VariantArray)]
#[serde(rename_all = "snake_case")]
pub enum NotRecovered {
    /// The log is another one.
    OtherEpoch,
    /// The client missed more than is kept.
    TooFarBehind,
    /// The client does not say when the event at the sequence was recorded.
    Unproven,
    /// The log has another event at the sequence: it has lost the one that the client was sent.
    OtherHistory,
    /// The sequence is beyond what the views reflect.
    Ahead,
}

impl NotRecovered {
    pub(crate) const ALL: &'static [Self] = <Self as strum::VariantArray>::VARIANTS;
}

/// What happened before this process followed the log.
#[derive(Debug, Default)]
pub struct Replayed {
    /// The latest events, in the order of the log.
    pub events: Vec<EventTime>,
    /// The updates hold every message of events from this sequence on.
    pub complete_from: u64,
    pub updates: Vec<LiveUpdate>,
}

impl Replayed {
    /// Nothing but the event at a checkpoint: clients cannot resume, but learn where they are.
    pub fn nothing(checkpoint: &Checkpoint) -> Self {
        let seq = checkpoint.seq;
        let last = checkpoint.recorded_at;
        let last = last.map(|recorded_at| EventTime { seq, recorded_at });
        Self {
            events: Vec::from_iter(last),
            complete_from: seq + 1,
            updates: Vec::new(),
        }
    }
}
