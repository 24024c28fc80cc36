//! [`RequestTrace`]: the id of a request, its span, and its line in the access log.

use std::hash::{BuildHasher, RandomState};
use std::sync::LazyLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use axum::response::Response;
use tracing::field::Empty;
use tracing::{Level, Span};

use super::error::InternalReason;
use crate::metrics::KnownMethod;

const X_REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");
/// Characters of a request id that is taken from a client.
const REQUEST_ID_CHARS_MAX: usize = 64;

/// The first characters of each API key.
const KEY_PREFIX: &str = "rb_";
/// Characters of a path segment, and of a request id, that is logged. The secret of a key alone has more.
const LOGGED_CHARS_MAX: usize = 24;
/// What is logged in the place of longer ones.
const NOT_LOGGED: &str = "*";

/// The level of the access log. It has one line for each response.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AccessLog {
    Debug,
    Info,
}

/// A request from its head to its response. The span is disabled, and costs next to nothing, unless its level is
/// logged.
pub(super) struct RequestTrace {
    request_id: HeaderValue,
    access_log: AccessLog,
    /// The span has the path as of [`logged_path`], without the query, which may hold a key.
    pub(super) span: Span,
    /// `None` while the span is disabled.
    started_at: Option<Instant>,
}

/// A path for the log: each long segment is replaced by `*`, because a client may have put a key there.
fn logged_path(path: &str) -> String {
    let shown = |segment| match str::chars(segment).count() {
        0..=LOGGED_CHARS_MAX => segment,
        _ => NOT_LOGGED,
    };
    path.split('/').map(shown).collect::<Vec<_>>().join("/")
}

macro_rules! request_span {
    ($level:expr, $request:ident, $request_id:ident) => {
        tracing::span!(
            $level,
            "request",
            request_id = logged_id(&$request_id),
            // A client may have put a key there.
            method = KnownMethod::from($request.method().as_str()).as_str(),
            path = %logged_path($request.uri().path()),
            key_id = Empty,
            status = Empty,
            latency_ms = Empty,
        )
    };
}

impl RequestTrace {
    /// Takes the request id of the client, or makes one, and opens the span.
    pub(super) fn start<B>(request: &axum::http::Request<B>, access_log: AccessLog) -> Self {
        let request_id = client_request_id(request.headers());
        let request_id = request_id.cloned().unwrap_or_else(new_request_id);
        let span = match access_log {
            AccessLog::Debug => request_span!(Level::DEBUG, request, request_id),
            AccessLog::Info => request_span!(Level::INFO, request, request_id),
        };
        Self {
            request_id,
            access_log,
            started_at: (!span.is_disabled()).then(Instant::now),
            span,
        }
    }

    /// Logs the response, and adds the request id to it.
    pub(super) fn finish<B>(self, response: &mut Response<B>) {
        let status = response.status();
        if status == StatusCode::INTERNAL_SERVER_ERROR
            && let Some(InternalReason(reason)) = response.extensions_mut().remove()
        {
            let request_id = logged_id(&self.request_id);
            tracing::error!(parent: &self.span, request_id, reason, "request failed");
        }
        if let Some(started_at) = self.started_at {
            let latency_ms = started_at.elapsed().as_micros() as f64 / 1e3;
            self.span.record("status", status.as_u16());
            self.span.record("latency_ms", latency_ms);
            match self.access_log {
                AccessLog::Debug => tracing::debug!(parent: &self.span, "request answered"),
                AccessLog::Info => tracing::info!(parent: &self.span, "request answered"),
            }
        }
        response.headers_mut().insert(X_REQUEST_ID, self.request_id);
    }
}

/// The request id of the client, if it has 1 to 64 of `A-Z a-z 0-9 . _ -` and holds no API key.
fn client_request_id(headers: &HeaderMap) -> Option<&HeaderValue> {
    let request_id = headers.get(X_REQUEST_ID)?;
    let text = request_id.to_str().ok()?;
    let is_allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
    let is_valid = (1..=REQUEST_ID_CHARS_MAX).contains(&text.len()) && text.bytes().all(is_allowed);
    (is_valid && !text.contains(KEY_PREFIX)).then_some(request_id)
}

/// A request id for the log. A long one that is not hexadecimal, as UUIDs and the ids of traces are, may be a secret.
fn logged_id(request_id: &HeaderValue) -> &str {
    let text = request_id.to_str().unwrap_or_default();
    let is_hexadecimal = |byte: u8| byte == b'-' || byte.is_ascii_hexdigit();
    match text.len() <= LOGGED_CHARS_MAX || text.bytes().all(is_hexadecimal) {
        true => text,
        false => NOT_LOGGED,
    }
}

/// A request id: the keyed hash of a counter, which does not reveal the number of requests. Cheaper than a UUID.
fn new_request_id() -> HeaderValue {
    static KEY: LazyLock<RandomState> = LazyLock::new(RandomState::new);
    static COUNT: AtomicU64 = AtomicU64::new(0);
    let id = KEY.hash_one(COUNT.fetch_add(1, Ordering::Relaxed));
    HeaderValue::from_bytes(&hexadecimal(id)).expect("hexadecimal digits")
}

/// The 16 digits of a number.
pub(super) fn hexadecimal(number: u64) -> [u8; 16] {
    std::array::from_fn(|i| b"0123456789abcdef"[(number >> (60 - 4 * i)) as usize & 0xf])
}
