//! When a mail is sent again, and when it is given up.

use std::time::Duration;

use events::Moment;
use jiff::{SignedDuration, Timestamp};

use crate::accounts::{Mail, MailState};
use crate::log::Backoff;

/// The first wait after a failed attempt. It is short, because people wait for the mail, and doubles up to
/// [`RETRY_MAX`].
const RETRY_MIN: Duration = Duration::from_secs(2);
/// Servers that defer a mail do so for minutes.
const RETRY_MAX: Duration = Duration::from_secs(30 * 60);
/// The same while the server takes no mail for the recipient. Less up to half, the first wait is the half hour of RFC
/// 5321, 4.5.4.1. Anybody can sign up with such an address, and each attempt is two events of a log that is kept.
const RECIPIENT_RETRY_MIN: Duration = Duration::from_secs(60 * 60);
const RECIPIENT_RETRY_MAX: Duration = Duration::from_secs(6 * 60 * 60);
/// The age of the first attempt at which a mail is given up.
pub(super) const GIVE_UP_AFTER: SignedDuration = SignedDuration::from_hours(24);
/// How many times the time limit for sending an attempt may be without a result before another replica tries. Two
/// events are written in this time, too.
const TAKEOVER_FACTOR: u32 = 2;
/// The longest wait before an unreachable server is tried again, so that mails go out soon after it is back.
const SERVER_RETRY_MAX: Duration = Duration::from_secs(60);

const ATTEMPT_BACKOFF: Backoff = Backoff::new(RETRY_MIN, RETRY_MAX);
const RECIPIENT_BACKOFF: Backoff = Backoff::new(RECIPIENT_RETRY_MIN, RECIPIENT_RETRY_MAX);
const SERVER_BACKOFF: Backoff = Backoff::new(RETRY_MIN, SERVER_RETRY_MAX);

/// When the next attempt of an open mail is due.
pub(super) fn due(mail: &Mail, timeout: Duration) -> Timestamp {
    let retry = mail.attempts.saturating_sub(1);
    let delay = |backoff: Backoff| backoff.delay_with(retry, jitter(mail));
    let wait = match &mail.state {
        MailState::UnderWay => timeout * TAKEOVER_FACTOR,
        MailState::Failed(_) if mail.waits_for_mailbox => delay(RECIPIENT_BACKOFF),
        MailState::Failed(_) => delay(ATTEMPT_BACKOFF),
        _ => Duration::ZERO,
    };
    let wait = SignedDuration::try_from(wait).unwrap_or(SignedDuration::MAX);
    let due = mail.since.timestamp().saturating_add(wait);
    due.unwrap_or(Timestamp::MAX)
}

/// Derived from the mail: every replica computes the same time, and mails differ.
fn jitter(mail: &Mail) -> u32 {
    let letters = mail.subscription_id.to_string();
    letters.bytes().fold(mail.attempts, |sum, letter| {
        sum.wrapping_mul(31).wrapping_add(letter.into())
    })
}

/// Whether a mail that failed again is given up.
pub(super) fn is_expired(begun_at: Option<Moment>, now: Timestamp) -> bool {
    begun_at.is_some_and(|begun_at| now.duration_since(begun_at.timestamp()) >= GIVE_UP_AFTER)
}

/// The wait before a server is tried again after so many failures in a row.
pub(super) fn server_retry(failures: u32) -> Duration {
    SERVER_BACKOFF.delay(failures.saturating_sub(1))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use events::{Moment, Text};
    use jiff::{SignedDuration, Timestamp};

    use super::{GIVE_UP_AFTER, RETRY_MAX, due, is_expired, server_retry};
    use crate::accounts::{Mail, MailContent, MailState, SubscriptionId};

    const TIMEOUT: Duration = Duration::from_secs(60);

    /// The wait of a mail to a subscriber in a state, after a number of attempts.
    fn wait(state: MailState, attempts: u32, subscriber: &str) -> Duration {
        wait_of(&mail(state, attempts, subscriber))
    }

    fn mail(state: MailState, attempts: u32, subscriber: &str) -> Mail {
        let since = Moment::from(Timestamp::now());
        Mail {
            subscription_id: SubscriptionId::parse(subscriber).expect("an id"),
            content: MailContent::SignIn,
            requested_at: since,
            begun_at: Some(since),
            state,
            since,
            attempts,
            waits_for_mailbox: false,
        }
    }

    fn wait_of(mail: &Mail) -> Duration {
        let wait = due(mail, TIMEOUT).duration_since(mail.since.timestamp());
        Duration::try_from(wait).expect("it is not in the past")
    }

    #[test]
    fn a_mail_is_sent_at_once_and_taken_over_from_a_silent_replica() {
        assert_eq!(wait(MailState::Requested, 0, "sub-1"), Duration::ZERO);
        assert_eq!(wait(MailState::UnderWay, 1, "sub-1"), TIMEOUT * 2);
    }

    #[test]
    fn waits_grow_to_a_maximum_and_differ() {
        let failed = || MailState::Failed(Text::default());
        let mut full = Duration::from_secs(2);
        for number in 1..100 {
            let waits = ["sub-1", "sub-2", "another"].map(|id| wait(failed(), number, id));
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

    /// Each attempt is two events.
    #[test]
    fn a_mail_whose_recipient_is_rejected_for_now_makes_two_dozen_events_at_most() {
        for number in 0..1_000 {
            let mut age = Duration::ZERO;
            let mut attempts = 1;
            while SignedDuration::try_from(age).expect("some hours") < GIVE_UP_AFTER {
                let wait = wait_of(&Mail {
                    waits_for_mailbox: true,
                    ..mail(
                        MailState::Failed(Text::default()),
                        attempts,
                        &format!("sub-{number}"),
                    )
                });
                assert!(wait >= Duration::from_secs(30 * 60), "{attempts}: {wait:?}");
                age += wait;
                attempts += 1;
            }
            assert!((5..=12).contains(&attempts), "{attempts}");
        }
    }

    #[test]
    fn a_server_is_tried_again_within_a_minute() {
        for failures in [1, 2, 5, 1_000_000] {
            let wait = server_retry(failures);
            assert!((Duration::from_secs(1)..=Duration::from_secs(60)).contains(&wait));
        }
    }

    #[test]
    fn a_mail_expires_a_day_after_its_first_attempt() {
        let now = Timestamp::now();
        let ago = |age: SignedDuration| Some((now - age).into());
        assert!(!is_expired(None, now));
        assert!(!is_expired(
            ago(GIVE_UP_AFTER - SignedDuration::from_secs(1)),
            now
        ));
        assert!(is_expired(ago(GIVE_UP_AFTER), now));
    }
}
