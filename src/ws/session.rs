//! [`Session`]: one client: what it has been sent, and what it is sent next.

use std::cell::Cell;
use std::io;
use std::rc::Rc;
use std::sync::Arc;
use std::task::Waker;
use std::time::{Duration, Instant};

use bytes::Bytes;
use projections::LiveKind;
use serde_json::Value;

use super::Since;
use super::filter::{Follows, Kinds};
use super::hear::Allowance;
use super::message::{FeedHealth, Said, Wishes};
use super::tickets::Ticket;
use super::wire::Wire;
use crate::feed::{ConflatedBy, Feed, Message, NotRecovered, Position, frame};
use crate::metrics::LiveMetrics;

/// Messages that a client may be behind before it is moved on to the latest images.
const BEHIND_MAX: u64 = 4_096;
/// Messages that are taken from the feed at a time for a client that catches up.
const TAIL_MESSAGES_MAX: usize = 512;
/// A client that takes nothing for so long is closed.
const STALLED_AFTER: Duration = Duration::from_secs(30);
/// A client from which nothing comes for so long, though it is pinged, is closed.
const SILENT_AFTER: Duration = Duration::from_secs(75);
const PING_EVERY: Duration = Duration::from_secs(30);
/// How long a client may take to take its leave.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(5);
/// An empty ping (RFC 6455, 5.5.2).
const PING: Bytes = Bytes::from_static(&[0x89, 0x00]);

/// What sessions share.
#[derive(Debug, Clone)]
pub(super) struct Shared {
    pub(super) feed: Feed,
    pub(super) metrics: Arc<LiveMetrics>,
    /// How far the shard has told what the feed holds: the number of the next message, and the place in the log that those
    /// before it reflect.
    pub(super) told: Rc<Cell<(u64, u64)>>,
}

#[derive(Debug)]
pub(super) struct Session {
    pub(super) wire: Wire,
    pub(super) wishes: Wishes,
    shared: Shared,
    ticket: Ticket,
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
    pub(super) allowance: Allowance,
    /// Its wishes have changed, and its shard has not noticed yet.
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

/// Messages that a shard hands to its sessions, and the frames of all of them.
#[derive(Debug)]
pub(super) struct Batch {
    /// The number of the first.
    pub(super) from: u64,
    pub(super) messages: Vec<Arc<Message>>,
    pub(super) frames: Vec<Bytes>,
    /// The place in the log that everything before the batch reflects.
    pub(super) seq: u64,
}

impl Batch {
    pub(super) fn end(&self) -> u64 {
        self.from + self.messages.len() as u64
    }
}

impl Session {
    pub(super) fn new(
        wire: Wire,
        wishes: Wishes,
        since: Option<&Since>,
        ticket: Ticket,
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
            wishes,
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
            allowance: Allowance::new(now),
            refiltered: false,
            scheduled: now,
            waker: None,
        };
        // Those that came together do not get their heartbeats together.
        session.heartbeat_due += session.heartbeat() * (512 + super::random(512)) / 1024;
        session.welcome(since);
        session
    }

    pub(super) fn key_id(&self) -> &str {
        &self.ticket.key_id
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
        Duration::from_millis(self.wishes.heartbeat_ms)
    }

    fn conflate(&self) -> Option<Duration> {
        let ms = self.wishes.conflate_ms;
        (ms > 0).then(|| Duration::from_millis(ms))
    }

    /// Whether messages may be read: what they cause would otherwise wait behind what the client does not take.
    pub(super) fn can_hear(&self) -> bool {
        !self.wire.is_blocked() && self.wire.is_clear() && self.replay.is_none()
    }

    pub(super) fn heard(&mut self, now: Instant) {
        self.heard_at = now;
    }

    // What it is sent.

    pub(super) fn say(&mut self, said: &Said<'_>) {
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
        let wishes = self.wishes.clone();
        self.say(&Said::Welcome {
            seq: position.seq,
            epoch: &position.epoch,
            server_time: super::now(),
            recovered: resumed.map(|resumed| resumed.is_ok()),
            reason: resumed.and_then(Result::err).map(NotRecovered::as_str),
            in_force: wishes.in_force(),
        });
        if !matches!(resumed, Some(Ok(()))) {
            self.snapshots(None, None);
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

    /// Sends the images of the open races that are followed and were not `before`. What was on its way counts no more.
    pub(super) fn snapshots(&mut self, before: Option<&Wishes>, id: Option<&Value>) {
        let (images, position) = self.images(before);
        self.send_images(images, &position, id);
    }

    /// The same, but first what was on its way to this client, which wished for it until now.
    pub(super) fn rest_and_snapshots(
        &mut self,
        wished: &Wishes,
        before: Option<&Wishes>,
        id: Option<&Value>,
    ) {
        loop {
            self.queue_rest(wished);
            let (images, position) = self.images(before);
            if position.head == self.place || position.generation != self.generation {
                return self.send_images(images, &position, id);
            }
        }
    }

    /// Queues what the feed holds and the client has not been sent.
    fn queue_rest(&mut self, wished: &Wishes) {
        let (place, seq) = self.shared.told.get();
        self.fall_behind(place, seq);
        let position = self.shared.feed.position();
        if self.place >= position.head || position.generation != self.generation {
            return;
        }
        let few =
            self.conflate().is_none() && position.head - self.place <= TAIL_MESSAGES_MAX as u64;
        let tail = few.then(|| self.shared.feed.tail(self.place, TAIL_MESSAGES_MAX));
        if let Some(tail) = tail.flatten() {
            self.place += tail.messages.len() as u64;
            let wanted = tail.messages.iter();
            let wanted = wanted.filter(|message| Self::wants(wished, message));
            self.queue_all(wanted.map(|message| message.frame.clone()).collect());
            return;
        }
        let by = match self.conflate() {
            Some(_) if position.head - self.place <= BEHIND_MAX => ConflatedBy::Client,
            _ => ConflatedBy::Backpressure,
        };
        let wants = |topic: &_, kind| wished.kinds.contains(kind) && wished.filter.passes(topic);
        match self.shared.feed.conflated(self.place, by, wants) {
            Some((frames, position)) => {
                self.queue_all(frames);
                self.place = position.head;
            }
            None => self.begin_anew("this client was behind by more than is kept"),
        }
    }

    fn images(&self, before: Option<&Wishes>) -> (Vec<Bytes>, Position) {
        let wanted = self.wishes.kinds.contains(LiveKind::Odds);
        let had = before.filter(|before| before.kinds.contains(LiveKind::Odds));
        let filter = &self.wishes.filter;
        let wants = |topic: &_| {
            wanted && filter.passes(topic) && !had.is_some_and(|had| had.filter.passes(topic))
        };
        self.shared.feed.snapshots(wants)
    }

    fn send_images(&mut self, images: Vec<Bytes>, position: &Position, id: Option<&Value>) {
        let races = images.len();
        self.queue_all(images);
        self.say(&Said::SnapshotComplete {
            id,
            seq: position.seq,
            races,
            replayed: 0,
        });
        self.caught_up(position);
    }

    /// What was said before no longer counts.
    fn begin_anew(&mut self, reason: &str) {
        let position = self.shared.feed.position();
        self.generation = position.generation;
        self.replay = None;
        self.say(&Said::Resync {
            seq: position.seq,
            epoch: &position.epoch,
            reason,
        });
        self.snapshots(None, None);
    }

    fn caught_up(&mut self, position: &Position) {
        (self.place, self.through, self.current) = (position.head, position.seq, true);
        self.flush_due = None;
    }

    fn wants(wishes: &Wishes, message: &Message) -> bool {
        wishes.kinds.contains(message.kind) && wishes.filter.passes(&message.topic)
    }

    fn wants_everything(&self) -> bool {
        self.wishes.kinds == Kinds::ALL && self.wishes.filter.follows() == Follows::All
    }

    /// Takes part in a batch of its shard: sends what concerns the client, or notes that it is behind.
    pub(super) fn deliver(
        &mut self,
        batch: &Batch,
        scratch: &mut Scratch,
        now: Instant,
    ) -> io::Result<()> {
        if !self.is_open() || self.place >= batch.end() {
            return Ok(());
        }
        if let Some(conflate) = self.conflate() {
            return self.hold(batch, conflate, now);
        }
        if !self.current || !self.wire.is_clear() || self.wire.is_blocked() {
            self.fall_behind(batch.from, batch.seq);
            return Ok(());
        }
        let skip = usize::try_from(self.place.saturating_sub(batch.from)).unwrap_or(usize::MAX);
        let messages = batch.messages.get(skip..).unwrap_or_default();
        if self.wants_everything() {
            let frames = batch.frames.get(skip..).unwrap_or_default();
            let taken = self.write(frames, now)?;
            self.moved_on(messages, taken, batch.end());
        } else {
            self.write_wanted(messages, scratch, batch.end(), now)?;
        }
        Ok(())
    }

    /// Sends those of the messages, which end before number `end`, that are wanted.
    fn write_wanted(
        &mut self,
        messages: &[Arc<Message>],
        scratch: &mut Scratch,
        end: u64,
        now: Instant,
    ) -> io::Result<()> {
        scratch.clear();
        for (at, message) in messages.iter().enumerate() {
            if Self::wants(&self.wishes, message) {
                scratch.frames.push(message.frame.clone());
                scratch.places.push(at);
            }
        }
        let taken = self.write(&scratch.frames, now)?;
        if let Some(replay) = &mut self.replay {
            replay.sent += taken;
        }
        let taken = scratch.places.get(taken).copied().unwrap_or(messages.len());
        self.moved_on(messages, taken, end);
        Ok(())
    }

    /// Notes how far it came with messages that end before number `end`.
    fn moved_on(&mut self, messages: &[Arc<Message>], taken: usize, end: u64) {
        if let Some(next) = messages.get(taken) {
            (self.place, self.through, self.current) = (next.index, next.seq - 1, false);
        } else {
            self.place = end;
        }
    }

    /// Notes that messages from a number on wait for it, and that what is before them reflects `seq`.
    pub(super) fn fall_behind(&mut self, from: u64, seq: u64) {
        if std::mem::take(&mut self.current) {
            self.place = self.place.max(from);
            self.through = self.through.max(seq);
        }
    }

    /// Holds odds back until they are due; anything else is not held back.
    fn hold(&mut self, batch: &Batch, conflate: Duration, now: Instant) -> io::Result<()> {
        let wanted = batch
            .messages
            .iter()
            .filter(|message| Self::wants(&self.wishes, message));
        let (mut any, mut at_once) = (false, false);
        for message in wanted {
            (any, at_once) = (true, at_once || message.kind != LiveKind::Odds);
        }
        if !any {
            return Ok(());
        }
        self.fall_behind(batch.from, batch.seq);
        let due = self.flushed_at + conflate;
        if at_once || due <= now {
            return self.advance(now);
        }
        self.flush_due = Some(due);
        Ok(())
    }

    /// Sends what the client is behind with, as far as it takes it.
    pub(super) fn advance(&mut self, now: Instant) -> io::Result<()> {
        loop {
            self.write(&[], now)?;
            // A connection may fill up right behind a frame: then nothing is queued, and yet nothing more is taken.
            if !self.wire.is_clear() || self.wire.is_blocked() || !self.is_open() {
                return Ok(());
            }
            let position = self.shared.feed.position();
            if position.generation != self.generation {
                self.begin_anew("the views were begun anew");
            } else if self
                .replay
                .as_ref()
                .is_some_and(|replay| self.place >= replay.until)
            {
                self.end_replay();
            } else if self.current || self.place >= position.head {
                if !self.current {
                    self.caught_up(&position);
                }
                return Ok(());
            } else {
                self.catch_up(&position, now)?;
            }
        }
    }

    fn end_replay(&mut self) {
        let Some(replay) = self.replay.take() else {
            return;
        };
        self.say(&Said::SnapshotComplete {
            id: replay.id.as_ref(),
            seq: self.through,
            races: 0,
            replayed: replay.sent,
        });
    }

    /// A step from its place towards the head of the feed.
    fn catch_up(&mut self, position: &Position, now: Instant) -> io::Result<()> {
        let far = position.head - self.place > BEHIND_MAX;
        if self.replay.is_none() {
            match self.conflate() {
                Some(_) if !far => return self.conflated(ConflatedBy::Client, now),
                _ if far => return self.conflated(ConflatedBy::Backpressure, now),
                _ => {}
            }
        }
        let Some(tail) = self.shared.feed.tail(self.place, TAIL_MESSAGES_MAX) else {
            return self.conflated(ConflatedBy::Backpressure, now);
        };
        let end = self.place + tail.messages.len() as u64;
        self.write_wanted(&tail.messages, &mut Scratch::default(), end, now)?;
        if let Some(last) = tail.messages.last().filter(|_| self.place == end) {
            let more = end < tail.position.head;
            self.through = if more {
                last.seq - 1
            } else {
                tail.position.seq
            };
        }
        Ok(())
    }

    /// Moves on to the latest images.
    fn conflated(&mut self, by: ConflatedBy, now: Instant) -> io::Result<()> {
        let wishes = &self.wishes;
        let wants = |topic: &_, kind| wishes.kinds.contains(kind) && wishes.filter.passes(topic);
        let Some((frames, position)) = self.shared.feed.conflated(self.place, by, wants) else {
            self.begin_anew("this client was behind by more than is kept");
            return Ok(());
        };
        if by == ConflatedBy::Backpressure {
            self.shared.metrics.conflated.increment(1);
        }
        self.queue_all(frames);
        self.flushed_at = now;
        self.caught_up(&position);
        Ok(())
    }

    /// The system takes more again.
    pub(super) fn on_unblocked(&mut self, now: Instant) -> io::Result<()> {
        if self.is_open() {
            return self.advance(now);
        }
        self.write(&[], now)?;
        if self.wire.is_clear() {
            self.wire.end_writing();
        }
        Ok(())
    }

    /// Puts the time of the next heartbeat right after wishes were changed.
    pub(super) fn reschedule(&mut self, now: Instant) {
        self.heartbeat_due = self.heartbeat_due.min(now + self.heartbeat());
        self.refiltered = true;
    }

    /// Writes what is queued and then frames. Returns how many of the frames were taken.
    pub(super) fn write(&mut self, frames: &[Bytes], now: Instant) -> io::Result<usize> {
        let taken = self.wire.write(frames)?;
        self.shared.metrics.messages.increment(taken as u64);
        if self.wire.bytes_written() != self.moved_bytes {
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

    // What happens with time.

    /// When it wants to be called next.
    pub(super) fn due(&self) -> Instant {
        if let End::Closing(deadline) = self.end {
            return deadline;
        }
        let flush = self.flush_due.unwrap_or(self.heartbeat_due);
        flush.min(self.heartbeat_due).min(self.ping_due)
    }

    /// Does what is due. `seq` is what everything that its shard has seen reflects.
    pub(super) fn on_time(
        &mut self,
        seq: u64,
        health: &FeedHealth,
        now: Instant,
    ) -> io::Result<()> {
        if !self.is_open() {
            if self.due() <= now {
                self.end = End::Ended;
                self.wake();
            }
            return Ok(());
        }
        if self.wire.is_blocked() && now.duration_since(self.moved_at) > STALLED_AFTER {
            self.close(4408, "nothing was taken for 30 seconds", now);
            return Ok(());
        }
        if now.duration_since(self.heard_at) > SILENT_AFTER {
            self.close(4408, "nothing came for 75 seconds", now);
            return Ok(());
        }
        if self.flush_due.take_if(|due| *due <= now).is_some() {
            self.advance(now)?;
        }
        if self.ping_due <= now {
            self.ping_due = now + PING_EVERY;
            self.wire.queue(PING);
        }
        if self.heartbeat_due <= now {
            self.beat(seq, health, now);
        }
        self.write(&[], now)?;
        Ok(())
    }

    /// Sends a heartbeat now. A client that takes nothing has no use for one.
    pub(super) fn beat(&mut self, seq: u64, health: &FeedHealth, now: Instant) {
        self.heartbeat_due = now + self.heartbeat();
        if self.wire.is_blocked() || !self.is_open() {
            return;
        }
        if self.current {
            self.through = self.through.max(seq);
        }
        self.say(&Said::Heartbeat {
            seq: self.through,
            server_time: super::now(),
            feed: health.clone(),
        });
    }

    // How it ends.

    /// Says why, closes, and forgets what was not begun.
    pub(super) fn close(&mut self, code: u16, reason: &str, now: Instant) {
        if !self.is_open() {
            return;
        }
        self.shared.metrics.closed(code);
        self.wire.forget();
        self.say(&Said::Closing {
            code,
            reason,
            retry_after_ms: super::retry_after_ms(code),
        });
        self.wire.close(code, reason);
        self.end = End::Closing(now + CLOSE_TIMEOUT);
        if self.write(&[], now).is_err() {
            self.end = End::Ended;
        } else if self.wire.is_clear() {
            self.wire.end_writing();
        }
        self.wake();
    }

    /// The connection is gone.
    pub(super) fn end(&mut self) {
        self.end = End::Ended;
        self.wake();
    }
}

/// What a shard uses again and again to gather the frames of one client.
#[derive(Debug, Default)]
pub(super) struct Scratch {
    frames: Vec<Bytes>,
    /// Where each stands among the messages.
    places: Vec<usize>,
}

impl Scratch {
    fn clear(&mut self) {
        self.frames.clear();
        self.places.clear();
    }
}
