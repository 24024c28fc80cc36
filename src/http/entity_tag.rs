//! [`EntityTag`]: answers 304 to clients that have a body.

use axum::body::Body;
use axum::http::header::{ETAG, VARY};
use axum::http::{HeaderValue, StatusCode};
use axum::response::Response;

/// A weak entity tag, because the same body may be sent compressed: the first 64 bits of its BLAKE3 hash.
#[derive(Debug)]
pub(super) struct EntityTag(String);

impl EntityTag {
    pub(super) fn of(body: &[u8]) -> Self {
        Self::of_hash(blake3::hash(body))
    }

    /// That of a body by its hash.
    pub(super) fn of_hash(hash: blake3::Hash) -> Self {
        Self(format!("W/\"{}\"", &hash.to_hex()[..16]))
    }

    /// The body, or 304 if the tags of `If-None-Match` have its own. `Vary` says that the body may be compressed, also
    /// with a 304 and a short body: the next one may be.
    pub(super) fn response(&self, tags: Option<&HeaderValue>, body: impl Into<Body>) -> Response {
        let is_known = tags.is_some_and(|tags| self.is_among(tags));
        let mut response = if is_known {
            let mut response = Response::new(Body::empty());
            *response.status_mut() = StatusCode::NOT_MODIFIED;
            response
        } else {
            Response::new(body.into())
        };
        let headers = response.headers_mut();
        headers.insert(VARY, HeaderValue::from_static("accept-encoding"));
        if let Ok(etag) = HeaderValue::try_from(&self.0) {
            headers.insert(ETAG, etag);
        }
        response
    }

    /// Whether a list of entity tags has this one, by weak comparison (RFC 9110, 8.8.3.2).
    fn is_among(&self, tags: &HeaderValue) -> bool {
        let opaque = |tag: &str| tag.trim().trim_start_matches("W/").to_owned();
        let wanted = opaque(&self.0);
        tags.to_str().is_ok_and(|tags| {
            tags.trim() == "*" || tags.split(',').any(|tag| opaque(tag) == wanted)
        })
    }
}

/// Whether a parameter is the weight 0, which excludes what it belongs to (RFC 9110, 12.4.2).
pub(super) fn is_zero_weight(parameter: &str) -> bool {
    matches!(parameter.trim(), "q=0" | "q=0.0" | "q=0.00" | "q=0.000")
}
