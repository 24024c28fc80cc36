//! [`Message`]: a message of the live channel. A field that the service does not send is empty, zero or false.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

/// A message of the live channel.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(tag = "event", rename_all = "snake_case")]
#[non_exhaustive]
pub enum Message {
    /// The first message of a connection.
    Welcome(Welcome),
    /// The board of a race.
    OddsUpdate(OddsUpdate),
    StatusUpdate(StatusUpdate),
    RunnerUpdate(RunnerUpdate),
    ResultUpdate(ResultUpdate),
    DividendsUpdate(DividendsUpdate),
    /// A card was declared or replaced, or the going has changed.
    CardUpdate(CardUpdate),
    /// What a source has quoted in one of the `markets` of the URL.
    Quote(Quote),
    /// All snapshots or all missed messages have been sent.
    SnapshotComplete(SnapshotComplete),
    Heartbeat(Heartbeat),
    /// The state of a source has changed.
    FeedUpdate(FeedUpdate),
    /// Earlier messages no longer hold; snapshots follow.
    Resync(Resync),
    /// The service is about to close the connection.
    Closing(Closing),
    /// A message that a later version of the service sends. Ignore it.
    #[serde(other)]
    Other,
}

#[derive(Debug, Default, Clone, PartialEq, Deserialize)]
#[serde(default)]
pub struct Welcome {
    pub seq: u64,
    /// Names the views; empty if the service cannot resume.
    pub epoch: String,
    pub server_time: Timestamp,
    /// Whether the service resumed at the requested position; `None` if none was requested.
    pub recovered: Option<bool>,
    /// Why it did not.
    pub reason: String,
    pub feed: FeedHealth,
    pub heartbeat_ms: Option<u64>,
    /// All messages of a replay; `None` on the live channel, and without any.
    pub replay: Option<ReplaySpan>,
}

/// All messages that a replay can play.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct ReplaySpan {
    /// When the log stored the first message.
    pub first_at: Timestamp,
    pub last_at: Timestamp,
    /// A heartbeat with this `seq` is the end of the replay.
    pub last_seq: u64,
}

/// Changes a replay. What is `None` stays as it is.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
#[serde(tag = "op", rename = "play")]
pub struct Play {
    /// Seconds of the log in a second, 0.1 to 1,000.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub speed: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub paused: Option<bool>,
    /// When the log stored the next message that is played. [`Message::Resync`] and snapshots follow.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub seek: Option<Timestamp>,
}

/// Whether the service receives what happens.
#[derive(Debug, Default, Clone, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct FeedHealth {
    /// `live`, `stale` or `down`.
    pub state: String,
    /// When the log recorded the last event, RFC 3339; empty before the first.
    pub last_event_at: String,
    pub lag_ms: u64,
    /// The feeders that show that they are alive.
    pub sources: Vec<SourceHealth>,
}

/// Whether a feeder is alive.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct SourceHealth {
    pub source: String,
    /// `alive`, `down` or `unknown`.
    pub state: String,
}

/// A race, in the order of the card.
#[derive(Debug, Default, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Deserialize)]
pub struct Race {
    /// `YYYY-MM-DD`.
    pub date: String,
    pub venue_code: String,
    pub race_number: u16,
}

/// The race of an update, and the position of the update in the log.
#[derive(Debug, Default, Clone, PartialEq, Eq, Deserialize)]
pub struct UpdateHeader {
    #[serde(flatten)]
    pub race: Race,
    /// The racecourse's name.
    pub venue: String,
    pub recorded_at: Timestamp,
    pub seq: u64,
    /// The `seq` of the update of this kind before it, and of a quote of the same source and market; 0 for the first.
    pub prev_seq: u64,
    /// Whether other messages with this `seq` follow.
    #[serde(default)]
    pub more: bool,
}

#[derive(Debug, Default, Clone, PartialEq, Deserialize)]
#[serde(default)]
pub struct OddsUpdate {
    #[serde(flatten)]
    pub header: UpdateHeader,
    /// Whether it was sent because the client asked, not because of a change.
    pub snapshot: bool,
    /// How many updates it stands for, with itself; 0 if for itself alone.
    pub conflated: u64,
    pub status: String,
    /// Whose prices these are.
    pub source: String,
    pub runners: Vec<BoardRunner>,
}

/// The prices of a runner on a board, decimal.
#[derive(Debug, Default, Clone, PartialEq, Deserialize)]
#[serde(default)]
pub struct BoardRunner {
    pub horse_no: String,
    pub number: u16,
    pub horse_name: String,
    pub win: Option<f64>,
    pub place: Option<f64>,
    /// Why there is no price: `scratched`, `suspended` or `no_market`.
    pub state: String,
    /// The first win price.
    pub opening: Option<f64>,
    /// The win price before this one.
    pub previous: Option<f64>,
}

#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct StatusUpdate {
    #[serde(flatten)]
    pub header: UpdateHeader,
    pub status: String,
    #[serde(default)]
    pub reason: String,
}

#[derive(Debug, Default, Clone, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct RunnerUpdate {
    #[serde(flatten)]
    pub header: UpdateHeader,
    /// `withdrawn`, `reinstated` or `rider_changed`.
    pub change: String,
    pub horse_no: String,
    pub horse_name: String,
    pub number: u16,
    pub jockey: String,
    /// Pounds; 0 if unknown.
    pub weight: u16,
    pub reason: String,
}

#[derive(Debug, Default, Clone, PartialEq, Deserialize)]
#[serde(default)]
pub struct ResultUpdate {
    #[serde(flatten)]
    pub header: UpdateHeader,
    /// `provisional`, `official` or `void`.
    pub status: String,
    pub revision: u64,
    pub reason: String,
    /// The times of the sections of the race, `m:ss.cc`; empty if they are unknown.
    pub sectionals: Vec<String>,
    /// By placing.
    pub runners: Vec<ResultRunner>,
    pub unplaced: Vec<ResultRunner>,
}

#[derive(Debug, Default, Clone, PartialEq, Deserialize)]
#[serde(default)]
pub struct ResultRunner {
    /// 1 for the winner; 0 without a placing.
    pub position: u16,
    /// Why there is no placing, such as `PU`.
    pub outcome: String,
    pub horse_no: String,
    pub horse_name: String,
    pub number: u16,
    pub jockey: String,
    pub trainer: String,
    /// `m:ss.cc`.
    pub finish_time: String,
    pub win_odds: f64,
    /// How far it was behind the winner, such as `1-1/4` or `SH`; empty if it is unknown.
    pub margin: String,
    /// Its positions at the points of the race.
    pub running_positions: Vec<u16>,
    /// Its times of the sections of the race, `m:ss.cc`.
    pub sectionals: Vec<String>,
}

#[derive(Debug, Default, Clone, PartialEq, Deserialize)]
#[serde(default)]
pub struct DividendsUpdate {
    #[serde(flatten)]
    pub header: UpdateHeader,
    /// `provisional`, `official` or `refund`.
    pub status: String,
    pub revision: u64,
    pub reason: String,
    /// The currency of all amounts.
    pub currency: String,
    pub dividends: Vec<Dividend>,
}

#[derive(Debug, Default, Clone, PartialEq, Deserialize)]
#[serde(default)]
pub struct Dividend {
    /// Such as `quinella_place`.
    pub pool: String,
    /// Saddle-cloth numbers; none if nobody won.
    pub combination: Vec<u16>,
    /// The stake that the dividend is for.
    pub unit: f64,
    /// `None` if there is none: see `state`.
    pub dividend: Option<f64>,
    /// `no_winner`, `refund`, `jackpot`, `consolation`, or empty.
    pub state: String,
}

#[derive(Debug, Default, Clone, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct CardUpdate {
    #[serde(flatten)]
    pub header: UpdateHeader,
    pub race_name: String,
    pub going: String,
    pub status: String,
    /// The scheduled off, RFC 3339; empty if it is not known.
    pub off_time: String,
    pub runners: Vec<CardRunner>,
    pub withdrawn: Vec<CardRunner>,
}

#[derive(Debug, Default, Clone, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct CardRunner {
    pub horse_no: String,
    pub horse_name: String,
    pub number: u16,
    pub jockey: String,
    /// Why the runner is withdrawn.
    pub reason: String,
}

#[derive(Debug, Default, Clone, PartialEq, Deserialize)]
#[serde(default)]
pub struct Quote {
    #[serde(flatten)]
    pub header: UpdateHeader,
    pub source: String,
    /// The pool, or `win_place`.
    pub market: String,
    /// When it happened according to the source.
    pub timestamp: Timestamp,
    /// Whether these are all prices of the source in the market, not those that have changed.
    pub snapshot: bool,
    /// The prices of `win_place`.
    pub runners: Vec<QuotedPrices>,
    /// The prices of another market.
    pub prices: Vec<MarketPrice>,
}

/// The prices of a runner in a quote, decimal.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct QuotedPrices {
    pub horse_no: String,
    pub win: Option<f64>,
    pub place: Option<f64>,
    /// Why there is no price, as of a [`BoardRunner`].
    #[serde(default)]
    pub state: String,
}

/// The price of a combination, decimal, or the range that it is in.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct MarketPrice {
    /// Saddle-cloth numbers.
    pub combination: Vec<u16>,
    pub odds: Option<f64>,
    pub low: Option<f64>,
    pub high: Option<f64>,
    /// Why there is no price, as of a [`BoardRunner`].
    #[serde(default)]
    pub state: String,
}

#[derive(Debug, Default, Clone, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct SnapshotComplete {
    #[serde(flatten)]
    pub position: Position,
    pub races: u64,
    pub replayed: u64,
}

#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct Heartbeat {
    #[serde(flatten)]
    pub position: Position,
    pub server_time: Timestamp,
    pub feed: FeedHealth,
}

#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct FeedUpdate {
    pub server_time: Timestamp,
    pub feed: FeedHealth,
}

/// A position in the log: a sequence, and when the log recorded its event. The time is empty before the first event.
#[derive(Debug, Default, Clone, PartialEq, Eq, Deserialize)]
pub struct Position {
    pub seq: u64,
    #[serde(default)]
    pub recorded_at: String,
}

#[derive(Debug, Default, Clone, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct Resync {
    pub epoch: String,
    pub reason: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct Closing {
    /// The close code that follows.
    pub code: Option<u16>,
    #[serde(default)]
    pub reason: String,
    /// 0 if the same request would fail again.
    pub retry_after_ms: Option<u64>,
}

impl Message {
    /// The race and the position of a message about a race.
    #[must_use]
    pub fn header(&self) -> Option<&UpdateHeader> {
        match self {
            Self::OddsUpdate(update) => Some(&update.header),
            Self::StatusUpdate(update) => Some(&update.header),
            Self::RunnerUpdate(update) => Some(&update.header),
            Self::ResultUpdate(update) => Some(&update.header),
            Self::DividendsUpdate(update) => Some(&update.header),
            Self::CardUpdate(update) => Some(&update.header),
            Self::Quote(quote) => Some(&quote.header),
            _ => None,
        }
    }

    /// The epoch of the messages that follow, if this message makes the earlier ones invalid. Discard every board then.
    #[must_use]
    pub fn reset(&self) -> Option<&str> {
        match self {
            Self::Welcome(welcome) if welcome.recovered == Some(true) => None,
            Self::Welcome(welcome) => Some(&welcome.epoch),
            Self::Resync(resync) => Some(&resync.epoch),
            _ => None,
        }
    }

    /// The position up to which everything has been received once this message has been.
    #[must_use]
    pub fn complete_up_to(&self) -> Option<Position> {
        match self {
            Self::SnapshotComplete(complete) => Some(complete.position.clone()),
            Self::Heartbeat(heartbeat) => Some(heartbeat.position.clone()),
            _ => {
                let header = self.header().filter(|header| !header.more)?;
                Some(Position {
                    seq: header.seq,
                    recorded_at: header.recorded_at.to_string(),
                })
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Message;

    #[test]
    fn an_unknown_event_is_ignored() {
        let message: Message = serde_json::from_str(r#"{"event":"weather","rain":true}"#).unwrap();
        assert_eq!(message, Message::Other);
    }
}
