//! [`ServiceStatus`]: the document at `/status.json`.

use events::Moment;
use schemars::JsonSchema;
use serde::Serialize;

use super::observation::{
    ComponentState, ComponentStatus, Observation, ObservedLog, ObservedViews,
};
use crate::health::{Component, FeedHealth, History, Incident, Minute};

/// The status of the service: overall, by part, and in figures. It holds nothing that is private to the operator.
#[derive(Debug, Serialize, JsonSchema)]
pub(in crate::http) struct ServiceStatus {
    /// The worst state of a part. Parts that are `off` do not count.
    pub(in crate::http) state: ComponentState,
    /// The state in words.
    pub(in crate::http) text: &'static str,
    /// When this was observed. It is at most a few seconds old.
    pub(in crate::http) time: Moment,
    /// The start of the service, with which `incidents` and `rejections` begin.
    pub(in crate::http) started_at: Moment,
    /// The version of the service.
    pub(in crate::http) version: &'static str,
    /// The parts of the service.
    pub(in crate::http) components: Vec<ComponentStatus>,
    /// The incidents since the start, newest first: at most 50.
    pub(in crate::http) incidents: Vec<Incident>,
    /// Older incidents that are not kept.
    pub(in crate::http) incidents_dropped: u64,
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

/// The rejected messages with one reason.
#[derive(Debug, Serialize, JsonSchema)]
pub(in crate::http) struct RejectionCount {
    /// The code of the reason, as in a rejection.
    pub(in crate::http) code: &'static str,
    /// How many messages have it.
    pub(in crate::http) count: u64,
}

impl ServiceStatus {
    pub(in crate::http) fn new(
        (started_at, time): (Moment, Moment),
        observation: Observation,
        history: &History,
    ) -> Self {
        let components = observation.components();
        let worst = components.iter().map(|component| component.state).max();
        let state = worst.unwrap_or(ComponentState::Down);
        let (incidents, incidents_dropped) = history.incidents();
        let fold = &observation.state.fold;
        let rejected = fold.tally.rejected.iter();
        Self {
            state,
            text: in_words(state, &components),
            time,
            started_at,
            version: env!("CARGO_PKG_VERSION"),
            incidents: incidents.rev().cloned().collect(),
            incidents_dropped,
            feed: FeedFigures {
                health: FeedHealth::of(
                    fold,
                    observation.state.connection,
                    observation.state.sources.clone(),
                ),
                age_ms: u64::try_from(fold.freshness.age().as_millis()).unwrap_or(u64::MAX),
            },
            log: observation.log,
            views: observation.views,
            open_races: observation.open_races,
            sockets: observation.sockets,
            rejections: rejected
                .map(|(code, count)| RejectionCount {
                    code,
                    count: *count,
                })
                .collect(),
            minutes: history.minutes().cloned().collect(),
            components: components.into(),
        }
    }
}

/// The overall state in words.
fn in_words(state: ComponentState, components: &[ComponentStatus]) -> &'static str {
    let is_down = |name| {
        let mut down = components
            .iter()
            .filter(|c| c.state == ComponentState::Down);
        down.any(|component| component.name == name)
    };
    match state {
        ComponentState::Off | ComponentState::Operational => "Everything works",
        ComponentState::Degraded => "Some parts are late or limited",
        ComponentState::Down if is_down(Component::Api) => "The service is not available",
        ComponentState::Down => "Some parts are not available",
    }
}
