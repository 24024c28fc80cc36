//! What a client says, and what comes of it.

use std::io;
use std::time::Instant;

use serde_json::Value;

use super::Session;
use crate::live::batch::FeedCursor;
use crate::live::connection::Incoming;
use crate::live::feed::NotRecovered;
use crate::live::filter::Filter;
use crate::live::message::{LiveSubscription, Op, Request, ServerMessage};
use crate::live::{READ_BYTES_PER_TURN, Since};

/// Messages and pings that a client may send: at once, and a second.
const MESSAGES_AT_ONCE: f64 = 100.0;
const MESSAGES_PER_SECOND: f64 = 20.0;
/// Bytes that a client may send: at once, and a second. A message of the largest size fits, in fragments of one byte.
const BYTES_AT_ONCE: f64 = 256.0 * 1024.0;
const BYTES_PER_SECOND: f64 = 64.0 * 1024.0;

/// So much of a wrong word is repeated in the answer.
const REPEATED_CHARS_MAX: usize = 40;

const PROTOCOL_UNSUPPORTED: u16 = 1003;
const PROTOCOL_POLICY: u16 = 1008;

/// How much more a client may say.
#[derive(Debug)]
pub(in crate::live) struct TokenBucket {
    messages: f64,
    bytes: f64,
    at: Instant,
}

impl TokenBucket {
    pub(in crate::live) fn new(now: Instant) -> Self {
        Self {
            messages: MESSAGES_AT_ONCE,
            bytes: BYTES_AT_ONCE,
            at: now,
        }
    }

    /// Takes off what came. False if it is too much.
    #[expect(clippy::cast_precision_loss, reason = "a turn reads few bytes")]
    fn take(&mut self, messages: usize, bytes: usize, now: Instant) -> bool {
        let passed = now.duration_since(self.at).as_secs_f64();
        let refill = |left: f64, rate: f64, max: f64| (left + rate * passed).min(max);
        self.messages =
            refill(self.messages, MESSAGES_PER_SECOND, MESSAGES_AT_ONCE) - messages as f64;
        self.bytes = refill(self.bytes, BYTES_PER_SECOND, BYTES_AT_ONCE) - bytes as f64;
        self.at = now;
        self.messages >= 0.0 && self.bytes >= 0.0
    }
}

/// Why a client message is not taken.
struct Refused {
    error: &'static str,
    message: String,
}

impl Refused {
    fn parameter(message: impl ToString) -> Self {
        Self {
            error: "invalid_parameter",
            message: message.to_string(),
        }
    }
}

impl Session {
    /// Reads what has come, as far as it is one turn's work, and answers. `told` is how far its shard is.
    ///
    /// # Errors
    /// The connection is gone.
    pub(in crate::live) fn hear(&mut self, told: FeedCursor, now: Instant) -> io::Result<()> {
        if !self.is_open() {
            if !self.wire.discard(READ_BYTES_PER_TURN) {
                self.end();
            }
            return Ok(());
        }
        let mut left = READ_BYTES_PER_TURN;
        while self.is_open() && self.can_read() {
            let before = left;
            let heard = self.wire.read(&mut left);
            let said = !matches!(heard, Incoming::Nothing);
            if !self.allowance.take(usize::from(said), before - left, now) {
                self.close(
                    PROTOCOL_POLICY,
                    "too many messages, pings or bytes a second",
                    now,
                );
                return Ok(());
            }
            if before != left {
                self.heard(now);
            }
            match heard {
                Incoming::Text(text) => {
                    self.awaiting_mail = Some(text);
                    self.answer(told, now)?;
                }
                Incoming::Control => {}
                Incoming::Binary => self.close(PROTOCOL_UNSUPPORTED, "messages are text", now),
                Incoming::Wrong(code, reason) => self.close(code, &reason, now),
                Incoming::Nothing => break,
                Incoming::Closed => self.leave(now),
                Incoming::Gone => {
                    self.write(&[], now)?;
                    self.end();
                }
            }
        }
        if self.is_open() {
            self.write(&[], now).map(drop)
        } else {
            Ok(())
        }
    }

    /// Answers what was said. What was told under the subscription before is sent before they change; until the client has taken
    /// that, it waits for its answer.
    ///
    /// # Errors
    /// The connection is gone.
    pub(in crate::live) fn answer(&mut self, told: FeedCursor, now: Instant) -> io::Result<()> {
        let Some(text) = self.awaiting_mail.take() else {
            return Ok(());
        };
        let message: Value = serde_json::from_str(&text).unwrap_or_default();
        let id = message
            .get("id")
            .filter(|id| id.is_string() || id.is_number())
            .cloned();
        let understood = understand(message);
        if understood.as_ref().is_ok_and(|(op, _)| *op != Op::Ping) {
            self.flush(told, now)?;
            if !self.is_up_to_date() {
                self.awaiting_mail = Some(text);
                return Ok(());
            }
        }
        self.reflects(told.seq);
        let done = understood.and_then(|(op, request)| self.obey(op, request, id.as_ref()));
        if let Err(refused) = done {
            self.say(&ServerMessage::Error {
                error: refused.error,
                id: id.as_ref(),
                message: refused.message,
            });
        }
        self.advance(now)
    }

    fn obey(&mut self, op: Op, request: Request, id: Option<&Value>) -> Result<(), Refused> {
        match op {
            Op::Subscribe => self.subscribe(request, id),
            Op::Unsubscribe => self.unsubscribe(&request, id),
            Op::Resync => {
                let snapshots = self.take_snapshots(&self.subscription.clone(), None);
                self.ack(op, id, None);
                self.send_snapshots(snapshots, id);
                Ok(())
            }
            Op::Ping => {
                self.ack(op, id, None);
                Ok(())
            }
        }
    }

    fn subscribe(&mut self, request: Request, id: Option<&Value>) -> Result<(), Refused> {
        request.filter.check().map_err(Refused::parameter)?;
        let mut subscription = self.subscription.clone();
        subscription
            .set(request.events, request.conflate_ms, request.heartbeat_ms)
            .map_err(Refused::parameter)?;
        subscription.filter = request.filter;
        let before = self.follow(subscription);
        let since = request.since.map(|seq| Since {
            seq,
            epoch: request.epoch,
        });
        let resumed = since.map(|since| self.resume(&since));
        if resumed == Some(Ok(())) {
            self.ack(Op::Subscribe, id, resumed);
            self.replay_is_for(id.cloned());
            return Ok(());
        }
        let had = if resumed.is_none() {
            Some(&before)
        } else {
            None
        };
        let snapshots = self.take_snapshots(&before, had);
        self.ack(Op::Subscribe, id, resumed);
        self.send_snapshots(snapshots, id);
        Ok(())
    }

    fn unsubscribe(&mut self, request: &Request, id: Option<&Value>) -> Result<(), Refused> {
        let mut subscription = self.subscription.clone();
        if let Some(kinds) = request.events {
            subscription.kinds = subscription.kinds.without(kinds);
        }
        if request.filter != Filter::default() {
            subscription
                .filter
                .remove(&request.filter)
                .map_err(|list| Refused {
                    error: "not_subscribed",
                    message: format!("{list} are not chosen by the filter in force"),
                })?;
        } else if request.events.is_none() {
            subscription.filter = Filter::nothing();
        }
        self.follow(subscription);
        self.ack(Op::Unsubscribe, id, None);
        Ok(())
    }

    /// Puts subscription in force. Returns those before them.
    fn follow(&mut self, subscription: LiveSubscription) -> LiveSubscription {
        let before = std::mem::replace(&mut self.subscription, subscription);
        self.reschedule(Instant::now());
        before
    }

    fn ack(&mut self, op: Op, id: Option<&Value>, resumed: Option<Result<(), NotRecovered>>) {
        let subscription = self.subscription.clone();
        self.say(&ServerMessage::Ack {
            op,
            id,
            seq: self.through(),
            server_time: crate::live::now(),
            resumed: resumed.into(),
            in_force: subscription.in_force(),
        });
    }
}

/// What a client message asks for.
fn understand(message: Value) -> Result<(Op, Request), Refused> {
    let Some(name) = message.get("op").and_then(Value::as_str) else {
        return Err(Refused {
            error: "invalid_message",
            message: "A message is a JSON object with op: subscribe, unsubscribe, resync or ping"
                .to_owned(),
        });
    };
    let op = Op::parse(name).ok_or_else(|| {
        let name: String = name.chars().take(REPEATED_CHARS_MAX).collect();
        Refused {
            error: "unknown_op",
            message: format!("op is subscribe, unsubscribe, resync or ping, not {name:?}"),
        }
    })?;
    let request = serde_json::from_value(message).map_err(|e| Refused::parameter(e.to_string()))?;
    Ok((op, request))
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use super::TokenBucket;

    #[test]
    fn a_client_may_say_so_much_at_once_and_so_much_a_second() {
        let now = Instant::now();
        let mut allowance = TokenBucket::new(now);
        assert!((0..100).all(|_| allowance.take(1, 10, now)), "100 at once");
        assert!(!allowance.take(1, 0, now));

        let mut allowance = TokenBucket::new(now);
        assert!(allowance.take(100, 0, now));
        let second = now + Duration::from_secs(1);
        assert!((0..20).all(|_| allowance.take(1, 0, second)), "20 a second");
        assert!(!allowance.take(1, 0, second));

        let mut allowance = TokenBucket::new(now);
        let hour = now + Duration::from_secs(3600);
        assert!(
            allowance.take(100, 256 * 1024, hour),
            "who says nothing saves no more up"
        );
        assert!(!allowance.take(1, 0, hour));
    }

    #[test]
    fn and_so_many_bytes() {
        let now = Instant::now();
        let mut allowance = TokenBucket::new(now);
        assert!(allowance.take(1, 256 * 1024, now));
        let second = now + Duration::from_secs(1);
        assert!(allowance.take(1, 64 * 1024, second));
        assert!(!allowance.take(0, 1, second));
    }
}
