//! [`Failure`]: why a mail was not taken.

use std::fmt;

use events::Text;

/// Of a longer word of an answer nothing is kept: the secret of a key has more letters, and so has the token of a link.
const WORD_BYTES_MAX: usize = 31;
/// What is kept of an answer, with the reason in front of it, is a [`Text`].
const WORDS_BYTES_MAX: usize = 200;

/// What went wrong, by class: the label of a metric.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reason {
    /// No connection to the server.
    Unreachable,
    /// The server did not answer in time.
    Timeout,
    /// No TLS, or a certificate that is not trusted.
    Tls,
    /// The server does not let this user in.
    Login,
    /// The connection ended in the middle, or what came is no SMTP.
    CutOff,
    /// The server said: not now.
    Deferred,
    /// The server said: never.
    Refused,
    /// The file could not be written.
    NotWritten,
}

impl Reason {
    /// As metrics, lists and logs say it.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Unreachable => "unreachable",
            Self::Timeout => "timeout",
            Self::Tls => "tls",
            Self::Login => "login",
            Self::CutOff => "cut_off",
            Self::Deferred => "deferred",
            Self::Refused => "refused",
            Self::NotWritten => "not_written",
        }
    }
}

/// Why a mail was not taken. It may be logged: it has no address, key or link in it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub struct Failure {
    /// What went wrong.
    pub reason: Reason,
    /// There is no sense in another attempt.
    pub is_final: bool,
    words: String,
}

impl Failure {
    /// A failure, with what is harmless of the words that a server, the system or a library has for it. Servers repeat what they
    /// dislike, which may be the address of the subscriber, the link or even the key.
    #[must_use]
    pub(super) fn new(reason: Reason, words: &str) -> Self {
        let is_harmless = |word: &&str| word.len() <= WORD_BYTES_MAX && !word.contains('@');
        let mut kept = String::new();
        for word in words.split(|c: char| c.is_whitespace() || c.is_control()) {
            let word = Some(word).filter(is_harmless).unwrap_or("...");
            if kept.len() + 1 + word.len() > WORDS_BYTES_MAX {
                break;
            }
            if !kept.is_empty() && !word.is_empty() {
                kept.push(' ');
            }
            kept.push_str(word);
        }
        Self {
            reason,
            is_final: false,
            words: kept,
        }
    }

    /// The same, of which there is no sense in another attempt.
    #[must_use]
    pub(super) fn finally(self) -> Self {
        Self {
            is_final: true,
            ..self
        }
    }

    /// As it stands in an event.
    #[must_use]
    pub fn text(&self) -> Text {
        Text::parse(&self.to_string()).unwrap_or_default()
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.words.as_str() {
            "" => f.write_str(self.reason.as_str()),
            words => write!(f, "{}: {words}", self.reason.as_str()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Failure, Reason};
    use crate::accounts::{ApiKey, random_secret};

    #[test]
    fn what_a_server_repeats_of_a_mail_is_not_kept() {
        let (key, token) = (
            ApiKey::generate("live").expect("random"),
            random_secret().expect("random"),
        );
        let (key, secret) = (key.reveal(), &key.reveal()[key.reveal().len() - 39..]);
        for (said, kept) in [
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
            let failure = Failure::new(Reason::Refused, said);
            assert_eq!(
                failure
                    .to_string()
                    .trim_start_matches("refused")
                    .trim_start_matches(": "),
                kept
            );
            assert_eq!(failure.text().as_str(), failure.to_string());
        }
    }

    #[test]
    fn however_much_a_server_says_it_is_a_line() {
        for word in ["no ", "\u{1f40e} ", "a@b "] {
            let failure = Failure::new(Reason::Deferred, &word.repeat(10_000));
            assert!(!failure.text().is_empty(), "{failure}");
        }
    }
}
