//! [`TlsServer`]: handshakes with the certificate of this moment.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use anyhow::ensure;
use jiff::{SignedDuration, Timestamp};
use parking_lot::RwLock;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::task::spawn_blocking;
use tokio::time::{Instant, sleep, timeout};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::server::{ClientHello, ResolvesServerCert};
use tokio_rustls::rustls::sign::CertifiedKey;
use tokio_rustls::rustls::version::{TLS12, TLS13};
use tokio_rustls::rustls::{ServerConfig, ServerConnection};

use super::TlsStream;
use super::certificate::{Certificate, CertificateFiles};
use crate::metrics;

/// The time for a handshake: two round trips, on the slowest mobile network.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);
/// Bytes that are encrypted ahead for a client that does not read: one record of TLS.
const RECORD_BYTES_MAX: usize = 16 * 1024;
/// How often the files of the certificate are read.
const RELOAD_INTERVAL: Duration = Duration::from_secs(3);
/// Certificates that are renewed by themselves are so with a third of their time left, which is 15 days or more for
/// those of 45 days.
const EXPIRY_WARNING: SignedDuration = SignedDuration::from_hours(14 * 24);
/// How often a certificate that expires soon is logged.
const WARNING_INTERVAL: Duration = Duration::from_secs(24 * 60 * 60);
/// The only protocol of the service, as without TLS.
const PROTOCOL: &[u8] = b"http/1.1";

/// The TLS of a listener. Clones share the certificate.
#[derive(Debug, Clone)]
pub struct TlsServer {
    files: CertificateFiles,
    config: Arc<ServerConfig>,
    current: Arc<CurrentCertificate>,
}

/// The certificate for the next handshake.
#[derive(Debug)]
struct CurrentCertificate(RwLock<Certificate>);

impl ResolvesServerCert for CurrentCertificate {
    fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        Some(Arc::clone(&self.0.read().certified))
    }
}

impl TlsServer {
    /// Reads the certificate.
    ///
    /// # Errors
    /// Returns why the files cannot be used.
    pub fn open(files: CertificateFiles) -> anyhow::Result<Self> {
        let crypto = Arc::new(ring::default_provider());
        let current = Arc::new(CurrentCertificate(RwLock::new(files.read(&crypto)?)));
        let mut config = ServerConfig::builder_with_provider(crypto)
            .with_protocol_versions(&[&TLS13, &TLS12])
            .expect("ring has suites of both versions")
            .with_no_client_auth()
            .with_cert_resolver(Arc::clone(&current) as _);
        config.alpn_protocols = vec![PROTOCOL.to_vec()];
        Ok(Self {
            files,
            config: Arc::new(config),
            current,
        })
    }

    /// Makes a connection a TLS connection.
    ///
    /// # Errors
    /// Returns an I/O error if the client breaks the protocol, ends the connection, or takes longer than
    /// [`HANDSHAKE_TIMEOUT`].
    pub(crate) async fn accept<S>(&self, stream: S) -> io::Result<TlsStream<S>>
    where
        S: AsyncRead + AsyncWrite + Unpin,
    {
        let limit = |connection: &mut ServerConnection| {
            connection.set_buffer_limit(Some(RECORD_BYTES_MAX));
        };
        let acceptor = TlsAcceptor::from(Arc::clone(&self.config));
        let accepted = timeout(HANDSHAKE_TIMEOUT, acceptor.accept_with(stream, limit)).await;
        let accepted = accepted.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()));
        accepted.inspect_err(|error| {
            metrics::count("railbird_tls_handshakes_failed_total");
            tracing::debug!(%error, "a TLS handshake failed");
        })
    }

    /// When the certificate expires.
    pub fn expires(&self) -> Timestamp {
        self.current.0.read().expires
    }

    /// Checks that the certificate has not expired.
    ///
    /// # Errors
    /// Returns an error if it has expired.
    pub fn check_expiry(&self) -> anyhow::Result<()> {
        let (cert, expires) = (self.files.cert.display(), self.expires());
        let is_valid = Timestamp::now() < expires;
        ensure!(
            is_valid,
            "the certificate in {cert} has expired at {expires}"
        );
        Ok(())
    }

    /// Uses the files at once if they have changed.
    ///
    /// # Errors
    /// Returns why the files cannot be used. The certificate before stays in use.
    pub async fn renew(&self) -> anyhow::Result<()> {
        let fingerprint = self.current.0.read().fingerprint;
        self.reload(fingerprint).await.map(drop)
    }

    /// Uses the files when they change, and warns before the certificate expires, until dropped.
    pub(crate) async fn keep_current(self) {
        let mut seen = None;
        let mut reported = None;
        let mut warned_at: Option<Instant> = None;
        loop {
            let certificate = self.current.0.read().clone();
            let (expires, failed) = (certificate.expires, reported.is_some());
            metrics::set_time(
                "railbird_tls_certificate_expires_timestamp_seconds",
                expires,
            );
            metrics::set_flag("railbird_tls_certificate_renewal_failed", failed);
            let left = certificate.expires.duration_since(Timestamp::now());
            let is_due = warned_at.is_none_or(|at| at.elapsed() >= WARNING_INTERVAL);
            if left < EXPIRY_WARNING && is_due {
                warn_of_expiry(certificate.expires, left);
                warned_at = Some(Instant::now());
            }
            sleep(RELOAD_INTERVAL).await;
            match self.reload(certificate.fingerprint).await {
                Ok(false) => (seen, reported) = (None, None),
                Ok(true) => (seen, reported, warned_at) = (None, None, None),
                // The files may be half renewed: only an error that stays is one.
                Err(error) => {
                    let error = Some(format!("{error:#}"));
                    if error == seen && error != reported {
                        tracing::error!(
                            error = error.as_deref(),
                            "the TLS certificate was not renewed, and the old one stays in use"
                        );
                        reported.clone_from(&error);
                    }
                    seen = error;
                }
            }
        }
    }

    /// The certificate in the files, if it is not that with this fingerprint.
    /// Reads the files, and uses them if they differ from those of the fingerprint. Returns whether they do.
    async fn reload(&self, fingerprint: blake3::Hash) -> anyhow::Result<bool> {
        let files = self.files.clone();
        let crypto = Arc::clone(self.config.crypto_provider());
        let read = spawn_blocking(move || files.read(&crypto)).await;
        // The task fails only if the process ends, and then there is nothing to renew.
        let read = read.ok().transpose()?;
        let renewed = read.filter(|read| read.fingerprint != fingerprint);
        let is_renewed = renewed.is_some();
        if let Some(renewed) = renewed {
            tracing::info!(expires = %renewed.expires, "the TLS certificate was renewed");
            *self.current.0.write() = renewed;
        }
        Ok(is_renewed)
    }
}

fn warn_of_expiry(expires: Timestamp, left: SignedDuration) {
    if left.is_positive() {
        tracing::warn!(%expires, "the TLS certificate expires soon");
    } else {
        tracing::error!(%expires, "the TLS certificate has expired: clients refuse it");
    }
}
