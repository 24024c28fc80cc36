//! The paths without a key: health, readiness, and the descriptions of the interfaces.

use std::sync::Arc;

use axum::extract::State;
use axum::http::StatusCode;
use axum::{Json, Router, routing::get};
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;

use super::error::ApiError;
use super::openapi;
use super::params::{PathParams, QueryParams};
use super::readiness::Readiness;
use super::state::App;
use crate::asyncapi;

pub(super) fn router() -> Router<Arc<App>> {
    Router::new()
        .route("/healthz", get(healthz))
        .route("/readyz", get(readyz))
        .route("/openapi.json", get(async || Json(openapi::document())))
        .route("/asyncapi.json", get(async || Json(asyncapi::document())))
        .route("/schemas/{file}", get(schema))
}

/// The process runs.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "Health")]
pub(super) struct ProcessHealth {
    /// Always `ok`.
    #[schemars(extend("const" = "ok"))]
    status: &'static str,
}

async fn healthz() -> Json<ProcessHealth> {
    Json(ProcessHealth { status: "ok" })
}

/// Returns 200 if reads are right, else 503 with the reason and the progress. They may be old: with `?fresh=10s` they
/// are not older than that.
async fn readyz(
    State(app): State<Arc<App>>,
    query: QueryParams,
) -> Result<(StatusCode, Json<Readiness>), ApiError> {
    let readiness = Readiness::of(&app, query.duration("fresh")?);
    let status = match readiness.ready {
        true => StatusCode::OK,
        false => StatusCode::SERVICE_UNAVAILABLE,
    };
    Ok((status, Json(readiness)))
}

async fn schema(path: PathParams) -> Result<Json<Value>, ApiError> {
    let mut schemas = events::schemas().into_iter();
    let schema = schemas.find(|schema| schema.name == path.file());
    schema.map(|schema| Json(schema.schema)).ok_or_else(|| {
        let types = events::EVENT_TYPES.join(", ");
        ApiError::NotFound(format!("There is no such schema; there are {types}"))
    })
}
