//! The admin address: for operators, without a key. Keep it private.

use std::sync::Arc;

use axum::body::Body;
use axum::extract::State;
use axum::http::StatusCode;
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Json, Router};
use futures::stream;
use serde_json::{Value, json};
use tokio::task::spawn_blocking;

use super::admin_access::{HEALTH, admin_error};
use super::readiness::{AdminStatus, healthz};
use super::rejections::rejections;
use super::scrape::scrape;
use super::{ApiError, App, QueryParams};

/// Views in one chunk of the list.
const VIEWS_PER_CHUNK: usize = 1000;

/// All paths of the admin address.
pub(crate) fn router(app: Arc<App>) -> Router {
    Router::new()
        .route(HEALTH, get(healthz))
        .route("/metrics", get(scrape))
        .route("/status", get(status))
        .route("/rejections", get(rejections))
        .route("/rebuild", post(rebuild))
        .route("/snapshot", post(snapshot))
        .route("/log/accept", post(accept_log))
        .route("/digest", get(digest))
        .route("/views", get(views))
        .with_state(app)
}

async fn status(State(app): State<Arc<App>>) -> Json<AdminStatus> {
    Json(AdminStatus::of(&app))
}

async fn rebuild(State(app): State<Arc<App>>) -> (StatusCode, Json<Value>) {
    if app.projector.rebuild() {
        return (StatusCode::ACCEPTED, Json(json!({ "rebuild": "begun" })));
    }
    admin_error(StatusCode::CONFLICT, "conflict", "A rebuild is under way")
}

/// Writes a snapshot of the views, and returns once it is written.
async fn snapshot(State(app): State<Arc<App>>) -> (StatusCode, Json<Value>) {
    match app.health.snapshots.create().await {
        Ok(written) => (StatusCode::OK, Json(written.to_json())),
        Err(error) => {
            let message = format!("No snapshot was written: {error}");
            admin_error(StatusCode::SERVICE_UNAVAILABLE, "unavailable", &message)
        }
    }
}

/// Accepts the streams that have another history than the service has read. Returns what is given up.
async fn accept_log(State(app): State<Arc<App>>) -> (StatusCode, Json<Value>) {
    let accepted = app.health.continuity.accept();
    if !accepted.is_empty() {
        return (StatusCode::ACCEPTED, Json(json!({ "accepted": accepted })));
    }
    let message =
        "The streams have the history that the service has read: there is nothing to accept";
    admin_error(StatusCode::CONFLICT, "conflict", message)
}

/// The checkpoint of the views, their schema and their digest, to compare replicas. With `?recount=true` the digest is
/// counted from the stored bytes.
async fn digest(State(app): State<Arc<App>>, query: QueryParams) -> Result<Json<Value>, ApiError> {
    query.check_names(&["recount"])?;
    let none = || ApiError::NotFound("There are no views yet".to_owned());
    let views = app.views.read_current().ok_or_else(none)?;
    let mut checkpoint = views.store.checkpoint().ok_or_else(none)?;
    if query.get("recount") == Some("true") {
        let store = Arc::clone(&views.store);
        let recount = spawn_blocking(move || store.recount()).await;
        let recount = recount.map_err(ApiError::internal)??;
        checkpoint = recount.checkpoint.ok_or_else(none)?;
        checkpoint.digest = recount.digest;
    }
    Ok(Json(json!({
        "log": checkpoint.log,
        "seq": checkpoint.seq,
        "schema": views.schema,
        "history": checkpoint.history.to_string(),
        "missing": checkpoint.history.missing,
        "digest": checkpoint.digest.to_string(),
    })))
}

/// All views, one line each: the hash of its bytes and its key. Finds the views in which two replicas differ.
async fn views(State(app): State<Arc<App>>) -> Result<Response, ApiError> {
    let entries = app.store()?.scan("");
    let lines = stream::unfold(entries, |mut entries| async move {
        let mut lines = String::new();
        for entry in entries.by_ref().take(VIEWS_PER_CHUNK) {
            let (key, view) = match entry {
                Ok(entry) => entry,
                Err(error) => return Some((Err(std::io::Error::other(error)), entries)),
            };
            lines.push_str(&format!("{} {key}\n", blake3::hash(&view).to_hex()));
        }
        (!lines.is_empty()).then_some((Ok(lines), entries))
    });
    Ok(([(CONTENT_TYPE, "text/plain")], Body::from_stream(lines)).into_response())
}
