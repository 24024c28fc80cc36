//! [`PlaybackClock`]: where a replay is, by the clock of the log.

use std::fmt;
use std::time::Duration;

use client::{Message, Play};
use jiff::{SignedDuration, Timestamp};

use crate::controls::KeyAction;

/// The speeds that the service plays.
const SPEED: std::ops::RangeInclusive<f64> = 0.1..=1_000.0;

#[derive(Debug, Clone, Default)]
pub(crate) struct PlaybackClock {
    /// Seconds of the log in a second.
    speed: f64,
    is_paused: bool,
    /// The time of the log at a time of the local clock. `None` before the first message.
    at: Option<(Timestamp, Timestamp)>,
    sought: Option<Timestamp>,
    /// The sequence of the last message, and when it was stored.
    last: Option<(u64, Timestamp)>,
    pub(crate) has_ended: bool,
}

impl PlaybackClock {
    pub(crate) fn new(speed: f64) -> Self {
        Self {
            speed,
            ..Self::default()
        }
    }

    /// The time of the log; `None` before the first message.
    pub(crate) fn time(&self, now: Timestamp) -> Option<Timestamp> {
        let (at, since) = self.at?;
        let elapsed = Duration::try_from(now.duration_since(since)).unwrap_or_default();
        let elapsed = elapsed.mul_f64(if self.is_paused { 0.0 } else { self.speed });
        let time = at.saturating_add(elapsed).unwrap_or(at);
        Some(self.last.map_or(time, |(_, last)| time.min(last.max(at))))
    }

    pub(crate) fn apply(&mut self, message: &Message, now: Timestamp) {
        match message {
            Message::Welcome(welcome) => {
                self.last = (welcome.replay.as_ref()).map(|span| (span.last_seq, span.last_at));
                self.has_ended = self.last.is_none();
            }
            Message::Resync(_) => {
                self.at = self.sought.map(|sought| (sought, now));
                self.has_ended = false;
            }
            Message::Heartbeat(heartbeat) => {
                let seq = heartbeat.position.seq;
                self.has_ended |= self.last.is_some_and(|(last, _)| seq >= last);
            }
            _ => {}
        }
        let received = message.complete_up_to();
        let received = received.and_then(|position| position.recorded_at.parse().ok());
        if received > self.time(now) {
            self.at = received.map(|received| (received, now));
        }
    }

    /// What a key makes of the replay; `None` if it is about something else.
    pub(crate) fn change(&mut self, action: KeyAction, now: Timestamp) -> Option<Play> {
        let mut seek = None;
        self.at = self.time(now).map(|time| (time, now));
        match action {
            KeyAction::Pause => self.is_paused = !self.is_paused,
            KeyAction::Speed(doublings) => {
                let speed = self.speed * 2_f64.powi(doublings);
                self.speed = speed.clamp(*SPEED.start(), *SPEED.end());
            }
            KeyAction::Seek(minutes) => {
                seek = Some(self.at?.0 + SignedDuration::from_mins(minutes));
                self.at = seek.map(|sought| (sought, now));
                self.sought = seek;
            }
            _ => return None,
        }
        Some(Play {
            speed: Some(self.speed),
            paused: Some(self.is_paused),
            seek,
        })
    }
}

/// As the status line has it, without the time.
impl fmt::Display for PlaybackClock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.has_ended, self.is_paused) {
            (true, _) => write!(f, "end of the replay"),
            (_, true) => write!(f, "replay paused"),
            _ => write!(f, "replay x{}", self.speed),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LOCAL: &str = "2026-12-01T00:00:00Z";

    fn after(seconds: i64) -> Timestamp {
        LOCAL.parse::<Timestamp>().unwrap() + SignedDuration::from_secs(seconds)
    }

    fn clock(speed: f64) -> PlaybackClock {
        let mut clock = PlaybackClock::new(speed);
        for message in [
            r#"{"event":"welcome","seq":0,"epoch":"e","server_time":"2026-12-01T00:00:00Z","replay":
                {"first_at":"2026-11-21T06:00:00Z","last_at":"2026-11-21T07:00:00Z","last_seq":9}}"#,
            r#"{"event":"heartbeat","seq":3,"recorded_at":"2026-11-21T06:00:00Z","server_time":"2026-12-01T00:00:00Z",
                "feed":{"state":"live"}}"#,
        ] {
            clock.apply(&serde_json::from_str(message).unwrap(), after(0));
        }
        clock
    }

    fn time(clock: &PlaybackClock, seconds: i64) -> String {
        clock.time(after(seconds)).unwrap().to_string()
    }

    #[test]
    fn time_passes_at_the_speed_until_the_last_message() {
        let mut clock = clock(60.0);
        assert_eq!(time(&clock, 2), "2026-11-21T06:02:00Z");
        assert_eq!(time(&clock, 100), "2026-11-21T07:00:00Z");
        clock.change(KeyAction::Pause, after(2)).unwrap();
        assert_eq!(time(&clock, 5), "2026-11-21T06:02:00Z");
        assert_eq!(clock.to_string(), "replay paused");
        clock.change(KeyAction::Pause, after(5)).unwrap();
        let play = clock.change(KeyAction::Speed(1), after(5)).unwrap();
        assert_eq!((play.speed, play.paused), (Some(120.0), Some(false)));
        assert_eq!(time(&clock, 6), "2026-11-21T06:04:00Z");
    }

    #[test]
    fn a_key_moves_it_by_a_minute_at_once_and_from_there_on() {
        let mut clock = clock(1.0);
        let play = clock.change(KeyAction::Seek(1), after(1)).unwrap();
        assert_eq!(play.seek.unwrap().to_string(), "2026-11-21T06:01:01Z");
        let again = clock.change(KeyAction::Seek(-1), after(1)).unwrap();
        assert_eq!(again.seek.unwrap().to_string(), "2026-11-21T06:00:01Z");
        let resync = r#"{"event":"resync","seq":1,"epoch":"e","reason":""}"#;
        clock.apply(&serde_json::from_str(resync).unwrap(), after(2));
        assert_eq!(time(&clock, 3), "2026-11-21T06:00:02Z");
        assert_eq!(clock.change(KeyAction::NextRace, after(3)), None);
    }

    #[test]
    fn it_ends_with_a_heartbeat_after_the_last_message() {
        let mut clock = clock(1.0);
        assert!(!clock.has_ended);
        let heartbeat = r#"{"event":"heartbeat","seq":9,"recorded_at":"2026-11-21T07:00:00Z",
            "server_time":"2026-12-01T00:00:00Z","feed":{"state":"live"}}"#;
        clock.apply(&serde_json::from_str(heartbeat).unwrap(), after(9));
        assert!(clock.has_ended);
    }
}
