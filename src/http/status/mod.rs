//! `/status.json`: how the service is, for everybody. `http/pages` has the same for people.
//!
//! A task samples the service every second. It reads what the projector, the counters and the limits already know, and
//! keeps what they forget: the last hour and the incidents. These are in the log as well, so that every replica lists
//! them, also after a crash.

pub(super) mod board;
pub(super) mod observation;
pub(super) mod report;

use std::sync::Arc;
use std::time::Duration;

use axum::extract::State;
use axum::http::header::{CACHE_CONTROL, CONTENT_TYPE, X_CONTENT_TYPE_OPTIONS};
use axum::response::IntoResponse;
use axum::routing::get;
use bytes::Bytes;
use events::Moment;
use jiff::Timestamp;
use tokio::time::{sleep, timeout};

use self::board::{RenderedStatus, rendered_once};
use self::report::ServiceStatus;
use super::{ApiError, App, Routes};
use crate::accounts::{CONTINUES_WITHIN, Incident};
use crate::health::Totals;

/// The time between two samples, and so the age of an answer.
const SAMPLE_EVERY: Duration = Duration::from_secs(1);
/// How often the incidents that the log lacks are appended to it.
const RECORD_EVERY: Duration = Duration::from_secs(2);
/// The same after a failure, which is logged.
const RECORD_AGAIN_AFTER: Duration = Duration::from_secs(10);
/// The time for the last ones, at the shutdown.
const LAST_RECORD_TIMEOUT: Duration = Duration::from_secs(2);

pub(super) fn router() -> Routes {
    Routes::default().route("/status.json", get(json))
}

/// Samples the service, and records incidents, until dropped.
pub(crate) async fn run(app: Arc<App>) {
    let sampling = async {
        loop {
            observe(&app);
            sleep(SAMPLE_EVERY).await;
        }
    };
    let recording = async {
        let mut wait = RECORD_EVERY;
        loop {
            sleep(wait).await;
            let now = Timestamp::now().into();
            wait = match record(&app, now, left_open(&app, now)).await {
                true => RECORD_EVERY,
                false => RECORD_AGAIN_AFTER,
            };
        }
    };
    tokio::join!(sampling, recording);
}

/// Records the last incidents, once there are no more samples.
pub(crate) async fn finish(app: &App) {
    app.status.finish();
    // None is put off any more.
    let later = Timestamp::now() + CONTINUES_WITHIN;
    let recording = record(app, later.into(), Vec::new());
    if timeout(LAST_RECORD_TIMEOUT, recording).await.is_err() {
        tracing::warn!("the last incidents were not recorded in time");
    }
}

/// Records the incidents that the log lacks at a time, and others. Returns whether it has all of them now.
async fn record(app: &App, now: Moment, others: Vec<Incident>) -> bool {
    for incident in app.status.unrecorded(now).into_iter().chain(others) {
        match app.pages.commands.record(&incident).await {
            Ok(()) => app.status.note_recorded(incident, now),
            Err(error) => {
                tracing::warn!(%error, kind = %incident.kind, "cannot record an incident");
                return false;
            }
        }
    }
    true
}

/// The incidents that an earlier process has left open, as over once the service is known to work.
fn left_open(app: &App, now: Moment) -> Vec<Incident> {
    let works = app.keys.is_complete() && app.health.state().unready(None).is_empty();
    let ledger = app.health.ledger.borrow();
    let left = works.then(|| app.status.left_open(&ledger.record, now));
    left.unwrap_or_default()
}

/// The latest status.
pub(super) fn latest(app: &App) -> Arc<RenderedStatus> {
    let latest = app.status.latest();
    // None before the task has begun.
    latest.unwrap_or_else(|| observe(app))
}

async fn json(State(app): State<Arc<App>>) -> Result<impl IntoResponse, ApiError> {
    let latest = latest(&app);
    let render = || serde_json::to_vec(&latest.status).map(Bytes::from);
    let json = rendered_once(&latest.json, render).map_err(ApiError::internal)?;
    let headers = [
        (CONTENT_TYPE, "application/json"),
        (CACHE_CONTROL, "max-age=1"),
        (X_CONTENT_TYPE_OPTIONS, "nosniff"),
    ];
    Ok((headers, json))
}

/// The status of the service now, which is the latest from now on.
fn observe(app: &App) -> Arc<RenderedStatus> {
    let state = app.health.state();
    let responses @ [.., refused, errors] = app.metrics.responses();
    let totals = Totals {
        requests: responses.iter().sum(),
        refused,
        errors,
        events: state.fold.tally.folded,
    };
    let sample = state.sample(totals, app.fan_out.clients() as u64);
    let views = app.views.read_current();
    let counts = (sample.sockets, app.health.feed.open_races() as u64);
    let ledger = app.health.ledger.borrow();
    // A part of the stream may lack the end of it, and what was cancelled.
    let record = app.keys.is_complete().then(|| &ledger.record);
    app.status.add(Timestamp::now(), &sample, |times, history| {
        ServiceStatus::of(state, views, counts, times, (history, record))
    })
}
