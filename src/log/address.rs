//! [`NatsAddress`]: the servers and credentials in a NATS URL.

use std::fmt;

use async_nats::ServerAddr;
use percent_encoding::percent_decode_str;

use super::error::LogError;

/// The servers of a NATS cluster, and the credentials for them.
pub(super) struct NatsAddress {
    /// Without credentials: the client library does not use those in an address, and logs them.
    pub(super) servers: Vec<ServerAddr>,
    /// User and password of the first address that has them, percent-decoded.
    pub(super) credentials: Option<(String, String)>,
}

impl NatsAddress {
    /// Parses one URL, or several separated by commas.
    ///
    /// # Errors
    /// Returns [`LogError::WrongAddress`] if one of them is not a NATS URL.
    pub(super) fn parse(urls: &str) -> Result<Self, LogError> {
        let parse = |url: &str| url.trim().parse::<ServerAddr>().ok();
        let servers: Option<Vec<_>> = urls.split(',').map(parse).collect();
        let servers = servers.ok_or(LogError::WrongAddress)?;
        let credentials = servers.iter().find_map(credentials);
        let servers: Option<Vec<_>> = servers.iter().map(without_credentials).collect();
        Ok(Self {
            servers: servers.ok_or(LogError::WrongAddress)?,
            credentials,
        })
    }

    pub(super) fn user(&self) -> Option<&str> {
        self.credentials.as_ref().map(|(user, _)| user.as_str())
    }
}

/// Leaves out the password.
impl fmt::Debug for NatsAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("NatsAddress")
            .field("servers", &self.servers)
            .field("user", &self.user())
            .finish_non_exhaustive()
    }
}

fn without_credentials(server: &ServerAddr) -> Option<ServerAddr> {
    let (scheme, host, port) = (server.scheme(), server.host(), server.port());
    let host = if host.contains(':') {
        format!("[{host}]")
    } else {
        host.to_owned()
    };
    format!("{scheme}://{host}:{port}").parse().ok()
}

fn credentials(server: &ServerAddr) -> Option<(String, String)> {
    let decode = |text: &str| percent_decode_str(text).decode_utf8_lossy().into_owned();
    Some((
        decode(server.username()?),
        decode(server.password().unwrap_or_default()),
    ))
}

#[cfg(test)]
mod tests {
    use super::NatsAddress;
    use crate::log::LogError;

    #[test]
    fn an_address_has_servers_without_credentials_and_a_decoded_login() {
        let address = NatsAddress::parse("nats://a:4222, nats://us%40er:p%3Aw@[::1]:4223").unwrap();
        assert!(address.servers.iter().all(|server| !server.has_user_pass()));
        let hosts: Vec<_> = address
            .servers
            .iter()
            .map(|s| (s.host(), s.port()))
            .collect();
        assert_eq!(hosts, [("a", 4222), ("::1", 4223)]);
        let login = address.credentials.clone().unwrap();
        assert_eq!(login, ("us@er".to_owned(), "p:w".to_owned()));
        assert!(!format!("{address:?}").contains("p:w"));
    }

    #[test]
    fn an_invalid_address_is_rejected_and_not_repeated() {
        let error = NatsAddress::parse("nats://user:secret@not a host").unwrap_err();
        assert!(matches!(error, LogError::WrongAddress), "{error:?}");
        assert!(!error.to_string().contains("secret"));
    }
}
