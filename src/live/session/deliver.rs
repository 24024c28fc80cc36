//! Delivery: which messages of the feed a client is sent, and how it catches up.

use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

use projections::LiveKind;

use super::{Session, TOO_FAR_BEHIND, VIEWS_REBUILT};
use crate::live::batch::{FeedBatch, FeedCursor, SelectedFrames};
use crate::live::feed::{ConflatedBy, FeedMessage, Position};
use crate::live::filter::Kinds;
use crate::live::server_message::ServerMessage;

/// Messages that a client may be behind before it is moved on to the latest images.
const BEHIND_MAX: u64 = 4_096;
/// Messages that are taken from the feed at a time for a client that catches up.
const TAIL_MESSAGES_MAX: usize = 512;

impl Session {
    /// Sends what the client wants of a batch of its shard, or notes that it is behind. `selected` is a buffer to reuse.
    pub(in crate::live) fn deliver(
        &mut self,
        batch: &FeedBatch,
        selected: &mut SelectedFrames,
        now: Instant,
    ) {
        if !self.is_open() || self.cursor.next_index() >= batch.end_index() {
            return;
        }
        let delivered = if let Some(interval) = self.conflation_interval() {
            self.deliver_conflated(batch, interval, now)
        } else if self.cursor.is_current() && self.is_writable() {
            self.deliver_now(batch, selected, now)
        } else {
            self.cursor.fall_behind(batch.first_index, batch.seq);
            Ok(())
        };
        self.end_on_error(delivered);
    }

    /// Whether a frame would be written at once. A connection may be blocked right after a frame, when nothing is queued.
    fn is_writable(&self) -> bool {
        self.connection.is_clear() && !self.connection.is_blocked()
    }

    fn deliver_now(
        &mut self,
        batch: &FeedBatch,
        selected: &mut SelectedFrames,
        now: Instant,
    ) -> io::Result<()> {
        let all_new = self.cursor.next_index() <= batch.first_index;
        if all_new && self.subscription.wants_everything() {
            let sent = self.write(&batch.frames, now)?;
            self.cursor
                .advance(&batch.messages, sent, batch.end_index());
            return Ok(());
        }
        let mut races = batch
            .races
            .iter()
            .filter(|race| self.subscription.filter.matches(&race.topic));
        let Some(race) = races.next() else {
            return Ok(());
        };
        if all_new && races.next().is_none() && self.subscription.kinds == Kinds::ALL {
            let sent = self.write(&race.selected.frames, now)?;
            let offset = race.selected.offset_after(sent, batch.messages.len());
            self.cursor
                .advance(&batch.messages, offset, batch.end_index());
            return Ok(());
        }
        let skip = self.cursor.next_index().saturating_sub(batch.first_index);
        let skip = usize::try_from(skip).unwrap_or(usize::MAX);
        let messages = batch.messages.get(skip..).unwrap_or_default();
        self.write_wanted(messages, selected, batch.end_index(), now)
    }

    /// Holds odds back until they are due; other messages are sent at once.
    fn deliver_conflated(
        &mut self,
        batch: &FeedBatch,
        interval: Duration,
        now: Instant,
    ) -> io::Result<()> {
        let wanted = batch
            .messages
            .iter()
            .filter(|message| self.subscription.wants_message(message));
        let (mut any, mut at_once) = (false, false);
        for message in wanted {
            any = true;
            at_once |= message.kind != LiveKind::Odds;
        }
        if !any {
            return Ok(());
        }
        self.cursor.fall_behind(batch.first_index, batch.seq);
        if self.timers.hold_odds(interval, at_once, now) {
            return self.advance(now);
        }
        Ok(())
    }

    /// Sends those of the messages that the client wants. They end before the index `end`.
    fn write_wanted(
        &mut self,
        messages: &[Arc<FeedMessage>],
        selected: &mut SelectedFrames,
        end: u64,
        now: Instant,
    ) -> io::Result<()> {
        selected.clear();
        for (offset, message) in messages.iter().enumerate() {
            if self.subscription.wants_message(message) {
                selected.push(message, offset);
            }
        }
        let sent = self.write(&selected.frames, now)?;
        self.cursor.count_replayed(sent);
        let offset = selected.offset_after(sent, messages.len());
        self.cursor.advance(messages, offset, end);
        Ok(())
    }

    /// Notes that the messages after `delivered` are not sent yet, and sends what the client is behind with.
    pub(in crate::live) fn catch_up_from(&mut self, delivered: FeedCursor, now: Instant) {
        self.cursor.fall_behind(delivered.next_index, delivered.seq);
        let advanced = self.advance(now);
        self.end_on_error(advanced);
    }

    /// Sends everything up to the end of the feed, also what its shard has not delivered and what is held back, as far as the
    /// client takes it. Returns whether it has taken everything.
    pub(super) fn flush(&mut self, delivered: FeedCursor, now: Instant) -> io::Result<bool> {
        self.cursor.fall_behind(delivered.next_index, delivered.seq);
        self.timers.cancel_flush();
        self.advance(now)?;
        Ok(self.cursor.is_current() && self.connection.is_clear())
    }

    /// Sends what the client is behind with and what is not held back, as far as the client takes it.
    ///
    /// # Errors
    /// Returns an I/O error if the connection has ended.
    pub(in crate::live) fn advance(&mut self, now: Instant) -> io::Result<()> {
        loop {
            self.write(&[], now)?;
            if !self.is_open() || !self.is_writable() {
                return Ok(());
            }
            let position = self.context.feed.position();
            if position.generation != self.cursor.generation() {
                self.start_over(VIEWS_REBUILT);
            } else if let Some(replay) = self.cursor.finish_replay() {
                self.queue_message(&ServerMessage::SnapshotComplete {
                    id: replay.id.as_ref(),
                    seq: self.cursor.through_seq(),
                    races: 0,
                    replayed: replay.sent,
                });
            } else if self.cursor.is_current() {
                return Ok(());
            } else if self.cursor.next_index() >= position.head {
                self.move_to(&position);
                return Ok(());
            } else if self.timers.holds_odds() && !self.cursor.is_replaying() {
                return Ok(());
            } else {
                self.catch_up(&position, now)?;
            }
        }
    }

    /// Takes one step towards the end of the feed.
    fn catch_up(&mut self, position: &Position, now: Instant) -> io::Result<()> {
        if !self.cursor.is_replaying() {
            if position.head - self.cursor.next_index() > BEHIND_MAX {
                return self.send_conflated(ConflatedBy::Backpressure, now);
            }
            if self.conflation_interval().is_some() {
                return self.send_conflated(ConflatedBy::Client, now);
            }
        }
        let from = self.cursor.next_index();
        let Some(tail) = self.context.feed.tail(from, TAIL_MESSAGES_MAX) else {
            return self.send_conflated(ConflatedBy::Backpressure, now);
        };
        let end = from + tail.messages.len() as u64;
        self.write_wanted(&tail.messages, &mut SelectedFrames::default(), end, now)?;
        if let Some(last) = tail.messages.last()
            && self.cursor.next_index() == end
        {
            let is_end = end == tail.position.head;
            let seq = if is_end {
                tail.position.seq
            } else {
                last.seq - 1
            };
            self.cursor.set_through_seq(seq);
        }
        Ok(())
    }

    /// Moves on to the latest image of each race.
    fn send_conflated(&mut self, by: ConflatedBy, now: Instant) -> io::Result<()> {
        let subscription = &self.subscription;
        let wants = |topic: &_, kind| subscription.wants(topic, kind);
        let from = self.cursor.next_index();
        let Some((frames, position)) = self.context.feed.conflated(from, by, wants) else {
            self.start_over(TOO_FAR_BEHIND);
            return Ok(());
        };
        if by == ConflatedBy::Backpressure {
            self.context.metrics.conflated.increment(1);
        }
        self.queue_frames(frames);
        self.timers.record_flush(now);
        self.move_to(&position);
        Ok(())
    }
}
