//! The headers `X-RateLimit-*`: what the plan of a key allows, and what is left of it.

use axum::http::{HeaderMap, HeaderName};

use crate::limits::RateLimitStatus;

const X_RATELIMIT_LIMIT: HeaderName = HeaderName::from_static("x-ratelimit-limit");
const X_RATELIMIT_REMAINING: HeaderName = HeaderName::from_static("x-ratelimit-remaining");
const X_RATELIMIT_RESET: HeaderName = HeaderName::from_static("x-ratelimit-reset");

/// Sets the limit, the requests left and the seconds until more are allowed.
pub(super) fn set_rate_limit_headers(headers: &mut HeaderMap, allowance: RateLimitStatus) {
    headers.insert(X_RATELIMIT_LIMIT, allowance.limit.into());
    headers.insert(X_RATELIMIT_REMAINING, allowance.remaining.into());
    headers.insert(X_RATELIMIT_RESET, allowance.reset.into());
}
