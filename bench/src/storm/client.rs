//! [`Target`]: the live channel that real clients connect to, with or without TLS.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, bail};
use futures::StreamExt;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::client::Resumption;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, ServerName};
use tokio_rustls::rustls::{ClientConfig, RootCertStore, crypto};
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::{WebSocketStream, client_async};

/// The name in the certificate of the bench.
const NAME: &str = "localhost";

#[derive(Debug, Clone, clap::Args)]
pub(crate) struct TargetArgs {
    /// The address to connect to.
    #[arg(long)]
    address: SocketAddr,
    /// The path and query of the live channel.
    #[arg(long)]
    path: String,
    /// The certificate to trust; without it, connections have no TLS.
    #[arg(long)]
    cert: Option<PathBuf>,
}

#[derive(Clone)]
pub(super) struct Target {
    address: SocketAddr,
    url: String,
    tls: Option<TlsConnector>,
}

trait Stream: AsyncRead + AsyncWrite + Unpin + Send {}
impl<T: AsyncRead + AsyncWrite + Unpin + Send> Stream for T {}

/// A client that has received all snapshots.
pub(super) struct Client(WebSocketStream<Box<dyn Stream>>);

impl TargetArgs {
    pub(super) fn open(&self) -> anyhow::Result<Target> {
        let connector = |path: &PathBuf| {
            let mut roots = RootCertStore::empty();
            roots.add(CertificateDer::from_pem_file(path).context("no certificate")?)?;
            let provider = Arc::new(crypto::ring::default_provider());
            let mut config = ClientConfig::builder_with_provider(provider)
                .with_safe_default_protocol_versions()?
                .with_root_certificates(roots)
                .with_no_client_auth();
            // Nobody resumes a session: a balancer that was restarted knows none.
            config.resumption = Resumption::disabled();
            anyhow::Ok(TlsConnector::from(Arc::new(config)))
        };
        Ok(Target {
            address: self.address,
            url: format!("ws://{NAME}{}", self.path),
            tls: self.cert.as_ref().map(connector).transpose()?,
        })
    }
}

impl Target {
    /// Connects, and receives up to `snapshot_complete`, within a time.
    pub(super) async fn connect(&self, within: Duration) -> anyhow::Result<Client> {
        timeout(within, self.connect_whenever())
            .await
            .context("no answer")?
    }

    async fn connect_whenever(&self) -> anyhow::Result<Client> {
        let stream = TcpStream::connect(self.address).await?;
        stream.set_nodelay(true)?;
        let stream: Box<dyn Stream> = match &self.tls {
            None => Box::new(stream),
            Some(tls) => Box::new(tls.connect(ServerName::try_from(NAME)?, stream).await?),
        };
        let (socket, _) = client_async(&self.url, stream).await?;
        let mut client = Client(socket);
        while !client
            .receive()
            .await?
            .contains(r#""event":"snapshot_complete""#)
        {}
        Ok(client)
    }
}

impl Client {
    /// The next message.
    ///
    /// # Errors
    /// Returns an error when the connection is lost.
    pub(super) async fn receive(&mut self) -> anyhow::Result<String> {
        loop {
            match self.0.next().await {
                Some(Ok(Message::Text(text))) => return Ok(text.to_string()),
                Some(Ok(_)) => {}
                Some(Err(error)) => return Err(error.into()),
                None => bail!("the connection was lost"),
            }
        }
    }
}
