//! `/healthz`, and [`Readiness`]: the document at `/readyz`.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::Duration;

use axum::Json;
use schemars::JsonSchema;
use serde::Serialize;

use super::state::App;
use crate::health::Liveness;
use crate::log::Divergence;
use crate::projector::Phase;

/// The process runs.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "Health")]
pub(super) struct ProcessHealth {
    /// Always `ok`.
    #[schemars(extend("const" = "ok"))]
    status: &'static str,
}

pub(super) async fn healthz() -> Json<ProcessHealth> {
    Json(ProcessHealth { status: "ok" })
}

/// Whether reads are right, and the progress of the service in the log.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct Readiness {
    /// Whether reads are right, and as fresh as the request asks for.
    pub(super) ready: bool,
    /// Why they are not; empty if they are.
    reason: String,
    phase: Phase,
    pub(super) log: LogProgress,
    feed: ViewsFreshness,
    keys: KeysProgress,
    /// The views that are being built beside those that are served; null if none are.
    rebuild: Option<NewViews>,
    /// How often built views have replaced the served ones.
    rebuilds: u64,
}

/// The readiness with the fields for operators alone: they hold paths and the texts of system errors.
#[derive(Debug, Serialize)]
pub(super) struct AdminStatus {
    #[serde(flatten)]
    readiness: Readiness,
    /// The error because of which the views are not live; null without one.
    failure: Option<String>,
    /// Why views were not continued, and whether new ones are in force; empty if all were.
    store: String,
    /// The addresses of the other replicas, which are asked whether they are fresh.
    replicas: Vec<SocketAddr>,
}

/// The progress of the views in the log.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct LogProgress {
    /// Whether the log can be reached.
    pub(super) connected: bool,
    /// The log sequence that the views reflect.
    pub(super) seq: u64,
    /// Events after that.
    pub(super) pending: u64,
    /// The part of the log that the views reflect, 0 to 1.
    progress: f64,
    /// Events that the log has lost.
    pub(super) missing: u64,
    /// The streams that have another history than the service has read, by name.
    diverged: BTreeMap<&'static str, Divergence>,
    /// What is not as it should be of streams and servers; null before that is known.
    drift: Option<SettingsDrift>,
}

/// What is not as it should be of streams and servers.
#[derive(Debug, Serialize, JsonSchema)]
struct SettingsDrift {
    /// The stream, the setting, its value, and the value that it should have; and what is nearly full.
    settings: Vec<String>,
    /// What can lose events because of the settings of streams and servers.
    risks: Vec<String>,
    /// The servers that do not answer, or lack what a stream has.
    away: Vec<String>,
}

/// How fresh the views are.
#[derive(Debug, Serialize, JsonSchema)]
struct ViewsFreshness {
    state: Liveness,
    /// Milliseconds since the views were known to reflect the whole log.
    age_ms: u64,
}

/// What is known of the API keys.
#[derive(Debug, Serialize, JsonSchema)]
struct KeysProgress {
    /// Whether all keys have been read from the log.
    complete: bool,
    /// Milliseconds since all keys were known.
    age_ms: u64,
}

/// Views that are being built.
#[derive(Debug, Serialize, JsonSchema)]
struct NewViews {
    /// The log sequence that they reflect.
    seq: u64,
    /// Events after that.
    pending: u64,
}

impl Readiness {
    /// The readiness with views at most so old.
    pub(super) fn of(app: &App, age_max: Option<Duration>) -> Self {
        let state = app.health.state();
        let new_views = |(seq, pending)| NewViews { seq, pending };
        let reason = state.unready(age_max);
        let liveness = state.liveness();
        let status = state.fold;
        let (seq, pending) = status.reached();
        let progress = match seq + pending {
            0 => 1.0,
            last_seq => seq as f64 / last_seq as f64,
        };
        Self {
            ready: reason.is_empty(),
            reason,
            phase: status.phase,
            log: LogProgress {
                connected: state.connection.up,
                seq,
                pending,
                progress: (progress * 1000.0).round() / 1000.0,
                missing: status.missing,
                diverged: state.divergences,
                drift: drift(app),
            },
            feed: ViewsFreshness {
                state: liveness,
                age_ms: millis(status.freshness.age()),
            },
            keys: KeysProgress {
                complete: app.keys.is_complete(),
                age_ms: millis(app.keys.age()),
            },
            rebuild: status.rebuild.map(new_views),
            rebuilds: status.rebuilds,
        }
    }
}

impl AdminStatus {
    pub(super) fn of(app: &App) -> Self {
        let failure = app.health.monitor.progress().failure;
        Self {
            readiness: Readiness::of(app, None),
            failure: failure.map(|failure| failure.reason),
            store: app.views.note(),
            replicas: app.health.lag.other_replicas(),
        }
    }
}

/// The settings that are not as railbird creates them, the risks that follow from them, and the servers that are away.
fn drift(app: &App) -> Option<SettingsDrift> {
    let durability = app.health.durability.borrow();
    let found = durability.as_ref()?;
    let settings = found.drift.iter().flat_map(|(stream, drift)| {
        let drift = drift.iter().map(|drift| &drift.setting);
        drift.map(move |setting| format!("{stream}: {setting}"))
    });
    Some(SettingsDrift {
        settings: settings.chain(found.nearly_full.iter().cloned()).collect(),
        risks: found.risks(),
        away: found.away.clone(),
    })
}

fn millis(age: Duration) -> u64 {
    u64::try_from(age.as_millis()).unwrap_or(u64::MAX)
}
