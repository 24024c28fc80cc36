//! [`scrape`]: the answer to Prometheus, with what is measured for it.

use std::sync::Arc;

use axum::extract::State;
use axum::http::header::CONTENT_TYPE;
use axum::response::IntoResponse;
use jiff::Timestamp;
use projections::Checkpoint;
use tokio::task::spawn_blocking;

use super::{ApiError, App};
use crate::health::SourceState;
use crate::log::{ACCOUNTS, ADDRESSES, KEY_USE, RACING};
use crate::metrics;

/// All metrics. What a disk may delay, and the open files, which have to be listed, are measured on a blocking thread.
pub(super) async fn scrape(State(app): State<Arc<App>>) -> Result<impl IntoResponse, ApiError> {
    let views = Arc::clone(&app.views);
    let measured = spawn_blocking(move || {
        metrics::process();
        let store_bytes = views.current().and_then(|store| store.size_on_disk().ok());
        metrics::set("railbird_store_bytes", store_bytes.unwrap_or(0) as f64);
        if let Some(free) = views.free_bytes() {
            metrics::set("railbird_store_disk_free_bytes", free as f64);
        }
    });
    measured.await?;
    // Last, because this changes by the moment.
    set_gauges(&app);
    set_gauges_of_streams(&app);
    let sources = app.health.monitor.sources.states();
    let sources = sources.iter();
    let alive = sources.map(|source| (&*source.source, source.state != SourceState::Down));
    metrics::sources_alive(alive);
    metrics::races_due(app.health.feed.races_due(Timestamp::now()));
    if let Some((position, digest)) = views_of(&app) {
        metrics::set("railbird_views_position", position as f64);
        metrics::set("railbird_views_digest", digest as f64);
    }
    let content_type = [(CONTENT_TYPE, "text/plain; version=0.0.4")];
    Ok((content_type, metrics::render()))
}

/// What the gauges show of the service now.
fn set_gauges(app: &App) {
    let state = app.health.state();
    let (seq, pending) = state.fold.reached();
    let last_event = state.fold.recorded_at.map(|at| at.timestamp());
    let last_event = last_event.unwrap_or_default();
    let lag = state.fold.freshness.age();
    let (mails, oldest_mail) = app.health.ledger.borrow().waiting_mails(Timestamp::now());
    metrics::set_flag("railbird_ready", state.unready(None).is_empty());
    metrics::set_flag("railbird_log_connected", state.connection.up);
    metrics::set("railbird_log_seq", seq as f64);
    metrics::set("railbird_log_pending", pending as f64);
    metrics::set("railbird_log_missing", state.fold.missing as f64);
    metrics::set("railbird_log_lag_seconds", lag.as_secs_f64());
    metrics::set_time("railbird_last_event_timestamp_seconds", last_event);
    metrics::set_flag("railbird_fold_failed", state.fold.failure.is_some());
    metrics::rebuilds(state.fold.rebuilds);
    metrics::set("railbird_keys", app.keys.count() as f64);
    metrics::set_flag("railbird_keys_complete", app.keys.is_complete());
    metrics::set("railbird_keys_age_seconds", app.keys.age().as_secs_f64());
    metrics::set("railbird_mails_waiting", mails as f64);
    metrics::set("railbird_mails_oldest_seconds", oldest_mail.as_secs_f64());
}

/// 48 bits of a hash of what the views are of, and of their digest: a metric holds them exactly. The history is not in
/// the first, because replicas with different ones have to be made equal.
fn views_of(app: &App) -> Option<(u64, u64)> {
    let views = app.views.read_current()?;
    let Checkpoint {
        log, seq, digest, ..
    } = views.store.checkpoint()?;
    let position = format!("{} {} {} {seq}", log.name, log.created, views.schema);
    let [a, b, c, d, e, f, ..] = *blake3::hash(position.as_bytes()).as_bytes();
    let position = u64::from_be_bytes([0, 0, a, b, c, d, e, f]);
    Some((position, digest.prefix()))
}

/// Whether each stream has another history than the service has read, and how many of its settings drifted.
fn set_gauges_of_streams(app: &App) {
    let divergences = app.health.continuity.divergences();
    let durability = app.health.durability.borrow();
    for stream in [RACING, ACCOUNTS, ADDRESSES, KEY_USE].map(|stream| stream.name) {
        let found = durability.as_ref();
        let drift = found.and_then(|found| found.drift.get(stream));
        let drift = drift.map_or(0, Vec::len) as f64;
        let is_diverged = f64::from(u8::from(divergences.contains_key(stream)));
        metrics::set_of_stream("railbird_log_diverged", stream, is_diverged);
        metrics::set_of_stream("railbird_log_settings_drift", stream, drift);
    }
}
