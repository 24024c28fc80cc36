//! TLS of the public address, and of commands that connect to one. The only module that names rustls.
//!
//! [`TlsServer`] makes connections TLS connections, with a certificate from files that may be renewed.
//! `TlsSession` is the TLS of a connection whose socket the live channel reads and writes by itself.

mod certificate;
mod client;
mod server;
mod session;

pub use certificate::CertificateFiles;
pub(crate) use client::ClientTls;
pub use server::TlsServer;
pub(crate) use session::TlsSession;
pub(crate) use tokio_rustls::server::TlsStream;
