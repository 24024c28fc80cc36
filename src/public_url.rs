//! [`PublicUrl`]: where people find the service; and which hosts are this machine.

use std::net::{IpAddr, SocketAddr};

use derive_more::Display;
use url::Url;

/// The public URL of the service, such as `https://racing.example`, without a slash at the end.
#[derive(Debug, Display, Clone, PartialEq, Eq)]
pub struct PublicUrl(String);

impl PublicUrl {
    /// Parses an HTTP URL, which may have a path, but no user, query or fragment. The error is the expected form.
    pub fn parse(text: &str) -> Result<Self, &'static str> {
        let url = Url::parse(text).ok();
        let url = url.filter(|url| {
            let is_web = matches!(url.scheme(), "https" | "http");
            let is_bare = url.query().is_none() && url.fragment().is_none();
            is_web && is_bare && url.username().is_empty() && url.password().is_none()
        });
        let url = url.ok_or("expected the URL of the service, such as https://racing.example")?;
        Ok(Self(url.as_str().trim_end_matches('/').to_owned()))
    }

    /// The URL of a service without a public one: the address that it listens on.
    pub fn of(listening: SocketAddr) -> Self {
        Self(format!("http://{listening}"))
    }

    /// Whether browsers reach the service by TLS.
    pub fn is_secure(&self) -> bool {
        self.0.starts_with("https://")
    }

    /// Host and port.
    pub fn authority(&self) -> &str {
        let authority = self.origin().split_once("://");
        authority.map_or("", |(_, authority)| authority)
    }

    /// Scheme and authority, as browsers send them in `Origin`.
    pub fn origin(&self) -> &str {
        let authority = self.0.find("://").map_or(0, |at| at + "://".len());
        let end = self.0[authority..].find('/');
        end.map_or(&*self.0, |end| &self.0[..authority + end])
    }

    /// The URL of the account page. With the token of a link, anyone who has the URL can sign in.
    pub fn account(&self, token: Option<&str>) -> String {
        match token {
            Some(token) => format!("{self}/account?token={token}"),
            None => format!("{self}/account"),
        }
    }
}

/// Whether a host of a URL is `localhost` or a loopback address.
pub(crate) fn is_loopback(host: &str) -> bool {
    let name = host.trim_matches(['[', ']']);
    let address: Option<IpAddr> = name.parse().ok();
    name.eq_ignore_ascii_case("localhost") || address.is_some_and(|address| address.is_loopback())
}

#[cfg(test)]
mod tests {
    use super::PublicUrl;

    #[test]
    fn links_begin_with_the_configured_url() {
        for (url, origin, is_secure) in [
            ("https://racing.example", "https://racing.example", true),
            ("https://racing.example/", "https://racing.example", true),
            ("http://[::1]:8080/odds/http/", "http://[::1]:8080", false),
        ] {
            let public = PublicUrl::parse(url).expect(url);
            let account = format!("{}/account", url.trim_end_matches('/'));
            assert_eq!(public.account(None), account);
            assert_eq!(public.account(Some("abc")), account + "?token=abc");
            assert_eq!((public.origin(), public.is_secure()), (origin, is_secure));
        }
    }
}
