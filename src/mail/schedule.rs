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
