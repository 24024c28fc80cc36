//! [`Session`]: one client: its connection, its position in the feed, its timers and its subscription.

mod cursor;
mod deliver;
mod requests;
#[cfg(test)]
pub(super) mod tests;
mod timers;

use std::io;
use std::rc::Rc;
use std::task::Context;
use std::time::{Duration, Instant};

use serde_json::Value;
use tokio::sync::watch;

use self::cursor::Cursor;
use self::requests::PendingRequest;
use self::timers::{PING_INTERVAL, Timers};
use super::batch::FeedCursor;
use super::connection::Connection;
use super::connection_limits::ConnectionPermit;
use super::quota::InboundQuota;
use super::server_message::{InForce, ServerMessage, server_time};
use super::{CloseReason, LiveContext, LiveSubscription, NewClient, ResumePoint};
use crate::feed::frame::Frame;
use crate::feed::{NotRecovered, Position, Snapshots};
use crate::health::FeedHealth;
use crate::metrics::WS_CLOSED;
use crate::past::PlaybackControl;

/// How long a client may take to close its side of the connection.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(5);
/// A heartbeat that finds too many frames waiting is sent after this time.
const HEARTBEAT_RETRY: Duration = Duration::from_secs(1);

const TOO_FAR_BEHIND: &str = "the client fell too far behind";
const VIEWS_REBUILT: &str = "the views were rebuilt";

pub(super) struct Session {
    connection: Connection,
    state: SessionState,
    pub(super) subscription: LiveSubscription,
    /// The subscription has changed since the shard last asked.
    pub(super) subscription_changed: bool,
    cursor: Cursor,
    timers: Timers,
    quota: InboundQuota,
    /// A request that waits until everything before its answer is sent. Boxed, because hardly any client has one.
    pending_request: Option<Box<PendingRequest>>,
    /// Controls what is played, in a replay.
    play: Option<watch::Sender<PlaybackControl>>,
    pub(super) permit: ConnectionPermit,
    context: Rc<LiveContext>,
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
    ///
    /// # Errors
    /// Returns an I/O error if the connection cannot be opened.
    pub(super) fn open(
        client: NewClient,
        context: Rc<LiveContext>,
        health: FeedHealth,
        now: Instant,
    ) -> io::Result<Self> {
        let mut session = Self {
            connection: Connection::open(client.connection)?,
            state: SessionState::Open,
            cursor: Cursor::new(&context.feed.position()),
            timers: Timers::new(client.subscription.heartbeat_interval(), now),
            subscription: client.subscription,
            subscription_changed: false,
            quota: InboundQuota::new(now),
            pending_request: None,
            play: client.play,
            permit: client.permit,
            context,
        };
        session.queue_welcome(client.resume.as_ref(), health);
        Ok(session)
    }

    pub(super) fn is_open(&self) -> bool {
        self.state == SessionState::Open
    }

    pub(super) fn has_ended(&self) -> bool {
        self.state == SessionState::Ended
    }

    // Output.

    fn queue_message(&mut self, message: &ServerMessage<'_>) {
        self.context.metrics.messages.increment(1);
        self.connection.queue([Frame::encode(message)]);
    }

    fn queue_frames(&mut self, frames: Vec<Frame>) {
        self.context.metrics.messages.increment(frames.len() as u64);
        self.connection.queue(frames);
    }

    fn queue_welcome(&mut self, resume: Option<&ResumePoint>, health: FeedHealth) {
        let resumed = resume.map(|point| self.resume(point, None));
        let position = self.context.feed.position();
        let subscription = self.subscription.clone();
        self.queue_message(&ServerMessage::Welcome {
            seq: position.seq,
            epoch: &position.epoch,
            feed: health,
            replay: self.play.as_ref().and_then(|play| play.borrow().span),
            in_force: InForce::new(&subscription, resumed),
        });
        if resumed != Some(Ok(())) {
            self.send_all_snapshots();
        }
    }

    /// Moves back to the last message that the client received. `id` is that of the client message, if one requested
    /// it.
    fn resume(&mut self, point: &ResumePoint, id: Option<&Value>) -> Result<(), NotRecovered> {
        let feed = &self.context.feed;
        let resumed = feed.resume(point.seq, point.epoch.as_deref(), point.recorded_at);
        self.context.metrics.resumed(resumed.is_ok());
        let until = feed.position().head;
        (self.cursor).start_replay(resumed?, point.seq, until, id.cloned());
        Ok(())
    }

    /// The images of all open races that the client follows.
    fn all_snapshots(&self) -> Snapshots {
        let wants = |topic: &_, content: &_| self.subscription.wants(topic, content);
        self.context.feed.snapshots(wants)
    }

    fn send_all_snapshots(&mut self) {
        let snapshots = self.all_snapshots();
        self.move_to(&snapshots.position);
        self.queue_snapshots(snapshots, None);
    }

    /// Notes that everything up to a position is sent or queued.
    fn move_to(&mut self, position: &Position) {
        self.cursor.move_to(position);
        self.timers.flush_due = None;
    }

    fn queue_snapshots(&mut self, snapshots: Snapshots, id: Option<&Value>) {
        let races = snapshots.images.len();
        self.queue_frames(snapshots.images);
        self.queue_complete(id, races, 0);
    }

    /// Queues the end of snapshots, or of messages that a resume sent. The position is after them.
    fn queue_complete(&mut self, id: Option<&Value>, races: usize, replayed: usize) {
        let seq = self.cursor.through_seq;
        self.queue_message(&ServerMessage::SnapshotComplete {
            id,
            seq,
            recorded_at: self.recorded_at(seq),
            races,
            replayed,
        });
    }

    /// When the log recorded the event at a sequence that this client has reached; empty if that is not known.
    fn recorded_at(&self, seq: u64) -> String {
        let recorded_at = self.context.feed.recorded_at(self.cursor.generation, seq);
        recorded_at.map(|at| at.to_string()).unwrap_or_default()
    }

    /// Tells the client that earlier messages no longer hold. Snapshots must follow.
    fn queue_resync(&mut self, reason: &str) {
        let position = self.context.feed.position();
        self.cursor.generation = position.generation;
        self.cursor.replay = None;
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

    /// Writes what is queued and then `frames`. Returns how many of `frames` were sent. Ends the session if the
    /// connection has ended.
    fn write(&mut self, frames: &[Frame], now: Instant) -> usize {
        let connection = &mut self.connection;
        let was_blocked = connection.blocked;
        let before = connection.bytes_written();
        let Ok(sent) = connection.write(frames) else {
            self.end();
            return 0;
        };
        self.context.metrics.messages.increment(sent as u64);
        if !was_blocked || connection.bytes_written() != before {
            self.timers.progress_at = now;
        }
        sent
    }

    // The connection, for the shard.

    /// Continues to write if the connection was blocked and accepts bytes again, and reads requests if there are any.
    /// Returns whether it did either. `delivered` is how far the shard is.
    pub(super) fn poll(
        &mut self,
        delivered: FeedCursor,
        context: &mut Context<'_>,
        now: Instant,
    ) -> bool {
        self.connection.waker.clone_from(context.waker());
        let writes = self.connection.blocked && self.connection.poll_unblocked(context).is_ready();
        if writes {
            self.continue_writing(delivered, now);
        }
        let reads = self.can_read() && self.connection.poll_readable(context).is_ready();
        if reads {
            self.read_requests(delivered, now);
        }
        writes || reads
    }

    /// Whether requests are read. Otherwise the answers would wait behind what the client does not read.
    fn can_read(&self) -> bool {
        !self.connection.is_crowded() && self.pending_request.is_none()
    }

    fn continue_writing(&mut self, delivered: FeedCursor, now: Instant) {
        if self.is_open() {
            self.advance(now);
            self.handle_pending_request(delivered, now);
        } else {
            self.finish_output(now);
        }
    }

    // Time.

    /// When [`Self::run_due_timers`] is to be called next.
    pub(super) fn next_timer(&self) -> Instant {
        match self.state {
            SessionState::Closing(deadline) => deadline,
            _ => self.timers.next(self.connection.blocked),
        }
    }

    /// Does what is due. `seq` is the log sequence that everything delivered by the shard reflects.
    pub(super) fn run_due_timers(&mut self, seq: u64, health: &FeedHealth, now: Instant) {
        if !self.is_open() {
            if self.next_timer() <= now {
                self.end();
            }
            return;
        }
        let connection = &self.connection;
        let has_acted = || connection.has_client_acted();
        if let Some(reason) = self.timers.check_alive(connection.blocked, has_acted, now) {
            return self.close(&reason, now);
        }
        // A blocked client continues when it is not blocked any more, so the timer is not set again.
        if self.timers.take_flush(now) {
            self.advance(now);
        }
        if self.timers.ping_due <= now {
            self.timers.ping_due = now + PING_INTERVAL;
            self.connection.queue_ping();
        }
        if self.timers.heartbeat_due <= now {
            self.queue_heartbeat(seq, health, now);
        }
        self.write(&[], now);
    }

    /// Sends a heartbeat now, also if none is due.
    pub(super) fn send_heartbeat(&mut self, seq: u64, health: &FeedHealth, now: Instant) {
        if self.is_open() {
            self.queue_heartbeat(seq, health, now);
        }
        self.write(&[], now);
    }

    /// Sends which sources are alive. If too many frames wait, a heartbeat has that later.
    pub(super) fn send_feed_update(&mut self, health: &FeedHealth, now: Instant) {
        if self.is_open() && !self.connection.is_crowded() {
            self.queue_message(&ServerMessage::FeedUpdate {
                server_time: server_time(),
                feed: health.clone(),
            });
        }
        self.write(&[], now);
    }

    fn queue_heartbeat(&mut self, seq: u64, health: &FeedHealth, now: Instant) {
        if self.connection.is_crowded() {
            self.timers.heartbeat_due = now + HEARTBEAT_RETRY;
            return;
        }
        self.timers.heartbeat_due = now + self.subscription.heartbeat_interval();
        self.cursor.reflect(seq);
        self.queue_message(&ServerMessage::Heartbeat {
            seq: self.cursor.through_seq,
            recorded_at: self.recorded_at(self.cursor.through_seq),
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
        tracing::debug!(parent: &self.permit.trace.span(), code = reason.code(), reason = %reason.text(), "closing the connection");
        WS_CLOSED.increment(reason.code().to_string());
        self.connection.discard_output();
        self.queue_message(&ServerMessage::Closing {
            code: reason.code(),
            reason: reason.text(),
            retry_after_ms: reason.retry_after_ms(),
        });
        self.connection.queue_close(reason);
        self.start_closing(now);
    }

    /// Writes what is queued, of which the close frame is the last, and waits until the client closes its side. To end
    /// a connection with unread input would cut off the output as well.
    fn start_closing(&mut self, now: Instant) {
        self.state = SessionState::Closing(now + CLOSE_TIMEOUT);
        self.finish_output(now);
        self.connection.waker.wake_by_ref();
    }

    /// Writes what is queued, and ends the output once all of it is written.
    fn finish_output(&mut self, now: Instant) {
        self.write(&[], now);
        if self.connection.is_clear() {
            self.connection.shut_down_output();
        }
    }

    /// Ends the session, and has its task drop it.
    pub(super) fn end(&mut self) {
        self.state = SessionState::Ended;
        self.connection.waker.wake_by_ref();
    }
}
