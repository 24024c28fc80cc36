//! [`Tickets`]: how many clients there may be, of one key and altogether.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::accounts::KeyId;
use crate::metrics::{Held, LiveMetrics};

#[derive(Debug)]
pub(super) struct Tickets {
    places: Arc<Semaphore>,
    per_key: Arc<PerKey>,
    per_key_max: usize,
    metrics: Arc<LiveMetrics>,
}

type PerKey = Mutex<HashMap<KeyId, usize>>;

/// A place for a client, given back when it is dropped.
#[derive(Debug)]
pub(super) struct Ticket {
    /// Of which key it is.
    pub(super) key_id: KeyId,
    per_key: Arc<PerKey>,
    _held: (Held, OwnedSemaphorePermit),
}

impl Drop for Ticket {
    fn drop(&mut self) {
        let mut per_key = lock(&self.per_key);
        if let Some(count) = per_key.get_mut(&self.key_id) {
            *count -= 1;
            if *count == 0 {
                per_key.remove(&self.key_id);
            }
        }
    }
}

impl Tickets {
    pub(super) fn new(
        places: Arc<Semaphore>,
        per_key_max: usize,
        metrics: Arc<LiveMetrics>,
    ) -> Self {
        Self {
            places,
            per_key: Arc::default(),
            per_key_max,
            metrics,
        }
    }

    /// A place, and whether the key may have it; `None` if there is none.
    pub(super) fn take(&self, key_id: KeyId) -> Option<(Ticket, bool)> {
        let place = Arc::clone(&self.places).try_acquire_owned().ok()?;
        let mut per_key = lock(&self.per_key);
        let count = per_key.entry(key_id).or_default();
        *count += 1;
        let allowed = *count <= self.per_key_max;
        let ticket = Ticket {
            key_id,
            per_key: Arc::clone(&self.per_key),
            _held: (Held::new(&self.metrics.sockets), place),
        };
        Some((ticket, allowed))
    }
}

fn lock(per_key: &PerKey) -> MutexGuard<'_, HashMap<KeyId, usize>> {
    per_key.lock().unwrap_or_else(PoisonError::into_inner)
}
