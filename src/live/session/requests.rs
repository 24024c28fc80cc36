//! Requests: what a client sends, and the answers.

use std::time::Instant;

use serde_json::Value;

use super::{Session, TOO_FAR_BEHIND};
use crate::feed::{NotRecovered, Snapshots};
use crate::live::batch::FeedCursor;
use crate::live::connection::Incoming;
use crate::live::request::{Op, Request, RequestError, invalid_parameter};
use crate::live::server_message::{InForce, ServerMessage};
use crate::live::{CloseReason, Filter, LiveSubscription, ResumePoint};

/// Bytes that are read from one client before others have their turn.
const READ_BYTES_PER_TURN: usize = 16 * 1024;

/// A client message that is not answered yet, as [`Request::parse`] returns it.
pub(super) type PendingRequest = (Option<Value>, Result<Request, RequestError>);

impl Session {
    /// Reads and answers what was received, as far as it fits into one turn. `delivered` is how far the shard is.
    pub(super) fn read_requests(&mut self, delivered: FeedCursor, now: Instant) {
        if !self.is_open() {
            if !self.connection.discard_input(READ_BYTES_PER_TURN) {
                self.end();
            }
            return;
        }
        let mut budget = READ_BYTES_PER_TURN;
        while self.is_open() && self.can_read() {
            let before = budget;
            let incoming = self.connection.read(&mut budget);
            let bytes = before - budget;
            let messages = usize::from(!matches!(incoming, Incoming::Nothing));
            if !self.quota.take(messages, bytes, now) {
                return self.close(&CloseReason::QuotaExceeded, now);
            }
            if bytes > 0 {
                self.timers.received_at = now;
            }
            match incoming {
                Incoming::Text(text) => {
                    self.pending_request = Some(Box::new(Request::parse(&text)));
                    self.handle_pending_request(delivered, now);
                }
                Incoming::Control => {}
                Incoming::Binary => self.close(&CloseReason::BinaryMessage, now),
                Incoming::Invalid(reason) => self.close(&reason, now),
                Incoming::Nothing => break,
                Incoming::Closed => self.start_closing(now),
                Incoming::Disconnected => {
                    self.write(&[], now);
                    self.end();
                }
            }
        }
        if self.is_open() {
            self.write(&[], now);
        }
    }

    /// Answers the pending request, if there is one. What belongs to the subscription before it is sent first; until
    /// the client has taken that, the request stays pending.
    pub(super) fn handle_pending_request(&mut self, delivered: FeedCursor, now: Instant) {
        let Some(pending) = self.pending_request.take() else {
            return;
        };
        let concerns_feed = (pending.1.as_ref()).is_ok_and(|request| request.op != Op::Ping);
        if concerns_feed && !self.flush(delivered, now) {
            self.pending_request = Some(pending);
            return;
        }
        self.cursor.reflect(delivered.seq);
        let (id, request) = *pending;
        let id = id.as_ref();
        if let Err(error) = request.and_then(|request| self.handle(request, id)) {
            self.queue_message(&ServerMessage::Error {
                error: error.code(),
                id,
                message: &error.to_string(),
            });
        }
        // The interval between heartbeats may be shorter than before.
        let heartbeat_due = now + self.subscription.heartbeat_interval();
        self.timers.heartbeat_due = self.timers.heartbeat_due.min(heartbeat_due);
        self.advance(now);
    }

    fn handle(&mut self, request: Request, id: Option<&Value>) -> Result<(), RequestError> {
        match request.op {
            Op::Subscribe => self.subscribe(request, id)?,
            Op::Unsubscribe => self.unsubscribe(&request, id)?,
            Op::Resync => {
                let snapshots = self.move_to_snapshots(&self.subscription.clone(), None);
                self.queue_ack(Op::Resync, id, None);
                self.queue_snapshots(snapshots, id);
            }
            Op::Play => {
                let play = self.play.as_ref().ok_or(RequestError::NotReplay)?;
                play.send_modify(|control| request.play.change(control));
                self.queue_ack(Op::Play, id, None);
            }
            Op::Ping => self.queue_ack(Op::Ping, id, None),
        }
        Ok(())
    }

    fn subscribe(&mut self, request: Request, id: Option<&Value>) -> Result<(), RequestError> {
        let mut subscription = self.subscription.clone();
        let set = subscription.set(request.events, request.conflate_ms, request.heartbeat_ms);
        set.map_err(invalid_parameter)?;
        subscription.filter = request.filter;
        subscription.markets = request.markets.unwrap_or(subscription.markets);
        let before = self.replace_subscription(subscription);
        let recorded_at = request.recorded_at.as_deref();
        let point = |seq| ResumePoint::new(seq, request.epoch, recorded_at);
        let resumed = request.since.map(point);
        let resumed = resumed.map(|point| self.resume(&point, id));
        if resumed == Some(Ok(())) {
            self.queue_ack(Op::Subscribe, id, resumed);
            return Ok(());
        }
        // A client that could not resume gets all images, also of races that it followed before.
        let known = resumed.is_none().then_some(&before);
        let snapshots = self.move_to_snapshots(&before, known);
        self.queue_ack(Op::Subscribe, id, resumed);
        self.queue_snapshots(snapshots, id);
        Ok(())
    }

    fn unsubscribe(&mut self, request: &Request, id: Option<&Value>) -> Result<(), RequestError> {
        let mut subscription = self.subscription.clone();
        if let Some(kinds) = request.events {
            subscription.kinds = subscription.kinds.without(kinds);
        }
        let left_out = request.markets.as_deref().unwrap_or_default();
        (subscription.markets).retain(|market| !left_out.contains(market));
        if request.filter != Filter::default() {
            let removed = subscription.filter.remove(&request.filter);
            removed.map_err(RequestError::NotSubscribed)?;
        } else if request.events.is_none() && request.markets.is_none() {
            subscription.filter = Filter::nothing();
        }
        self.replace_subscription(subscription);
        self.queue_ack(Op::Unsubscribe, id, None);
        Ok(())
    }

    /// Returns the subscription before.
    fn replace_subscription(&mut self, subscription: LiveSubscription) -> LiveSubscription {
        self.subscription_changed = true;
        std::mem::replace(&mut self.subscription, subscription)
    }

    /// Queues the messages so far that the subscription `before` selects, and moves to the end of the feed. Returns the
    /// images there of the open races that the client follows, without those that the subscription `known` selects.
    fn move_to_snapshots(
        &mut self,
        before: &LiveSubscription,
        known: Option<&LiveSubscription>,
    ) -> Snapshots {
        let wants = |topic: &_, content: &_| {
            self.subscription.wants(topic, content)
                && !known.is_some_and(|known| known.wants(topic, content))
        };
        let from = self.cursor.next_index;
        let snapshots = match self.context.feed.tail_and_snapshots(from, wants) {
            Some((tail, snapshots)) => {
                let mut missed = tail.messages;
                missed.retain(|message| before.wants_message(message));
                self.queue_frames(missed.iter().map(|message| message.frame.clone()).collect());
                snapshots
            }
            None => {
                self.queue_resync(TOO_FAR_BEHIND);
                self.all_snapshots()
            }
        };
        self.move_to(&snapshots.position);
        snapshots
    }

    fn queue_ack(&mut self, op: Op, id: Option<&Value>, resumed: Option<Result<(), NotRecovered>>) {
        let subscription = self.subscription.clone();
        self.queue_message(&ServerMessage::Ack {
            op,
            id,
            seq: self.cursor.through_seq,
            in_force: InForce::new(&subscription, resumed),
        });
    }
}
