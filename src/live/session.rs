//! [`Session`]: one client: its connection, its position in the feed, its timers and its subscription.

mod cursor;
mod deliver;
mod requests;
#[cfg(test)]
mod tests;
mod timers;

use std::io;
use std::sync::Arc;
use std::task::{Context, Waker};
use std::time::{Duration, Instant};

use bytes::Bytes;
use serde_json::Value;

use self::cursor::Cursor;
use self::requests::PendingRequest;
use self::timers::Timers;
use super::batch::FeedCursor;
use super::close_reason::CloseReason;
use super::connection::Connection;
use super::connection_limits::ConnectionPermit;
use super::feed::{Feed, NotRecovered, Position, Snapshots, frame};
use super::quota::InboundQuota;
use super::server_message::{FeedHealth, ServerMessage, server_time};
use super::subscription::{LiveSubscription, ResumePoint};
use crate::accounts::KeyId;
use crate::metrics::LiveMetrics;

/// How long a client may take to close its side of the connection.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(5);
/// An empty ping (RFC 6455, 5.5.2).
const PING: Bytes = Bytes::from_static(&[0x89, 0x00]);

const TOO_FAR_BEHIND: &str = "the client fell too far behind";
const VIEWS_REBUILT: &str = "the views were rebuilt";

/// What all sessions share.
#[derive(Debug, Clone)]
pub(super) struct SessionContext {
    pub(super) feed: Feed,
    pub(super) metrics: Arc<LiveMetrics>,
}

/// One client.
#[derive(Debug)]
pub(super) struct Session {
    connection: Connection,
    state: SessionState,
    subscription: LiveSubscription,
    /// The subscription has changed since the shard last asked.
    subscription_changed: bool,
    cursor: Cursor,
    timers: Timers,
    quota: InboundQuota,
    /// A request that waits until everything before its answer is sent.
    pending_request: Option<PendingRequest>,
    permit: ConnectionPermit,
    context: SessionContext,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum SessionState {
    Open,
    /// The close frame is queued. The connection ends at this time at the latest.
    Closing(Instant),
    Ended,
}

impl Session {
    /// Queues the welcome, and then snapshots, or what follows the point where the client resumes.
    pub(super) fn new(
        connection: Connection,
        subscription: LiveSubscription,
        resume: Option<&ResumePoint>,
        permit: ConnectionPermit,
        context: SessionContext,
        now: Instant,
    ) -> Self {
        let heartbeat = Duration::from_millis(subscription.heartbeat_ms);
        let mut session = Self {
            connection,
            state: SessionState::Open,
            subscription,
            subscription_changed: false,
            cursor: Cursor::new(&context.feed.position()),
            timers: Timers::new(heartbeat, now),
            quota: InboundQuota::new(now),
            pending_request: None,
            permit,
            context,
        };
        session.queue_welcome(resume);
        session
    }

    pub(super) fn key_id(&self) -> KeyId {
        self.permit.trace.key_id
    }

    pub(super) fn subscription(&self) -> &LiveSubscription {
        &self.subscription
    }

    /// Whether the subscription has changed since the last call.
    pub(super) fn take_subscription_changed(&mut self) -> bool {
        std::mem::take(&mut self.subscription_changed)
    }

    pub(super) fn is_open(&self) -> bool {
        self.state == SessionState::Open
    }

    pub(super) fn has_ended(&self) -> bool {
        self.state == SessionState::Ended
    }

    fn heartbeat_interval(&self) -> Duration {
        Duration::from_millis(self.subscription.heartbeat_ms)
    }

    fn conflation_interval(&self) -> Option<Duration> {
        let ms = self.subscription.conflate_ms;
        (ms > 0).then(|| Duration::from_millis(ms))
    }

    // Output.

    fn queue_message(&mut self, message: &ServerMessage<'_>) {
        self.context.metrics.messages.increment(1);
        self.connection.queue(frame::encode(message));
    }

    fn queue_frames(&mut self, frames: Vec<Bytes>) {
        self.context.metrics.messages.increment(frames.len() as u64);
        for frame in frames {
            self.connection.queue(frame);
        }
    }

    fn queue_welcome(&mut self, resume: Option<&ResumePoint>) {
        let resumed = resume.map(|point| self.resume(point, None));
        let position = self.context.feed.position();
        let subscription = self.subscription.clone();
        self.queue_message(&ServerMessage::Welcome {
            seq: position.seq,
            epoch: &position.epoch,
            server_time: server_time(),
            resumed: resumed.into(),
            in_force: subscription.in_force(),
        });
        if resumed != Some(Ok(())) {
            self.send_all_snapshots();
        }
    }

    /// Moves back to the last message that the client received. `id` is that of the client message, if one requested
    /// it.
    fn resume(&mut self, point: &ResumePoint, id: Option<&Value>) -> Result<(), NotRecovered> {
        let feed = &self.context.feed;
        let resumed = feed.resume(point.seq, point.epoch.as_deref());
        self.context.metrics.resumed(resumed.is_ok());
        let until = feed.position().head;
        self.cursor
            .start_replay(resumed?, point.seq, until, id.cloned());
        Ok(())
    }

    /// The images of all open races that the client follows.
    fn all_snapshots(&self) -> Snapshots {
        self.context
            .feed
            .snapshots(|topic| self.subscription.wants_odds(topic))
    }

    fn send_all_snapshots(&mut self) {
        let snapshots = self.all_snapshots();
        self.move_to(&snapshots.position);
        self.queue_snapshots(snapshots, None);
    }

    /// Notes that everything up to a position is sent or queued.
    fn move_to(&mut self, position: &Position) {
        self.cursor.move_to(position);
        self.timers.cancel_flush();
    }

    fn queue_snapshots(&mut self, snapshots: Snapshots, id: Option<&Value>) {
        let races = snapshots.images.len();
        self.queue_frames(snapshots.images);
        self.queue_message(&ServerMessage::SnapshotComplete {
            id,
            seq: snapshots.position.seq,
            races,
            replayed: 0,
        });
    }

    /// Tells the client that earlier messages no longer hold. Snapshots must follow.
    fn queue_resync(&mut self, reason: &str) {
        let position = self.context.feed.position();
        self.cursor.reset(position.generation);
        self.queue_message(&ServerMessage::Resync {
            seq: position.seq,
            epoch: &position.epoch,
            reason,
        });
    }

    /// Sends everything again, because earlier messages no longer hold.
    fn start_over(&mut self, reason: &str) {
        self.queue_resync(reason);
        self.send_all_snapshots();
    }

    /// Writes what is queued and then `frames`. Returns how many of `frames` were sent.
    fn write(&mut self, frames: &[Bytes], now: Instant) -> io::Result<usize> {
        let connection = &mut self.connection;
        let (was_blocked, before) = (connection.is_blocked(), connection.bytes_written());
        let sent = connection.write(frames)?;
        self.context.metrics.messages.increment(sent as u64);
        if !was_blocked || connection.bytes_written() != before {
            self.timers.record_progress(now);
        }
        Ok(sent)
    }

    // The connection, for the shard.

    pub(super) fn register_waker(&mut self, waker: &Waker) {
        self.connection.register_waker(waker);
    }

    /// Continues to write if the connection was blocked and accepts bytes again. Returns whether it did.
    pub(super) fn poll_write(
        &mut self,
        delivered: FeedCursor,
        context: &mut Context<'_>,
        now: Instant,
    ) -> bool {
        if !self.connection.is_blocked() || self.connection.poll_unblocked(context).is_pending() {
            return false;
        }
        let continued = self.continue_writing(delivered, now);
        self.end_on_error(continued);
        true
    }

    /// Reads requests if there are any. Returns whether it did. `delivered` is how far the shard is.
    pub(super) fn poll_read(
        &mut self,
        delivered: FeedCursor,
        context: &mut Context<'_>,
        now: Instant,
    ) -> bool {
        // The answers would wait behind what the client does not read.
        if !self.can_read() || self.connection.poll_readable(context).is_pending() {
            return false;
        }
        let read = self.read_requests(delivered, now);
        self.end_on_error(read);
        true
    }

    fn can_read(&self) -> bool {
        !self.connection.is_crowded() && self.pending_request.is_none()
    }

    fn continue_writing(&mut self, delivered: FeedCursor, now: Instant) -> io::Result<()> {
        if self.is_open() {
            self.advance(now)?;
            return self.handle_pending_request(delivered, now);
        }
        self.write(&[], now)?;
        if self.connection.is_clear() {
            self.connection.shut_down_output();
        }
        Ok(())
    }

    /// Ends the session if an I/O error shows that the connection has ended.
    pub(super) fn end_on_error(&mut self, result: io::Result<()>) {
        if result.is_err() {
            self.end();
        }
    }

    // Time.

    /// When [`Self::run_due_timers`] is to be called next.
    pub(super) fn next_timer(&self) -> Instant {
        match self.state {
            SessionState::Closing(deadline) => deadline,
            _ => self.timers.next(self.connection.is_blocked()),
        }
    }

    /// Does what is due. `seq` is the log sequence that everything delivered by the shard reflects.
    pub(super) fn run_due_timers(&mut self, seq: u64, health: &FeedHealth, now: Instant) {
        if self.is_open() {
            let run = self.run_open_timers(seq, health, now);
            self.end_on_error(run);
        } else if self.next_timer() <= now {
            self.end();
        }
    }

    fn run_open_timers(&mut self, seq: u64, health: &FeedHealth, now: Instant) -> io::Result<()> {
        if let Some(reason) = self.timers.check_alive(self.connection.is_blocked(), now) {
            self.close(&reason, now);
            return Ok(());
        }
        // A blocked client continues when it is not blocked any more, so the timer is not set again.
        if self.timers.take_flush(now) {
            self.advance(now)?;
        }
        if self.timers.take_ping(now) {
            self.connection.queue(PING);
        }
        if self.timers.heartbeat_is_due(now) {
            self.queue_heartbeat(seq, health, now);
        }
        self.write(&[], now).map(drop)
    }

    /// Sends a heartbeat now, also if none is due.
    pub(super) fn send_heartbeat(&mut self, seq: u64, health: &FeedHealth, now: Instant) {
        if self.is_open() {
            self.queue_heartbeat(seq, health, now);
        }
        let written = self.write(&[], now).map(drop);
        self.end_on_error(written);
    }

    fn queue_heartbeat(&mut self, seq: u64, health: &FeedHealth, now: Instant) {
        self.timers
            .schedule_heartbeat(self.heartbeat_interval(), now);
        if self.connection.is_crowded() {
            self.timers.retry_heartbeat(now);
            return;
        }
        self.cursor.reflect(seq);
        self.queue_message(&ServerMessage::Heartbeat {
            seq: self.cursor.through_seq(),
            server_time: server_time(),
            feed: health.clone(),
        });
    }

    // The end.

    /// Sends the reason and closes. Frames that are not started are dropped.
    pub(super) fn close(&mut self, reason: &CloseReason, now: Instant) {
        if !self.is_open() {
            return;
        }
        tracing::debug!(parent: &self.permit.trace.span(), code = reason.code(), %reason, "closing the connection");
        self.context.metrics.closed(reason.code());
        self.connection.discard_output();
        self.queue_message(&ServerMessage::Closing {
            code: reason.code(),
            reason: &reason.to_string(),
            retry_after_ms: reason.retry_after_ms(),
        });
        self.connection.queue_close(reason);
        self.start_closing(now);
    }

    /// Writes what is queued, of which the close frame is the last, and waits until the client closes its side. To end
    /// a connection with unread input would cut off the output as well.
    fn start_closing(&mut self, now: Instant) {
        self.state = SessionState::Closing(now + CLOSE_TIMEOUT);
        if self.write(&[], now).is_err() {
            self.state = SessionState::Ended;
        } else if self.connection.is_clear() {
            self.connection.shut_down_output();
        }
        self.connection.wake();
    }

    /// Ends the session, and has its task drop it.
    pub(super) fn end(&mut self) {
        self.state = SessionState::Ended;
        self.connection.wake();
    }
}
