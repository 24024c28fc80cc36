//! [`WatchStatus`]: the state of the connection and of the feed behind it.

use std::fmt;

use client::Message;
use jiff::{SignedDuration, Timestamp};

use crate::replay::PlaybackClock;

#[derive(Debug, Default)]
pub(crate) struct WatchStatus {
    pub(crate) connection: ConnectionState,
    /// The highest `seq` received on this connection.
    pub(crate) seq: u64,
    /// `live`, `stale` or `down`; empty if the service has not sent it.
    pub(crate) feed: String,
    pub(crate) heartbeat_at: Option<Timestamp>,
    /// The number of gaps in the messages of a race. The service promises that there are none.
    pub(crate) gaps: u64,
    pub(crate) replay: Option<PlaybackClock>,
    /// How far the clock of the service is ahead of the local clock.
    pub(crate) clock_offset: SignedDuration,
}

#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub(crate) enum ConnectionState {
    #[default]
    Connecting,
    Connected,
    Disconnected {
        reason: String,
        retry_at: Timestamp,
    },
}

impl WatchStatus {
    pub(crate) fn apply(&mut self, message: &Message, now: Timestamp) {
        self.connection = ConnectionState::Connected;
        if let Some(replay) = &mut self.replay {
            replay.apply(message, now);
        }
        match message {
            Message::Welcome(welcome) => {
                self.clock_offset = welcome.server_time.duration_since(now);
                self.seq = welcome.seq;
                self.feed = welcome.feed.state.clone();
                self.heartbeat_at = None;
            }
            Message::Heartbeat(heartbeat) => {
                self.clock_offset = heartbeat.server_time.duration_since(now);
                self.feed = heartbeat.feed.state.clone();
                self.heartbeat_at = Some(now);
            }
            Message::Resync(_) => self.seq = 0,
            _ => {}
        }
        let position = message.complete_up_to();
        self.seq = self.seq.max(position.map_or(0, |position| position.seq));
    }

    /// The age of something that happened at `then` by the clock of the service, or of the replay.
    pub(crate) fn age(&self, then: Timestamp, now: Timestamp) -> Age {
        let replayed = self.replay.as_ref().and_then(|replay| replay.time(now));
        Age(match replayed {
            Some(time) => time.duration_since(then),
            None => now.duration_since(then) + self.clock_offset,
        })
    }
}

/// An age, formatted in the largest unit that fits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Age(pub(crate) SignedDuration);

impl fmt::Display for Age {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0.as_secs() {
            ..=0 => write!(f, "now"),
            s @ ..=119 => write!(f, "{s} s ago"),
            s @ ..=7_199 => write!(f, "{} min ago", s / 60),
            s @ ..=172_799 => write!(f, "{} h ago", s / 3_600),
            s => write!(f, "{} days ago", s / 86_400),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_age_is_formatted_in_the_largest_unit_that_fits() {
        for (seconds, text) in [
            (-5, "now"),
            (0, "now"),
            (3, "3 s ago"),
            (119, "119 s ago"),
            (120, "2 min ago"),
            (7_200, "2 h ago"),
            (1_000_000, "11 days ago"),
        ] {
            assert_eq!(Age(SignedDuration::from_secs(seconds)).to_string(), text);
        }
    }

    #[test]
    fn a_wrong_local_clock_does_not_change_ages() {
        let mut status = WatchStatus::default();
        let here: Timestamp = "2026-11-21T08:00:00Z".parse().unwrap();
        let heartbeat = r#"{"event":"heartbeat","seq":12,"server_time":"2026-11-21T09:00:00Z","feed":{"state":"live"}}"#;
        status.apply(&serde_json::from_str(heartbeat).unwrap(), here);
        let changed_at = "2026-11-21T08:59:57Z".parse().unwrap();
        assert_eq!(status.age(changed_at, here).to_string(), "3 s ago");
        assert_eq!((status.seq, status.feed.as_str()), (12, "live"));
    }
}
