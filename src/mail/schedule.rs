//! When a mail is tried, and for how long.

use std::time::Duration;

use events::Moment;
use jiff::{SignedDuration, Timestamp};

use crate::accounts::{Mail, MailState};

/// The first wait after an attempt that failed. People wait for the mail, so it is short; it doubles up to [`RETRY_MAX`].
const RETRY_MIN: Duration = Duration::from_secs(2);
/// A server that puts a mail off does so for minutes.
const RETRY_MAX: Duration = Duration::from_secs(30 * 60);
/// Since its first attempt. A server that does not take a mail for so long never will.
pub(super) const GIVE_UP_AFTER: SignedDuration = SignedDuration::from_hours(24);
/// Times as long as a mail may be handed over, a replica may be silent about it before another one tries. Beside the mail itself
/// two events are written in this time.
const SILENT_TIMES: u32 = 2;
/// A server that cannot be reached is tried again at least so often: what waits for it goes out soon after it is back.
const SERVER_RETRY_MAX: Duration = Duration::from_secs(60);

/// When an open mail is to be tried next.
pub(super) fn due(mail: &Mail, timeout: Duration) -> Timestamp {
    let wait = match (&mail.state, mail.attempt) {
        (MailState::UnderWay, _) => timeout * SILENT_TIMES,
        // Each replica comes to the same result, and the mails that a server has put off to different ones.
        (MailState::Failed(_), Some(attempt)) => {
            let letters = attempt.key_id.as_str().bytes();
            let random = letters.fold(0_u32, |sum, letter| {
                sum.wrapping_mul(31).wrapping_add(letter.into())
            });
            backoff(attempt.number - 1, RETRY_MAX, random)
        }
        _ => Duration::ZERO,
    };
    let wait = SignedDuration::try_from(wait).unwrap_or(SignedDuration::MAX);
    mail.since
        .timestamp()
        .saturating_add(wait)
        .unwrap_or(Timestamp::MAX)
}

/// Whether a mail that was not taken is given up.
pub(super) fn is_over(begun_at: Option<Moment>, now: Timestamp) -> bool {
    begun_at.is_some_and(|begun_at| now.duration_since(begun_at.timestamp()) >= GIVE_UP_AFTER)
}

/// How long to leave a server alone that could not be reached so many times.
pub(super) fn server_retry(failures: u32) -> Duration {
    backoff(
        failures.saturating_sub(1),
        SERVER_RETRY_MAX,
        getrandom::u32().unwrap_or(0),
    )
}

/// Doubled `step` times, at most `max`, of which up to a half is taken off.
fn backoff(step: u32, max: Duration, random: u32) -> Duration {
    let full = RETRY_MIN.saturating_mul(1 << step.min(16)).min(max);
    full - full / 2 * (random % 1000) / 1000
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use events::{Moment, Text};
    use jiff::{SignedDuration, Timestamp};

    use super::{GIVE_UP_AFTER, RETRY_MAX, due, is_over, server_retry};
    use crate::accounts::{Attempt, KeyId, Mail, MailState, SecretHash, SubscriptionId};

    const TIMEOUT: Duration = Duration::from_secs(60);

    /// How long a mail waits in a state, after so many attempts of which the last one had this key.
    fn wait(state: MailState, number: u32, key_id: &str) -> Duration {
        let since = Moment::from(Timestamp::now());
        let mail = Mail {
            subscription_id: SubscriptionId::parse("sub-1").expect("an id"),
            purpose: Text::default(),
            requested_at: since,
            begun_at: Some(since),
            state,
            since,
            attempt: Some(Attempt {
                number,
                key_id: KeyId::parse(key_id).expect("an id"),
                manage_hash: SecretHash::of("token"),
            }),
        };
        let wait = due(&mail, TIMEOUT).duration_since(since.timestamp());
        Duration::try_from(wait).expect("it is not in the past")
    }

    #[test]
    fn a_mail_is_tried_at_once_and_taken_over_when_nobody_is_heard() {
        assert_eq!(wait(MailState::Wished, 1, "00000000"), Duration::ZERO);
        assert_eq!(wait(MailState::UnderWay, 1, "00000000"), TIMEOUT * 2);
    }

    #[test]
    fn waits_grow_to_a_bound_and_differ() {
        let failed = || MailState::Failed(Text::default());
        let mut full = Duration::from_secs(2);
        for number in 1..100 {
            let waits = ["00000000", "7k2m9x4q", "zzzzzzzz"].map(|id| wait(failed(), number, id));
            for wait in waits {
                assert!(
                    full / 2 <= wait && wait <= full,
                    "{number}: {wait:?} of {full:?}"
                );
            }
            assert!(waits[0] != waits[1] || waits[1] != waits[2], "{waits:?}");
            full = (full * 2).min(RETRY_MAX);
        }
    }

    #[test]
    fn a_server_that_is_back_is_noticed_soon() {
        for failures in [1, 2, 5, 1_000_000] {
            let wait = server_retry(failures);
            assert!((Duration::from_secs(1)..=Duration::from_secs(60)).contains(&wait));
        }
    }

    #[test]
    fn a_day_after_the_first_attempt_it_is_over() {
        let now = Timestamp::now();
        let ago = |age: SignedDuration| Some((now - age).into());
        assert!(!is_over(None, now));
        assert!(!is_over(
            ago(GIVE_UP_AFTER - SignedDuration::from_secs(1)),
            now
        ));
        assert!(is_over(ago(GIVE_UP_AFTER), now));
    }
}
