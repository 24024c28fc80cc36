//! What is observed of the service: the log, the views, and the parts as users know them.

use schemars::JsonSchema;
use serde::Serialize;

use crate::accounts::IncidentKind;
use crate::health::{Component, Impact, Reason, ServiceState};

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
#[derive(strum::Display)]
#[strum(serialize_all = "lowercase")]
pub(in crate::http) enum ComponentState {
    Off,
    Operational,
    Degraded,
    Down,
}

/// A part of the service, as its users know it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[schemars(rename = "StatusComponent")]
pub(in crate::http) struct ComponentStatus {
    pub(in crate::http) name: Component,
    pub(in crate::http) state: ComponentState,
    /// What that means for users.
    pub(in crate::http) text: &'static str,
}

/// The parts of the service in a state.
pub(in crate::http) fn components(service: &ServiceState) -> [ComponentStatus; 4] {
    Component::ALL.map(|name| {
        let (state, text) = match (name, service.impact(name)) {
            (Component::Mail, _) if service.oldest_mail.is_none() => (
                ComponentState::Off,
                "This service sends no mail. Its operator gives out keys.",
            ),
            (_, Impact::Down(text)) => (ComponentState::Down, text),
            (_, Impact::Degraded(text)) => (ComponentState::Degraded, text),
            (_, Impact::Operational(text)) => (ComponentState::Operational, text),
            (_, Impact::None) => (ComponentState::Operational, works(name)),
        };
        ComponentStatus { name, state, text }
    })
}

/// The worst that an incident of a kind means for a part.
pub(in crate::http) fn of_incident(kind: IncidentKind) -> ComponentState {
    let meanings = Reason::ALL.map(Reason::meaning).into_iter();
    let of_kind = meanings.filter(|meaning| meaning.incident == Some(kind));
    let states = of_kind
        .flat_map(|meaning| meaning.impacts)
        .map(|impact| match impact {
            Impact::Down(_) => ComponentState::Down,
            Impact::Degraded(_) => ComponentState::Degraded,
            Impact::Operational(_) | Impact::None => ComponentState::Operational,
        });
    states.max().unwrap_or(ComponentState::Operational)
}

/// The text of a part without trouble.
fn works(component: Component) -> &'static str {
    match component {
        Component::Api => "Answers are up to date.",
        Component::LiveOdds => "Each change is sent as it is recorded.",
        Component::Feeders => "Events are recorded and shown.",
        Component::Mail => "Links are mailed within minutes.",
    }
}
