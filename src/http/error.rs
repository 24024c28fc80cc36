//! [`ApiError`]: every answer that is not a success, in one shape: `error` and `message`.

use std::sync::Arc;

use axum::body::Body;
use axum::http::header::{
    ALLOW, CACHE_CONTROL, CONNECTION, CONTENT_TYPE, RETRY_AFTER, SEC_WEBSOCKET_VERSION, UPGRADE,
};
use axum::http::{HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use events::ParseError;
use projections::StoreError;

use super::rate_limit::set_rate_limit_headers;
use crate::limits::Exceeded;
use crate::limits::plans::Plan;

/// The body of every 401, to the byte: clients depend on it.
pub const UNAUTHORIZED_BODY: &str =
    r#"{"error":"unauthorized","message":"Invalid or missing API key"}"#;

/// How long a client waits before it asks a service again that is not ready.
const NOT_READY_SECONDS: u32 = 2;

const RATE_LIMIT_EXCEEDED: &str = "rate_limit_exceeded";

/// Why a request is not answered with what it asked for.
#[derive(Debug)]
pub enum ApiError {
    /// The key is missing or not valid.
    Unauthorized,
    /// There were too many requests with keys that are not valid, from one network address.
    TooManyGuesses {
        /// Seconds until the next one.
        retry_after: u32,
    },
    /// The key is valid, and its plan allows no more for now.
    RateLimited {
        /// The plan.
        plan: Arc<Plan>,
        /// What was left.
        exceeded: Exceeded,
    },
    /// The plan of the key does not include the live channel.
    LiveOddsNotIncluded {
        /// The plan.
        plan: Arc<Plan>,
    },
    /// A date in the path or the query is none.
    InvalidDate(ParseError),
    /// A race number is none.
    InvalidRaceNumber(ParseError),
    /// A horse number is none.
    InvalidHorseNo(ParseError),
    /// Another parameter is wrong.
    InvalidParameter(String),
    /// The web page that asks may not.
    OriginNotAllowed,
    /// There is no such thing.
    NotFound(String),
    /// Everything here is GET.
    MethodNotAllowed,
    /// The client takes no JSON.
    NotAcceptable,
    /// A body came with the request, and a large one.
    BodyTooLarge,
    /// The path and query are too long.
    UriTooLong,
    /// The path is a WebSocket's, and the request is no handshake.
    UpgradeRequired(String),
    /// The views do not reflect the log yet.
    NotReady(&'static str),
    /// It is our fault.
    Internal(String),
}

impl From<StoreError> for ApiError {
    fn from(error: StoreError) -> Self {
        Self::Internal(error.to_string())
    }
}

impl ApiError {
    fn parts(&self) -> (StatusCode, &'static str, String) {
        match self {
            Self::Unauthorized => (
                StatusCode::UNAUTHORIZED,
                "unauthorized",
                "Invalid or missing API key".to_owned(),
            ),
            Self::TooManyGuesses { .. } => (
                StatusCode::TOO_MANY_REQUESTS,
                RATE_LIMIT_EXCEEDED,
                "Too many requests without a valid API key".to_owned(),
            ),
            Self::RateLimited { plan, exceeded } => {
                let (limit, period) = (exceeded.status.limit, exceeded.period.as_str());
                let plan = plan.name.as_str();
                (
                    StatusCode::TOO_MANY_REQUESTS,
                    RATE_LIMIT_EXCEEDED,
                    format!("The plan {plan:?} allows {limit} requests a {period}"),
                )
            }
            Self::LiveOddsNotIncluded { plan } => (
                StatusCode::FORBIDDEN,
                "live_odds_not_included",
                format!(
                    "The plan {:?} does not include live odds",
                    plan.name.as_str()
                ),
            ),
            Self::InvalidDate(error) => (StatusCode::BAD_REQUEST, "invalid_date", sentence(error)),
            Self::InvalidRaceNumber(error) => (
                StatusCode::BAD_REQUEST,
                "invalid_race_number",
                sentence(error),
            ),
            Self::InvalidHorseNo(error) => {
                (StatusCode::BAD_REQUEST, "invalid_horse_no", sentence(error))
            }
            Self::InvalidParameter(what) => {
                (StatusCode::BAD_REQUEST, "invalid_parameter", what.clone())
            }
            Self::OriginNotAllowed => (
                StatusCode::FORBIDDEN,
                "origin_not_allowed",
                "Web pages of this origin may not connect".to_owned(),
            ),
            Self::NotFound(what) => (StatusCode::NOT_FOUND, "not_found", what.clone()),
            Self::MethodNotAllowed => (
                StatusCode::METHOD_NOT_ALLOWED,
                "method_not_allowed",
                "Only GET and HEAD are allowed here".to_owned(),
            ),
            Self::NotAcceptable => (
                StatusCode::NOT_ACCEPTABLE,
                "not_acceptable",
                "Answers are application/json".to_owned(),
            ),
            Self::BodyTooLarge => (
                StatusCode::PAYLOAD_TOO_LARGE,
                "payload_too_large",
                "A GET request needs no body".to_owned(),
            ),
            Self::UriTooLong => (
                StatusCode::URI_TOO_LONG,
                "uri_too_long",
                "The path and query are too long".to_owned(),
            ),
            Self::UpgradeRequired(why) => (
                StatusCode::UPGRADE_REQUIRED,
                "upgrade_required",
                why.clone(),
            ),
            Self::NotReady(why) => (
                StatusCode::SERVICE_UNAVAILABLE,
                "not_ready",
                (*why).to_owned(),
            ),
            Self::Internal(_) => (
                StatusCode::INTERNAL_SERVER_ERROR,
                "internal",
                "Something went wrong here".to_owned(),
            ),
        }
    }

    /// Seconds until it is of use to ask again.
    fn retry_after(&self) -> Option<u32> {
        match self {
            Self::NotReady(_) => Some(NOT_READY_SECONDS),
            Self::TooManyGuesses { retry_after } => Some(*retry_after),
            Self::RateLimited { exceeded, .. } => Some(exceeded.retry_after),
            _ => None,
        }
    }
}

/// A parse error as a sentence of its own.
fn sentence(error: &ParseError) -> String {
    let text = error.to_string();
    let mut letters = text.chars();
    letters
        .next()
        .map(|first| first.to_uppercase().chain(letters).collect())
        .unwrap_or_default()
}

impl IntoResponse for ApiError {
    fn into_response(self) -> Response {
        if let Self::Internal(reason) = &self {
            tracing::error!(reason, "a request failed");
        }
        let (status, error, message) = self.parts();
        let body = match self {
            Self::Unauthorized => UNAUTHORIZED_BODY.to_owned(),
            Self::RateLimited { .. } | Self::TooManyGuesses { .. } => {
                serde_json::json!({ "error": error, "message": message, "retry_after": self.retry_after() }).to_string()
            }
            _ => serde_json::json!({ "error": error, "message": message }).to_string(),
        };
        let mut response = Response::new(Body::from(body));
        *response.status_mut() = status;
        let headers = response.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
        if let Some(seconds) = self.retry_after() {
            headers.insert(RETRY_AFTER, seconds.into());
        }
        match self {
            // Which protocol, that it is about this connection (RFC 9110, 7.8), and which version (RFC 6455, 4.4).
            Self::UpgradeRequired(_) => {
                headers.insert(UPGRADE, HeaderValue::from_static("websocket"));
                headers.insert(CONNECTION, HeaderValue::from_static("upgrade"));
                headers.insert(SEC_WEBSOCKET_VERSION, HeaderValue::from_static("13"));
            }
            Self::MethodNotAllowed => {
                headers.insert(ALLOW, HeaderValue::from_static("GET, HEAD"));
            }
            Self::RateLimited { exceeded, .. } => set_rate_limit_headers(headers, exceeded.status),
            _ => {}
        }
        response
    }
}
