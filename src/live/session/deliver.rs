//! Delivery: which messages of the feed a client is sent, and how it catches up.

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::cursor::Replay;
use super::{Session, TOO_FAR_BEHIND, VIEWS_REBUILT};
use crate::feed::{ConflatedBy, FeedMessage, Position};
use crate::live::batch::{FeedBatch, FeedCursor, RaceFrames, SelectedFrames};

/// Messages that a client may be behind before it is moved on to the latest images.
const BEHIND_MAX: u64 = 8_192;
/// Messages that are taken from the feed at a time for a client that catches up.
const TAIL_MESSAGES_MAX: usize = 512;

impl Session {
    /// Sends what the client wants of a batch of its shard, or notes that it is behind. `selected` is a buffer to
    /// reuse.
    pub(in crate::live) fn deliver(
        &mut self,
        batch: &FeedBatch,
        selected: &mut SelectedFrames,
        now: Instant,
    ) {
        if !self.is_open() || self.cursor.next_index >= batch.end.next_index {
            return;
        }
        if let Some(interval) = self.subscription.conflation_interval() {
            self.deliver_conflated(batch, interval, now);
        } else if self.cursor.is_current && self.is_writable() {
            self.deliver_now(batch, selected, now);
        } else {
            self.cursor.fall_behind(batch.start);
        }
    }

    /// Whether a frame would be written at once. A connection may be blocked right after a frame, when nothing is
    /// queued.
    fn is_writable(&self) -> bool {
        self.connection.is_clear() && !self.connection.blocked
    }

    fn deliver_now(&mut self, batch: &FeedBatch, selected: &mut SelectedFrames, now: Instant) {
        let start = batch.start.next_index;
        let end = batch.end.next_index;
        let all_new = self.cursor.next_index <= start;
        if all_new && self.subscription.wants_everything() {
            return self.write_selected(&batch.selected, batch, now);
        }
        let filter = &self.subscription.filter;
        let follows = |race: &&RaceFrames| filter.matches(&race.topic);
        let mut races = batch.races.iter().filter(follows);
        let Some(race) = races.next() else { return };
        if all_new && races.next().is_none() && self.subscription.has_default_content() {
            return self.write_selected(&race.selected, batch, now);
        }
        let skip = self.cursor.next_index.saturating_sub(start);
        let skip = usize::try_from(skip).unwrap_or(usize::MAX);
        let messages = batch.messages.get(skip..).unwrap_or_default();
        self.write_wanted(messages, selected, end, now);
    }

    /// Sends these messages of a batch.
    fn write_selected(&mut self, selected: &SelectedFrames, batch: &FeedBatch, now: Instant) {
        let offset = selected.offset_after(self.write(&selected.frames, now), batch.messages.len());
        (self.cursor).advance(&batch.messages, offset, batch.end.next_index);
    }

    /// Holds odds back until they are due; other messages are sent at once.
    fn deliver_conflated(&mut self, batch: &FeedBatch, interval: Duration, now: Instant) {
        let wanted = |message: &&Arc<FeedMessage>| self.subscription.wants_message(message);
        let mut wanted = batch.messages.iter().filter(wanted).peekable();
        if wanted.peek().is_none() {
            return;
        }
        let at_once = wanted.any(|message| !message.content.is_conflated());
        self.cursor.fall_behind(batch.start);
        if self.timers.hold_odds(interval, at_once, now) {
            self.advance(now);
        }
    }

    /// Sends those of the messages that the client wants. They end before the index `end`.
    fn write_wanted(
        &mut self,
        messages: &[Arc<FeedMessage>],
        selected: &mut SelectedFrames,
        end: u64,
        now: Instant,
    ) {
        selected.frames.clear();
        selected.offsets.clear();
        for (offset, message) in messages.iter().enumerate() {
            if self.subscription.wants_message(message) {
                selected.push(message, offset);
            }
        }
        let sent = self.write(&selected.frames, now);
        if let Some(replay) = &mut self.cursor.replay {
            replay.sent += sent;
        }
        let offset = selected.offset_after(sent, messages.len());
        self.cursor.advance(messages, offset, end);
    }

    /// Notes that the messages after `delivered` are not sent yet, and sends what the client is behind with.
    pub(in crate::live) fn catch_up_from(&mut self, delivered: FeedCursor, now: Instant) {
        self.cursor.fall_behind(delivered);
        self.advance(now);
    }

    /// Sends everything up to the end of the feed, also what its shard has not delivered and what is held back, as far
    /// as the client takes it. Returns whether it has taken everything.
    pub(super) fn flush(&mut self, delivered: FeedCursor, now: Instant) -> bool {
        self.timers.flush_due = None;
        self.catch_up_from(delivered, now);
        self.cursor.is_current && self.connection.is_clear()
    }

    /// Sends what the client is behind with and what is not held back, as far as the client takes it.
    pub(in crate::live) fn advance(&mut self, now: Instant) {
        loop {
            self.write(&[], now);
            if !self.is_open() || !self.is_writable() {
                return;
            }
            let position = self.context.feed.position();
            if position.generation != self.cursor.generation {
                self.start_over(VIEWS_REBUILT);
            } else if let Some(Replay { id, sent, .. }) = self.cursor.finish_replay() {
                self.queue_complete(id.as_ref(), 0, sent);
            } else if self.cursor.is_current {
                return;
            } else if self.cursor.next_index >= position.head {
                // The client has all but what the feed has left out.
                return self.move_to(&position);
            } else if self.timers.flush_due.is_some() && self.cursor.replay.is_none() {
                // Conflated messages are held back until then.
                return;
            } else {
                self.catch_up(&position, now);
            }
        }
    }

    /// Takes one step towards the end of the feed.
    fn catch_up(&mut self, position: &Position, now: Instant) {
        let from = self.cursor.next_index;
        if self.cursor.replay.is_none() {
            if position.head - from > BEHIND_MAX {
                return self.send_conflated(ConflatedBy::Backpressure, now);
            }
            if self.subscription.conflation_interval().is_some() {
                return self.send_conflated(ConflatedBy::Client, now);
            }
        }
        let Some(tail) = self.context.feed.tail(from, TAIL_MESSAGES_MAX) else {
            return self.send_conflated(ConflatedBy::Backpressure, now);
        };
        let end = FeedCursor::after(&tail);
        let selected = &mut SelectedFrames::default();
        self.write_wanted(&tail.messages, selected, end.next_index, now);
        if self.cursor.next_index == end.next_index {
            self.cursor.through_seq = end.seq;
        }
    }

    /// Moves on to the latest image of each race.
    fn send_conflated(&mut self, by: ConflatedBy, now: Instant) {
        let wants = |topic: &_, content: &_| self.subscription.wants(topic, content);
        let from = self.cursor.next_index;
        let Some((frames, position)) = self.context.feed.conflated(from, by, wants) else {
            return self.start_over(TOO_FAR_BEHIND);
        };
        if by == ConflatedBy::Backpressure {
            self.context.metrics.conflated.increment(1);
        }
        self.queue_frames(frames);
        self.timers.flushed_at = now;
        self.move_to(&position);
    }
}
