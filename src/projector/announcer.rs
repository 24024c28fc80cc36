//! [`Announcer`]: publishes rejections to feeders on core NATS. Nothing waits for it; the read model has what it drops.
//!
//! All replicas queue all rejections, and the holder of a lease publishes them. It notes with the lease how far it is,
//! so that the others drop what is published, and the next holder publishes the rest.

use jiff::SignedDuration;
use projections::{Announcement, LogIdentity};
use serde::{Deserialize, Serialize};
use tokio::sync::mpsc;

use crate::clock::now;
use crate::feed::epoch;
use crate::log::{Lease, Log};
use crate::metrics;

/// The prefix of an announcement's subject, before the subject of the rejected message.
pub const PREFIX: &str = "rejected.";

/// The characters of a rejected message's subject in that of its announcement: more than any event's has.
const SUBJECT_CHARS_MAX: usize = 256;

/// Announcements in the queue. Of a larger burst the first ones are announced.
pub(super) const QUEUE_MAX: usize = 4096;

/// After a restart, only rejections of messages at most this old are announced.
pub(crate) const RECENT: SignedDuration = SignedDuration::from_mins(10);

/// Logs whose announced messages are known. An operator creates a log anew, or accepts another one, a few times.
const LOGS_MAX: usize = 4;

/// Announces rejections, each message once while one replica has the role.
#[derive(Debug)]
pub struct Announcer {
    queue: mpsc::Sender<QueuedAnnouncement>,
    /// What was queued or skipped.
    seen: AnnouncedPositions,
}

/// A rejected message of the log.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct AnnouncedPosition {
    /// The epoch of the log.
    log: String,
    seq: u64,
    /// When the log stored it, in microseconds since the epoch of Unix.
    stored_us: i64,
}

impl AnnouncedPosition {
    /// Whether another message is this one or an earlier one. A later message under an old number is another one: the
    /// log has lost its last messages and grown again.
    fn covers(&self, other: &Self) -> bool {
        self.log == other.log && other.seq <= self.seq && other.stored_us <= self.stored_us
    }

    /// This message as the last of those up to it: at the time of the latest one. The clock of NATS may have stepped
    /// back since that.
    fn after(mut self, earlier: Option<&Self>) -> Self {
        let earlier = earlier.filter(|earlier| earlier.log == self.log && earlier.seq < self.seq);
        let latest_us = earlier.map_or(i64::MIN, |earlier| earlier.stored_us);
        self.stored_us = self.stored_us.max(latest_us);
        self
    }

    /// The id of the message: all replicas compute the same one, so it is stored once.
    fn id(&self) -> String {
        format!("{}-{}-{}", self.log, self.seq, self.stored_us)
    }
}

/// The last message of each log, the latest log first. While a log replaces another one, messages of both are
/// announced.
#[derive(Debug, Default, Serialize, Deserialize)]
struct AnnouncedPositions(Vec<AnnouncedPosition>);

impl AnnouncedPositions {
    fn covers(&self, position: &AnnouncedPosition) -> bool {
        self.0.iter().any(|last| last.covers(position))
    }

    fn add(&mut self, position: AnnouncedPosition) {
        let known = self.0.iter().position(|last| last.log == position.log);
        let known = known.map(|index| self.0.remove(index));
        self.0.insert(0, position.after(known.as_ref()));
        self.0.truncate(LOGS_MAX);
    }
}

type QueuedAnnouncement = (AnnouncedPosition, Announcement);

impl Announcer {
    /// An announcer, and the task that publishes for it, while this replica holds the lease, until it is dropped.
    pub fn new(log: Log, lease: Lease) -> (Self, impl Future<Output = ()>) {
        let (queue, receiver) = mpsc::channel(QUEUE_MAX);
        let seen = AnnouncedPositions::default();
        (Self { queue, seen }, publish(log, lease, receiver))
    }

    /// Queues the rejections of a batch: all of them when the projector is `live`, else the recent ones.
    pub fn announce(&mut self, log: &LogIdentity, rejections: Vec<Announcement>, live: bool) {
        for announcement in rejections {
            let recorded_at = announcement.recorded_at.timestamp();
            let position = AnnouncedPosition {
                log: epoch(log).to_string(),
                seq: announcement.seq,
                stored_us: recorded_at.as_microsecond(),
            };
            // A rebuild folds old messages again.
            if self.seen.covers(&position) {
                continue;
            }
            self.seen.add(position.clone());
            let is_due = live || now().duration_since(recorded_at) <= RECENT;
            if is_due && self.queue.try_send((position, announcement)).is_err() {
                metrics::count("railbird_rejections_not_announced_total");
            }
        }
    }
}

async fn publish(log: Log, mut lease: Lease, mut queue: mpsc::Receiver<QueuedAnnouncement>) {
    while let Some((position, announcement)) = queue.recv().await {
        if !is_to_be_published(&mut lease, &position).await {
            continue;
        }
        let subject = subject(&announcement.subject);
        let id = position.id();
        if let Err(error) = log.publish_core(subject, &id, announcement.json).await {
            tracing::debug!(%error, seq = announcement.seq, "cannot announce a rejection");
        }
        let mut published = published(&lease);
        published.add(position);
        lease.set_note(serde_json::to_string(&published).expect("positions are JSON"));
    }
}

/// Waits until this replica has the role, or the one that has it is past this message. Returns whether it is up to this
/// replica to publish it. Where replicas cannot agree, each one does.
async fn is_to_be_published(lease: &mut Lease, position: &AnnouncedPosition) -> bool {
    loop {
        if published(lease).covers(position) {
            return false;
        }
        if lease.held().is_some() || lease.is_denied() {
            return true;
        }
        lease.changed().await;
    }
}

/// What was published, as far as this replica knows.
fn published(lease: &Lease) -> AnnouncedPositions {
    serde_json::from_str(&lease.note()).unwrap_or_default()
}

/// The subject on which the rejection of a message on `original` is announced.
///
/// Characters that no event's subject contains become `_`: some client libraries cannot parse them, and wildcards have
/// a meaning for subscribers.
fn subject(original: &str) -> String {
    let is_kept = |c: char| c.is_ascii_graphic() && !"*>".contains(c);
    let kept = original.chars().take(SUBJECT_CHARS_MAX);
    let subject = String::from_iter(kept.map(|c| if is_kept(c) { c } else { '_' }));
    format!("{PREFIX}{}", subject.trim_end_matches('.'))
}

#[cfg(test)]
mod tests {
    use events::Moment;
    use jiff::{SignedDuration, Timestamp};
    use projections::{Announcement, LogIdentity};
    use tokio::sync::mpsc;

    use super::{AnnouncedPositions, Announcer, QUEUE_MAX, QueuedAnnouncement, subject};

    fn log(created: &str) -> LogIdentity {
        LogIdentity {
            name: "RACING".to_owned(),
            created: created.to_owned(),
        }
    }

    /// The rejection of a message that the log stored so long ago.
    fn rejection(seq: u64, ago: SignedDuration) -> Announcement {
        Announcement {
            seq,
            recorded_at: Moment::from(Timestamp::now() - ago),
            subject: "racing.x".to_owned(),
            source: String::new(),
            json: Vec::new(),
        }
    }

    fn announcer() -> (Announcer, mpsc::Receiver<QueuedAnnouncement>) {
        let (sender, receiver) = mpsc::channel(QUEUE_MAX);
        let announcer = Announcer {
            queue: sender,
            seen: AnnouncedPositions::default(),
        };
        (announcer, receiver)
    }

    /// The sequences in the queue, which is then empty.
    fn drain(queue: &mut mpsc::Receiver<QueuedAnnouncement>) -> Vec<u64> {
        let next = || Some(queue.try_recv().ok()?.1.seq);
        std::iter::from_fn(next).collect()
    }

    /// The ids in the queue, which is then empty.
    fn drain_ids(queue: &mut mpsc::Receiver<QueuedAnnouncement>) -> Vec<String> {
        std::iter::from_fn(|| Some(queue.try_recv().ok()?.0.id())).collect()
    }

    const NOW: SignedDuration = SignedDuration::ZERO;
    const LONG_AGO: SignedDuration = SignedDuration::from_mins(11);

    #[test]
    fn a_service_announces_recent_rejections_while_it_catches_up_and_all_when_live() {
        let (mut announcer, mut queue) = announcer();
        let all = |seq| vec![rejection(seq, LONG_AGO), rejection(seq + 1, NOW)];
        announcer.announce(&log("a"), all(1), false);
        assert_eq!(drain(&mut queue), [2]);
        announcer.announce(&log("a"), all(3), true);
        assert_eq!(drain(&mut queue), [3, 4]);
    }

    #[test]
    fn a_repeated_rejection_is_not_announced_again_but_one_of_another_log_is() {
        let (mut announcer, mut queue) = announcer();
        let all: Vec<_> = (1..=3).map(|seq| rejection(seq, NOW)).collect();
        announcer.announce(&log("a"), all.clone(), true);
        announcer.announce(&log("a"), all.clone(), false);
        announcer.announce(&log("a"), vec![rejection(4, NOW)], true);
        assert_eq!(drain(&mut queue), [1, 2, 3, 4]);
        announcer.announce(&log("b"), all.clone(), true);
        assert_eq!(drain(&mut queue), [1, 2, 3]);
        // The views of the log before are opened once more.
        announcer.announce(&log("a"), all.clone(), false);
        announcer.announce(&log("b"), all, false);
        assert!(drain(&mut queue).is_empty());
    }

    #[test]
    fn a_rejection_is_announced_again_if_the_log_has_lost_its_number_and_used_it_again() {
        let (mut announcer, mut queue) = announcer();
        let seconds = SignedDuration::from_secs;
        let before: Vec<Announcement> = (1..=9)
            .map(|seq| rejection(seq, seconds(100 - seq.cast_signed())))
            .collect();
        announcer.announce(&log("a"), before.clone(), true);
        let lost = drain_ids(&mut queue);
        // The log lost everything after 4, and the views are folded again.
        let mut after = before[..4].to_vec();
        after.extend((5..=7).map(|seq| rejection(seq, seconds(10 - seq.cast_signed()))));
        announcer.announce(&log("a"), after.clone(), false);
        let reused = drain_ids(&mut queue);
        assert_eq!(reused.len(), 3, "{reused:?}");
        assert!(reused.iter().all(|id| !lost.contains(id)), "{reused:?}");
        // A rebuild announces none of them again.
        announcer.announce(&log("a"), after, true);
        assert!(drain(&mut queue).is_empty());
        announcer.announce(&log("a"), vec![rejection(8, NOW)], true);
        assert_eq!(drain(&mut queue), [8]);
    }

    #[test]
    fn what_is_published_covers_earlier_messages_after_the_clock_of_nats_stepped_back() {
        let (mut announcer, mut queue) = announcer();
        let before = vec![rejection(1, NOW), rejection(2, NOW)];
        let stepped_back = vec![rejection(3, SignedDuration::from_mins(5))];
        announcer.announce(&log("a"), before.clone(), true);
        announcer.announce(&log("a"), stepped_back, true);
        let positions = std::iter::from_fn(|| Some(queue.try_recv().ok()?.0));
        let positions: Vec<_> = positions.collect();
        let mut published = AnnouncedPositions::default();
        for position in &positions {
            published.add(position.clone());
        }
        assert!(positions.iter().all(|position| published.covers(position)));
        // So a rebuild announces none of them again.
        announcer.announce(&log("a"), before, true);
        assert!(drain(&mut queue).is_empty());
    }

    #[test]
    fn the_queue_for_nats_is_bounded_and_never_blocks() {
        let (mut announcer, mut queue) = announcer();
        let many = QUEUE_MAX as u64 + 10;
        let all = (1..=many).map(|seq| rejection(seq, NOW)).collect();
        announcer.announce(&log("a"), all, true);
        assert_eq!(drain(&mut queue).len(), QUEUE_MAX);
    }

    #[test]
    fn an_announcement_has_a_subject_that_every_client_can_subscribe_to() {
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
