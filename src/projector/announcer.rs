//! [`Announcer`]: tells feeders on core NATS what was refused. Nothing waits for it; the read model has what it loses.

use jiff::{SignedDuration, Timestamp};
use projections::{Announcement, LogIdentity};
use tokio::sync::mpsc;

use crate::live::feed::epoch;
use crate::log::Log;
use crate::metrics;

/// Stands before the subject that a refused message came on.
pub const PREFIX: &str = "rejected.";

/// Announcements that wait for NATS. A feeder that sends more at once hears of the first ones.
const WAITING_MAX: usize = 4096;

/// A service that catches up announces what the log took so lately: what came while it was away, and not all that ever was.
const RECENT: SignedDuration = SignedDuration::from_mins(10);

/// Announces what is refused, each message once as far as this process knows.
#[derive(Debug)]
pub struct Announcer {
    waiting: mpsc::Sender<Waiting>,
    /// How far which log is announced.
    done: Option<(LogIdentity, u64)>,
}

#[derive(Debug)]
struct Waiting {
    id: String,
    announcement: Announcement,
}

impl Announcer {
    /// An announcer, and what sends for it until it is dropped.
    pub fn new(log: Log) -> (Self, impl Future<Output = ()>) {
        let (waiting, queue) = mpsc::channel(WAITING_MAX);
        let announcer = Self {
            waiting,
            done: None,
        };
        (announcer, send(log, queue))
    }

    /// Announces what was refused of a log: all of it when it is `live`, else what is recent.
    pub fn announce(&mut self, log: &LogIdentity, refused: Vec<Announcement>, live: bool) {
        for announcement in refused {
            let seq = announcement.seq;
            // Views that are folded anew come by old messages.
            let is_done = |(of, done): &(LogIdentity, u64)| of == log && seq <= *done;
            if self.done.as_ref().is_some_and(is_done) {
                continue;
            }
            self.done = Some((log.clone(), seq));
            if !live && !is_recent(announcement.recorded_at.timestamp()) {
                continue;
            }
            let id = format!("{}-{seq}", epoch(log));
            let waiting = Waiting { id, announcement };
            if self.waiting.try_send(waiting).is_err() {
                metrics::not_announced();
            }
        }
    }
}

fn is_recent(recorded_at: Timestamp) -> bool {
    Timestamp::now().duration_since(recorded_at) <= RECENT
}

async fn send(log: Log, mut queue: mpsc::Receiver<Waiting>) {
    while let Some(Waiting { id, announcement }) = queue.recv().await {
        let subject = subject(&announcement.subject);
        if let Err(error) = log.publish_core(subject, &id, announcement.json).await {
            tracing::debug!(%error, seq = announcement.seq, "a rejection could not be announced");
        }
    }
}

/// Where a message is announced that came on a subject. What no event's subject has, clients may not be able to read, and has a
/// meaning for those who listen: it becomes `_`.
fn subject(original: &str) -> String {
    let plain = |c: char| {
        if c.is_ascii_graphic() && !"*>".contains(c) {
            c
        } else {
            '_'
        }
    };
    let subject: String = original.chars().map(plain).collect();
    format!("{PREFIX}{}", subject.trim_end_matches('.'))
}

#[cfg(test)]
mod tests {
    use events::Moment;
    use jiff::{SignedDuration, Timestamp};
    use projections::{Announcement, LogIdentity};
    use tokio::sync::mpsc;

    use super::{Announcer, WAITING_MAX, Waiting, subject};

    fn log(created: &str) -> LogIdentity {
        LogIdentity {
            name: "RACING".to_owned(),
            created: created.to_owned(),
        }
    }

    /// A rejection that the log took so long ago.
    fn refused(seq: u64, ago: SignedDuration) -> Announcement {
        Announcement {
            seq,
            recorded_at: Moment::from(Timestamp::now() - ago),
            subject: "racing.x".to_owned(),
            json: Vec::new(),
        }
    }

    fn announcer() -> (Announcer, mpsc::Receiver<Waiting>) {
        let (waiting, queue) = mpsc::channel(WAITING_MAX);
        let announcer = Announcer {
            waiting,
            done: None,
        };
        (announcer, queue)
    }

    fn heard(queue: &mut mpsc::Receiver<Waiting>) -> Vec<u64> {
        let next = || {
            queue
                .try_recv()
                .ok()
                .map(|waiting| waiting.announcement.seq)
        };
        std::iter::from_fn(next).collect()
    }

    const NOW: SignedDuration = SignedDuration::ZERO;
    const LONG_AGO: SignedDuration = SignedDuration::from_mins(11);

    #[test]
    fn a_service_that_catches_up_announces_what_is_recent_and_a_live_one_everything() {
        let (mut announcer, mut queue) = announcer();
        let all = |seq| vec![refused(seq, LONG_AGO), refused(seq + 1, NOW)];
        announcer.announce(&log("a"), all(1), false);
        assert_eq!(heard(&mut queue), [2]);
        announcer.announce(&log("a"), all(3), true);
        assert_eq!(heard(&mut queue), [3, 4]);
    }

    #[test]
    fn what_is_folded_again_is_not_announced_again_but_another_log_is_another_one() {
        let (mut announcer, mut queue) = announcer();
        let all = || (1..=3).map(|seq| refused(seq, NOW)).collect();
        announcer.announce(&log("a"), all(), true);
        announcer.announce(&log("a"), all(), false);
        announcer.announce(&log("a"), vec![refused(4, NOW)], true);
        assert_eq!(heard(&mut queue), [1, 2, 3, 4]);
        announcer.announce(&log("b"), all(), true);
        assert_eq!(heard(&mut queue), [1, 2, 3]);
    }

    #[test]
    fn who_waits_for_nats_is_bounded_and_holds_up_nobody() {
        let (mut announcer, mut queue) = announcer();
        let many = WAITING_MAX as u64 + 10;
        let all = (1..=many).map(|seq| refused(seq, NOW)).collect();
        announcer.announce(&log("a"), all, true);
        assert_eq!(heard(&mut queue).len(), WAITING_MAX);
    }

    #[test]
    fn an_announcement_goes_where_anybody_can_listen() {
        for (original, announced) in [
            (
                "racing.odds.2026-11-21.ST.3",
                "rejected.racing.odds.2026-11-21.ST.3",
            ),
            ("racing.*.>", "rejected.racing._._"),
            ("racing.\u{e9}\u{3000}\u{fffd}", "rejected.racing.___"),
            ("racing.cut.", "rejected.racing.cut"),
            ("racing.{\"a\":1}", "rejected.racing.{\"a\":1}"),
        ] {
            assert_eq!(subject(original), announced);
        }
    }
}
