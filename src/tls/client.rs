//! [`ClientTls`]: TLS to servers whose certificates the authorities of this machine vouch for.

use std::io;
use std::sync::Arc;

use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::ServerName;
use tokio_rustls::rustls::version::{TLS12, TLS13};
use tokio_rustls::rustls::{ClientConfig, RootCertStore};

/// Makes connections TLS connections. `SSL_CERT_FILE` names other authorities than those of this machine.
pub(crate) struct ClientTls(TlsConnector);

impl ClientTls {
    pub(crate) fn new() -> Self {
        let mut roots = RootCertStore::empty();
        roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
        let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_protocol_versions(&[&TLS13, &TLS12])
            .expect("ring has suites of both versions")
            .with_root_certificates(roots)
            .with_no_client_auth();
        Self(TlsConnector::from(Arc::new(config)))
    }

    /// # Errors
    /// Returns an error if the handshake fails, or the certificate is not that of the host.
    pub(crate) async fn connect(
        &self,
        host: &str,
        stream: TcpStream,
    ) -> io::Result<TlsStream<TcpStream>> {
        let name = ServerName::try_from(host.to_owned()).map_err(io::Error::other)?;
        self.0.connect(name, stream).await
    }
}
