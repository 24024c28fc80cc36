//! [`StatusBoard`]: the latest status, and the history that it is made with.

use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use events::Moment;
use jiff::Timestamp;
use parking_lot::Mutex;

use super::observation::Observation;
use super::report::ServiceStatus;
use crate::health::History;

/// The latest status, and the history that it is made with.
#[derive(Debug)]
pub(crate) struct StatusBoard {
    started_at: Timestamp,
    latest: Mutex<StatusState>,
}

#[derive(Debug, Default)]
struct StatusState {
    history: History,
    status: Option<Arc<RenderedStatus>>,
}

/// A status, and its two forms, which are rendered when they are first requested. So any number of requests costs one
/// rendering for each sample.
#[derive(Debug)]
pub(in crate::http) struct RenderedStatus {
    pub(in crate::http) status: ServiceStatus,
    pub(in crate::http) json: OnceLock<Bytes>,
    pub(in crate::http) html: OnceLock<Bytes>,
}

impl StatusBoard {
    /// The board of a service that starts at a time.
    pub(crate) fn new(started_at: Timestamp) -> Self {
        Self {
            started_at,
            latest: Mutex::default(),
        }
    }

    /// Adds what was observed at a time to the history, and makes it the latest status.
    pub(in crate::http) fn add(
        &self,
        now: Timestamp,
        observation: Observation,
    ) -> Arc<RenderedStatus> {
        let mut latest = self.latest.lock();
        latest.history.add(now, &observation.sample());
        let times = (Moment::from(self.started_at), Moment::from(now));
        let status = Arc::new(RenderedStatus {
            status: ServiceStatus::new(times, observation, &latest.history),
            json: OnceLock::new(),
            html: OnceLock::new(),
        });
        latest.status = Some(Arc::clone(&status));
        status
    }

    /// The latest status; `None` before the first.
    pub(in crate::http) fn latest(&self) -> Option<Arc<RenderedStatus>> {
        self.latest.lock().status.clone()
    }
}
