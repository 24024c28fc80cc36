//! [`WatchMessage`]: a message of the live channel, as `railbird watch` reads it.

use events::{HorseNo, Moment, Odds, RaceKey, RaceNumber, RacingDate, Text, VenueCode};
use serde::Deserialize;

/// A message of the live channel, with the fields that a board needs.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub(super) enum WatchMessage {
    Welcome(WatchWelcome),
    OddsUpdate(WatchOdds),
    StatusUpdate {
        #[serde(flatten)]
        header: UpdateHeader,
        status: Text,
    },
    RunnerUpdate {
        #[serde(flatten)]
        header: UpdateHeader,
    },
    ResultUpdate(WatchResult),
    SnapshotComplete(WatchPosition),
    Heartbeat {
        #[serde(flatten)]
        position: WatchPosition,
        server_time: Moment,
        feed: WatchFeed,
    },
    Resync {
        #[serde(default)]
        epoch: Text,
    },
    Closing {
        code: Option<u16>,
        #[serde(default)]
        reason: Text,
        #[serde(default)]
        retry_after_ms: u64,
    },
    /// A message that a later version of the service sends. It is ignored.
    #[serde(other)]
    Other,
}

/// A position in the log: a sequence, and when the log recorded its event. The time is empty before the first event.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub(super) struct WatchPosition {
    pub(super) seq: u64,
    #[serde(default)]
    pub(super) recorded_at: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub(super) struct WatchWelcome {
    pub(super) seq: u64,
    #[serde(default)]
    pub(super) epoch: Text,
    pub(super) server_time: Moment,
    /// Whether the service resumed at the requested position; `None` if none was requested.
    pub(super) recovered: Option<bool>,
    #[serde(default)]
    pub(super) feed: WatchFeed,
    pub(super) heartbeat_ms: Option<u64>,
}

/// The race that an update is about, and the position of the update in the log.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub(super) struct UpdateHeader {
    date: RacingDate,
    /// The racecourse's name.
    pub(super) venue: Text,
    venue_code: VenueCode,
    race_number: RaceNumber,
    pub(super) recorded_at: Moment,
    pub(super) seq: u64,
    pub(super) prev_seq: u64,
    /// Whether more messages with this `seq` follow.
    #[serde(default)]
    more: bool,
}

impl UpdateHeader {
    pub(super) fn race(&self) -> RaceKey {
        RaceKey {
            date: self.date,
            venue: self.venue_code.clone(),
            race_number: self.race_number,
        }
    }

    /// Formats the race as `--race` accepts it.
    pub(super) fn race_as_argument(&self) -> String {
        format!("{}/{}/{}", self.date, self.venue_code, self.race_number)
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub(super) struct WatchOdds {
    #[serde(flatten)]
    pub(super) header: UpdateHeader,
    #[serde(default)]
    pub(super) snapshot: bool,
    pub(super) status: Text,
    pub(super) runners: Vec<WatchRunner>,
}

#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub(super) struct WatchRunner {
    pub(super) horse_no: HorseNo,
    pub(super) number: u16,
    pub(super) horse_name: Text,
    pub(super) win: Option<Odds>,
    pub(super) place: Option<Odds>,
    /// Why there is no price: `scratched`, `suspended` or `no_market`.
    #[serde(default)]
    pub(super) state: Text,
    /// The first win price.
    pub(super) opening: Option<Odds>,
    /// The win price before this one.
    pub(super) previous: Option<Odds>,
}

#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub(super) struct WatchResult {
    #[serde(flatten)]
    pub(super) header: UpdateHeader,
    pub(super) status: Text,
    pub(super) runners: Vec<WatchFinisher>,
}

#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub(super) struct WatchFinisher {
    pub(super) position: u16,
    #[serde(default)]
    pub(super) horse_name: Text,
}

#[derive(Debug, Default, Clone, PartialEq, Eq, Deserialize)]
pub(super) struct WatchFeed {
    /// `live`, `stale` or `down`.
    pub(super) state: Text,
}

impl WatchMessage {
    pub(super) fn header(&self) -> Option<&UpdateHeader> {
        match self {
            Self::OddsUpdate(odds) => Some(&odds.header),
            Self::ResultUpdate(result) => Some(&result.header),
            Self::StatusUpdate { header, .. } | Self::RunnerUpdate { header } => Some(header),
            _ => None,
        }
    }

    /// The epoch of the messages that follow, if this message makes the earlier ones invalid.
    pub(super) fn reset(&self) -> Option<&Text> {
        match self {
            Self::Welcome(welcome) if welcome.recovered == Some(true) => None,
            Self::Welcome(welcome) => Some(&welcome.epoch),
            Self::Resync { epoch } => Some(epoch),
            _ => None,
        }
    }

    /// The position up to which everything has been received once this message has been.
    pub(super) fn complete_up_to(&self) -> Option<WatchPosition> {
        match self {
            Self::SnapshotComplete(position) | Self::Heartbeat { position, .. } => {
                Some(position.clone())
            }
            _ => {
                let header = self.header().filter(|header| !header.more)?;
                Some(WatchPosition {
                    seq: header.seq,
                    recorded_at: header.recorded_at.to_string(),
                })
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn documented_messages_are_parsed() {
        for text in [
            r#"{"event":"welcome","seq":247,"epoch":"5f1c0a2b9d3e4f60","server_time":"2026-11-21T09:01:15.885777Z",
                "follows":"all","filter":{},"events":["odds_update"],"conflate_ms":0,"heartbeat_ms":5000}"#,
            r#"{"event":"odds_update","date":"2026-11-21","venue":"Railbird Park","venue_code":"RB","race_number":1,
                "status":"open","recorded_at":"2026-11-21T09:01:16.276737Z","seq":248,"prev_seq":245,
                "runners":[{"horse_no":"RB_014","number":1,"horse_name":"PATIENT LEDGER","win":7.1,"place":1.9,
                            "opening":3.9,"previous":7.5},
                           {"horse_no":"RB_064","number":2,"horse_name":"CRIMSON BRAMBLE","win":null,"place":null,
                            "state":"scratched","opening":6.6,"previous":3.2}]}"#,
            r#"{"event":"status_update","date":"2026-11-21","venue":"Railbird Park","venue_code":"RB","race_number":1,
                "status":"closed","reason":"","timestamp":"2026-11-21T09:05:00Z","recorded_at":"2026-11-21T09:05:00.112Z",
                "seq":301,"prev_seq":212}"#,
            r#"{"event":"runner_update","date":"2026-11-21","venue":"Railbird Park","venue_code":"RB","race_number":1,
                "change":"withdrawn","horse_no":"RB_064","horse_name":"CRIMSON BRAMBLE","number":2,"jockey":"A Rider",
                "weight":126,"reason":"lame","timestamp":"2026-11-21T09:03:00Z","recorded_at":"2026-11-21T09:03:00.42Z",
                "seq":280,"prev_seq":0}"#,
            r#"{"event":"result_update","date":"2026-11-21","venue":"Railbird Park","venue_code":"RB","race_number":1,
                "race_name":"THE RAIL HANDICAP","distance":1200,"class":"4","going":"GOOD","status":"provisional",
                "revision":1,"reason":"","runners":[{"position":1,"horse_no":"RB_014"}],"unplaced":[{"outcome":"PU"}],
                "timestamp":"2026-11-21T09:12:00Z","recorded_at":"2026-11-21T09:12:00.9Z","seq":333,"prev_seq":0}"#,
            r#"{"event":"snapshot_complete","seq":247,"recorded_at":"2026-11-21T09:01:15.500014Z","races":3,"replayed":0}"#,
            r#"{"event":"heartbeat","seq":262,"recorded_at":"2026-11-21T09:01:20.51Z","server_time":"2026-11-21T09:01:20.886753Z",
                "feed":{"state":"live","last_event_at":"2026-11-21T09:01:20.51Z","lag_ms":0}}"#,
            r#"{"event":"resync","seq":12,"epoch":"5f1c0a2b9d3e4f60","reason":"the views were begun anew"}"#,
            r#"{"event":"closing","code":1001,"reason":"the service is stopping","retry_after_ms":1830}"#,
        ] {
            let message: WatchMessage = serde_json::from_str(text).unwrap();
            assert_ne!(message, WatchMessage::Other, "{text}");
        }
    }

    #[test]
    fn an_unknown_event_is_ignored() {
        let message: WatchMessage =
            serde_json::from_str(r#"{"event":"weather","rain":true}"#).unwrap();
        assert_eq!(message, WatchMessage::Other);
    }
}
