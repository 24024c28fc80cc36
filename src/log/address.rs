//! [`NatsConfig`]: where NATS is and how to log in, and [`NatsAddress`]: that, parsed and read.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use async_nats::rustls::RootCertStore;
use async_nats::rustls::pki_types::CertificateDer;
use async_nats::rustls::pki_types::pem::{self, PemObject};
use async_nats::{ConnectOptions, ServerAddr};
use parking_lot::Mutex;
use percent_encoding::percent_decode_str;

use super::{LogError, LogResult, Replicas};
use crate::public_url::is_loopback;

/// Where NATS is and how to log in. `Debug` leaves out the URL, for its password.
#[derive(derive_more::Debug, Clone, Default)]
pub struct NatsConfig {
    /// One URL, or several separated by commas. May hold a password.
    #[debug(skip)]
    pub url: String,
    /// The only authorities whose certificates are accepted, as a PEM file. By default those of the system.
    pub ca: Option<PathBuf>,
    /// A credentials file, with a JWT and its key.
    pub creds: Option<PathBuf>,
    /// The replicas of the streams that are created.
    pub replicas: Replicas,
}

impl<T: Into<String>> From<T> for NatsConfig {
    fn from(url: T) -> Self {
        Self {
            url: url.into(),
            ..Self::default()
        }
    }
}

impl NatsConfig {
    /// A host that is reached without TLS and over a network, if there is one.
    ///
    /// # Errors
    /// Returns [`LogError::WrongAddress`] if one of the URLs is not a NATS URL.
    pub fn plain_remote_host(&self) -> LogResult<Option<String>> {
        let address = NatsAddress::parse(self)?;
        let mut hosts = address.servers.iter().map(ServerAddr::host);
        let remote = hosts.find(|host| !is_loopback(host));
        Ok(remote.filter(|_| !address.needs_tls()).map(str::to_owned))
    }

    /// Who logs in where, whether with TLS, and the replicas. Reads the files, and connects to nothing.
    ///
    /// # Errors
    /// Returns [`LogError::WrongAddress`] if one of the URLs is not a NATS URL, and [`LogError::WrongFile`].
    pub fn describe(&self) -> LogResult<String> {
        let address = NatsAddress::parse(self)?;
        address.secure(ConnectOptions::new())?;
        let tls = if address.needs_tls() { " with TLS" } else { "" };
        let replicas = match self.replicas.count() {
            1 => String::new(),
            count => format!("; streams of {count} replicas"),
        };
        let login = address.login();
        let hosts = address.hosts();
        Ok(format!("{login} at {hosts}{tls}{replicas}"))
    }
}

/// The servers of a NATS cluster, and the login for them. `Debug` leaves out the password.
#[derive(derive_more::Debug)]
pub(super) struct NatsAddress {
    /// Without credentials: the client library does not use those in an address, and logs them.
    pub(super) servers: Vec<ServerAddr>,
    /// User and password of the first address that has them, percent-decoded.
    #[debug(skip)]
    pub(super) credentials: Option<(String, String)>,
    /// For its files, and the replicas of the streams that are created.
    pub(super) config: NatsConfig,
    /// Why they cannot be reached, as it was logged since a connection was last up. The connections of a service share
    /// it: all fail for one reason.
    pub(super) failures: Mutex<BTreeSet<String>>,
}

impl NatsAddress {
    /// Parses the URLs.
    ///
    /// # Errors
    /// Returns [`LogError::WrongAddress`] if one of them is not a NATS URL.
    pub(super) fn parse(config: &NatsConfig) -> LogResult<Self> {
        let parse = |url: &str| url.trim().parse::<ServerAddr>().ok();
        let servers: Option<Vec<_>> = config.url.split(',').map(parse).collect();
        let servers = servers.ok_or(LogError::WrongAddress)?;
        let credentials = servers.iter().find_map(credentials);
        let servers: Option<Vec<_>> = servers.iter().map(without_credentials).collect();
        Ok(Self {
            servers: servers.ok_or(LogError::WrongAddress)?,
            credentials,
            config: config.clone(),
            failures: Mutex::default(),
        })
    }

    /// The host and port of each server, for an error.
    pub(super) fn hosts(&self) -> String {
        let hosts: Vec<_> = self.servers.iter().map(host_and_port).collect();
        hosts.join(", ")
    }

    /// Who logs in, for an error.
    pub(super) fn login(&self) -> String {
        match (&self.config.creds, &self.credentials) {
            (Some(file), _) => format!("the user in {}", file.display()),
            (None, Some((user, _))) => format!("the user {user:?}"),
            (None, None) => "an anonymous user".to_owned(),
        }
    }

    /// Whether all connections have to use TLS, also those to servers that another one names: somebody on the network
    /// could have it name one without TLS.
    fn needs_tls(&self) -> bool {
        self.config.ca.is_some() || self.servers.iter().any(ServerAddr::tls_required)
    }

    /// Adds the login and the TLS of the connection.
    ///
    /// # Errors
    /// Returns [`LogError::WrongFile`] if one of the files cannot be used.
    pub(super) fn secure(&self, options: ConnectOptions) -> LogResult<ConnectOptions> {
        let mut options = options.require_tls(self.needs_tls());
        if let Some(file) = &self.config.ca {
            check_authorities(file).map_err(|reason| wrong_file("--nats-ca", file, &reason))?;
            options = options.add_root_certificates(file.clone());
        }
        match (&self.config.creds, self.credentials.clone()) {
            (Some(file), _) => {
                let read = std::fs::read_to_string(file);
                let options = read.and_then(|creds| options.credentials(&creds));
                options.map_err(|error| wrong_file("--nats-creds", file, &error))
            }
            (None, Some((user, password))) => Ok(options.user_and_password(user, password)),
            (None, None) => Ok(options),
        }
    }
}

fn wrong_file(flag: &'static str, file: &Path, reason: &impl ToString) -> LogError {
    LogError::WrongFile(flag, file.to_owned(), reason.to_string())
}

/// Checks that a file has certificates. The client library reads them again for each connection.
fn check_authorities(file: &Path) -> Result<(), String> {
    let certificates = CertificateDer::pem_file_iter(file).map_err(|error| match error {
        pem::Error::Io(error) => error.to_string(),
        error => error.to_string(),
    })?;
    let mut roots = RootCertStore::empty();
    for certificate in certificates {
        let certificate = certificate.map_err(|error| error.to_string())?;
        roots.add(certificate).map_err(|error| error.to_string())?;
    }
    let none = || "it has no certificate in PEM form".to_owned();
    (!roots.is_empty()).then_some(()).ok_or_else(none)
}

fn without_credentials(server: &ServerAddr) -> Option<ServerAddr> {
    let scheme = server.scheme();
    let server = host_and_port(server);
    format!("{scheme}://{server}").parse().ok()
}

/// `host:port` of a server, as in its URL, without credentials.
pub(super) fn host_and_port(server: &ServerAddr) -> String {
    let (host, port) = (server.host(), server.port());
    match host.contains(':') {
        true => format!("[{host}]:{port}"),
        false => format!("{host}:{port}"),
    }
}

fn credentials(server: &ServerAddr) -> Option<(String, String)> {
    let decode = |text: &str| percent_decode_str(text).decode_utf8_lossy().into_owned();
    let password = decode(server.password().unwrap_or_default());
    Some((decode(server.username()?), password))
}

#[cfg(test)]
mod tests {
    use super::{NatsAddress, NatsConfig};
    use crate::log::LogError;

    #[test]
    fn an_address_has_servers_without_credentials_and_a_decoded_login() {
        let address =
            NatsAddress::parse(&"nats://a:4222, nats://us%40er:p%3Aw@[::1]:4223".into()).unwrap();
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
        let error = NatsAddress::parse(&"nats://user:secret@not a host".into()).unwrap_err();
        assert!(matches!(error, LogError::WrongAddress), "{error:?}");
        assert!(!error.to_string().contains("secret"));
    }

    #[test]
    fn a_plain_connection_over_a_network_is_known() {
        let plain = |url: &str, ca: Option<&str>| {
            let config = NatsConfig {
                ca: ca.map(Into::into),
                ..url.into()
            };
            config.plain_remote_host().unwrap()
        };
        for url in [
            "nats://127.0.0.1",
            "localhost:4222",
            "nats://127.8.9.1,nats://[::1]:4222",
            "tls://nats.example",
            "tls://10.0.0.1,nats://10.0.0.2",
        ] {
            assert_eq!(plain(url, None), None, "{url}");
        }
        for (url, host) in [
            ("nats://10.0.0.1", "10.0.0.1"),
            (
                "nats://127.0.0.1,nats://u:p@nats.example:4222",
                "nats.example",
            ),
            ("nats://localhost.example", "localhost.example"),
            ("nats://[2001:db8::1]", "2001:db8::1"),
        ] {
            assert_eq!(plain(url, None).as_deref(), Some(host), "{url}");
            assert_eq!(plain(url, Some("ca.pem")), None, "{url} with a CA");
        }
    }
}
