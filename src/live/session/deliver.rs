//! What a client is sent of what is told, and how it catches up.

use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use projections::LiveKind;

use super::super::batch::{Batch, FeedCursor};
use super::super::filter::{Follows, Kinds};
use super::super::message::ServerMessage;
use super::{FAR_BEHIND, Session};
use crate::live::feed::{ConflatedBy, Message, Position};

/// Messages that a client may be behind before it is moved on to the latest images.
const BEHIND_MAX: u64 = 4_096;
/// Messages that are taken from the feed at a time for a client that catches up.
const TAIL_MESSAGES_MAX: usize = 512;

impl Session {
    fn wants_everything(&self) -> bool {
        self.subscription.kinds == Kinds::ALL && self.subscription.filter.follows() == Follows::All
    }

    /// Takes part in a batch of its shard: sends what concerns the client, or notes that it is behind.
    pub(in crate::live) fn deliver(
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
        if self.wants_everything() && self.place <= batch.from {
            let taken = self.write(&batch.frames, now)?;
            self.moved_on(&batch.messages, taken, batch.end());
            return Ok(());
        }
        let mut lanes = batch
            .lanes
            .iter()
            .filter(|lane| self.subscription.filter.passes(&lane.topic));
        let (first, second) = (lanes.next(), lanes.next());
        match first {
            Some(lane)
                if second.is_none()
                    && self.subscription.kinds == Kinds::ALL
                    && self.place <= batch.from =>
            {
                let taken = self.write(&lane.frames, now)?;
                let next = lane
                    .places
                    .get(taken)
                    .copied()
                    .unwrap_or(batch.messages.len());
                self.moved_on(&batch.messages, next, batch.end());
            }
            Some(_) => {
                let skip =
                    usize::try_from(self.place.saturating_sub(batch.from)).unwrap_or(usize::MAX);
                let messages = batch.messages.get(skip..).unwrap_or_default();
                self.write_wanted(messages, scratch, batch.end(), now)?;
            }
            None => {}
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
            if self.subscription.want_message(message) {
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
    pub(in crate::live) fn fall_behind(&mut self, from: u64, seq: u64) {
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
            .filter(|message| self.subscription.want_message(message));
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
            self.flush_due = None;
            return self.advance(now);
        }
        self.flush_due = Some(due);
        Ok(())
    }

    /// Sends all that has been told, also what its shard has not come to and what is held back, as far as the client takes it.
    pub(in crate::live) fn flush(&mut self, told: FeedCursor, now: Instant) -> io::Result<()> {
        self.fall_behind(told.place, told.seq);
        self.flush_due = None;
        self.advance(now)
    }

    /// Notes that what its shard has told reflects `seq`.
    pub(in crate::live) fn reflects(&mut self, seq: u64) {
        if self.current {
            self.through = self.through.max(seq);
        }
    }

    /// Sends what the client is behind with and what is not held back, as far as it takes it.
    pub(in crate::live) fn advance(&mut self, now: Instant) -> io::Result<()> {
        loop {
            self.write(&[], now)?;
            // A connection may fill up right behind a frame: then nothing is queued, and yet nothing more is taken.
            if !self.wire.is_clear() || self.wire.is_blocked() || !self.is_open() {
                return Ok(());
            }
            let position = self.shared.feed.position();
            if position.generation != self.generation {
                self.reset("the views were begun anew");
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
            } else if self.flush_due.is_some() && self.replay.is_none() {
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
        self.say(&ServerMessage::SnapshotComplete {
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
        let subscription = &self.subscription;
        let wants = |topic: &_, kind| subscription.want(topic, kind);
        let Some((frames, position)) = self.shared.feed.conflated(self.place, by, wants) else {
            self.reset(FAR_BEHIND);
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
}

/// What a shard uses again and again to gather the frames of one client.
#[derive(Debug, Default)]
pub(in crate::live) struct Scratch {
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
