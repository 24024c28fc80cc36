//! [`ApiError`]: all error responses, as JSON with the fields `error` and `message`.

use std::sync::Arc;

use axum::body::Body;
use axum::http::header::{
    ALLOW, CACHE_CONTROL, CONNECTION, CONTENT_TYPE, RETRY_AFTER, SEC_WEBSOCKET_VERSION, UPGRADE,
};
use axum::http::{HeaderMap, HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use events::ParseError;
use projections::StoreError;
use serde_json::json;

use super::rate_limit::set_rate_limit_headers;
use crate::limits::Exceeded;
use crate::limits::plans::Plan;

/// The exact body of every 401: clients depend on each byte.
pub const UNAUTHORIZED_BODY: &str =
    r#"{"error":"unauthorized","message":"Invalid or missing API key"}"#;

/// The `Retry-After` of a service that is not ready.
const NOT_READY_SECONDS: u32 = 2;

/// An error response. Its text is the `message` that the client receives.
#[derive(Debug, thiserror::Error)]
pub enum ApiError {
    /// The key is missing or not valid.
    #[error("Invalid or missing API key")]
    Unauthorized,
    /// One network has sent too many requests without a valid key.
    #[error("Too many requests without a valid API key")]
    TooManyUnauthorized {
        /// Seconds until the next such request is answered with 401 again.
        retry_after: u32,
    },
    /// The key is valid, and a limit of its plan is used up.
    #[error("The plan {:?} allows {} requests a {}", .plan.name.as_str(), .exceeded.status.limit, .exceeded.period.as_str())]
    RateLimited {
        /// The plan of the key.
        plan: Arc<Plan>,
        /// The limit that was exceeded.
        exceeded: Exceeded,
    },
    /// The plan of the key does not include the live channel.
    #[error("The plan {:?} does not include live odds", .plan.name.as_str())]
    LiveOddsNotIncluded {
        /// The plan of the key.
        plan: Arc<Plan>,
    },
    /// A date in the path or the query is invalid.
    #[error("{}", sentence(.0))]
    InvalidDate(ParseError),
    /// The race number in the path is invalid.
    #[error("{}", sentence(.0))]
    InvalidRaceNumber(ParseError),
    /// The horse number in the path is invalid.
    #[error("{}", sentence(.0))]
    InvalidHorseNo(ParseError),
    /// Another parameter is invalid.
    #[error("{0}")]
    InvalidParameter(String),
    /// The handshake comes from a web page of an origin that is not allowed.
    #[error("Web pages of this origin may not connect")]
    OriginNotAllowed,
    /// The requested resource does not exist.
    #[error("{0}")]
    NotFound(String),
    /// The method is neither GET nor HEAD.
    #[error("Only GET and HEAD are allowed here")]
    MethodNotAllowed,
    /// `Accept` excludes JSON.
    #[error("Responses are application/json, which the Accept header excludes")]
    NotAcceptable,
    /// The request has a large body.
    #[error("A GET request needs no body")]
    BodyTooLarge,
    /// The path and query are too long.
    #[error("The path and query are too long")]
    UriTooLong,
    /// A request for the live channel is not a WebSocket handshake.
    #[error("{0}")]
    UpgradeRequired(String),
    /// The views or the keys have not been read from the log yet.
    #[error("{0}")]
    NotReady(&'static str),
    /// The service failed. The reason goes to the service's log only.
    #[error("The request failed because of an error in the service")]
    Internal(String),
}

impl From<StoreError> for ApiError {
    fn from(error: StoreError) -> Self {
        Self::Internal(error.to_string())
    }
}

/// The reason of a 500, in the extensions of the response until it is logged with the request id.
#[derive(Debug, Clone)]
pub(super) struct InternalReason(pub(super) String);

impl ApiError {
    /// The status, and the code in the field `error`.
    fn status_and_code(&self) -> (StatusCode, &'static str) {
        match self {
            Self::Unauthorized => (StatusCode::UNAUTHORIZED, "unauthorized"),
            Self::TooManyUnauthorized { .. } | Self::RateLimited { .. } => {
                (StatusCode::TOO_MANY_REQUESTS, "rate_limit_exceeded")
            }
            Self::LiveOddsNotIncluded { .. } => (StatusCode::FORBIDDEN, "live_odds_not_included"),
            Self::InvalidDate(_) => (StatusCode::BAD_REQUEST, "invalid_date"),
            Self::InvalidRaceNumber(_) => (StatusCode::BAD_REQUEST, "invalid_race_number"),
            Self::InvalidHorseNo(_) => (StatusCode::BAD_REQUEST, "invalid_horse_no"),
            Self::InvalidParameter(_) => (StatusCode::BAD_REQUEST, "invalid_parameter"),
            Self::OriginNotAllowed => (StatusCode::FORBIDDEN, "origin_not_allowed"),
            Self::NotFound(_) => (StatusCode::NOT_FOUND, "not_found"),
            Self::MethodNotAllowed => (StatusCode::METHOD_NOT_ALLOWED, "method_not_allowed"),
            Self::NotAcceptable => (StatusCode::NOT_ACCEPTABLE, "not_acceptable"),
            Self::BodyTooLarge => (StatusCode::PAYLOAD_TOO_LARGE, "payload_too_large"),
            Self::UriTooLong => (StatusCode::URI_TOO_LONG, "uri_too_long"),
            Self::UpgradeRequired(_) => (StatusCode::UPGRADE_REQUIRED, "upgrade_required"),
            Self::NotReady(_) => (StatusCode::SERVICE_UNAVAILABLE, "not_ready"),
            Self::Internal(_) => (StatusCode::INTERNAL_SERVER_ERROR, "internal"),
        }
    }

    fn body(&self, code: &str) -> Body {
        let message = self.to_string();
        match self {
            Self::Unauthorized => UNAUTHORIZED_BODY.into(),
            Self::TooManyUnauthorized { retry_after }
            | Self::RateLimited {
                exceeded: Exceeded { retry_after, .. },
                ..
            } => json!({ "error": code, "message": message, "retry_after": retry_after })
                .to_string()
                .into(),
            _ => json!({ "error": code, "message": message })
                .to_string()
                .into(),
        }
    }

    fn set_headers(&self, headers: &mut HeaderMap) {
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
        match self {
            // RFC 9110, 7.8 asks for the protocol and for `Connection`, RFC 6455, 4.4 for the version.
            Self::UpgradeRequired(_) => {
                headers.insert(UPGRADE, HeaderValue::from_static("websocket"));
                headers.insert(CONNECTION, HeaderValue::from_static("upgrade"));
                headers.insert(SEC_WEBSOCKET_VERSION, HeaderValue::from_static("13"));
            }
            Self::MethodNotAllowed => {
                headers.insert(ALLOW, HeaderValue::from_static("GET, HEAD"));
            }
            Self::NotReady(_) => {
                headers.insert(RETRY_AFTER, NOT_READY_SECONDS.into());
            }
            Self::TooManyUnauthorized { retry_after } => {
                headers.insert(RETRY_AFTER, (*retry_after).into());
            }
            Self::RateLimited { exceeded, .. } => {
                headers.insert(RETRY_AFTER, exceeded.retry_after.into());
                set_rate_limit_headers(headers, exceeded.status);
            }
            _ => {}
        }
    }
}

/// A parse error with a capital letter.
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
        let (status, code) = self.status_and_code();
        let mut response = Response::new(self.body(code));
        *response.status_mut() = status;
        self.set_headers(response.headers_mut());
        if let Self::Internal(reason) = self {
            response.extensions_mut().insert(InternalReason(reason));
        }
        response
    }
}
