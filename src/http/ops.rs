//! The paths without a key: health, readiness, and the descriptions of the interfaces.

use std::collections::HashMap;
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use axum::extract::{Path, State};
use axum::http::header::CONTENT_TYPE;
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use axum::{Json, Router, routing::get};
use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

use super::cached_document::CachedDocument;
use super::error::ApiError;
use super::openapi;
use super::params::QueryParams;
use super::state::App;
use crate::asyncapi;
use crate::live::health::Liveness;
use crate::live::status::Phase;

static OPENAPI: LazyLock<CachedDocument> =
    LazyLock::new(|| CachedDocument::new(&openapi::document()));
static ASYNCAPI: LazyLock<CachedDocument> =
    LazyLock::new(|| CachedDocument::new(&asyncapi::document()));
/// The schemas of events, by their names.
static SCHEMAS: LazyLock<HashMap<String, CachedDocument>> = LazyLock::new(|| {
    let schemas = events::schemas().into_iter();
    schemas
        .map(|schema| (schema.name, CachedDocument::new(&schema.schema)))
        .collect()
});

pub(super) fn router() -> Router<Arc<App>> {
    Router::new()
        .route("/healthz", get(async || Json(json!({ "status": "ok" }))))
        .route("/readyz", get(readyz))
        .route(
            "/openapi.json",
            get(async |headers: HeaderMap| OPENAPI.answer(&headers)),
        )
        .route(
            "/asyncapi.json",
            get(async |headers: HeaderMap| ASYNCAPI.answer(&headers)),
        )
        .route("/schemas/{file}", get(schema))
        .route("/.well-known/security.txt", get(security_txt))
}

/// How long the contact holds: it is that of the service's settings. RFC 9116, 2.5.5 recommends less than a year.
const CONTACT_HOLDS: SignedDuration = SignedDuration::from_hours(180 * 24);

/// Where to report a vulnerability (RFC 9116).
async fn security_txt(State(app): State<Arc<App>>) -> Result<impl IntoResponse, ApiError> {
    let contact = app.security_contact.as_ref();
    let contact = contact.ok_or_else(|| ApiError::NotFound(NO_CONTACT.to_owned()))?;
    let expires = (Timestamp::now() + CONTACT_HOLDS).strftime("%Y-%m-%dT00:00:00Z");
    let text = format!("Contact: {contact}\nExpires: {expires}\nPreferred-Languages: en\n");
    Ok(([(CONTENT_TYPE, "text/plain; charset=utf-8")], text))
}

const NO_CONTACT: &str = "This service names no contact for security; ask its operator";

/// The fields for operators alone: they hold paths and the texts of system errors.
const PRIVATE: [&str; 2] = ["failure", "store"];
/// The public reason where an error is.
const FAILED: &str = "the views cannot be read or written; the admin address has the reason";

/// Returns 200 if reads are right, else 503 with the reason and the progress. They may be old: with `?fresh=10s` they
/// are not older than that.
async fn readyz(
    State(app): State<Arc<App>>,
    query: QueryParams,
) -> Result<(StatusCode, Json<Value>), ApiError> {
    let (ready, mut body) = readiness(&app, query.duration("fresh")?);
    if let Some(fields) = body.as_object_mut() {
        for private in PRIVATE {
            fields.remove(private);
        }
    }
    let status = match ready {
        true => StatusCode::OK,
        false => StatusCode::SERVICE_UNAVAILABLE,
    };
    Ok((status, Json(body)))
}

/// Whether the service is ready, with views at most so old, and its status as JSON, for operators.
pub(super) fn readiness(app: &App, age_max: Option<Duration>) -> (bool, Value) {
    let status = app.projector.status.borrow().clone();
    let connection = *app.connection.borrow();
    let connected = connection.up;
    let divergences = app.continuity.divergences();
    let reason = match status.phase {
        _ if app.draining.is_cancelled() => "the service is stopping",
        Phase::OpeningViews => "the views are being opened and checked",
        _ if !divergences.is_empty() => {
            let reasons: Vec<&str> = divergences.values().map(|d| &*d.reason).collect();
            &format!("{}; see `railbird log accept --help`", reasons.join("; "))
        }
        Phase::Diverged => "the log has another history than the views",
        Phase::WaitingForLog if !connected => "the log cannot be reached",
        Phase::WaitingForLog => "the log has not answered yet",
        Phase::CatchingUp => "the views are catching up with the log",
        Phase::Live if !app.keys.is_complete() => "the keys have not been read from the log yet",
        Phase::Live if app.keys.is_stale() => {
            "it is not known for too long whether keys were revoked"
        }
        Phase::Live if age_max.is_some_and(|max| status.freshness.age() > max) => {
            "the views are older than `fresh`"
        }
        Phase::Live => "",
    };
    let failure = status.failure.as_ref().map(|failure| &failure.reason);
    let reason = failure.map_or(reason, |_| FAILED);
    // Without views to serve, the new ones are all there is.
    let (seq, pending) = match (status.rebuild, status.phase) {
        (Some(building), Phase::CatchingUp) if status.seq == 0 => building,
        _ => (status.seq, status.pending),
    };
    let progress = match seq + pending {
        0 => 1.0,
        last_seq => seq as f64 / last_seq as f64,
    };
    let body = json!({
        "ready": reason.is_empty(),
        "reason": reason,
        "phase": status.phase,
        "log": {
            "connected": connected,
            "seq": seq,
            "pending": pending,
            "progress": (progress * 1000.0).round() / 1000.0,
            "missing": status.missing,
            "diverged": divergences,
            "drift": drift(app),
        },
        "feed": {
            "state": Liveness::of(&status, connection),
            "age_ms": u64::try_from(status.freshness.age().as_millis()).unwrap_or(u64::MAX),
        },
        "keys": {
            "complete": app.keys.is_complete(),
            "age_ms": u64::try_from(app.keys.age().as_millis()).unwrap_or(u64::MAX),
        },
        "failure": failure,
        "store": app.views.note(),
        "rebuild": status.rebuild.map(|(seq, pending)| json!({ "seq": seq, "pending": pending })),
        "rebuilds": status.rebuilds,
    });
    (reason.is_empty(), body)
}

/// The settings that are not as railbird creates them, and the risks that follow from them; null before they are known.
fn drift(app: &App) -> Value {
    let durability = app.durability.borrow();
    let all = durability.as_ref().map(|found| {
        let streams = found.drift.iter();
        let settings = streams.flat_map(|(stream, drift)| {
            drift
                .iter()
                .map(move |drift| format!("{stream}: {}", drift.setting))
        });
        json!({ "settings": settings.collect::<Vec<_>>(), "risks": found.risks() })
    });
    all.unwrap_or_default()
}

async fn schema(Path(file): Path<String>, headers: HeaderMap) -> Result<Response, ApiError> {
    let document = SCHEMAS.get(&file).ok_or_else(|| {
        let types = events::EVENT_TYPES.join(", ");
        ApiError::NotFound(format!("There is no such schema; there are {types}"))
    })?;
    Ok(document.answer(&headers))
}
