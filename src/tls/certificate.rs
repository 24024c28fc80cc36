//! [`CertificateFiles`]: the PEM files of a certificate and its key, and [`Certificate`]: what is in them.

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, bail};
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

impl CertificateFiles {
    /// Reads the files, and checks that they belong together.
    pub(super) fn read(&self, crypto: &CryptoProvider) -> anyhow::Result<Certificate> {
        let (cert_file, key_file) = (self.cert.display(), self.key.display());
        let invalid = || format!("the certificate in {cert_file} is not valid");
        let unusable = || format!("the private key in {key_file} cannot be used");
        let cert = read(&self.cert)?;
        let key = read(&self.key)?;
        let mut hasher = blake3::Hasher::new();
        // The length keeps the files apart.
        hasher.update(&cert.len().to_le_bytes());
        let fingerprint = hasher.update(&cert).update(&key).finalize();

        let chain: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&cert).collect();
        let chain = chain.with_context(invalid)?;
        let no_certificate = || format!("{cert_file} has no certificate in PEM form");
        let first = chain.first().with_context(no_certificate)?;
        let expires = expiry(first, crypto).with_context(invalid)?;
        let key = match PrivateKeyDer::from_pem_slice(&key) {
            Err(pem::Error::NoItemsFound) => {
                bail!("{key_file} has no private key in PEM form, or an encrypted one")
            }
            key => key.with_context(unusable)?,
        };
        let certified = match CertifiedKey::from_der(chain, key, crypto) {
            Err(Error::InconsistentKeys(InconsistentKeys::KeyMismatch)) => {
                bail!("the private key in {key_file} is not that of the certificate in {cert_file}")
            }
            Err(Error::InvalidCertificate(error)) => bail!("{}: {error}", invalid()),
            certified => certified.with_context(unusable)?,
        };
        Ok(Certificate {
            certified: Arc::new(certified),
            expires,
            fingerprint,
        })
    }
}

fn read(file: &Path) -> anyhow::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    let opened = File::open(file);
    opened
        .and_then(|opened| opened.take(FILE_BYTES_MAX).read_to_end(&mut bytes))
        .with_context(|| format!("the TLS file {} cannot be read", file.display()))?;
    Ok(bytes)
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
