//! [`Authority`]: certificates for the tests, and [`Tunnel`]: a service with TLS, for clients that have none.

use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::Request;
use hyper::client::conn::http1::SendRequest;
use hyper_util::rt::TokioIo;
use jiff::civil::Date;
use rcgen::{BasicConstraints, CertificateParams, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair};
use rustix::net::sockopt::set_socket_send_buffer_size;
use tokio::io::{AsyncWriteExt, copy_bidirectional};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tokio_rustls::rustls::client::Resumption;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, ServerName};
use tokio_rustls::rustls::{ClientConfig, RootCertStore, SupportedProtocolVersion};

use super::{Reply, SMALL_BUFFER_BYTES, connect_with_small_buffer};

/// The name in all certificates, beside 127.0.0.1.
const NAME: &str = "localhost";

/// An authority that only the clients of a test trust.
pub(crate) struct Authority {
    issuer: Issuer<'static, KeyPair>,
    pub(crate) pem: String,
}

/// A certificate and its key, in PEM form.
#[derive(Debug, Clone)]
pub(crate) struct PemCertificate {
    pub(crate) cert: String,
    pub(crate) key: String,
}

/// The paths of a certificate and its key.
#[derive(Debug)]
pub(crate) struct PemFiles {
    pub(crate) cert: PathBuf,
    pub(crate) key: PathBuf,
}

impl Authority {
    pub(crate) fn new() -> Self {
        let mut authority = CertificateParams::new([]).unwrap();
        authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().unwrap();
        let pem = authority.self_signed(&key).unwrap().pem();
        let issuer = Issuer::new(authority, key);
        Self { issuer, pem }
    }

    /// A certificate for this machine.
    pub(crate) fn issue(&self) -> PemCertificate {
        self.issue_until(Date::constant(4096, 1, 1))
    }

    /// The same, that is valid from 2020 until a day begins.
    pub(crate) fn issue_until(&self, end: Date) -> PemCertificate {
        let mut params = parameters();
        let [month, day] = [end.month(), end.day()].map(i8::unsigned_abs);
        params.not_after = rcgen::date_time_ymd(end.year().into(), month, day);
        self.sign(&params)
    }

    /// A certificate for this machine with these extended key usages alone.
    pub(crate) fn issue_for(&self, usages: &[ExtendedKeyUsagePurpose]) -> PemCertificate {
        let mut params = parameters();
        params.extended_key_usages = usages.to_vec();
        self.sign(&params)
    }

    fn sign(&self, params: &CertificateParams) -> PemCertificate {
        let key = KeyPair::generate().unwrap();
        PemCertificate {
            cert: params.signed_by(&key, &self.issuer).unwrap().pem(),
            key: key.serialize_pem(),
        }
    }

    /// The file of the authority, in a folder.
    pub(crate) fn file(&self, folder: &Path) -> String {
        let file = folder.join("authority.pem");
        std::fs::write(&file, &self.pem).unwrap();
        file.display().to_string()
    }

    /// A client that trusts this authority, and does not resume sessions: it sees the certificate each time.
    pub(crate) fn client(&self, versions: &[&'static SupportedProtocolVersion]) -> TlsClient {
        let mut roots = RootCertStore::empty();
        let pem = CertificateDer::from_pem_slice(self.pem.as_bytes());
        roots.add(pem.unwrap()).unwrap();
        let crypto = Arc::new(ring::default_provider());
        let config = ClientConfig::builder_with_provider(crypto)
            .with_protocol_versions(versions)
            .unwrap();
        let mut config = config.with_root_certificates(roots).with_no_client_auth();
        config.resumption = Resumption::disabled();
        config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        TlsClient(Arc::new(config))
    }
}

/// A certificate for this machine, from 2020 on.
fn parameters() -> CertificateParams {
    let names = [NAME, "127.0.0.1"].map(ToOwned::to_owned);
    let mut params = CertificateParams::new(names).unwrap();
    params.not_before = rcgen::date_time_ymd(2020, 1, 1);
    params
}

impl PemCertificate {
    /// Writes both into a folder. Each file is replaced as a whole, the certificate first.
    pub(crate) fn write(&self, folder: &Path) -> PemFiles {
        let replace = |name: &str, pem: &str| {
            let (file, new) = (folder.join(name), folder.join(format!("{name}.new")));
            std::fs::write(&new, pem).unwrap();
            std::fs::rename(&new, &file).unwrap();
            file
        };
        PemFiles {
            cert: replace("cert.pem", &self.cert),
            key: replace("key.pem", &self.key),
        }
    }

    pub(crate) fn der(&self) -> Vec<u8> {
        let der = CertificateDer::from_pem_slice(self.cert.as_bytes());
        der.unwrap().to_vec()
    }
}

impl PemFiles {
    pub(crate) fn flags(&self) -> [String; 4] {
        let (cert, key) = (self.cert.display(), self.key.display());
        [
            "--tls-cert".to_owned(),
            cert.to_string(),
            "--tls-key".to_owned(),
            key.to_string(),
        ]
    }
}

/// A client that checks the certificate of the service.
#[derive(Debug, Clone)]
pub(crate) struct TlsClient(Arc<ClientConfig>);

impl TlsClient {
    /// The same, with other protocols in its offer.
    pub(crate) fn with_protocols(&self, protocols: &[&str]) -> Self {
        let mut config = ClientConfig::clone(&self.0);
        config.alpn_protocols = protocols
            .iter()
            .map(|name| name.as_bytes().to_vec())
            .collect();
        Self(Arc::new(config))
    }

    pub(crate) async fn connect(&self, address: SocketAddr) -> io::Result<TlsStream<TcpStream>> {
        let stream = TcpStream::connect(address).await?;
        stream.set_nodelay(true)?;
        self.connect_on(stream).await
    }

    /// The same on a connection without TLS.
    pub(crate) async fn connect_on(&self, stream: TcpStream) -> io::Result<TlsStream<TcpStream>> {
        let name = ServerName::try_from(NAME).unwrap();
        let connector = TlsConnector::from(Arc::clone(&self.0));
        connector.connect(name, stream).await
    }

    /// A connection for HTTP requests, and the certificate of the service.
    pub(crate) async fn http(&self, address: SocketAddr) -> io::Result<(TlsHttp, Vec<u8>)> {
        let stream = self.connect(address).await?;
        let certificates = stream.get_ref().1.peer_certificates().unwrap();
        let certificate = certificates[0].to_vec();
        assert_eq!(
            stream.get_ref().1.alpn_protocol(),
            Some(b"http/1.1".as_slice())
        );
        let connecting = hyper::client::conn::http1::handshake(TokioIo::new(stream)).await;
        let (sender, connection) = connecting.map_err(io::Error::other)?;
        tokio::spawn(connection);
        Ok((TlsHttp(sender), certificate))
    }

    /// The certificate that the service shows to a new client.
    pub(crate) async fn certificate(&self, address: SocketAddr) -> Vec<u8> {
        self.http(address).await.unwrap().1
    }
}

/// A connection that stays open between requests.
pub(crate) struct TlsHttp(SendRequest<Full<Bytes>>);

impl TlsHttp {
    pub(crate) async fn get(&mut self, path: &str, key: &str) -> hyper::Result<Reply> {
        let request = Request::get(path).header("host", NAME);
        let request = request.header("x-api-key", key);
        self.0.ready().await?;
        let response = self.0.send_request(request.body(Full::default()).unwrap());
        let (parts, body) = response.await?.into_parts();
        Ok(Reply {
            status: parts.status.as_u16(),
            headers: parts.headers,
            body: body.collect().await?.to_bytes().to_vec(),
        })
    }
}

/// Passes connections without TLS on to a service with TLS, so that every client of the tests can use it.
#[derive(Debug)]
pub(crate) struct Tunnel {
    pub(crate) address: SocketAddr,
    accepting: JoinHandle<()>,
}

impl Tunnel {
    pub(crate) async fn to(service: SocketAddr, client: TlsClient) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let accepting = tokio::spawn(async move {
            while let Ok((mut plain, _)) = listener.accept().await {
                plain.set_nodelay(true).unwrap();
                // A slow client behind it is one of the service.
                set_socket_send_buffer_size(&plain, SMALL_BUFFER_BYTES as usize).unwrap();
                let client = client.clone();
                tokio::spawn(async move {
                    let stream = connect_with_small_buffer(service).await;
                    let mut encrypted = client.connect_on(stream).await.unwrap();
                    let copied = copy_bidirectional(&mut plain, &mut encrypted).await;
                    if copied.is_err() {
                        let _ = plain.shutdown().await;
                    }
                });
            }
        });
        Self { address, accepting }
    }
}

impl Drop for Tunnel {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}
