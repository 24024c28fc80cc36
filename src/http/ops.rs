//! The paths without a key: health, readiness, and the descriptions of the interfaces.

use std::sync::Arc;

use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::{Json, Router, routing::get};
use serde_json::{Value, json};

use super::error::ApiError;
use super::openapi;
use super::state::App;
use crate::asyncapi;
use crate::live::status::Phase;

pub(super) fn router() -> Router<Arc<App>> {
    Router::new()
        .route("/healthz", get(async || Json(json!({ "status": "ok" }))))
        .route("/readyz", get(readyz))
        .route("/openapi.json", get(async || Json(openapi::document())))
        .route("/asyncapi.json", get(async || Json(asyncapi::document())))
        .route("/schemas/{file}", get(schema))
}

/// Returns 200 if the views are up to date with the log, else 503 with the reason and the progress.
async fn readyz(State(app): State<Arc<App>>) -> (StatusCode, Json<Value>) {
    let (ready, body) = readiness(&app);
    let status = match ready {
        true => StatusCode::OK,
        false => StatusCode::SERVICE_UNAVAILABLE,
    };
    (status, Json(body))
}

/// Whether the service is ready, and its status as JSON.
pub(super) fn readiness(app: &App) -> (bool, Value) {
    let status = app.projector.status.borrow().clone();
    let connected = app.connection.borrow().up;
    let stalled = status.is_stalled();
    let reason = match status.phase {
        _ if !connected => "the log cannot be reached",
        Phase::WaitingForLog => "the log has not answered yet",
        Phase::CatchingUp => "the views are catching up with the log",
        Phase::Live if !app.keys.is_complete() => "the keys have not been read from the log yet",
        Phase::Live if stalled => "the log has more events, but no progress is made",
        Phase::Live => "",
    };
    let progress = match status.seq + status.pending {
        0 => 1.0,
        last_seq => status.seq as f64 / last_seq as f64,
    };
    let body = json!({
        "ready": reason.is_empty(),
        "reason": reason,
        "phase": status.phase,
        "log": { "connected": connected, "seq": status.seq, "pending": status.pending, "progress": (progress * 1000.0).round() / 1000.0 },
        "last_progress_ms": u64::try_from(status.progress_at.elapsed().as_millis()).unwrap_or(u64::MAX),
        "store": app.views.note(),
        "rebuild": status.rebuild.map(|(seq, pending)| json!({ "seq": seq, "pending": pending })),
        "rebuilds": status.rebuilds,
    });
    (reason.is_empty(), body)
}

async fn schema(Path(file): Path<String>) -> Result<Json<Value>, ApiError> {
    let mut schemas = events::schemas().into_iter();
    let schema = schemas.find(|schema| schema.name == file);
    schema.map(|schema| Json(schema.schema)).ok_or_else(|| {
        let types = events::EVENT_TYPES.join(", ");
        ApiError::NotFound(format!("There is no such schema; there are {types}"))
    })
}
