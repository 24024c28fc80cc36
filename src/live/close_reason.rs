//! [`CloseReason`]: why the service closes a connection, with the WebSocket close code that the client receives.

use std::ops::Range;

/// The bounds of the random time after which a client should connect again, so that not all come back at once.
const RETRY_AFTER_MS: Range<u32> = 500..5_000;
/// The end of that time where more clients leave together than come back by then at [`HANDSHAKES_PER_SECOND`].
const RETRY_AFTER_MS_MAX: u32 = 60_000;
/// The handshakes that the replicas which stay are asked to take: a replica on two cores took 2,000 in 1.1 s, beside
/// its other work (docs/benchmarks.md).
const HANDSHAKES_PER_SECOND: u32 = 1_000;

const NO_LIVE_ODDS: &str = "the plan of the key does not include live odds";
const KEYS_STALE: &str = "it is not known for too long whether keys were revoked";

/// Why the service closes a connection. To add a reason, add a variant, and its code to [`CloseReason::CODES`] if it is
/// new.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum CloseReason {
    /// The service stops, and so many clients leave together.
    ServiceStopping(usize),
    /// The client broke the WebSocket protocol, and how.
    ProtocolViolation(String),
    BinaryMessage,
    InvalidUtf8,
    QuotaExceeded,
    /// The client sent a message that is too large; the text names the bound.
    MessageTooLarge(String),
    /// The key was revoked, was rotated or has expired.
    KeyNotValid,
    LiveOddsNotIncluded,
    /// The client did not read what it was sent.
    NotReading,
    /// The client sent nothing, not even pongs.
    NotSending,
    TooManyConnections,
    /// It is not known for too long whether keys were revoked. So many clients leave together.
    KeysStale(usize),
    /// The views lag, and those of another replica do not. So many clients leave together.
    Lagging(usize),
}

impl CloseReason {
    /// Every code that the service closes a connection with.
    pub(crate) const CODES: [u16; 11] = [
        1001, 1002, 1003, 1007, 1008, 1009, 1013, 4401, 4403, 4408, 4429,
    ];

    /// The code, whether the same request may succeed later, and the text for the client.
    fn parts(&self) -> (u16, bool, &str) {
        match self {
            Self::ServiceStopping(_) => (1001, true, "the service is stopping"),
            Self::ProtocolViolation(detail) => (1002, false, detail),
            Self::BinaryMessage => (1003, false, "only text messages are accepted"),
            Self::InvalidUtf8 => (1007, false, "the text is not UTF-8"),
            Self::QuotaExceeded => (1008, true, "too many messages, pings or bytes a second"),
            Self::MessageTooLarge(detail) => (1009, false, detail),
            Self::KeyNotValid => (4401, false, "the key is no longer valid"),
            Self::LiveOddsNotIncluded => (4403, false, NO_LIVE_ODDS),
            Self::NotReading => (4408, true, "the client read nothing for 30 seconds"),
            Self::NotSending => (4408, true, "the client sent nothing for 75 seconds"),
            Self::TooManyConnections => (4429, true, "too many connections for this key"),
            Self::KeysStale(_) => (1013, true, KEYS_STALE),
            Self::Lagging(_) => (1013, true, "this replica lags, and another one does not"),
        }
    }

    pub(crate) fn code(&self) -> u16 {
        self.parts().0
    }

    /// The text for the client.
    pub(crate) fn text(&self) -> &str {
        self.parts().2
    }

    /// Milliseconds after which the client should connect again; 0 if the same request would fail again. The more
    /// clients leave together, the longer is the time over which they come back.
    pub(crate) fn retry_after_ms(&self) -> u64 {
        if !self.parts().1 {
            return 0;
        }
        let leaving = match self {
            Self::ServiceStopping(count) | Self::KeysStale(count) | Self::Lagging(count) => *count,
            _ => 1,
        };
        let Range { start, end } = RETRY_AFTER_MS;
        let leaving = u32::try_from(leaving).unwrap_or(u32::MAX);
        let spread = leaving.saturating_mul(1_000 / HANDSHAKES_PER_SECOND);
        let end = start.saturating_add(spread).clamp(end, RETRY_AFTER_MS_MAX);
        let random = getrandom::u32().unwrap_or(0) % (end - start);
        u64::from(start + random)
    }
}

#[cfg(test)]
mod tests {
    use super::CloseReason;

    #[test]
    fn every_code_is_listed_and_a_retry_is_suggested_only_where_it_can_succeed() {
        let text = String::new;
        for (reason, can_retry) in [
            (CloseReason::ServiceStopping(1), true),
            (CloseReason::ProtocolViolation(text()), false),
            (CloseReason::BinaryMessage, false),
            (CloseReason::InvalidUtf8, false),
            (CloseReason::QuotaExceeded, true),
            (CloseReason::MessageTooLarge(text()), false),
            (CloseReason::KeyNotValid, false),
            (CloseReason::LiveOddsNotIncluded, false),
            (CloseReason::NotReading, true),
            (CloseReason::NotSending, true),
            (CloseReason::TooManyConnections, true),
            (CloseReason::KeysStale(1), true),
            (CloseReason::Lagging(1), true),
        ] {
            assert!(CloseReason::CODES.contains(&reason.code()), "{reason:?}");
            let expected = if can_retry { 500..5_000 } else { 0..1 };
            assert!(expected.contains(&reason.retry_after_ms()), "{reason:?}");
        }
    }

    #[test]
    fn clients_that_leave_together_come_back_at_a_rate_that_replicas_take() {
        for (leaving, seconds) in [(1, 5), (4_000, 5), (20_000, 21), (1_000_000, 60)] {
            let mut per_second = vec![0; seconds];
            for _ in 0..20_000 {
                let ms = CloseReason::ServiceStopping(leaving).retry_after_ms();
                per_second[usize::try_from(ms / 1_000).expect("a minute")] += 1;
            }
            let least = per_second.iter().min();
            let most = per_second.iter().max();
            // The first second begins at its half, and the last one may end there.
            let even = 20_000 / (seconds - 1);
            assert!(most < Some(&(even * 5 / 4)), "{leaving}: {per_second:?}");
            assert!(least > Some(&(even / 4)), "{leaving}: {per_second:?}");
        }
    }
}
