//! The paths without a key: health, readiness, and the descriptions of the interfaces.

use std::collections::HashMap;
use std::iter;
use std::sync::{Arc, LazyLock};

use axum::extract::State;
use axum::http::header::CONTENT_TYPE;
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use axum::{Json, routing::get};
use jiff::{SignedDuration, Timestamp};

use super::readiness::{Readiness, healthz};
use super::{ApiError, App, PathParams, QueryParams, Routes, StaticDocument, descriptions};

static OPENAPI: LazyLock<StaticDocument> =
    LazyLock::new(|| StaticDocument::json(&descriptions::openapi()));
/// The schemas of events, by their names.
static SCHEMAS: LazyLock<HashMap<String, StaticDocument>> = LazyLock::new(|| {
    let document = |text| StaticDocument::json(&descriptions::parse(text));
    let schemas = events::SCHEMAS.iter();
    HashMap::from_iter(schemas.map(|(name, text)| (format!("{name}.json"), document(text))))
});

pub(super) fn documents() -> impl Iterator<Item = &'static StaticDocument> {
    iter::once(&*OPENAPI).chain(SCHEMAS.values())
}

pub(super) fn router() -> Routes {
    let openapi = get(async |headers: HeaderMap| OPENAPI.answer(&headers));
    let asyncapi = get(async |State(app): State<Arc<App>>, headers: HeaderMap| {
        app.asyncapi.for_request(&headers).answer(&headers)
    });
    Routes::default()
        .probe("/healthz", get(healthz))
        .probe("/readyz", get(readyz))
        .route("/openapi.json", openapi)
        .route("/asyncapi.json", asyncapi)
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

/// Returns 200 if reads are right, else 503 with the reason and the progress. They may be old: with `?fresh=10s` they
/// are not older than that.
async fn readyz(
    State(app): State<Arc<App>>,
    query: QueryParams,
) -> Result<(StatusCode, Json<Readiness>), ApiError> {
    query.check_names(&["fresh"])?;
    let readiness = Readiness::of(&app, query.duration("fresh")?);
    let status = match readiness.ready {
        true => StatusCode::OK,
        false => StatusCode::SERVICE_UNAVAILABLE,
    };
    Ok((status, Json(readiness)))
}

async fn schema(path: PathParams, headers: HeaderMap) -> Result<Response, ApiError> {
    let document = SCHEMAS.get(path.get("file")).ok_or_else(|| {
        let types = events::EVENT_TYPES.join(", ");
        ApiError::NotFound(format!("There is no such schema; there are {types}"))
    })?;
    Ok(document.answer(&headers))
}
