//! [`InboundQuota`]: how many messages and bytes a client may send.

use std::time::Instant;

/// More than people and programs send that change a filter; a message of the largest size fits, even in fragments of
/// one byte.
const MESSAGES_BURST: f64 = 100.0;
const MESSAGES_PER_SECOND: f64 = 20.0;
const BYTES_BURST: f64 = 256.0 * 1024.0;
const BYTES_PER_SECOND: f64 = 64.0 * 1024.0;

/// Bounds messages (pings included) and bytes from one client.
#[derive(Debug)]
pub(super) struct InboundQuota {
    messages: TokenBucket,
    bytes: TokenBucket,
    refilled_at: Instant,
}

#[derive(Debug)]
struct TokenBucket {
    tokens: f64,
    burst: f64,
    per_second: f64,
}

impl InboundQuota {
    /// A full quota.
    pub(super) fn new(now: Instant) -> Self {
        Self {
            messages: TokenBucket::new(MESSAGES_BURST, MESSAGES_PER_SECOND),
            bytes: TokenBucket::new(BYTES_BURST, BYTES_PER_SECOND),
            refilled_at: now,
        }
    }

    /// Takes what was received off the quota. Returns false if it is exceeded.
    pub(super) fn take(&mut self, messages: usize, bytes: usize, now: Instant) -> bool {
        let seconds = now.duration_since(self.refilled_at).as_secs_f64();
        self.refilled_at = now;
        let messages_allowed = self.messages.take(messages as f64, seconds);
        let bytes_allowed = self.bytes.take(bytes as f64, seconds);
        messages_allowed && bytes_allowed
    }
}

impl TokenBucket {
    fn new(burst: f64, per_second: f64) -> Self {
        Self {
            tokens: burst,
            burst,
            per_second,
        }
    }

    fn take(&mut self, tokens: f64, seconds: f64) -> bool {
        self.tokens = (self.tokens + self.per_second * seconds).min(self.burst) - tokens;
        self.tokens >= 0.0
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use super::InboundQuota;

    #[test]
    fn messages_are_limited_to_a_burst_and_a_rate() {
        let now = Instant::now();
        let mut quota = InboundQuota::new(now);
        assert!((0..100).all(|_| quota.take(1, 10, now)), "100 at once");
        assert!(!quota.take(1, 0, now));

        let mut quota = InboundQuota::new(now);
        assert!(quota.take(100, 0, now));
        let second = now + Duration::from_secs(1);
        assert!((0..20).all(|_| quota.take(1, 0, second)), "20 a second");
        assert!(!quota.take(1, 0, second));

        let mut quota = InboundQuota::new(now);
        let hour = now + Duration::from_secs(3600);
        assert!(
            quota.take(100, 256 * 1024, hour),
            "a silent client gains no more than the burst"
        );
        assert!(!quota.take(1, 0, hour));
    }

    #[test]
    fn bytes_are_limited_to_a_burst_and_a_rate() {
        let now = Instant::now();
        let mut quota = InboundQuota::new(now);
        assert!(quota.take(1, 256 * 1024, now));
        let second = now + Duration::from_secs(1);
        assert!(quota.take(1, 64 * 1024, second));
        assert!(!quota.take(0, 1, second));
    }
}
