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
use tokio::task::JoinError;

use super::rate_limit::set_rate_limit_headers;
use crate::health::Reason;
use crate::limits::RateLimitStatus;
use crate::limits::plans::Plan;

/// The exact body of every 401: clients depend on each byte.
pub const UNAUTHORIZED_BODY: &str =
    r#"{"error":"unauthorized","message":"Invalid or missing API key"}"#;

/// The `Retry-After` of a service that is not ready.
const NOT_READY_SECONDS: u32 = 2;

/// An error response. Its text is the `message` that the client receives, and its variant is the code in `error`.
// Variants have no doc comments, because those would be in the schema of the codes.
#[derive(Debug, thiserror::Error, strum::EnumDiscriminants)]
#[strum_discriminants(name(ErrorCode), derive(Serialize, JsonSchema))]
#[strum_discriminants(serde(rename_all = "snake_case"), doc = "The kind of error.")]
pub(super) enum ApiError {
    #[error("Invalid or missing API key")]
    Unauthorized,
    // After so many seconds, there is another request or connection. The status is that of a plan.
    #[error("{message}")]
    RateLimitExceeded {
        message: String,
        retry_after: u32,
        status: Option<RateLimitStatus>,
    },
    // The plan includes no odds, or not yet those of a race: `hint` is when it does.
    #[error("The plan {:?} does not include live odds{hint}", .plan.name.as_str())]
    LiveOddsNotIncluded { plan: Arc<Plan>, hint: String },
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
    // The log does not reach back to what was asked for.
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
    PayloadTooLarge,
    #[error("The path and query are too long")]
    UriTooLong,
    // A request for the live channel is not a WebSocket handshake.
    #[error("{0}")]
    UpgradeRequired(String),
    #[error("{0}")]
    NotReady(String),
    // The service failed. The reason goes to the service's log only.
    #[error("The request failed because of an error in the service")]
    Internal(String),
}

/// A view or an answer that is not the JSON that it should be.
impl From<serde_json::Error> for ApiError {
    fn from(error: serde_json::Error) -> Self {
        Self::internal(error)
    }
}

const NOT_READABLE: &str = "What was asked for cannot be read, and is being restored; see /readyz";

/// Of work that panicked.
impl From<JoinError> for ApiError {
    fn from(panicked: JoinError) -> Self {
        Self::internal(panicked)
    }
}

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

    pub(super) fn invalid(reason: impl ToString) -> Self {
        Self::InvalidParameter(reason.to_string())
    }

    fn status(&self) -> StatusCode {
        match self {
            Self::Unauthorized => StatusCode::UNAUTHORIZED,
            Self::RateLimitExceeded { .. } => StatusCode::TOO_MANY_REQUESTS,
            Self::LiveOddsNotIncluded { .. }
            | Self::ExportsNotIncluded { .. }
            | Self::OriginNotAllowed(_) => StatusCode::FORBIDDEN,
            Self::InvalidDate(_)
            | Self::InvalidRaceNumber(_)
            | Self::InvalidHorseNo(_)
            | Self::InvalidParameter(_) => StatusCode::BAD_REQUEST,
            Self::NotFound(_) => StatusCode::NOT_FOUND,
            Self::Gone(_) => StatusCode::GONE,
            Self::MethodNotAllowed => StatusCode::METHOD_NOT_ALLOWED,
            Self::NotAcceptable => StatusCode::NOT_ACCEPTABLE,
            Self::PayloadTooLarge => StatusCode::PAYLOAD_TOO_LARGE,
            Self::UriTooLong => StatusCode::URI_TOO_LONG,
            Self::UpgradeRequired(_) => StatusCode::UPGRADE_REQUIRED,
            Self::NotReady(_) => StatusCode::SERVICE_UNAVAILABLE,
            Self::Internal(_) => StatusCode::INTERNAL_SERVER_ERROR,
        }
    }

    fn body(&self, message: String) -> Body {
        let error = ErrorCode::from(self);
        let body = match self {
            Self::Unauthorized => return UNAUTHORIZED_BODY.into(),
            &Self::RateLimitExceeded { retry_after, .. } => {
                serde_json::to_vec(&RateLimitExceeded {
                    error,
                    message,
                    retry_after,
                })
            }
            _ => serde_json::to_vec(&ErrorResponse { error, message }),
        };
        body.expect("texts and numbers are JSON").into()
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
            &Self::RateLimitExceeded {
                retry_after,
                status,
                ..
            } => {
                headers.insert(RETRY_AFTER, retry_after.into());
                if let Some(status) = status {
                    set_rate_limit_headers(headers, status);
                }
            }
            _ => {}
        }
    }
}

/// When a plan without live odds includes those of a race.
pub(super) fn odds_after(plan: &Plan) -> String {
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
        let message = self.to_string();
        let mut response = Response::new(self.body(message.clone()));
        *response.status_mut() = self.status();
        self.set_headers(response.headers_mut());
        response.extensions_mut().insert(ErrorMessage(message));
        if let Self::Internal(reason) = self {
            response.extensions_mut().insert(InternalReason(reason));
        }
        response
    }
}
