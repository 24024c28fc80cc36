//! [`ServiceStatus`]: the document at `/status.json`.

use events::Moment;
use jiff::Timestamp;
use schemars::JsonSchema;
use serde::Serialize;

use super::observation::{
    ComponentState, ComponentStatus, ObservedLog, ObservedViews, components, of_incident,
};
use crate::accounts::{DAYS_MAX, Incident, Incidents, Maintenance, ServiceRecord};
use crate::feed::epoch;
use crate::health::{Component, FeedHealth, History, Minute, ServiceState};
use crate::projector::views::NamedStore;

const SECONDS_A_DAY: i64 = 24 * 60 * 60;

/// The status of the service: overall, by part, and in figures. It holds nothing that is private to the operator.
#[derive(Debug, Serialize, JsonSchema)]
pub(in crate::http) struct ServiceStatus {
    /// The worst state of a part. Parts that are `off` do not count.
    pub(in crate::http) state: ComponentState,
    /// The state in words.
    pub(in crate::http) text: &'static str,
    /// When this was observed. It is at most a few seconds old.
    pub(in crate::http) time: Moment,
    /// The start of this replica, with which `rejections` begin.
    pub(in crate::http) started_at: Moment,
    /// The version of the service.
    pub(in crate::http) version: &'static str,
    /// The parts of the service.
    pub(in crate::http) components: Vec<ComponentStatus>,
    /// The incidents of 90 days, of all replicas, newest first: at most 100.
    pub(in crate::http) incidents: Vec<Incident>,
    /// Older incidents that are not kept.
    pub(in crate::http) incidents_dropped: u64,
    /// The days of which all incidents are listed, oldest first: at most 90, today included.
    pub(in crate::http) days: Vec<DayStatus>,
    /// The maintenance of 90 days and of the future, by its start: at most 50.
    pub(in crate::http) maintenance: Vec<Maintenance>,
    pub(in crate::http) feed: FeedFigures,
    pub(in crate::http) log: ObservedLog,
    /// Left out while there are none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "ObservedViews")]
    pub(in crate::http) views: Option<ObservedViews>,
    /// Races whose prices are open on the live odds channel.
    pub(in crate::http) open_races: u64,
    /// Open connections to the live odds channel.
    pub(in crate::http) sockets: u64,
    /// Messages of feeders that were rejected since the start, by reason.
    pub(in crate::http) rejections: Vec<RejectionCount>,
    /// The minutes of the last hour, oldest first: at most 60. The last one is the current minute.
    pub(in crate::http) minutes: Vec<Minute>,
}

/// Whether the service receives what happens, as in the heartbeats of the live odds channel.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "StatusFeed")]
pub(in crate::http) struct FeedFigures {
    #[serde(flatten)]
    pub(in crate::http) health: FeedHealth,
    /// The time since the data was last known to hold the whole log, in milliseconds.
    pub(in crate::http) age_ms: u64,
}

/// A day (UTC) of the service.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "StatusDay")]
pub(in crate::http) struct DayStatus {
    /// The day, as `YYYY-MM-DD`.
    pub(in crate::http) date: String,
    /// The worst that an incident of the day meant for a part of the service.
    pub(in crate::http) state: ComponentState,
    /// How many incidents there were, or lasted from an earlier day.
    pub(in crate::http) incidents: usize,
}

/// The rejected messages with one reason.
#[derive(Debug, Serialize, JsonSchema)]
pub(in crate::http) struct RejectionCount {
    /// The code of the reason, as in a rejection.
    pub(in crate::http) code: &'static str,
    /// How many messages have it.
    pub(in crate::http) count: u64,
}

impl ServiceStatus {
    pub(in crate::http) fn of(
        service: ServiceState,
        views: Option<NamedStore>,
        (sockets, open_races): (u64, u64),
        (started_at, time): (Moment, Moment),
        (history, record): (&History, Option<&ServiceRecord>),
    ) -> Self {
        let components = components(&service);
        let worst = components.iter().map(|component| component.state).max();
        let state = worst.unwrap_or(ComponentState::Down);
        let mut incidents = record.map_or_else(Incidents::default, |it| it.incidents.clone());
        for own in history.incidents.iter() {
            // The log has its end a little later.
            let same = |known: &Incident| known.id == own.id && known.started_at == own.started_at;
            if let Some(end) = own.ended_at.filter(|_| incidents.iter().any(same)) {
                incidents.end(own.kind, end);
            }
            incidents.add(own.clone());
        }
        incidents.forget(time);
        let began_at = record.and_then(|it| it.began_at).unwrap_or(time);
        let known_since = incidents.dropped_until.unwrap_or(began_at.min(started_at));
        let checkpoint = views.as_ref().and_then(|views| views.store.checkpoint());
        let epoch = checkpoint.as_ref().map(|found| epoch(&found.log));
        let fold = service.fold;
        let rejected = fold.tally.rejected.iter();
        Self {
            state,
            text: in_words(state, &components),
            time,
            started_at,
            version: env!("CARGO_PKG_VERSION"),
            incidents: incidents.iter().rev().cloned().collect(),
            incidents_dropped: incidents.dropped,
            days: days(&incidents, known_since, time),
            maintenance: record.map_or_else(Vec::new, |it| it.maintenance.clone()),
            feed: FeedFigures {
                health: FeedHealth::of(&fold, service.connection, service.sources),
                age_ms: u64::try_from(fold.freshness.age().as_millis()).unwrap_or(u64::MAX),
            },
            log: ObservedLog {
                epoch: epoch.map_or(String::new(), |epoch| epoch.to_string()),
                seq: fold.seq,
                pending: fold.pending,
                missing: fold.missing,
            },
            views: views.zip(checkpoint).map(|(views, found)| ObservedViews {
                schema: views.schema,
                digest: found.digest.to_string(),
                seq: found.seq,
            }),
            open_races,
            sockets,
            rejections: rejected
                .map(|(code, &count)| RejectionCount { code, count })
                .collect(),
            minutes: history.minutes.iter().cloned().collect(),
            components: components.into(),
        }
    }
}

/// The days from a time to today.
fn days(incidents: &Incidents, since: Moment, now: Moment) -> Vec<DayStatus> {
    let number = |time: Moment| time.timestamp().as_second().div_euclid(SECONDS_A_DAY);
    let today = number(now);
    let status = |day: i64| {
        let is_of_day = |incident: &&Incident| {
            let end = incident.ended_at.unwrap_or(now);
            (number(incident.started_at)..=number(end)).contains(&day)
        };
        let of_day = incidents.iter().filter(is_of_day);
        let impacts = of_day.clone().map(|incident| of_incident(incident.kind));
        let worst = impacts.max();
        let start = Timestamp::from_second(day * SECONDS_A_DAY).unwrap_or_default();
        DayStatus {
            date: start.strftime("%F").to_string(),
            state: worst.unwrap_or(ComponentState::Operational),
            incidents: of_day.count(),
        }
    };
    let first = number(since).max(today - DAYS_MAX + 1);
    (first..=today).map(status).collect()
}

/// The overall state in words.
fn in_words(state: ComponentState, components: &[ComponentStatus]) -> &'static str {
    let is_api_down =
        |it: &ComponentStatus| it.name == Component::Api && it.state == ComponentState::Down;
    match state {
        ComponentState::Off | ComponentState::Operational => "Everything works",
        ComponentState::Degraded => "Some parts are late or limited",
        ComponentState::Down if components.iter().any(is_api_down) => {
            "The service is not available"
        }
        ComponentState::Down => "Some parts are not available",
    }
}
