//! [`ApiError`]: all error responses, as JSON with the fields `error` and `message`.

use std::sync::Arc;

use axum::body::Body;
use axum::http::header::{
    ALLOW, CACHE_CONTROL, CONNECTION, CONTENT_TYPE, RETRY_AFTER, SEC_WEBSOCKET_VERSION, UPGRADE,
    WWW_AUTHENTICATE,
};
use axum::http::{HeaderMap, HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use events::ParseError;
use projections::StoreError;
use schemars::JsonSchema;
use serde::Serialize;

use super::rate_limit::set_rate_limit_headers;
use crate::health::Reason;
use crate::limits::Exceeded;
use crate::limits::plans::Plan;

/// The exact body of every 401: clients depend on each byte.
pub const UNAUTHORIZED_BODY: &str =
    r#"{"error":"unauthorized","message":"Invalid or missing API key"}"#;

/// The `Retry-After` of a service that is not ready.
const NOT_READY_SECONDS: u32 = 2;

/// The `Retry-After` of a network with too many connections. One of them has to end first.
const TOO_MANY_CONNECTIONS_SECONDS: u32 = 30;

/// An error response. Its text is the `message` that the client receives.
#[derive(Debug, thiserror::Error)]
pub(super) enum ApiError {
    #[error("Invalid or missing API key")]
    Unauthorized,
    /// One network has sent too many such requests. The next one is answered with 401 again after so many seconds.
    #[error("Too many requests without a valid API key")]
    TooManyUnauthorized { retry_after: u32 },
    /// One network has as many WebSockets as it may have.
    #[error("There are too many WebSocket connections from this network")]
    TooManyConnections,
    #[error("The plan {:?} allows {} requests a {}", .plan.name.as_str(), .exceeded.status.limit, .exceeded.period.as_str())]
    RateLimited { plan: Arc<Plan>, exceeded: Exceeded },
    #[error("The plan {:?} does not include live odds", .plan.name.as_str())]
    LiveOddsNotIncluded { plan: Arc<Plan> },
    /// The plan includes no odds, or not yet those of this race.
    #[error("The plan {:?} does not include live odds{}", .plan.name.as_str(), odds_after(plan))]
    OddsNotIncluded { plan: Arc<Plan> },
    #[error("The plan {:?} does not include files of whole meetings", .plan.name.as_str())]
    ExportsNotIncluded { plan: Arc<Plan> },
    #[error("{}", capitalized(.0))]
    InvalidDate(ParseError),
    #[error("{}", capitalized(.0))]
    InvalidRaceNumber(ParseError),
    #[error("{}", capitalized(.0))]
    InvalidHorseNo(ParseError),
    #[error("{0}")]
    InvalidParameter(String),
    #[error("{0}")]
    OriginNotAllowed(String),
    #[error("{0}")]
    NotFound(String),
    /// The log does not reach back to what was asked for.
    #[error("{0}")]
    Gone(String),
    #[error("Only GET and HEAD are allowed here")]
    MethodNotAllowed,
    #[error(
        "Responses are application/json, lists also text/csv and application/x-ndjson, and exports these or \
         application/vnd.apache.parquet; the Accept header excludes them"
    )]
    NotAcceptable,
    #[error("A GET request needs no body")]
    BodyTooLarge,
    #[error("The path and query are too long")]
    UriTooLong,
    /// A request for the live channel is not a WebSocket handshake.
    #[error("{0}")]
    UpgradeRequired(String),
    #[error("{0}")]
    NotReady(String),
    /// The service failed. The reason goes to the service's log only.
    #[error("The request failed because of an error in the service")]
    Internal(String),
}

const NOT_READABLE: &str = "What was asked for cannot be read, and is being restored; see /readyz";

/// A value that cannot be read is not served, and the projector rebuilds the views.
impl From<StoreError> for ApiError {
    fn from(error: StoreError) -> Self {
        tracing::error!(%error, "cannot read a view");
        Self::NotReady(NOT_READABLE.to_owned())
    }
}

/// An error.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct ErrorResponse {
    error: ErrorCode,
    /// The error in words, for people.
    message: String,
}

/// A limit is used up.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct RateLimitExceeded {
    /// The kind of error.
    #[schemars(with = "String", extend("const" = ErrorCode::RateLimitExceeded))]
    error: ErrorCode,
    /// The error in words, for people.
    message: String,
    /// Seconds until the next request is answered, as in `Retry-After`.
    #[schemars(range(min = 1))]
    retry_after: u32,
}

/// The kind of error.
#[derive(Debug, Clone, Copy, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum ErrorCode {
    Unauthorized,
    RateLimitExceeded,
    LiveOddsNotIncluded,
    ExportsNotIncluded,
    InvalidDate,
    InvalidRaceNumber,
    InvalidHorseNo,
    InvalidParameter,
    OriginNotAllowed,
    NotFound,
    Gone,
    MethodNotAllowed,
    NotAcceptable,
    PayloadTooLarge,
    UriTooLong,
    UpgradeRequired,
    NotReady,
    Internal,
}

/// The reason of a 500, in the extensions of the response until it is logged with the request id.
#[derive(Debug, Clone)]
pub(super) struct InternalReason(pub(super) String);

/// The message of an error, in the extensions of the response for the page that a browser is shown instead.
#[derive(Debug, Clone)]
pub(super) struct ErrorMessage(pub(super) String);

impl ApiError {
    /// The service is not ready for a reason.
    pub(super) fn unready(reason: Reason) -> Self {
        Self::NotReady(capitalized(reason.meaning().unready.unwrap_or_default()))
    }

    pub(super) fn internal(error: impl ToString) -> Self {
        Self::Internal(error.to_string())
    }

    /// The status, and the code in the field `error`.
    fn status_and_code(&self) -> (StatusCode, ErrorCode) {
        match self {
            Self::Unauthorized => (StatusCode::UNAUTHORIZED, ErrorCode::Unauthorized),
            Self::TooManyUnauthorized { .. }
            | Self::TooManyConnections
            | Self::RateLimited { .. } => {
                (StatusCode::TOO_MANY_REQUESTS, ErrorCode::RateLimitExceeded)
            }
            Self::LiveOddsNotIncluded { .. } | Self::OddsNotIncluded { .. } => {
                (StatusCode::FORBIDDEN, ErrorCode::LiveOddsNotIncluded)
            }
            Self::ExportsNotIncluded { .. } => {
                (StatusCode::FORBIDDEN, ErrorCode::ExportsNotIncluded)
            }
            Self::InvalidDate(_) => (StatusCode::BAD_REQUEST, ErrorCode::InvalidDate),
            Self::InvalidRaceNumber(_) => (StatusCode::BAD_REQUEST, ErrorCode::InvalidRaceNumber),
            Self::InvalidHorseNo(_) => (StatusCode::BAD_REQUEST, ErrorCode::InvalidHorseNo),
            Self::InvalidParameter(_) => (StatusCode::BAD_REQUEST, ErrorCode::InvalidParameter),
            Self::OriginNotAllowed(_) => (StatusCode::FORBIDDEN, ErrorCode::OriginNotAllowed),
            Self::NotFound(_) => (StatusCode::NOT_FOUND, ErrorCode::NotFound),
            Self::Gone(_) => (StatusCode::GONE, ErrorCode::Gone),
            Self::MethodNotAllowed => (StatusCode::METHOD_NOT_ALLOWED, ErrorCode::MethodNotAllowed),
            Self::NotAcceptable => (StatusCode::NOT_ACCEPTABLE, ErrorCode::NotAcceptable),
            Self::BodyTooLarge => (StatusCode::PAYLOAD_TOO_LARGE, ErrorCode::PayloadTooLarge),
            Self::UriTooLong => (StatusCode::URI_TOO_LONG, ErrorCode::UriTooLong),
            Self::UpgradeRequired(_) => (StatusCode::UPGRADE_REQUIRED, ErrorCode::UpgradeRequired),
            Self::NotReady(_) => (StatusCode::SERVICE_UNAVAILABLE, ErrorCode::NotReady),
            Self::Internal(_) => (StatusCode::INTERNAL_SERVER_ERROR, ErrorCode::Internal),
        }
    }

    fn body(&self, error: ErrorCode, message: String) -> Body {
        if let Self::Unauthorized = self {
            return UNAUTHORIZED_BODY.into();
        }
        let body = match self.limited_for() {
            Some(retry_after) => serde_json::to_vec(&RateLimitExceeded {
                error,
                message,
                retry_after,
            }),
            None => serde_json::to_vec(&ErrorResponse { error, message }),
        };
        body.expect("texts and numbers are JSON").into()
    }

    /// The seconds until the limit of a 429 allows another request.
    fn limited_for(&self) -> Option<u32> {
        match self {
            Self::TooManyUnauthorized { retry_after } => Some(*retry_after),
            Self::TooManyConnections => Some(TOO_MANY_CONNECTIONS_SECONDS),
            Self::RateLimited { exceeded, .. } => Some(exceeded.retry_after),
            _ => None,
        }
    }

    fn set_headers(&self, headers: &mut HeaderMap) {
        let mut set = |name, value| {
            headers.insert(name, HeaderValue::from_static(value));
        };
        set(CONTENT_TYPE, "application/json");
        set(CACHE_CONTROL, "no-store");
        match self {
            // RFC 9110, 7.8 asks for the protocol and for `Connection`, RFC 6455, 4.4 for the version.
            Self::UpgradeRequired(_) => {
                set(UPGRADE, "websocket");
                set(CONNECTION, "upgrade");
                set(SEC_WEBSOCKET_VERSION, "13");
            }
            Self::MethodNotAllowed => set(ALLOW, "GET, HEAD"),
            // RFC 9110, 11.6.1 asks for a challenge. Browsers open no dialog for this one.
            Self::Unauthorized => set(WWW_AUTHENTICATE, "Bearer realm=\"railbird\""),
            Self::NotReady(_) => {
                headers.insert(RETRY_AFTER, NOT_READY_SECONDS.into());
            }
            Self::RateLimited { exceeded, .. } => set_rate_limit_headers(headers, exceeded.status),
            _ => {}
        }
        if let Some(seconds) = self.limited_for() {
            headers.insert(RETRY_AFTER, seconds.into());
        }
    }
}

/// When a plan without live odds includes those of a race.
fn odds_after(plan: &Plan) -> String {
    let after = plan.odds_after.map(|after| {
        format!("; those of a race can be read once they have not changed for {after:#}")
    });
    after.unwrap_or_default()
}

/// A text with a capital letter.
pub(super) fn capitalized(text: impl ToString) -> String {
    let text = text.to_string();
    let mut letters = text.chars();
    let first = letters.next().map(char::to_uppercase);
    first.into_iter().flatten().chain(letters).collect()
}

impl IntoResponse for ApiError {
    fn into_response(self) -> Response {
        let (status, code) = self.status_and_code();
        let message = self.to_string();
        let mut response = Response::new(self.body(code, message.clone()));
        *response.status_mut() = status;
        self.set_headers(response.headers_mut());
        response.extensions_mut().insert(ErrorMessage(message));
        if let Self::Internal(reason) = self {
            response.extensions_mut().insert(InternalReason(reason));
        }
        response
    }
}
