//! [`scrape`]: the answer to Prometheus, with what is measured for it.

use std::sync::Arc;

use axum::extract::State;
use axum::http::header::CONTENT_TYPE;
use axum::response::IntoResponse;
use jiff::Timestamp;
use projections::Checkpoint;
use tokio::task::spawn_blocking;

use super::error::ApiError;
use super::state::App;
use crate::health::{SourceHealth, SourceState};
use crate::log::{ACCOUNTS, ADDRESSES, KEY_USE, RACING};
use crate::metrics::{self, ServiceGauges};

/// All metrics. What a disk may delay, and the open files, which have to be listed, are measured on a blocking thread.
pub(super) async fn scrape(State(app): State<Arc<App>>) -> Result<impl IntoResponse, ApiError> {
    let views = Arc::clone(&app.views);
    let measured = spawn_blocking(move || {
        metrics::process();
        let store_bytes = views.current().and_then(|store| store.size_on_disk().ok());
        metrics::store(store_bytes.unwrap_or(0), views.free_bytes());
    });
    measured.await.map_err(ApiError::internal)?;
    // Last, because this changes by the moment.
    metrics::service(&gauges(&app));
    let sources = app.health.monitor.sources.states();
    let alive = |source: &SourceHealth| source.state != SourceState::Down;
    metrics::sources_alive(
        sources
            .iter()
            .map(|source| (&*source.source, alive(source))),
    );
    metrics::races_due(app.feed.races_due(Timestamp::now()));
    metrics::log_health(&log_health(&app));
    if let Some((position, digest)) = views_of(&app) {
        metrics::views(position, digest);
    }
    let content_type = [(CONTENT_TYPE, "text/plain; version=0.0.4")];
    Ok((content_type, metrics::render()))
}

/// What the gauges show of the service now.
fn gauges(app: &App) -> ServiceGauges {
    let state = app.health.state();
    ServiceGauges {
        is_ready: state.unready(None).is_empty(),
        is_connected: state.connection.up,
        seq: state.fold.reached().0,
        pending: state.fold.reached().1,
        missing: state.fold.missing,
        lag: state.fold.freshness.age(),
        last_event: state.fold.recorded_at.map(|at| at.timestamp()),
        is_fold_failed: state.fold.failure.is_some(),
        rebuilds: state.fold.rebuilds,
        keys: app.keys.count(),
        are_keys_complete: app.keys.is_complete(),
        keys_age: app.keys.age(),
        mails: app.ledger.borrow().waiting_mails(Timestamp::now()),
    }
}

/// 48 bits of a hash of what the views are of, and of their digest: a metric holds them exactly. The history is not in
/// the first, because replicas with different ones have to be made equal.
fn views_of(app: &App) -> Option<(u64, u64)> {
    let views = app.views.read_current()?;
    let Checkpoint {
        log, seq, digest, ..
    } = views.store().checkpoint()?;
    let position = format!("{} {} {} {seq}", log.name, log.created, views.schema());
    let [a, b, c, d, e, f, ..] = *blake3::hash(position.as_bytes()).as_bytes();
    let position = u64::from_be_bytes([0, 0, a, b, c, d, e, f]);
    Some((position, digest.prefix()))
}

/// By stream: whether it has another history than the service has read, and how many of its settings drifted.
fn log_health(app: &App) -> [(&'static str, bool, usize); 4] {
    let divergences = app.continuity.divergences();
    let durability = app.health.durability.borrow();
    [RACING, ACCOUNTS, ADDRESSES, KEY_USE].map(|stream| {
        let drift = durability.as_ref().and_then(|d| d.drift.get(stream.name));
        let is_diverged = divergences.contains_key(stream.name);
        (stream.name, is_diverged, drift.map_or(0, Vec::len))
    })
}
