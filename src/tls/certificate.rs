//! [`CertificateFiles`]: the PEM files of a certificate and its key, and [`Certificate`]: what is in them.

use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use tokio_rustls::rustls::client::verify_server_cert_signed_by_trust_anchor;
use tokio_rustls::rustls::crypto::CryptoProvider;
use tokio_rustls::rustls::pki_types::pem::{self, PemObject};
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer, UnixTime};
use tokio_rustls::rustls::server::ParsedCertificate;
use tokio_rustls::rustls::sign::CertifiedKey;
use tokio_rustls::rustls::{CertificateError as Invalid, Error, InconsistentKeys, RootCertStore};

/// A chain has a few KiB. The bound is for a path to something else.
const FILE_BYTES_MAX: u64 = 1024 * 1024;
/// A time after all that a certificate can name: its years have four digits.
const AFTER_ALL: Duration = Duration::from_secs(253_402_300_800);

/// The files of a certificate.
#[derive(Debug, Clone)]
pub struct CertificateFiles {
    /// The certificate of the service, and then those that lead to a root.
    pub cert: PathBuf,
    pub key: PathBuf,
}

/// A certificate that can be used.
#[derive(Debug, Clone)]
pub(super) struct Certificate {
    pub(super) certified: Arc<CertifiedKey>,
    pub(super) expires: Timestamp,
    /// The hash of both files.
    pub(super) fingerprint: blake3::Hash,
}

/// The files of a certificate cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum CertificateError {
    #[error("the TLS file {} cannot be read: {error}", file.display())]
    Unreadable { file: PathBuf, error: io::Error },
    #[error("{} has no certificate in PEM form", .0.display())]
    NoCertificate(PathBuf),
    #[error("{} has no private key in PEM form, or an encrypted one", .0.display())]
    NoKey(PathBuf),
    #[error("the certificate in {} is not valid: {reason}", file.display())]
    InvalidCertificate { file: PathBuf, reason: String },
    #[error("the private key in {} cannot be used: {reason}", file.display())]
    InvalidKey { file: PathBuf, reason: String },
    #[error("the private key in {} is not that of the certificate in {}", key.display(), cert.display())]
    OtherKey { cert: PathBuf, key: PathBuf },
    #[error("the certificate in {} has expired at {expires}", cert.display())]
    Expired { cert: PathBuf, expires: Timestamp },
}

impl CertificateFiles {
    /// Reads the files, and checks that they belong together.
    pub(super) fn read(&self, crypto: &CryptoProvider) -> Result<Certificate, CertificateError> {
        let cert = read(&self.cert)?;
        let key = read(&self.key)?;
        let mut hasher = blake3::Hasher::new();
        // The length keeps the files apart.
        hasher.update(&cert.len().to_le_bytes());
        let fingerprint = hasher.update(&cert).update(&key).finalize();

        let chain: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&cert).collect();
        let chain = chain.map_err(|error| self.invalid_certificate(error))?;
        let first = chain
            .first()
            .ok_or_else(|| CertificateError::NoCertificate(self.cert.clone()))?;
        let expires = expiry(first, crypto).map_err(|error| self.invalid_certificate(error))?;
        let key = PrivateKeyDer::from_pem_slice(&key).map_err(|error| match error {
            pem::Error::NoItemsFound => CertificateError::NoKey(self.key.clone()),
            error => self.invalid_key(error),
        })?;
        let certified =
            CertifiedKey::from_der(chain, key, crypto).map_err(|error| match error {
                Error::InconsistentKeys(InconsistentKeys::KeyMismatch) => {
                    CertificateError::OtherKey {
                        cert: self.cert.clone(),
                        key: self.key.clone(),
                    }
                }
                Error::InvalidCertificate(error) => self.invalid_certificate(error),
                error => self.invalid_key(error),
            })?;
        Ok(Certificate {
            certified: Arc::new(certified),
            expires,
            fingerprint,
        })
    }

    fn invalid_certificate(&self, reason: impl ToString) -> CertificateError {
        CertificateError::InvalidCertificate {
            file: self.cert.clone(),
            reason: reason.to_string(),
        }
    }

    fn invalid_key(&self, reason: impl ToString) -> CertificateError {
        CertificateError::InvalidKey {
            file: self.key.clone(),
            reason: reason.to_string(),
        }
    }
}

fn read(file: &Path) -> Result<Vec<u8>, CertificateError> {
    let mut bytes = Vec::new();
    let opened = File::open(file);
    let read = opened.and_then(|opened| opened.take(FILE_BYTES_MAX).read_to_end(&mut bytes));
    read.map(|_| bytes)
        .map_err(|error| CertificateError::Unreadable {
            file: file.to_owned(),
            error,
        })
}

/// When a certificate expires. rustls names that time if it checks the certificate at a later one.
fn expiry(certificate: &CertificateDer<'_>, crypto: &CryptoProvider) -> Result<Timestamp, Error> {
    let parsed = ParsedCertificate::try_from(certificate)?;
    let checked = verify_server_cert_signed_by_trust_anchor(
        &parsed,
        &RootCertStore::empty(),
        &[],
        UnixTime::since_unix_epoch(AFTER_ALL),
        crypto.signature_verification_algorithms.all,
    );
    match checked {
        Err(Error::InvalidCertificate(Invalid::ExpiredContext { not_after, .. })) => {
            let seconds = i64::try_from(not_after.as_secs()).unwrap_or(i64::MAX);
            Ok(Timestamp::from_second(seconds).unwrap_or(Timestamp::MAX))
        }
        Err(error) => Err(error),
        Ok(()) => Ok(Timestamp::MAX),
    }
}
