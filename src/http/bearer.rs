//! The token of `Authorization: Bearer` (RFC 6750, 2.1).

use axum::http::HeaderValue;

const SCHEME: &str = "bearer";

/// The token of a header `Authorization`; `None` if it has another scheme, as that of a proxy.
pub(super) fn bearer_token(header: &HeaderValue) -> Option<&str> {
    let (scheme, token) = header.to_str().ok()?.split_once(' ')?;
    scheme.eq_ignore_ascii_case(SCHEME).then(|| token.trim())
}
