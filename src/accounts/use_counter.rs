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

/// The counts at a moment.
#[derive(Debug, Clone, Copy)]
pub(super) struct UseCounts {
    pub(super) requests: u64,
    pub(super) network: Option<CoarseNetwork>,
    pub(super) has_sockets: bool,
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

    pub(super) fn counts(&self) -> UseCounts {
        UseCounts {
            requests: self.requests.load(Ordering::Acquire),
            network: CoarseNetwork::from_bits(self.network.load(Ordering::Relaxed)),
            has_sockets: self.sockets.load(Ordering::Relaxed) > 0,
        }
    }
}

/// An open WebSocket, as a use of its key.
pub(crate) struct SocketUse(Arc<UseCounter>);

impl Drop for SocketUse {
    fn drop(&mut self) {
        self.0.sockets.fetch_sub(1, Ordering::Relaxed);
    }
}
