//! [`NewClient`]: a client after its handshake, on its way to a shard.

use std::os::fd::OwnedFd;

use tokio::sync::watch;

use super::connection_limits::ConnectionPermit;
use super::subscription::{LiveSubscription, ResumePoint};
use crate::feed::frame::Encoding;
use crate::past::PlaybackControl;
use crate::tls::TlsSession;

pub(crate) struct NewClient {
    pub(crate) connection: NewConnection,
    pub(crate) subscription: LiveSubscription,
    pub(crate) resume: Option<ResumePoint>,
    /// Controls what is played to the client, if that is a replay.
    pub(crate) play: Option<watch::Sender<PlaybackControl>>,
    pub(crate) permit: ConnectionPermit,
}

pub(crate) struct NewConnection {
    /// The socket, which does not block.
    pub(crate) stream: OwnedFd,
    /// The TLS of the stream, if it has any.
    pub(crate) tls: Option<TlsSession>,
    /// Bytes that were read after the handshake: the beginning of the client's first frame.
    pub(crate) read_ahead: Vec<u8>,
    pub(crate) encoding: Encoding,
}
