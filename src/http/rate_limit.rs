//! The headers `X-RateLimit-*`: a limit of a key's plan, and the requests left.

use axum::http::{HeaderMap, HeaderName};

use crate::limits::RateLimitStatus;

const X_RATELIMIT_LIMIT: HeaderName = HeaderName::from_static("x-ratelimit-limit");
const X_RATELIMIT_REMAINING: HeaderName = HeaderName::from_static("x-ratelimit-remaining");
const X_RATELIMIT_RESET: HeaderName = HeaderName::from_static("x-ratelimit-reset");

/// Sets the limit, the requests left, and the seconds until all of them are available again.
pub(super) fn set_rate_limit_headers(headers: &mut HeaderMap, status: RateLimitStatus) {
    headers.insert(X_RATELIMIT_LIMIT, status.limit.into());
    headers.insert(X_RATELIMIT_REMAINING, status.remaining.into());
    headers.insert(X_RATELIMIT_RESET, status.reset.into());
}
