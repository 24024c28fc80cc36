//! [`DeliveryError`]: why a mail was not delivered, with secrets removed.

use events::Text;
use strum::{IntoStaticStr, VariantNames};

/// Longer words of a reply are removed: the secret of a key is longer, and so is the token of a link.
const WORD_BYTES_MAX: usize = 31;
/// The length at which a reply is cut, so that it fits into a [`Text`] with the reason in front.
const DETAIL_BYTES_MAX: usize = 200;

/// The class of a delivery error: the label of a metric.
#[derive(Debug, Clone, Copy, PartialEq, Eq, IntoStaticStr, VariantNames)]
#[strum(serialize_all = "snake_case", const_into_str)]
pub enum FailureReason {
    Unreachable,
    Timeout,
    /// The server does not offer TLS, or its certificate is not trusted.
    Tls,
    /// The server rejected it.
    Login,
    /// The connection was closed early, or the reply is not SMTP.
    CutOff,
    /// The server replied that it takes no mail for the recipient now.
    MailboxDeferred,
    /// The server replied with another temporary error.
    Deferred,
    /// The server replied with a permanent error.
    Refused,
    NotWritten,
}

/// A mail was not delivered. The error can be logged: it contains no address, key or link.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{}{}{detail}", reason.into_str(), if detail.is_empty() { "" } else { ": " })]
pub struct DeliveryError {
    pub reason: FailureReason,
    /// Whether another attempt is pointless.
    pub is_final: bool,
    pub(super) detail: String,
}

impl DeliveryError {
    /// An error with the words of a server, the system or a library. Long words and addresses are replaced by `...`:
    /// servers quote what they reject, which may be the subscriber's address, the link or the key.
    pub(super) fn new(reason: FailureReason, words: &str) -> Self {
        let is_harmless = |word: &&str| word.len() <= WORD_BYTES_MAX && !word.contains('@');
        let mut detail = String::new();
        for word in words.split(|c: char| c.is_whitespace() || c.is_control()) {
            let word = Some(word).filter(is_harmless).unwrap_or("...");
            if detail.len() + 1 + word.len() > DETAIL_BYTES_MAX {
                break;
            }
            if !detail.is_empty() && !word.is_empty() {
                detail.push(' ');
            }
            detail.push_str(word);
        }
        Self {
            reason,
            is_final: false,
            detail,
        }
    }

    /// The error as the reason in an event.
    pub fn text(&self) -> Text {
        Text::parse(&self.to_string()).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::{DeliveryError, FailureReason};
    use crate::accounts::{ApiKey, MAILBOX_DEFERRED, random_secret};

    #[test]
    fn the_ledger_knows_the_reason_that_is_the_recipients() {
        let reason = FailureReason::MailboxDeferred;
        assert_eq!(reason.into_str(), MAILBOX_DEFERRED);
        let error = DeliveryError::new(reason, "450 later");
        assert!(error.text().as_str().starts_with(MAILBOX_DEFERRED));
    }

    #[test]
    fn secrets_in_a_reply_are_removed() {
        let key = ApiKey::generate("live").expect("random");
        let token = random_secret().expect("random");
        let (key, secret) = (key.reveal(), &key.reveal()[key.reveal().len() - 39..]);
        for (reply, kept) in [
            (
                "550 5.1.1 <a@racing.example>: no such user",
                "550 5.1.1 ... no such user",
            ),
            (
                &format!("554 your link https://r.example/m?token={token} is listed"),
                "554 your link ... is listed",
            ),
            (
                &format!("554 {key}\r\nand {secret}\x1b[0m {token}"),
                "554 ... and ... [0m ...",
            ),
            ("  450   later\t", "450 later"),
            ("", ""),
        ] {
            let error = DeliveryError::new(FailureReason::Refused, reply);
            assert_eq!(
                error
                    .to_string()
                    .trim_start_matches("refused")
                    .trim_start_matches(": "),
                kept
            );
            assert_eq!(error.text().as_str(), error.to_string());
        }
    }

    #[test]
    fn a_long_reply_is_cut_to_one_line() {
        for word in ["no ", "\u{1f40e} ", "a@b "] {
            let error = DeliveryError::new(FailureReason::Deferred, &word.repeat(10_000));
            assert!(!error.text().is_empty(), "{error}");
        }
    }
}
