//! [`Address`]: where a service is, without any secret.

use std::fmt;

use percent_encoding::{NON_ALPHANUMERIC, percent_decode_str, utf8_percent_encode};
use tokio_tungstenite::tungstenite::http::Uri;

/// Where the channel lies if the address names no path.
const PATH: &str = "/ws/live/odds";

/// The parameter in which a key may stand.
const KEY_PARAMETER: &str = "api_key";

/// Why an address is none. It is never repeated: a key may stand in it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(super) enum WrongAddress {
    #[error("it is no URL such as ws://127.0.0.1:8080{PATH}")]
    NoUrl,
    #[error("it begins with neither ws:// nor wss://")]
    NoWebSocket,
    #[error("no user and no password can stand in it")]
    Credentials,
}

/// Where a service is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Address {
    secure: bool,
    authority: String,
    path: String,
    /// Encoded pairs, but for the key.
    query: Vec<String>,
}

impl Address {
    /// Takes a URL apart, and the key that may stand in it.
    pub(super) fn parse(url: &str) -> Result<(Self, Option<String>), WrongAddress> {
        let uri: Uri = url.parse().map_err(|_| WrongAddress::NoUrl)?;
        let secure = match uri.scheme_str() {
            Some("ws") => false,
            Some("wss") => true,
            Some(_) => return Err(WrongAddress::NoWebSocket),
            None => return Err(WrongAddress::NoUrl),
        };
        let authority = uri.authority().ok_or(WrongAddress::NoUrl)?.to_string();
        if authority.contains('@') {
            return Err(WrongAddress::Credentials);
        }
        let path = match uri.path() {
            "" | "/" => PATH,
            path => path,
        };
        let pairs = uri.query().unwrap_or_default().split('&');
        let (keys, query): (Vec<&str>, Vec<&str>) = pairs
            .filter(|pair| !pair.is_empty())
            .partition(|pair| pair.split('=').next() == Some(KEY_PARAMETER));
        let key = keys.first().map(|pair| {
            let value = pair.split_once('=').map_or("", |(_, value)| value);
            percent_decode_str(value).decode_utf8_lossy().into_owned()
        });
        let address = Self {
            secure,
            authority,
            path: path.to_owned(),
            query: query.into_iter().map(str::to_owned).collect(),
        };
        Ok((address, key))
    }

    /// The URL, with more parameters.
    pub(super) fn url(&self, more: &[(&str, String)]) -> String {
        let encode = |text: &str| utf8_percent_encode(text, NON_ALPHANUMERIC).to_string();
        let more = more
            .iter()
            .map(|(name, value)| format!("{name}={}", encode(value)));
        let pairs: Vec<String> = self.query.iter().cloned().chain(more).collect();
        let mark = if pairs.is_empty() { "" } else { "?" };
        format!("{}{}{mark}{}", self, self.path, pairs.join("&"))
    }
}

impl fmt::Display for Address {
    /// Scheme, host and port.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scheme = if self.secure { "wss" } else { "ws" };
        write!(f, "{scheme}://{}", self.authority)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_taken_out_of_the_address() {
        let url = "ws://127.0.0.1:8080/ws/live/odds?venue=ST&api_key=rb_a%2Db";
        let (address, key) = Address::parse(url).unwrap();
        assert_eq!(key.as_deref(), Some("rb_a-b"));
        assert!(!format!("{address} {address:?}").contains("rb_"));
        assert_eq!(
            address.url(&[("since", "3".to_owned()), ("race", "3,4".to_owned())]),
            "ws://127.0.0.1:8080/ws/live/odds?venue=ST&since=3&race=3%2C4"
        );
    }

    #[test]
    fn the_path_may_be_left_out() {
        for url in ["wss://example.org", "wss://example.org/"] {
            let (address, key) = Address::parse(url).unwrap();
            assert_eq!(key, None);
            assert_eq!(address.url(&[]), "wss://example.org/ws/live/odds");
        }
    }

    #[test]
    fn what_is_no_address_is_refused() {
        for (url, wrong) in [
            ("", WrongAddress::NoUrl),
            ("127.0.0.1:8080", WrongAddress::NoUrl),
            ("/ws/live/odds", WrongAddress::NoUrl),
            ("http://127.0.0.1:8080/", WrongAddress::NoWebSocket),
            ("ws://me:secret@127.0.0.1:8080/", WrongAddress::Credentials),
        ] {
            assert_eq!(Address::parse(url), Err(wrong), "{url}");
        }
    }
}
