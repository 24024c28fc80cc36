//! `/status.json`: how the service is, for everybody. `http/pages` has the same for people.
//!
//! A task samples the service every second. It reads what the projector, the counters and the limits already know, and
//! keeps what they forget: the last hour and the incidents.

pub(super) mod board;
pub(super) mod observation;
pub(super) mod report;

use std::sync::Arc;
use std::time::Duration;

use axum::extract::State;
use axum::http::header::{CACHE_CONTROL, CONTENT_TYPE, X_CONTENT_TYPE_OPTIONS};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use jiff::Timestamp;
use tokio::time::sleep;

use self::board::RenderedStatus;
use self::observation::{Observation, ObservedLog, ObservedViews};
use super::error::ApiError;
use super::routes::Routes;
use super::state::App;
use crate::feed::epoch;
use crate::health::Totals;

/// The time between two samples, and so the age of an answer.
const SAMPLE_EVERY: Duration = Duration::from_secs(1);

pub(super) fn router() -> Routes {
    Routes::default().route("/status.json", get(json))
}

/// Samples the service until dropped.
pub(crate) async fn sample(app: Arc<App>) {
    loop {
        app.status.add(Timestamp::now(), observe(&app));
        sleep(SAMPLE_EVERY).await;
    }
}

/// The latest status.
pub(super) fn latest(app: &App) -> Arc<RenderedStatus> {
    let latest = app.status.latest();
    // None before the task has begun.
    latest.unwrap_or_else(|| app.status.add(Timestamp::now(), observe(app)))
}

async fn json(State(app): State<Arc<App>>) -> Response {
    let latest = latest(&app);
    let json = match latest.json.get() {
        Some(json) => json.clone(),
        None => match serde_json::to_vec(&latest.status) {
            Ok(json) => latest.json.get_or_init(|| json.into()).clone(),
            Err(error) => return ApiError::internal(error).into_response(),
        },
    };
    let headers = [
        (CONTENT_TYPE, "application/json"),
        (CACHE_CONTROL, "max-age=1"),
        (X_CONTENT_TYPE_OPTIONS, "nosniff"),
    ];
    (headers, json).into_response()
}

/// What the service knows of itself now.
fn observe(app: &App) -> Observation {
    let state = app.health.state();
    let views = app.views.read_current();
    let checkpoint = views.as_ref().and_then(|views| views.store().checkpoint());
    let responses @ [.., refused, errors] = app.metrics.responses();
    Observation {
        log: ObservedLog {
            epoch: checkpoint
                .as_ref()
                .map_or_else(String::new, |c| epoch(&c.log).to_string()),
            seq: state.fold.seq,
            pending: state.fold.pending,
            missing: state.fold.missing,
        },
        views: views
            .zip(checkpoint)
            .map(|(views, checkpoint)| ObservedViews {
                schema: views.schema(),
                digest: checkpoint.digest.to_string(),
                seq: checkpoint.seq,
            }),
        totals: Totals {
            requests: responses.iter().sum(),
            refused,
            errors,
            events: state.fold.tally.folded,
        },
        sockets: app.fan_out.clients() as u64,
        open_races: app.feed.open_races() as u64,
        state,
    }
}
