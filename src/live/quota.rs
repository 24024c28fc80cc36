//! [`InboundQuota`]: how many messages and bytes a client may send.

use std::time::Instant;

/// More than people and programs send that change a filter; a message of the largest size fits, even in fragments of
/// one byte.
const MESSAGES_BURST: f64 = 100.0;
const MESSAGES_PER_SECOND: f64 = 20.0;
const BYTES_BURST: f64 = 256.0 * 1024.0;
const BYTES_PER_SECOND: f64 = 64.0 * 1024.0;

/// Bounds messages (pings included) and bytes from one client.
pub(super) struct InboundQuota {
    messages: f64,
    bytes: f64,
    refilled_at: Instant,
}

impl InboundQuota {
    /// A full quota.
    pub(super) fn new(now: Instant) -> Self {
        Self {
            messages: MESSAGES_BURST,
            bytes: BYTES_BURST,
            refilled_at: now,
        }
    }

    /// Takes what was received off the quota. Returns false if it is exceeded.
    pub(super) fn take(&mut self, messages: usize, bytes: usize, now: Instant) -> bool {
        let seconds = now.duration_since(self.refilled_at).as_secs_f64();
        self.refilled_at = now;
        let refilled = (self.messages + MESSAGES_PER_SECOND * seconds).min(MESSAGES_BURST);
        self.messages = refilled - messages as f64;
        let refilled = (self.bytes + BYTES_PER_SECOND * seconds).min(BYTES_BURST);
        self.bytes = refilled - bytes as f64;
        self.messages >= 0.0 && self.bytes >= 0.0
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
