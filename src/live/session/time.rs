//! What is due to a client with time, and how it ends.

use std::io;
use std::time::{Duration, Instant};

use bytes::Bytes;

use super::super::message::{FeedHealth, ServerMessage};
use super::super::retry_after_ms;
use super::{End, PING_EVERY, Session};

/// A client that takes nothing for so long is closed.
const STALLED_AFTER: Duration = Duration::from_secs(30);
/// A client from which nothing comes for so long, though it is pinged, is closed.
const SILENT_AFTER: Duration = Duration::from_secs(75);
/// How long a client may take to take its leave.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(5);
/// A client for which much waits is told soon after that how the feed is.
const CROWDED_RETRY: Duration = Duration::from_secs(1);
/// An empty ping (RFC 6455, 5.5.2).
const PING: Bytes = Bytes::from_static(&[0x89, 0x00]);

impl Session {
    /// When it wants to be called next.
    pub(in crate::live) fn due(&self) -> Instant {
        if let End::Closing(deadline) = self.end {
            return deadline;
        }
        let stalled = self.moved_at + STALLED_AFTER;
        let due = self
            .heartbeat_due
            .min(self.ping_due)
            .min(self.heard_at + SILENT_AFTER);
        due.min(self.flush_due.unwrap_or(due))
            .min(if self.wire.is_blocked() { stalled } else { due })
    }

    /// Does what is due. `seq` is what everything that its shard has seen reflects.
    pub(in crate::live) fn on_time(
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
        if self.wire.is_blocked() {
            if now.duration_since(self.moved_at) >= STALLED_AFTER {
                self.close(4408, "nothing was taken for 30 seconds", now);
                return Ok(());
            }
            // It takes something, so it lives, though nothing that it says is read meanwhile.
            self.heard_at = now;
        } else if now.duration_since(self.heard_at) >= SILENT_AFTER {
            self.close(4408, "nothing came for 75 seconds", now);
            return Ok(());
        }
        // A client that takes nothing is not called again for this: it goes on when the system takes more.
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

    /// Sends a heartbeat now, unless some already wait for a client that takes nothing.
    pub(in crate::live) fn beat(&mut self, seq: u64, health: &FeedHealth, now: Instant) {
        self.heartbeat_due = now + self.heartbeat();
        if !self.is_open() {
            return;
        }
        if self.wire.is_crowded() {
            self.heartbeat_due = self.heartbeat_due.min(now + CROWDED_RETRY);
            return;
        }
        self.reflects(seq);
        self.say(&ServerMessage::Heartbeat {
            seq: self.through,
            server_time: super::super::now(),
            feed: health.clone(),
        });
    }

    /// Says why, closes, and forgets what was not begun.
    pub(in crate::live) fn close(&mut self, code: u16, reason: &str, now: Instant) {
        if !self.is_open() {
            return;
        }
        self.shared.metrics.closed(code);
        self.wire.forget();
        self.say(&ServerMessage::Closing {
            code,
            reason,
            retry_after_ms: retry_after_ms(code),
        });
        self.wire.close(code, reason);
        self.leave(now);
    }

    /// Writes what is queued, of which the close frame is the last, and waits until the client has gone: to end a connection while
    /// something is unread cuts off what is on its way to the other end.
    pub(in crate::live) fn leave(&mut self, now: Instant) {
        self.end = End::Closing(now + CLOSE_TIMEOUT);
        if self.write(&[], now).is_err() {
            self.end = End::Ended;
        } else if self.wire.is_clear() {
            self.wire.end_writing();
        }
        self.wake();
    }

    /// The connection is gone.
    pub(in crate::live) fn end(&mut self) {
        self.end = End::Ended;
        self.wake();
    }
}
