//! [`UseCounter`]: counts the use of a key in this process.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use crate::limits::CoarseNetwork;

/// Counts the use of a key in this process, without a lock and without a clock: every request counts itself.
#[derive(Debug, Default)]
pub struct UseCounter {
    /// Since the key was first valid in this process.
    requests: AtomicU64,
    /// The network of the last request, in bits; 0 before the first.
    network: AtomicU64,
    /// The WebSockets that are open. They use the key without requests.
    sockets: AtomicU32,
}

impl UseCounter {
    /// Counts a request from a network.
    pub fn count(&self, network: CoarseNetwork) {
        self.network.store(network.to_bits(), Ordering::Relaxed);
        // With the network: a reader of this count finds the network of this request or of a later one.
        self.requests.fetch_add(1, Ordering::Release);
    }

    /// Counts a WebSocket as open until the guard is dropped.
    pub(crate) fn open_socket(self: &Arc<Self>) -> SocketUse {
        self.sockets.fetch_add(1, Ordering::Relaxed);
        SocketUse(Arc::clone(self))
    }

    /// The requests at a moment, the network of the last one, and whether sockets are open.
    pub(super) fn counts(&self) -> (u64, Option<CoarseNetwork>, bool) {
        let requests = self.requests.load(Ordering::Acquire);
        let network = CoarseNetwork::from_bits(self.network.load(Ordering::Relaxed));
        (requests, network, self.sockets.load(Ordering::Relaxed) > 0)
    }
}

/// An open WebSocket, as a use of its key.
pub(crate) struct SocketUse(Arc<UseCounter>);

impl Drop for SocketUse {
    fn drop(&mut self) {
        self.0.sockets.fetch_sub(1, Ordering::Relaxed);
    }
}
