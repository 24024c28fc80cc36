//! [`Status`]: how the connection and the feed behind it are.

use std::fmt;
use std::time::Duration;

use events::Text;
use jiff::{SignedDuration, Timestamp};

use super::message::Message;

/// How the connection and the feed behind it are.
#[derive(Debug, Default)]
pub(super) struct Status {
    pub(super) link: Link,
    /// The highest place of the log that was heard of on this connection.
    pub(super) seq: u64,
    /// `live`, `stale` or `down`; empty before the first heartbeat.
    pub(super) feed: Text,
    pub(super) heartbeat_at: Option<Timestamp>,
    /// Gaps that were noticed. There should be none.
    pub(super) gaps: u64,
    /// How far the clock of the service is ahead of this one.
    ahead: SignedDuration,
}

/// How the connection is.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub(super) enum Link {
    #[default]
    Connecting,
    Up,
    Lost {
        why: String,
        retry_at: Timestamp,
    },
}

impl Status {
    /// Takes in a message that came at `now`.
    pub(super) fn take(&mut self, message: &Message, now: Timestamp) {
        self.link = Link::Up;
        match message {
            Message::Welcome(welcome) => {
                self.ahead = welcome.server_time.timestamp().duration_since(now);
                self.seq = welcome.seq;
                self.feed = Text::default();
                self.heartbeat_at = None;
            }
            Message::Heartbeat(heartbeat) => {
                self.ahead = heartbeat.server_time.timestamp().duration_since(now);
                self.feed = heartbeat.feed.state.clone();
                self.heartbeat_at = Some(now);
            }
            Message::Resync(_) => self.seq = 0,
            _ => {}
        }
        self.seq = self.seq.max(message.sent_up_to().unwrap_or_default());
    }

    /// Notes that the connection is lost.
    pub(super) fn lose(&mut self, why: String, pause: Duration, now: Timestamp) {
        let retry_at = now + pause;
        self.link = Link::Lost { why, retry_at };
    }

    /// How long ago something was, by the clock of the service.
    pub(super) fn since(&self, then: Timestamp, now: Timestamp) -> Ago {
        Ago(now.duration_since(then) + self.ahead)
    }
}

/// A time that has passed, in the largest unit that fits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Ago(pub(super) SignedDuration);

impl fmt::Display for Ago {
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
    fn times_are_said_in_the_largest_unit_that_fits() {
        for (seconds, said) in [
            (-5, "now"),
            (0, "now"),
            (3, "3 s ago"),
            (119, "119 s ago"),
            (120, "2 min ago"),
            (7_200, "2 h ago"),
            (1_000_000, "11 days ago"),
        ] {
            assert_eq!(Ago(SignedDuration::from_secs(seconds)).to_string(), said);
        }
    }

    #[test]
    fn a_clock_that_is_wrong_here_makes_nothing_old() {
        let mut status = Status::default();
        let here: Timestamp = "2026-11-21T08:00:00Z".parse().unwrap();
        let heartbeat = r#"{"event":"heartbeat","seq":12,"server_time":"2026-11-21T09:00:00Z","feed":{"state":"live"}}"#;
        status.take(&serde_json::from_str(heartbeat).unwrap(), here);
        let changed_at = "2026-11-21T08:59:57Z".parse().unwrap();
        assert_eq!(status.since(changed_at, here).to_string(), "3 s ago");
        assert_eq!((status.seq, status.feed.as_str()), (12, "live"));
    }
}
