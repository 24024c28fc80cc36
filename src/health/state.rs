//! [`ServiceState`]: what the service knows of itself at a time, and what is wrong then.

use std::collections::BTreeMap;
use std::time::Duration;

use strum::VariantArray;

use super::history::{Condition, Sample, Totals};
use super::liveness::{Liveness, STALE_AFTER};
use super::reason::{Component, Impact, Reason};
use super::sources::SourceHealth;
use crate::accounts::IncidentKind;
use crate::log::{ConnectionStatus, Divergence};
use crate::projector::{Phase, Status};

/// Mails are late when the oldest has waited for this long. The first retries of a delivery take less.
pub(super) const MAIL_LATE_AFTER: Duration = Duration::from_secs(5 * 60);

/// What the service knows of itself at a time.
#[derive(Debug, Clone)]
pub struct ServiceState {
    /// The progress of the projector.
    pub fold: Status,
    pub connection: ConnectionStatus,
    pub(crate) sources: Vec<SourceHealth>,
    /// The streams that have another history than was read.
    pub divergences: BTreeMap<&'static str, Divergence>,
    /// Whether there are views to read.
    pub has_views: bool,
    /// Whether views are built in place of others.
    pub is_rebuilding: bool,
    /// Whether this process has been live before.
    pub has_been_live: bool,
    /// Whether all keys are read from the log.
    pub has_keys: bool,
    /// Whether it is not known for too long whether keys were revoked.
    pub are_keys_stale: bool,
    /// Whether the views lag while those of another replica do not.
    pub is_lagging: bool,
    /// Whether snapshots of the views cannot be written.
    pub snapshots_fail: bool,
    /// Whether servers of the log are away, or lack what it has.
    pub are_servers_away: bool,
    /// Whether acknowledged events can be lost, as far as can be seen.
    pub has_risks: bool,
    /// How long the oldest mail has waited; `None` if the service sends no mail.
    pub oldest_mail: Option<Duration>,
    /// Whether the service is going to stop.
    pub is_draining: bool,
}

impl ServiceState {
    /// Whether the feed receives what happens.
    pub fn liveness(&self) -> Liveness {
        Liveness::of(&self.fold, self.connection)
    }

    /// All that is wrong.
    pub fn reasons(&self) -> impl DoubleEndedIterator<Item = Reason> {
        Reason::ALL.into_iter().filter(|reason| self.has(*reason))
    }

    fn has(&self, reason: Reason) -> bool {
        let phase = self.fold.phase;
        let age = self.fold.freshness.age();
        let failure = self.fold.failure.as_ref();
        let is_disk_full = failure.map(|failure| failure.is_disk_full);
        match reason {
            Reason::DiskFull => is_disk_full == Some(true),
            Reason::FoldFailed => is_disk_full == Some(false),
            Reason::Stopping => self.is_draining,
            Reason::OpeningViews => phase == Phase::OpeningViews,
            Reason::LogDiverged => !self.divergences.is_empty(),
            Reason::ViewsDiverged => phase == Phase::Diverged,
            Reason::LogUnreachable => phase == Phase::WaitingForLog && !self.connection.up,
            Reason::LogSilent => phase == Phase::WaitingForLog && self.connection.up,
            Reason::CatchingUp => phase == Phase::CatchingUp,
            Reason::NoViews => !self.has_views,
            Reason::KeysNotRead => !self.has_keys,
            Reason::KeysStale => self.are_keys_stale,
            Reason::Lagging => self.is_lagging,
            Reason::Disconnected => !self.connection.up,
            Reason::ViewsDown => self.liveness() == Liveness::Down,
            Reason::ViewsStale => self.is_stale() && age >= STALE_AFTER,
            Reason::ViewsBehind => self.is_stale() && age < STALE_AFTER && self.has_been_live,
            Reason::Starting => self.is_stale() && age < STALE_AFTER && !self.has_been_live,
            Reason::Rebuilding => self.is_rebuilding,
            Reason::SnapshotsFail => self.snapshots_fail,
            Reason::LogServersAway => self.are_servers_away,
            Reason::LogAtRisk => self.has_risks,
            Reason::MailLate => self.oldest_mail.is_some_and(|age| age >= MAIL_LATE_AFTER),
        }
    }

    fn is_stale(&self) -> bool {
        self.liveness() == Liveness::Stale
    }

    /// Why reads are not right, or older than `age_max`; empty if they are as requested.
    pub fn unready(&self, age_max: Option<Duration>) -> String {
        for reason in self.reasons() {
            match reason.meaning().unready {
                Some(_) if reason == Reason::LogDiverged => return self.diverged(),
                Some(unready) => return unready.to_owned(),
                None => {}
            }
        }
        let is_old = age_max.is_some_and(|max| self.fold.freshness.age() > max);
        let older = is_old.then_some("the views are older than `fresh`");
        older.unwrap_or_default().to_owned()
    }

    fn diverged(&self) -> String {
        let reasons: Vec<&str> = self.divergences.values().map(|d| &*d.reason).collect();
        format!("{}; see `railbird log accept --help`", reasons.join("; "))
    }

    /// What the history needs, with these counts.
    pub(crate) fn sample(&self, totals: Totals, sockets: u64) -> Sample {
        Sample {
            totals,
            sockets,
            age_ms: u64::try_from(self.fold.freshness.age().as_millis()).unwrap_or(u64::MAX),
            conditions: self.conditions(),
        }
    }

    fn conditions(&self) -> Vec<Condition> {
        let incidents = self.reasons().filter_map(|r| r.meaning().incident);
        let active: Vec<_> = incidents.collect();
        let condition = |kind| Condition {
            kind,
            is_active: active.contains(&kind),
            occurrences: match kind {
                IncidentKind::Rebuild => self.fold.rebuilds,
                IncidentKind::FoldRestart => self.fold.failures,
                _ => 0,
            },
        };
        let kinds = IncidentKind::VARIANTS.iter().copied();
        kinds.map(condition).collect()
    }

    /// The worst that the reasons mean for a part of the service, by the first reason that means that.
    pub(crate) fn impact(&self, component: Component) -> Impact {
        // Of several that are as bad, `max_by_key` returns the last.
        let reasons = self.reasons().rev();
        let impacts = reasons.map(|reason| reason.meaning().impacts[component as usize]);
        let worst = impacts.max_by_key(|impact| impact.severity());
        worst.unwrap_or(Impact::None)
    }
}

impl Impact {
    pub(super) fn severity(self) -> u8 {
        match self {
            Self::None => 0,
            Self::Operational(_) => 1,
            Self::Degraded(_) => 2,
            Self::Down(_) => 3,
        }
    }
}
