//! [`StatusBoard`]: the latest status, and the history that it is made with.

use std::collections::BTreeSet;
use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use events::Moment;
use jiff::Timestamp;
use parking_lot::Mutex;

use super::report::ServiceStatus;
use crate::accounts::{Incident, ServiceRecord};
use crate::health::{History, Sample};

/// The latest status, and the history that it is made with.
#[derive(Debug)]
pub(crate) struct StatusBoard {
    started_at: Timestamp,
    latest: Mutex<StatusState>,
}

#[derive(Debug, Default)]
struct StatusState {
    history: History,
    /// The incidents of earlier processes that this one has ended.
    ended: BTreeSet<String>,
    status: Option<Arc<RenderedStatus>>,
}

/// A form of a status, which is rendered once.
pub(in crate::http) fn rendered_once<E>(
    form: &OnceLock<Bytes>,
    render: impl FnOnce() -> Result<Bytes, E>,
) -> Result<Bytes, E> {
    let rendered = form.get().cloned().map_or_else(render, Ok)?;
    Ok(form.get_or_init(|| rendered).clone())
}

/// A status, and its forms, which are rendered when they are first requested. So any number of requests costs one
/// rendering for each sample.
#[derive(Debug)]
pub(in crate::http) struct RenderedStatus {
    pub(in crate::http) status: ServiceStatus,
    pub(in crate::http) json: OnceLock<Bytes>,
    pub(in crate::http) html: OnceLock<Bytes>,
    pub(in crate::http) atom: OnceLock<Bytes>,
}

impl StatusBoard {
    /// The board of a service that starts at a time.
    pub(crate) fn new(started_at: Timestamp) -> Self {
        Self {
            started_at,
            latest: Mutex::default(),
        }
    }

    /// Adds a sample of a time to the history. `status` makes the latest status of it, from the start and that time.
    pub(in crate::http) fn add(
        &self,
        now: Timestamp,
        sample: &Sample,
        status: impl FnOnce((Moment, Moment), &History) -> ServiceStatus,
    ) -> Arc<RenderedStatus> {
        let mut latest = self.latest.lock();
        latest.history.add(now, sample);
        let times = (Moment::from(self.started_at), Moment::from(now));
        let status = Arc::new(RenderedStatus {
            status: status(times, &latest.history),
            json: OnceLock::new(),
            html: OnceLock::new(),
            atom: OnceLock::new(),
        });
        latest.status = Some(Arc::clone(&status));
        status
    }

    /// The incidents that the log lacks at a time.
    pub(super) fn unrecorded(&self, now: Moment) -> Vec<Incident> {
        self.latest.lock().history.unrecorded(now)
    }

    /// The incidents that last in the log, as over at a time: they began before this process, which does not see them.
    /// Another replica for which one is not over notes it again, and this one does not end it twice.
    pub(super) fn left_open(&self, record: &ServiceRecord, now: Moment) -> Vec<Incident> {
        let latest = self.latest.lock();
        let own = &latest.history.incidents;
        let is_left = |known: &&Incident| {
            let lasts = known.ended_at.is_none() && known.started_at < self.started_at.into();
            lasts && !own.lasts(known.kind) && !latest.ended.contains(&known.id)
        };
        let left = record.incidents.iter().filter(is_left).cloned();
        let ended = left.map(|known| Incident {
            ended_at: Some(now),
            ..known
        });
        ended.collect()
    }

    /// Notes that the log has an incident as it was at a time.
    pub(super) fn note_recorded(&self, incident: Incident, at: Moment) {
        let mut latest = self.latest.lock();
        if incident.started_at < self.started_at.into() {
            latest.ended.insert(incident.id);
        } else {
            latest.history.note_recorded(incident, at);
        }
    }

    /// Ends what lasts: there are no more samples.
    pub(super) fn finish(&self) {
        self.latest.lock().history.finish();
    }

    /// The latest status; `None` before the first.
    pub(in crate::http) fn latest(&self) -> Option<Arc<RenderedStatus>> {
        self.latest.lock().status.clone()
    }
}
