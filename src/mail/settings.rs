//! [`Mailing`]: what is configured, read once and then trusted.

use std::fmt;
use std::net::SocketAddr;

use lettre::message::Mailbox;
use url::Url;

use super::post::Transport;

/// How mail is sent, and what stands in it.
#[derive(Debug, Clone)]
pub struct Mailing {
    /// What takes it.
    pub carrier: Transport,
    /// Who sends it.
    pub from: Sender,
    /// Where the links lead; where the service listens, if nothing is said.
    pub public_url: Option<PublicUrl>,
    /// The environment that stands in keys, such as `live`.
    pub key_env: &'static str,
}

/// A setting is not what it has to be. It repeats nothing of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("{flag}: {why}")]
pub struct WrongSetting {
    flag: &'static str,
    why: &'static str,
}

impl WrongSetting {
    /// What is wrong with a flag.
    #[must_use]
    pub fn new(flag: &'static str, why: &'static str) -> Self {
        Self { flag, why }
    }
}

/// Who sends mails, such as `Railbird <keys@racing.example>`.
#[derive(Debug, Clone)]
pub struct Sender(pub(super) Mailbox);

impl Sender {
    /// Reads an address, with a name in front of it or without.
    ///
    /// # Errors
    /// It is none.
    pub fn parse(text: &str) -> Result<Self, WrongSetting> {
        let why = "it is an address, as keys@racing.example or Railbird <keys@racing.example>";
        let mailbox = text
            .parse()
            .ok()
            .filter(|_| !text.contains(char::is_control));
        mailbox
            .map(Self)
            .ok_or(WrongSetting::new("--mail-from", why))
    }

    /// The domain of the address: how the service introduces itself, and what makes ids of mails unique.
    #[must_use]
    pub fn domain(&self) -> &str {
        self.0.email.domain()
    }
}

/// Where clients reach the service, such as `https://racing.example`, without a slash at the end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PublicUrl(String);

impl PublicUrl {
    /// Reads an address, which may have a path.
    ///
    /// # Errors
    /// It is none, or has a user, a query or a fragment.
    pub fn parse(text: &str) -> Result<Self, WrongSetting> {
        let why = "it is where clients reach the service, as https://racing.example";
        let url = Url::parse(text).ok();
        let url = url.filter(|url| {
            let is_web = matches!(url.scheme(), "https" | "http");
            let is_bare = url.query().is_none() && url.fragment().is_none();
            is_web && is_bare && url.username().is_empty() && url.password().is_none()
        });
        let url = url.ok_or(WrongSetting::new("--public-url", why))?;
        Ok(Self(url.as_str().trim_end_matches('/').to_owned()))
    }

    /// Where a service listens that nobody has given a name.
    #[must_use]
    pub fn of(listening: SocketAddr) -> Self {
        Self(format!("http://{listening}"))
    }

    /// The address of the live channel: `wss://` for `https://`.
    #[must_use]
    pub fn live(&self) -> String {
        format!("{}/ws/live/odds", self.0.replacen("http", "ws", 1))
    }

    /// Where a key is rotated or revoked by whoever has the token.
    #[must_use]
    pub fn manage(&self, token: &str) -> String {
        format!("{self}/keys/manage?token={token}")
    }
}

impl fmt::Display for PublicUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::{PublicUrl, Sender};

    #[test]
    fn links_begin_with_what_is_configured() {
        for (url, live) in [
            (
                "https://racing.example",
                "wss://racing.example/ws/live/odds",
            ),
            (
                "https://racing.example/",
                "wss://racing.example/ws/live/odds",
            ),
            (
                "http://[::1]:8080/odds/http/",
                "ws://[::1]:8080/odds/http/ws/live/odds",
            ),
        ] {
            let public = PublicUrl::parse(url).expect(url);
            assert_eq!(public.live(), live);
            let manage = format!("{}/keys/manage?token=abc", url.trim_end_matches('/'));
            assert_eq!(public.manage("abc"), manage);
        }
    }

    #[test]
    fn a_sender_has_a_domain() {
        for text in ["keys@racing.example", "Rail Bird <keys@racing.example>"] {
            assert_eq!(Sender::parse(text).expect(text).domain(), "racing.example");
        }
    }
}
