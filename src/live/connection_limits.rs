//! [`ConnectionLimits`]: how many clients there may be, of one who holds keys and altogether.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::accounts::{Holder, KeyId};
use crate::metrics::{GaugeGuard, LiveMetrics};

#[derive(Debug)]
pub(super) struct ConnectionLimits {
    places: Arc<Semaphore>,
    per_holder: Arc<PerHolder>,
    metrics: Arc<LiveMetrics>,
}

type PerHolder = Mutex<HashMap<Holder, u32>>;

/// A place for a client, given back when it is dropped.
#[derive(Debug)]
pub(crate) struct ConnectionPermit {
    /// Of which key it is.
    pub(super) key_id: KeyId,
    holder: Holder,
    per_holder: Arc<PerHolder>,
    _held: (GaugeGuard, OwnedSemaphorePermit),
}

impl Drop for ConnectionPermit {
    fn drop(&mut self) {
        let mut per_holder = lock(&self.per_holder);
        if let Some(count) = per_holder.get_mut(&self.holder) {
            *count -= 1;
            if *count == 0 {
                per_holder.remove(&self.holder);
            }
        }
    }
}

impl ConnectionLimits {
    pub(super) fn new(places: Arc<Semaphore>, metrics: Arc<LiveMetrics>) -> Self {
        Self {
            places,
            per_holder: Arc::default(),
            metrics,
        }
    }

    /// A place, and whether the holder of the key is allowed so many; `None` if there is none.
    pub(super) fn take(
        &self,
        key_id: KeyId,
        holder: &Holder,
        allowed: u32,
    ) -> Option<(ConnectionPermit, bool)> {
        let place = Arc::clone(&self.places).try_acquire_owned().ok()?;
        let mut per_holder = lock(&self.per_holder);
        let count = per_holder.entry(holder.clone()).or_default();
        *count += 1;
        let is_allowed = *count <= allowed;
        let ticket = ConnectionPermit {
            key_id,
            holder: holder.clone(),
            per_holder: Arc::clone(&self.per_holder),
            _held: (GaugeGuard::new(&self.metrics.sockets), place),
        };
        Some((ticket, is_allowed))
    }
}

fn lock(per_holder: &PerHolder) -> MutexGuard<'_, HashMap<Holder, u32>> {
    per_holder.lock().unwrap_or_else(PoisonError::into_inner)
}
