//! [`Message`]: what the live channel says, as far as a board needs it.

use std::time::Duration;

use events::{HorseNo, Moment, Odds, RaceKey, RaceNumber, RacingDate, Text, VenueCode};
use serde::Deserialize;

/// A message of the live channel. Fields that a board has no use for are left out.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub(super) enum Message {
    Welcome(Welcome),
    OddsUpdate(OddsUpdate),
    StatusUpdate(StatusUpdate),
    RunnerUpdate(RunnerUpdate),
    ResultUpdate(ResultUpdate),
    SnapshotComplete(SnapshotComplete),
    Heartbeat(Heartbeat),
    Resync(Resync),
    Closing(Closing),
    /// What a later version says. It is of no use to this one.
    #[serde(other)]
    Other,
}

#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub(super) struct Welcome {
    pub(super) seq: u64,
    #[serde(default)]
    pub(super) epoch: Text,
    pub(super) server_time: Moment,
    pub(super) recovered: Option<bool>,
    #[serde(default)]
    pub(super) reason: Text,
    #[serde(default = "heartbeat_ms_default")]
    pub(super) heartbeat_ms: u64,
}

fn heartbeat_ms_default() -> u64 {
    5_000
}

impl Welcome {
    /// Whether what this client knows still counts.
    pub(super) fn goes_on(&self) -> bool {
        self.recovered == Some(true)
    }

    /// A connection that says nothing for so long is dead.
    pub(super) fn silence_max(&self) -> Duration {
        /// What the channel allows. A service that says otherwise must not keep a dead connection for ever.
        const HEARTBEAT_MS: std::ops::RangeInclusive<u64> = 1_000..=60_000;
        let heartbeat_ms = self
            .heartbeat_ms
            .clamp(*HEARTBEAT_MS.start(), *HEARTBEAT_MS.end());
        Duration::from_millis(2 * heartbeat_ms)
    }
}

/// Which race a message is about, and which place it has among those of its kind.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub(super) struct About {
    date: RacingDate,
    /// The racecourse's name.
    pub(super) venue: Text,
    venue_code: VenueCode,
    race_number: RaceNumber,
    pub(super) recorded_at: Moment,
    pub(super) seq: u64,
    pub(super) prev_seq: u64,
    /// It is one of several that belong together, and not the last.
    #[serde(default)]
    more: bool,
}

impl About {
    pub(super) fn race(&self) -> RaceKey {
        RaceKey {
            date: self.date,
            venue: self.venue_code.clone(),
            race_number: self.race_number,
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub(super) struct OddsUpdate {
    #[serde(flatten)]
    pub(super) about: About,
    #[serde(default)]
    pub(super) snapshot: bool,
    pub(super) conflated: Option<u64>,
    pub(super) status: Text,
    pub(super) runners: Vec<Runner>,
}

#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub(super) struct Runner {
    pub(super) horse_no: HorseNo,
    pub(super) number: u16,
    pub(super) horse_name: Text,
    pub(super) win: Option<Odds>,
    pub(super) place: Option<Odds>,
    /// Why there is no price.
    #[serde(default)]
    pub(super) state: Text,
    pub(super) opening: Option<Odds>,
    pub(super) previous: Option<Odds>,
}

#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub(super) struct StatusUpdate {
    #[serde(flatten)]
    pub(super) about: About,
    pub(super) status: Text,
    #[serde(default)]
    pub(super) reason: Text,
}

#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub(super) struct RunnerUpdate {
    #[serde(flatten)]
    pub(super) about: About,
    pub(super) change: Text,
    pub(super) horse_no: HorseNo,
    #[serde(default)]
    pub(super) horse_name: Text,
    #[serde(default)]
    pub(super) number: u16,
    #[serde(default)]
    pub(super) jockey: Text,
    #[serde(default)]
    pub(super) reason: Text,
}

#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub(super) struct ResultUpdate {
    #[serde(flatten)]
    pub(super) about: About,
    pub(super) status: Text,
    pub(super) revision: u32,
    #[serde(default)]
    pub(super) reason: Text,
    pub(super) runners: Vec<Placed>,
}

#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub(super) struct Placed {
    pub(super) position: u16,
    pub(super) horse_no: HorseNo,
    #[serde(default)]
    pub(super) number: u16,
    #[serde(default)]
    pub(super) horse_name: Text,
}

#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub(super) struct SnapshotComplete {
    pub(super) seq: u64,
    #[serde(default)]
    pub(super) races: u64,
    #[serde(default)]
    pub(super) replayed: u64,
}

#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub(super) struct Heartbeat {
    pub(super) seq: u64,
    pub(super) server_time: Moment,
    pub(super) feed: Feed,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
pub(super) struct Feed {
    /// `live`, `stale` or `down`.
    pub(super) state: Text,
    #[serde(default)]
    pub(super) lag_ms: u64,
}

#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub(super) struct Resync {
    #[serde(default)]
    pub(super) epoch: Text,
    #[serde(default)]
    pub(super) reason: Text,
}

#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub(super) struct Closing {
    pub(super) code: Option<u16>,
    #[serde(default)]
    pub(super) reason: Text,
    #[serde(default)]
    pub(super) retry_after_ms: u64,
}

impl Message {
    /// The race that it is about, if it is about one.
    pub(super) fn about(&self) -> Option<&About> {
        match self {
            Self::OddsUpdate(message) => Some(&message.about),
            Self::StatusUpdate(message) => Some(&message.about),
            Self::RunnerUpdate(message) => Some(&message.about),
            Self::ResultUpdate(message) => Some(&message.about),
            _ => None,
        }
    }

    /// Up to which place in the log everything has been sent once this message has come.
    pub(super) fn sent_up_to(&self) -> Option<u64> {
        match self {
            Self::SnapshotComplete(message) => Some(message.seq),
            Self::Heartbeat(message) => Some(message.seq),
            _ => self
                .about()
                .filter(|about| !about.more)
                .map(|about| about.seq),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_read_as_the_documentation_shows_them() {
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
            r#"{"event":"snapshot_complete","seq":247,"races":3,"replayed":0}"#,
            r#"{"event":"heartbeat","seq":262,"server_time":"2026-11-21T09:01:20.886753Z",
                "feed":{"state":"live","last_event_at":"2026-11-21T09:01:20.51Z","lag_ms":0}}"#,
            r#"{"event":"resync","seq":12,"epoch":"5f1c0a2b9d3e4f60","reason":"the views were begun anew"}"#,
            r#"{"event":"closing","code":1001,"reason":"the service is stopping","retry_after_ms":1830}"#,
        ] {
            let message: Message = serde_json::from_str(text).unwrap();
            assert_ne!(message, Message::Other, "{text}");
        }
    }

    #[test]
    fn what_a_later_version_says_is_no_error() {
        let message: Message = serde_json::from_str(r#"{"event":"weather","rain":true}"#).unwrap();
        assert_eq!(message, Message::Other);
    }
}
