//! [`ConnectionLimits`]: how many clients there may be, of one key holder and altogether.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tracing::Span;

use crate::accounts::{Holder, KeyId, SocketUse};
use crate::limits::{Network, NetworkConnections, NetworkPermit};
use crate::metrics::{GaugeGuard, LiveMetrics};

#[derive(Debug)]
pub(super) struct ConnectionLimits {
    clients_max: usize,
    slots: Arc<Semaphore>,
    per_holder: Arc<PerHolder>,
    per_network: NetworkConnections,
    next_connection_id: AtomicU64,
    metrics: Arc<LiveMetrics>,
}

type PerHolder = Mutex<HashMap<Holder, u32>>;

/// The names of a connection in the log.
///
/// A span that lives as long as its connection costs 2 KiB, so each is made where something is logged.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ConnectionTrace {
    connection_id: u64,
    pub(super) key_id: KeyId,
}

impl ConnectionTrace {
    /// The span in which everything about this client is logged.
    pub(crate) fn span(self) -> Span {
        tracing::debug_span!("live_connection", connection_id = self.connection_id, key_id = %self.key_id)
    }
}

/// The right to be connected, given back when it is dropped.
pub(crate) struct ConnectionPermit {
    /// Whether the plan of the key allows this connection.
    pub(super) within_plan: bool,
    pub(crate) trace: ConnectionTrace,
    holder: Holder,
    per_holder: Arc<PerHolder>,
    /// The connection as a use of its key.
    pub(super) key_use: Option<SocketUse>,
    /// Its place in the service.
    _slot: OwnedSemaphorePermit,
    /// Its place in its network.
    _of_network: Option<NetworkPermit>,
    _in_gauge: GaugeGuard,
    /// Its count for shards.
    _socket: Arc<()>,
}

/// Why a client gets no permit: the limit that is reached.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ConnectionRefused {
    ServiceFull,
    NetworkFull,
}

impl Drop for ConnectionPermit {
    fn drop(&mut self) {
        let mut per_holder = self.per_holder.lock();
        if let Some(count) = per_holder.get_mut(&self.holder) {
            *count -= 1;
            if *count == 0 {
                per_holder.remove(&self.holder);
            }
        }
    }
}

impl ConnectionLimits {
    pub(super) fn new(
        clients_max: usize,
        per_network: NetworkConnections,
        metrics: Arc<LiveMetrics>,
    ) -> Self {
        Self {
            clients_max,
            slots: Arc::new(Semaphore::new(clients_max)),
            per_holder: Arc::default(),
            per_network,
            next_connection_id: AtomicU64::new(1),
            metrics,
        }
    }

    /// A permit for a client. A client that its plan does not allow gets one as well, so that it receives the reason.
    ///
    /// # Errors
    /// Returns [`ConnectionRefused`] if the service or the network has as many clients as it may have.
    pub(super) fn acquire(
        &self,
        key_id: KeyId,
        holder: &Holder,
        holder_max: u32,
        network: Option<Network>,
    ) -> Result<ConnectionPermit, ConnectionRefused> {
        let slot = Arc::clone(&self.slots).try_acquire_owned();
        let slot = slot.map_err(|_| ConnectionRefused::ServiceFull)?;
        let acquire = |network| {
            let permit = self.per_network.acquire(network);
            permit.ok_or(ConnectionRefused::NetworkFull)
        };
        let of_network = network.map(acquire).transpose()?;
        let mut per_holder = self.per_holder.lock();
        let count = per_holder.entry(holder.clone()).or_default();
        *count += 1;
        let connection_id = self.next_connection_id.fetch_add(1, Ordering::Relaxed);
        Ok(ConnectionPermit {
            within_plan: *count <= holder_max,
            trace: ConnectionTrace {
                connection_id,
                key_id,
            },
            holder: holder.clone(),
            per_holder: Arc::clone(&self.per_holder),
            key_use: None,
            _slot: slot,
            _of_network: of_network,
            _in_gauge: GaugeGuard::new(&self.metrics.sockets),
            _socket: Arc::clone(&self.metrics.socket_guard),
        })
    }

    /// The clients of a key holder.
    pub(super) fn of_holder(&self, holder: &Holder) -> u32 {
        self.per_holder.lock().get(holder).copied().unwrap_or(0)
    }

    /// Waits until all permits have been given back. None is granted after that.
    pub(super) async fn all_released(&self) {
        let all = u32::try_from(self.clients_max).unwrap_or(u32::MAX);
        // The semaphore is never closed, so this does not fail.
        if let Ok(slots) = self.slots.acquire_many(all).await {
            slots.forget();
        }
    }
}
