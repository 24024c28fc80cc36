//! [`ServiceUrl`]: the URL of the live channel, without the API key.

use url::Url;

/// The path of the live channel, where the URL names none.
const PATH: &str = "/ws/live/odds";

/// The query parameter that may hold the API key.
const KEY_PARAMETER: &str = "api_key";

/// The URL of the live channel. Its query may hold filters; it never holds an API key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServiceUrl(Url);

/// Why a URL is rejected. The message never repeats the URL, which may hold a key.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InvalidServiceUrl {
    #[error("not a URL such as ws://127.0.0.1:8080{PATH}")]
    Malformed,
    #[error("the scheme is none of ws://, wss://, http:// and https://")]
    Scheme,
    #[error("a user or a password is not supported")]
    Credentials,
}

impl ServiceUrl {
    /// Parses a URL. Returns it without the API key that its query may hold, and the key.
    ///
    /// # Errors
    /// Returns [`InvalidServiceUrl`] if the text is not a `ws://`, `wss://`, `http://` or `https://` URL without
    /// credentials.
    pub fn parse(text: &str) -> Result<(Self, Option<String>), InvalidServiceUrl> {
        let mut url = Url::parse(text).map_err(|_| InvalidServiceUrl::Malformed)?;
        let scheme = url.scheme().replacen("http", "ws", 1);
        if !matches!(&*scheme, "ws" | "wss") || url.set_scheme(&scheme).is_err() {
            return Err(InvalidServiceUrl::Scheme);
        }
        if !url.username().is_empty() || url.password().is_some() {
            return Err(InvalidServiceUrl::Credentials);
        }
        let path = url.path().trim_end_matches('/').to_owned();
        url.set_path(if path.is_empty() { PATH } else { &path });
        let pairs = url.query_pairs().into_owned();
        let (keys, query): (Vec<_>, Vec<_>) = pairs.partition(|(name, _)| name == KEY_PARAMETER);
        url.set_query(None);
        url.set_fragment(None);
        let key = keys.into_iter().next().map(|(_, value)| value);
        Ok((Self(url).with_query(&query), key))
    }

    /// The URL with more query parameters, such as filters.
    #[must_use]
    pub fn with_query<K: AsRef<str>>(mut self, parameters: &[(K, String)]) -> Self {
        if !parameters.is_empty() {
            self.0.query_pairs_mut().extend_pairs(parameters);
        }
        self
    }

    /// The URL of a replay by the same service.
    #[must_use]
    pub fn replay(mut self) -> Self {
        let path = self.0.path().replace("/ws/live/", "/ws/replay/");
        self.0.set_path(&path);
        self
    }

    /// Scheme, host and port.
    #[must_use]
    pub fn address(&self) -> String {
        self.0.origin().ascii_serialization()
    }

    pub(crate) fn as_str(&self) -> &str {
        self.0.as_str()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_key_is_removed_from_the_url() {
        let url = "ws://127.0.0.1:8080/ws/live/odds?venue=ST&api_key=rb_a%2Db";
        let (url, key) = ServiceUrl::parse(url).unwrap();
        assert_eq!(key.as_deref(), Some("rb_a-b"));
        assert!(!format!("{url:?}").contains("rb_"));
        let query = [("since", "3".to_owned()), ("race", "3,4".to_owned())];
        assert_eq!(
            url.with_query(&query).as_str(),
            "ws://127.0.0.1:8080/ws/live/odds?venue=ST&since=3&race=3%2C4"
        );
    }

    #[test]
    fn the_path_is_optional() {
        for url in [
            "wss://example.org",
            "wss://example.org/",
            "https://example.org",
            "wss://example.org/ws/live/odds/",
        ] {
            let (url, key) = ServiceUrl::parse(url).unwrap();
            assert_eq!(key, None);
            assert_eq!(url.as_str(), "wss://example.org/ws/live/odds");
        }
    }

    #[test]
    fn an_invalid_url_is_rejected() {
        for (url, error) in [
            ("", InvalidServiceUrl::Malformed),
            ("127.0.0.1:8080", InvalidServiceUrl::Malformed),
            ("/ws/live/odds", InvalidServiceUrl::Malformed),
            ("ftp://127.0.0.1:8080/", InvalidServiceUrl::Scheme),
            (
                "ws://me:secret@127.0.0.1:8080/",
                InvalidServiceUrl::Credentials,
            ),
        ] {
            assert_eq!(ServiceUrl::parse(url), Err(error), "{url}");
        }
    }
}
