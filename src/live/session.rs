//! [`Session`]: one client: what it has been sent, and what it is sent next.

mod deliver;
mod requests;
#[cfg(test)]
mod tests;
mod time;

pub(super) use deliver::Scratch;

use std::io;
use std::sync::Arc;
use std::task::Waker;
use std::time::{Duration, Instant};

use bytes::Bytes;
use serde_json::Value;

use self::requests::TokenBucket;
use super::Since;
use super::batch::FeedCursor;
use super::connection::Connection;
use super::connection_limits::ConnectionPermit;
use super::message::{LiveSubscription, ServerMessage};
use crate::accounts::KeyId;
use crate::live::feed::{Feed, NotRecovered, Position, Snapshots, frame};
use crate::metrics::LiveMetrics;

const PING_EVERY: Duration = Duration::from_secs(30);
const FAR_BEHIND: &str = "this client was behind by more than is kept";

/// What sessions share.
#[derive(Debug, Clone)]
pub(super) struct Shared {
    pub(super) feed: Feed,
    pub(super) metrics: Arc<LiveMetrics>,
}

#[derive(Debug)]
pub(super) struct Session {
    pub(super) wire: Connection,
    pub(super) subscription: LiveSubscription,
    shared: Shared,
    ticket: ConnectionPermit,
    generation: u64,
    /// The number of the next message. While `current`, messages before it may have passed that do not concern the client.
    place: u64,
    /// Everything for this client up to here has been sent, or was when it was last current.
    through: u64,
    /// It has been sent all that its shard has seen.
    current: bool,
    replay: Option<Replay>,
    /// When odds were last sent, and when those that are held back will be: for clients that asked for conflation.
    flushed_at: Instant,
    flush_due: Option<Instant>,
    heartbeat_due: Instant,
    ping_due: Instant,
    heard_at: Instant,
    /// When the system last took something, and how much it had taken.
    moved_at: Instant,
    moved_bytes: u64,
    end: End,
    pub(super) allowance: TokenBucket,
    /// What it said, for as long as what is to be sent before the answer has not been.
    pub(super) awaiting_mail: Option<String>,
    /// Its subscription have changed, and its shard has not noticed yet.
    pub(super) refiltered: bool,
    /// For when its shard has it in its timers.
    pub(super) scheduled: Instant,
    /// Wakes the task that waits for the connection.
    pub(super) waker: Option<Waker>,
}

/// Messages that are said again.
#[derive(Debug)]
struct Replay {
    /// The number of the first message that is new.
    until: u64,
    sent: usize,
    id: Option<Value>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum End {
    Open,
    /// The close frame is queued; the connection ends then at the latest.
    Closing(Instant),
    Ended,
}

impl Session {
    pub(super) fn new(
        wire: Connection,
        subscription: LiveSubscription,
        since: Option<&Since>,
        ticket: ConnectionPermit,
        shared: Shared,
        now: Instant,
    ) -> Self {
        let Position {
            generation,
            head,
            seq,
            ..
        } = shared.feed.position();
        let mut session = Self {
            wire,
            subscription,
            shared,
            ticket,
            generation,
            place: head,
            through: seq,
            current: true,
            replay: None,
            flushed_at: now,
            flush_due: None,
            heartbeat_due: now,
            ping_due: now + PING_EVERY,
            heard_at: now,
            moved_at: now,
            moved_bytes: 0,
            end: End::Open,
            allowance: TokenBucket::new(now),
            awaiting_mail: None,
            refiltered: false,
            scheduled: now,
            waker: None,
        };
        // Those that came together do not get their heartbeats together.
        session.heartbeat_due += session.heartbeat() * (512 + super::random(512)) / 1024;
        session.welcome(since);
        session
    }

    pub(super) fn key_id(&self) -> KeyId {
        self.ticket.key_id
    }

    pub(super) fn is_open(&self) -> bool {
        self.end == End::Open
    }

    pub(super) fn has_ended(&self) -> bool {
        self.end == End::Ended
    }

    pub(super) fn through(&self) -> u64 {
        self.through
    }

    fn heartbeat(&self) -> Duration {
        Duration::from_millis(self.subscription.heartbeat_ms)
    }

    fn conflate(&self) -> Option<Duration> {
        let ms = self.subscription.conflate_ms;
        (ms > 0).then(|| Duration::from_millis(ms))
    }

    /// Whether it has been sent all that there is for it.
    pub(super) fn is_up_to_date(&self) -> bool {
        self.current && self.wire.is_clear()
    }

    /// Whether messages may be read: what they cause waits behind what the client does not take.
    pub(super) fn can_read(&self) -> bool {
        !self.wire.is_crowded() && self.awaiting_mail.is_none()
    }

    pub(super) fn heard(&mut self, now: Instant) {
        self.heard_at = now;
    }

    // What it is sent.

    pub(super) fn say(&mut self, said: &ServerMessage<'_>) {
        self.shared.metrics.messages.increment(1);
        self.wire.queue(frame::json(said));
    }

    fn queue_all(&mut self, frames: Vec<Bytes>) {
        self.shared.metrics.messages.increment(frames.len() as u64);
        for frame in frames {
            self.wire.queue(frame);
        }
    }

    fn welcome(&mut self, since: Option<&Since>) {
        let resumed = since.map(|since| self.resume(since));
        let position = self.shared.feed.position();
        let subscription = self.subscription.clone();
        self.say(&ServerMessage::Welcome {
            seq: position.seq,
            epoch: &position.epoch,
            server_time: super::now(),
            resumed: resumed.into(),
            in_force: subscription.in_force(),
        });
        if !matches!(resumed, Some(Ok(()))) {
            self.snapshots();
        }
    }

    /// Goes back to what a client saw last.
    pub(super) fn resume(&mut self, since: &Since) -> Result<(), NotRecovered> {
        let resumed = self.shared.feed.resume(since.seq, since.epoch.as_deref());
        self.shared.metrics.resumed(resumed.is_ok());
        let place = resumed?;
        let until = self.shared.feed.position().head;
        self.current = false;
        (self.place, self.through) = (place, since.seq);
        self.replay = Some(Replay {
            until,
            sent: 0,
            id: None,
        });
        Ok(())
    }

    /// Answers a client message whose resume worked with its id at the end, too.
    pub(super) fn replay_is_for(&mut self, id: Option<Value>) {
        if let Some(replay) = &mut self.replay {
            replay.id = id;
        }
    }

    /// Sends the images of all open races that are followed.
    fn snapshots(&mut self) {
        let snapshots = self
            .shared
            .feed
            .snapshots(|topic| self.subscription.want_odds_of(topic));
        self.caught_up(&snapshots.position);
        self.send_snapshots(snapshots, None);
    }

    /// Sends what was on its way with the subscription `before`, and takes the images of the open races that are followed and were not
    /// `had`. They are to be sent next.
    pub(super) fn take_snapshots(
        &mut self,
        before: &LiveSubscription,
        had: Option<&LiveSubscription>,
    ) -> Snapshots {
        let wants = |topic: &_| {
            self.subscription.want_odds_of(topic) && !had.is_some_and(|had| had.want_odds_of(topic))
        };
        let Some((tail, snapshots)) = self.shared.feed.tail_and_snapshots(self.place, wants) else {
            self.say_resync(FAR_BEHIND);
            return self
                .shared
                .feed
                .snapshots(|topic| self.subscription.want_odds_of(topic));
        };
        let wanted = tail
            .messages
            .iter()
            .filter(|message| before.want_message(message));
        self.queue_all(wanted.map(|message| message.frame.clone()).collect());
        self.caught_up(&snapshots.position);
        snapshots
    }

    pub(super) fn send_snapshots(&mut self, snapshots: Snapshots, id: Option<&Value>) {
        let races = snapshots.images.len();
        self.queue_all(snapshots.images);
        self.say(&ServerMessage::SnapshotComplete {
            id,
            seq: snapshots.position.seq,
            races,
            replayed: 0,
        });
    }

    /// What was said before no longer counts.
    fn reset(&mut self, reason: &str) {
        self.say_resync(reason);
        self.snapshots();
    }

    fn say_resync(&mut self, reason: &str) {
        let position = self.shared.feed.position();
        self.generation = position.generation;
        self.replay = None;
        self.say(&ServerMessage::Resync {
            seq: position.seq,
            epoch: &position.epoch,
            reason,
        });
    }

    fn caught_up(&mut self, position: &Position) {
        (self.place, self.through, self.current) = (position.head, position.seq, true);
        self.flush_due = None;
    }

    /// The system takes more again.
    pub(super) fn on_unblocked(&mut self, told: FeedCursor, now: Instant) -> io::Result<()> {
        if self.is_open() {
            self.advance(now)?;
            return self.answer(told, now);
        }
        self.write(&[], now)?;
        if self.wire.is_clear() {
            self.wire.end_writing();
        }
        Ok(())
    }

    /// Puts the time of the next heartbeat right after subscription were changed.
    pub(super) fn reschedule(&mut self, now: Instant) {
        self.heartbeat_due = self.heartbeat_due.min(now + self.heartbeat());
        self.refiltered = true;
    }

    /// Writes what is queued and then frames. Returns how many of the frames were taken.
    pub(super) fn write(&mut self, frames: &[Bytes], now: Instant) -> io::Result<usize> {
        let was_blocked = self.wire.is_blocked();
        let taken = self.wire.write(frames)?;
        self.shared.metrics.messages.increment(taken as u64);
        if !was_blocked || self.wire.bytes_written() != self.moved_bytes {
            (self.moved_at, self.moved_bytes) = (now, self.wire.bytes_written());
        }
        if self.wire.is_blocked() {
            self.wake();
        }
        Ok(taken)
    }

    /// Has the task look at the connection that waits for it.
    pub(super) fn wake(&self) {
        if let Some(waker) = &self.waker {
            waker.wake_by_ref();
        }
    }
}
