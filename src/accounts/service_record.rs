//! [`ServiceRecord`]: the incidents of the service, and its planned maintenance, over restarts and replicas.
//!
//! Pure folds: the time comes with each event.

use events::{Moment, Text};
use jiff::SignedDuration;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{IncidentNoted, MaintenanceCancelled, MaintenanceId, MaintenancePlanned};

/// The days of which incidents and maintenance are kept.
pub(crate) const DAYS_MAX: i64 = 90;
const KEPT_FOR: SignedDuration = SignedDuration::from_hours(24 * DAYS_MAX);
/// The incidents that are kept. When there are more, the oldest that is over is dropped. More than there are kinds, so
/// that one is over.
pub(super) const INCIDENTS_MAX: usize = 100;
/// The maintenance that is kept. When there is more, that which ends first is dropped.
pub(super) const MAINTENANCE_MAX: usize = 50;
/// An incident that returns within this time continues. A log that is lost again and again is one incident.
pub(crate) const CONTINUES_WITHIN: SignedDuration = SignedDuration::from_secs(60);

/// What the stream `ACCOUNTS` has of incidents and maintenance.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ServiceRecord {
    /// When the first message of the stream was recorded.
    pub(crate) began_at: Option<Moment>,
    pub(crate) incidents: Incidents,
    /// All that is kept, by its start.
    pub(crate) maintenance: Vec<Maintenance>,
}

/// Incidents by their start, each once, however many replicas have noticed it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Incidents {
    incidents: Vec<Incident>,
    /// How many were dropped because there were too many.
    pub(crate) dropped: u64,
    /// The end of the latest of those.
    pub(crate) dropped_until: Option<Moment>,
}

/// An incident.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub(crate) struct Incident {
    /// Its name in the feed.
    pub(crate) id: String,
    pub(crate) kind: IncidentKind,
    /// When it was noticed.
    pub(crate) started_at: Moment,
    /// When it was over; left out while it lasts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Moment")]
    pub(crate) ended_at: Option<Moment>,
    /// How often it happened within `started_at` and `ended_at`, with less than a minute between.
    pub(crate) times: u64,
}

/// `stale`: the data may be old. `down`: no new data for 30 seconds. `diverged`: the log has another history than the
/// service has read. `disk_full`: new data cannot be stored. `rebuild`: the data is rebuilt from the log.
/// `fold_restart`: an error interrupted the processing of new data. `keys_unknown`: it is not known which keys are
/// valid. `mail_late`: mails wait.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "snake_case")]
#[derive(strum::Display, strum::VariantArray)]
#[strum(serialize_all = "snake_case")]
pub enum IncidentKind {
    Stale,
    Down,
    Diverged,
    DiskFull,
    Rebuild,
    FoldRestart,
    KeysUnknown,
    MailLate,
}

/// Planned maintenance.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub(crate) struct Maintenance {
    /// Its name in the feed.
    #[schemars(with = "String")]
    pub(crate) id: MaintenanceId,
    pub(crate) starts_at: Moment,
    pub(crate) ends_at: Moment,
    /// What it means for users.
    pub(crate) text: Text,
    /// When the operator planned it.
    pub(crate) planned_at: Moment,
    /// When the operator cancelled it; left out while it holds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Moment")]
    pub(crate) cancelled_at: Option<Moment>,
}

impl ServiceRecord {
    pub(super) fn note(&mut self, noted: IncidentNoted, recorded_at: Moment) {
        let mut incident = Incident::new(noted.kind, noted.started_at);
        incident.ended_at = noted.ended_at.map(|end| end.max(noted.started_at));
        incident.times = noted.times;
        // A replica for which it is not over notes it again.
        if let Some(end) = incident.ended_at {
            self.incidents.end(incident.kind, end);
        }
        self.incidents.add(incident);
        self.incidents.forget(recorded_at);
    }

    pub(super) fn plan(&mut self, planned: MaintenancePlanned, planned_at: Moment) {
        let known = &mut self.maintenance;
        known.retain(|known| known.ends_at >= kept_since(planned_at));
        if known.iter().any(|known| known.id == planned.maintenance_id) {
            return;
        }
        known.push(Maintenance {
            id: planned.maintenance_id,
            starts_at: planned.starts_at,
            ends_at: planned.ends_at,
            text: planned.text,
            planned_at,
            cancelled_at: None,
        });
        if known.len() > MAINTENANCE_MAX {
            known.sort_by_key(|known| (known.is_ahead(planned_at), known.ends_at));
            known.remove(0);
        }
        known.sort_by_key(|known| known.starts_at);
    }

    pub(super) fn cancel(&mut self, cancelled: &MaintenanceCancelled, at: Moment) {
        let mut known = self.maintenance.iter_mut();
        if let Some(known) = known.find(|known| known.id == cancelled.maintenance_id) {
            known.cancelled_at.get_or_insert(at);
        }
    }
}

impl Incidents {
    pub(crate) fn iter(&self) -> std::slice::Iter<'_, Incident> {
        self.incidents.iter()
    }

    /// Adds an incident, to those of its kind at the same time or within a minute if there are any.
    pub(crate) fn add(&mut self, added: Incident) {
        let is_near = |known: &mut Incident| known.is_near(&added);
        let near: Vec<_> = self.incidents.extract_if(.., is_near).collect();
        let merged = near.into_iter().reduce(Incident::merged);
        let merged = merged.map_or_else(|| added.clone(), |known| known.merged(added.clone()));
        let starts_before = |known: &Incident| known.started_at <= merged.started_at;
        let at = self.incidents.partition_point(starts_before);
        self.incidents.insert(at, merged);
        if self.incidents.len() > INCIDENTS_MAX {
            let oldest = self.incidents.iter().position(|i| i.ended_at.is_some());
            let dropped = self.incidents.remove(oldest.unwrap_or(0));
            self.dropped += 1;
            self.dropped_until = self.dropped_until.max(dropped.ended_at);
        }
    }

    /// Ends the incident of a kind that lasts.
    pub(crate) fn end(&mut self, kind: IncidentKind, at: Moment) {
        for known in self.incidents.iter_mut().filter(|known| known.kind == kind) {
            known.ended_at.get_or_insert(at);
        }
    }

    /// Forgets those that were over more than 90 days before a time.
    pub(crate) fn forget(&mut self, now: Moment) {
        let is_kept = |known: &Incident| known.end() >= kept_since(now);
        self.incidents.retain(is_kept);
    }

    /// Whether there is an incident of a kind that lasts.
    pub(crate) fn lasts(&self, kind: IncidentKind) -> bool {
        self.iter()
            .any(|known| known.kind == kind && known.ended_at.is_none())
    }

    /// Whether an incident is part of one of these.
    pub(super) fn cover(&self, incident: &Incident) -> bool {
        self.iter().any(|known| {
            let covers = known.end() >= incident.end()
                && (known.started_at <= incident.started_at || incident.ended_at.is_none());
            known.kind == incident.kind && covers
        })
    }

    /// Whether there are as many as are kept, all of them since a time.
    pub(super) fn are_all_since(&self, time: Moment) -> bool {
        self.incidents.len() == INCIDENTS_MAX && self.iter().all(|known| known.end() >= time)
    }
}

impl Incident {
    /// An incident that lasts. Its id has the minute of the start as it was first noticed, so that those of replicas
    /// are equal in most cases.
    pub(crate) fn new(kind: IncidentKind, started_at: Moment) -> Self {
        let minute = started_at.timestamp().strftime("%Y%m%dT%H%MZ");
        Self {
            id: format!("{kind}-{minute}"),
            kind,
            started_at,
            ended_at: None,
            times: 1,
        }
    }

    /// The end. One that lasts ends later than any other.
    fn end(&self) -> Moment {
        self.ended_at.unwrap_or(jiff::Timestamp::MAX.into())
    }

    fn is_near(&self, other: &Self) -> bool {
        let pause = |end: Moment, start: Moment| start.timestamp().duration_since(end.timestamp());
        self.kind == other.kind
            && pause(self.end(), other.started_at) <= CONTINUES_WITHIN
            && pause(other.end(), self.started_at) <= CONTINUES_WITHIN
    }

    /// This incident with another one that is near. At the same time it is the same one, of another replica.
    fn merged(self, other: Self) -> Self {
        let is_same = self.started_at <= other.end() && other.started_at <= self.end();
        Self {
            started_at: self.started_at.min(other.started_at),
            ended_at: (self.ended_at.zip(other.ended_at)).map(|(one, other)| one.max(other)),
            times: match is_same {
                true => self.times.max(other.times),
                false => self.times.saturating_add(other.times),
            },
            ..self
        }
    }
}

impl Maintenance {
    /// Whether it is under way or to come.
    pub(crate) fn is_ahead(&self, now: Moment) -> bool {
        self.cancelled_at.is_none() && self.ends_at > now
    }
}

fn kept_since(now: Moment) -> Moment {
    let since = now.timestamp().checked_sub(KEPT_FOR);
    since.map_or(now, Moment::from)
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;

    use super::*;

    fn at(second: i64) -> Moment {
        (Timestamp::constant(1_700_000_040, 0) + SignedDuration::from_secs(second)).into()
    }

    fn noted(start: i64, end: Option<i64>) -> IncidentNoted {
        IncidentNoted {
            kind: IncidentKind::Down,
            started_at: at(start),
            ended_at: end.map(at),
            times: 1,
        }
    }

    fn ended(start: i64, end: i64) -> IncidentNoted {
        noted(start, Some(end))
    }

    fn incident(start: i64, end: Option<i64>) -> Incident {
        Incident {
            ended_at: end.map(at),
            ..Incident::new(IncidentKind::Down, at(start))
        }
    }

    /// Start, end and times of all incidents.
    fn listed(record: &ServiceRecord) -> Vec<(Moment, Option<Moment>, u64)> {
        let found = record.incidents.iter();
        found.map(|i| (i.started_at, i.ended_at, i.times)).collect()
    }

    #[test]
    fn an_incident_that_replicas_notice_is_one_and_keeps_its_id() {
        let mut record = ServiceRecord::default();
        // The same one twice, that of another replica, the next time of the first, and one of its own.
        for (start, end) in [(10, 20), (10, 20), (5, 21), (70, 75), (200, 210)] {
            record.note(ended(start, end), at(end));
        }
        let expected = [(at(5), Some(at(75)), 2), (at(200), Some(at(210)), 1)];
        assert_eq!(listed(&record), expected);
        let first = Incident::new(IncidentKind::Down, at(10));
        assert_eq!(record.incidents.incidents[0].id, first.id);
        assert!(record.incidents.cover(&incident(10, Some(20))));
        assert!(!record.incidents.cover(&incident(10, Some(76))));
    }

    #[test]
    fn an_incident_lasts_from_its_beginning_to_its_end_by_any_replica() {
        let mut record = ServiceRecord::default();
        record.note(noted(10, None), at(13));
        assert_eq!(listed(&record), [(at(10), None, 1)]);
        let known = &record.incidents;
        assert!(known.cover(&incident(5, None)) && known.cover(&incident(11, Some(12))));
        // Another replica has noticed it before, and ends it.
        record.note(ended(8, 20), at(21));
        assert_eq!(listed(&record), [(at(8), Some(at(20)), 1)]);
        // For the first it is not over.
        assert!(!record.incidents.cover(&incident(10, None)));
        record.note(noted(10, None), at(80));
        assert_eq!(listed(&record), [(at(8), None, 1)]);
        record.note(ended(10, 90), at(90));
        assert_eq!(listed(&record), [(at(8), Some(at(90)), 1)]);
    }

    #[test]
    fn incidents_and_maintenance_are_kept_for_90_days() {
        const DAY: i64 = 24 * 60 * 60;
        let mut record = ServiceRecord::default();
        let plan = |start: i64| MaintenancePlanned {
            maintenance_id: MaintenanceId::parse(&start.to_string()).expect("an id"),
            starts_at: at(start),
            ends_at: at(start + 60),
            text: Text::default(),
        };
        for day in 0..200 {
            record.note(ended(day * DAY, day * DAY + 1), at(day * DAY + 1));
            record.plan(plan(day * DAY), at(day * DAY));
        }
        let oldest = record.incidents.iter().next().map(|i| i.started_at);
        assert_eq!(oldest, Some(at((199 - DAYS_MAX) * DAY)));
        assert_eq!(record.incidents.dropped, 0);
        assert_eq!(record.maintenance.len(), MAINTENANCE_MAX);
        record.plan(plan(400 * DAY), at(400 * DAY));
        assert_eq!(record.maintenance.len(), 1);
    }

    #[test]
    fn maintenance_is_ahead_until_it_is_over_or_cancelled() {
        let mut record = ServiceRecord::default();
        let id = MaintenanceId::random();
        let planned = MaintenancePlanned {
            maintenance_id: id.clone(),
            starts_at: at(10),
            ends_at: at(20),
            text: Text::default(),
        };
        record.plan(planned, at(0));
        let planned = record.maintenance[0].clone();
        assert!(planned.is_ahead(at(0)) && planned.is_ahead(at(15)) && !planned.is_ahead(at(20)));
        let cancelled = MaintenanceCancelled { maintenance_id: id };
        record.cancel(&cancelled, at(5));
        assert!(!record.maintenance[0].is_ahead(at(6)));
    }
}
