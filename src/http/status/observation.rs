//! [`Observation`]: what the service knows of itself at a time, and what follows from it for its parts.
//!
//! The texts are fixed: errors, which may name files and addresses, stay with the operator.

use std::collections::BTreeMap;
use std::time::Duration;

use schemars::JsonSchema;
use serde::Serialize;

use super::history::{Condition, IncidentKind, Sample, Totals};
use crate::live::health::{FeedHealth, Liveness, STALE_AFTER};
use crate::live::status::Phase;

/// Mails are late when the oldest has waited for this long. The first retries of a delivery take less.
const MAIL_LATE_AFTER: Duration = Duration::from_secs(5 * 60);

/// What the service knows of itself at a time.
#[derive(Debug, Clone)]
pub(in crate::http) struct Observation {
    pub(in crate::http) feed: FeedHealth,
    /// The time since the views were last known to hold the whole log.
    pub(in crate::http) age: Duration,
    pub(in crate::http) phase: Phase,
    /// Whether the log is connected.
    pub(in crate::http) is_connected: bool,
    /// Whether a stream has another history than the service has read.
    pub(in crate::http) is_diverged: bool,
    /// Whether an error keeps the views from being live; if so, whether that is a full disk.
    pub(in crate::http) failed: Option<FailedBy>,
    /// Such errors since the start, a full disk excepted.
    pub(in crate::http) failures: u64,
    pub(in crate::http) log: ObservedLog,
    /// The views that are served.
    pub(in crate::http) views: Option<ObservedViews>,
    /// Whether views are built in place of others.
    pub(in crate::http) is_rebuilding: bool,
    pub(in crate::http) rebuilds: u64,
    /// Whether this process has been live before.
    pub(in crate::http) has_been_live: bool,
    pub(in crate::http) keys: KeysState,
    /// The age of the oldest mail that waits; `None` if the service sends no mail.
    pub(in crate::http) oldest_mail: Option<Duration>,
    /// Whether the service is going to stop.
    pub(in crate::http) is_draining: bool,
    pub(in crate::http) totals: Totals,
    pub(in crate::http) sockets: u64,
    pub(in crate::http) open_races: u64,
    /// Rejected messages since the start, by code.
    pub(in crate::http) rejected: BTreeMap<&'static str, u64>,
}

/// What keeps the views from being live.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::http) enum FailedBy {
    FullDisk,
    Error,
}

/// Whether the service knows which keys are valid.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::http) enum KeysState {
    Known,
    NotReadYet,
    /// It could not learn for too long whether keys were revoked.
    Stale,
}

/// The log that the views reflect.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, JsonSchema)]
#[schemars(rename = "StatusLog")]
pub(in crate::http) struct ObservedLog {
    /// The identity of the log, as in `welcome` of the live odds channel; empty before it is known.
    pub(in crate::http) epoch: String,
    /// The sequence of the last event that the data reflects.
    pub(in crate::http) seq: u64,
    /// Events that the log has after it.
    pub(in crate::http) pending: u64,
    /// Sequences up to `seq` for which the log has no event.
    pub(in crate::http) missing: u64,
}

/// The views that are served.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[schemars(rename = "StatusViews")]
pub(in crate::http) struct ObservedViews {
    /// The version of their form.
    pub(in crate::http) schema: u32,
    /// The digest of all views: equal on all replicas with this `seq`.
    pub(in crate::http) digest: String,
    /// The sequence of the last event that they reflect.
    pub(in crate::http) seq: u64,
}

/// `off`: this service does not have the part.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub(in crate::http) enum ComponentState {
    Off,
    Operational,
    Degraded,
    Down,
}

/// A part of the service, as its users know it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[schemars(rename = "StatusComponent")]
pub(in crate::http) struct Component {
    pub(in crate::http) name: ComponentName,
    pub(in crate::http) state: ComponentState,
    /// What that means for users.
    pub(in crate::http) text: &'static str,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(in crate::http) enum ComponentName {
    Api,
    LiveOdds,
    Feeders,
    Mail,
}

impl Observation {
    /// The parts of the service.
    pub(in crate::http) fn components(&self) -> [Component; 4] {
        [
            (ComponentName::Api, self.api()),
            (ComponentName::LiveOdds, self.live_odds()),
            (ComponentName::Feeders, self.feeders()),
            (ComponentName::Mail, self.mail()),
        ]
        .map(|(name, (state, text))| Component { name, state, text })
    }

    /// Why no request with a key is answered.
    fn refuses_all(&self) -> Option<&'static str> {
        match self.keys {
            _ if self.is_draining => Some("This server is being stopped."),
            _ if self.views.is_none() => {
                Some("The service is starting, and opens its data or reads it from the log.")
            }
            KeysState::NotReadYet => Some("The service is starting, and reads the API keys."),
            KeysState::Stale => {
                Some("No request is answered: it is not known whether API keys were revoked.")
            }
            KeysState::Known => None,
        }
    }

    fn api(&self) -> (ComponentState, &'static str) {
        use ComponentState::{Degraded, Down, Operational};
        match (self.refuses_all(), self.feed.state) {
            (Some(why), _) => (Down, why),
            (None, _) if self.is_diverged => (
                Degraded,
                "Answers are as of the last known event, until an operator has checked the log.",
            ),
            (None, Liveness::Live) => (Operational, "Answers are up to date."),
            (None, _) if self.phase == Phase::CatchingUp => (
                Degraded,
                "Answers may be old: the latest events are being read.",
            ),
            (None, _) => (Degraded, "Answers are right, but may be old."),
        }
    }

    fn live_odds(&self) -> (ComponentState, &'static str) {
        use ComponentState::{Degraded, Down, Operational};
        match (self.refuses_all(), self.phase, self.feed.state) {
            (Some(why), ..) => (Down, why),
            (None, Phase::Diverged, _) => (
                Degraded,
                "Connections stay open, but no new prices come, until an operator has checked the log.",
            ),
            (None, Phase::Live, Liveness::Live) => {
                (Operational, "Each change is sent as it is recorded.")
            }
            (None, Phase::Live, Liveness::Stale) => (Degraded, "Prices may be old."),
            (None, Phase::Live, Liveness::Down) => (Down, "No new prices come."),
            (None, ..) => (
                Down,
                "New connections have to wait until the latest events are read.",
            ),
        }
    }

    fn feeders(&self) -> (ComponentState, &'static str) {
        use ComponentState::{Degraded, Down, Operational};
        if !self.is_connected {
            return (Down, "The log of events cannot be reached.");
        }
        match (self.failed, self.feed.state) {
            _ if self.is_diverged => (
                Degraded,
                "The log has another history than the service has read. An operator has to check it.",
            ),
            (Some(_), _) => (Degraded, "Events are recorded, but not shown yet."),
            (None, Liveness::Live) => (Operational, "Events are recorded and shown."),
            (None, _) if self.age < STALE_AFTER => {
                (Operational, "Events are recorded, and will be shown soon.")
            }
            (None, Liveness::Stale) => (Degraded, "The log of events answers late."),
            (None, Liveness::Down) => (Down, "The log of events does not answer."),
        }
    }

    fn mail(&self) -> (ComponentState, &'static str) {
        use ComponentState::{Degraded, Off, Operational};
        match self.oldest_mail {
            None => (
                Off,
                "This service sends no mail. Its operator gives out keys.",
            ),
            Some(_) if self.feeders().0 == ComponentState::Down => {
                (Degraded, "Subscriptions cannot be saved at the moment.")
            }
            Some(_) if self.is_mail_late() => (Degraded, "Mails with keys are late."),
            Some(_) => (Operational, "Links are mailed within minutes."),
        }
    }

    fn is_mail_late(&self) -> bool {
        self.oldest_mail.is_some_and(|age| age >= MAIL_LATE_AFTER)
    }

    /// What the history needs.
    pub(in crate::http) fn sample(&self) -> Sample {
        // Until it has been live, a service starts, and is not late before the feed would be without any event.
        let is_late = self.has_been_live || self.age >= STALE_AFTER;
        let condition = |kind, is_active, occurrences| Condition {
            kind,
            is_active,
            occurrences,
        };
        let (state, failed) = (self.feed.state, self.failed);
        let conditions = vec![
            condition(IncidentKind::Stale, is_late && state == Liveness::Stale, 0),
            condition(IncidentKind::Down, state == Liveness::Down, 0),
            condition(IncidentKind::Diverged, self.is_diverged, 0),
            condition(
                IncidentKind::DiskFull,
                failed == Some(FailedBy::FullDisk),
                0,
            ),
            condition(IncidentKind::Rebuild, self.is_rebuilding, self.rebuilds),
            condition(
                IncidentKind::FoldRestart,
                failed == Some(FailedBy::Error),
                self.failures,
            ),
            condition(IncidentKind::KeysUnknown, self.keys == KeysState::Stale, 0),
            condition(IncidentKind::MailLate, self.is_mail_late(), 0),
        ];
        Sample {
            totals: self.totals,
            sockets: self.sockets,
            age_ms: u64::try_from(self.age.as_millis()).unwrap_or(u64::MAX),
            conditions,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn working() -> Observation {
        Observation {
            feed: FeedHealth {
                state: Liveness::Live,
                last_event_at: String::new(),
                lag_ms: 0,
            },
            age: Duration::from_secs(1),
            phase: Phase::Live,
            is_connected: true,
            is_diverged: false,
            failed: None,
            failures: 0,
            log: ObservedLog::default(),
            views: Some(ObservedViews {
                schema: 1,
                digest: String::new(),
                seq: 0,
            }),
            is_rebuilding: false,
            rebuilds: 0,
            has_been_live: true,
            keys: KeysState::Known,
            oldest_mail: Some(Duration::ZERO),
            is_draining: false,
            totals: Totals::default(),
            sockets: 0,
            open_races: 0,
            rejected: BTreeMap::new(),
        }
    }

    /// Checks the first letters of the states of API, live odds, feeders and mail, and the incidents.
    fn check(expected: &str, incidents: &[IncidentKind], change: impl Fn(&mut Observation)) {
        let mut observation = working();
        change(&mut observation);
        let states = observation.components().map(|c| match c.state {
            ComponentState::Off => 'o',
            ComponentState::Operational => 'w',
            ComponentState::Degraded => 'l',
            ComponentState::Down => 'd',
        });
        assert_eq!(String::from_iter(states), expected, "{observation:?}");
        let conditions = observation.sample().conditions;
        let active = conditions.iter().filter(|condition| condition.is_active);
        let active: Vec<IncidentKind> = active.map(|condition| condition.kind).collect();
        assert_eq!(active, incidents, "{observation:?}");
    }

    #[test]
    fn each_trouble_impairs_the_parts_that_it_concerns() {
        use IncidentKind::{
            DiskFull, Diverged, Down, FoldRestart, KeysUnknown, MailLate, Rebuild, Stale,
        };
        let stale_for = |seconds: u64| {
            move |o: &mut Observation| {
                o.age = Duration::from_secs(seconds);
                o.feed.state = match seconds {
                    30.. => Liveness::Down,
                    _ => Liveness::Stale,
                };
            }
        };
        check("wwww", &[], |_| {});
        check("wwwo", &[], |o| o.oldest_mail = None);
        check("lllw", &[Stale], stale_for(10));
        check("lddl", &[Down], stale_for(30));
        check("lldl", &[Stale], |o| {
            stale_for(1)(o);
            o.is_connected = false;
        });
        check("ddww", &[], |o| o.is_draining = true);
        check("ddww", &[], |o| o.keys = KeysState::NotReadYet);
        check("ddww", &[KeysUnknown], |o| o.keys = KeysState::Stale);
        check("lllw", &[Stale, Diverged], |o| {
            stale_for(1)(o);
            (o.phase, o.is_diverged) = (Phase::Diverged, true);
        });
        check("ldlw", &[Stale, DiskFull], |o| {
            stale_for(1)(o);
            (o.phase, o.failed) = (Phase::WaitingForLog, Some(FailedBy::FullDisk));
        });
        check("ldlw", &[Stale, FoldRestart], |o| {
            stale_for(1)(o);
            (o.phase, o.failed) = (Phase::WaitingForLog, Some(FailedBy::Error));
        });
        check("wwww", &[Rebuild], |o| o.is_rebuilding = true);
        check("wwwl", &[MailLate], |o| {
            o.oldest_mail = Some(MAIL_LATE_AFTER);
        });
    }

    #[test]
    fn a_start_is_no_incident_unless_it_takes_long() {
        let starting = |seconds| {
            move |o: &mut Observation| {
                o.age = Duration::from_secs(seconds);
                (o.phase, o.has_been_live, o.views) = (Phase::CatchingUp, false, None);
                o.feed.state = Liveness::Stale;
            }
        };
        check("ddww", &[], starting(9));
        check("ddlw", &[IncidentKind::Stale], starting(10));
    }
}
