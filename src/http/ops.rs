//! What needs no key: health, readiness, and the descriptions of the interfaces.

use std::sync::Arc;

use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Response};
use axum::{Router, routing::get};
use serde_json::{Value, json};

use super::error::ApiError;
use super::openapi;
use crate::asyncapi;
use crate::http::state::App;
use crate::live::status::Phase;

pub(super) fn router() -> Router<Arc<App>> {
    Router::new()
        .route("/healthz", get(healthz))
        .route("/readyz", get(readyz))
        .route("/openapi.json", get(openapi_json))
        .route("/asyncapi.json", get(asyncapi_json))
        .route("/schemas/{file}", get(schema))
}

/// The process runs.
async fn healthz() -> Response {
    answer(StatusCode::OK, &json!({ "status": "ok" }))
}

/// The views are up to date with the log: 200, or 503 with why not and how far.
async fn readyz(State(app): State<Arc<App>>) -> Response {
    let (ready, body) = readiness(&app);
    answer(
        if ready {
            StatusCode::OK
        } else {
            StatusCode::SERVICE_UNAVAILABLE
        },
        &body,
    )
}

/// Whether the service is ready, and all that is known of it.
pub(super) fn readiness(app: &App) -> (bool, Value) {
    let status = app.projector.status.borrow().clone();
    let connected = app.connection.borrow().up;
    let stalled = status.is_stalled();
    let reason = match status.phase {
        _ if !connected => "the log cannot be reached",
        Phase::WaitingForLog => "the log has not answered yet",
        Phase::CatchingUp => "the views are catching up with the log",
        Phase::Live if !app.keys.is_complete() => "the keys have not been read from the log yet",
        Phase::Live if stalled => "the log has more, and nothing comes of it",
        Phase::Live => "",
    };
    let last_seq = status.seq + status.pending;
    #[expect(clippy::cast_precision_loss, reason = "a share for people")]
    let progress = if last_seq == 0 {
        1.0
    } else {
        status.seq as f64 / last_seq as f64
    };
    let body = json!({
        "ready": reason.is_empty(),
        "reason": reason,
        "phase": status.phase.as_str(),
        "log": { "connected": connected, "seq": status.seq, "pending": status.pending, "progress": (progress * 1000.0).round() / 1000.0 },
        "last_progress_ms": u64::try_from(status.progress_at.elapsed().as_millis()).unwrap_or(u64::MAX),
        "store": app.views.note(),
        "rebuild": status.rebuild.map(|(seq, pending)| json!({ "seq": seq, "pending": pending })),
        "rebuilds": status.rebuilds,
    });
    (reason.is_empty(), body)
}

async fn openapi_json() -> Response {
    answer(StatusCode::OK, &openapi::document())
}

async fn asyncapi_json() -> Response {
    answer(StatusCode::OK, &asyncapi::document())
}

async fn schema(Path(file): Path<String>) -> Result<Response, ApiError> {
    let found = events::schemas()
        .into_iter()
        .find(|schema| schema.name == file);
    let none = || {
        ApiError::NotFound(format!(
            "There is no such schema; there are {}",
            events::EVENT_TYPES.join(", ")
        ))
    };
    found
        .map(|schema| answer(StatusCode::OK, &schema.schema))
        .ok_or_else(none)
}

pub(super) fn answer(status: StatusCode, body: &Value) -> Response {
    (
        status,
        [(CONTENT_TYPE, "application/json")],
        body.to_string(),
    )
        .into_response()
}
