//! [`EntityTag`]: answers 304 to clients that have a body.

use axum::body::Body;
use axum::http::header::{ETAG, VARY};
use axum::http::{HeaderMap, HeaderValue, StatusCode};
use axum::response::Response;
use rapidhash::v3::rapidhash_v3;

use super::trace::hexadecimal;

/// A weak entity tag, because the same body may be sent compressed: its rapidhash (version 3), which takes a fifth of
/// the instructions of BLAKE3.
#[derive(Debug, Clone)]
pub(super) struct EntityTag(HeaderValue);

/// Headers of a response: eight of an answer of the API, the state of the feed, three rate limits, the request id, the
/// type that is not guessed, and two for compression. The map is allocated once.
const RESPONSE_HEADERS: usize = 16;

impl EntityTag {
    pub(super) fn of(body: &[u8]) -> Self {
        Self::of_hash(rapidhash_v3(body))
    }

    /// That of a body by a hash.
    pub(super) fn of_hash(hash: u64) -> Self {
        let mut tag = *b"W/\"0123456789abcdef\"";
        tag[3..19].copy_from_slice(&hexadecimal(hash));
        Self(HeaderValue::from_bytes(&tag).expect("hexadecimal digits"))
    }

    /// The body, or 304 if the tags of `If-None-Match` have its own. `Vary` says that the body may be compressed, also
    /// with a 304 and a short body: the next one may be.
    pub(super) fn response(self, tags: Option<&HeaderValue>, body: impl Into<Body>) -> Response {
        let is_known = tags.is_some_and(|tags| self.is_among(tags));
        let mut response = Response::new(body.into());
        if is_known {
            *response.body_mut() = Body::empty();
            *response.status_mut() = StatusCode::NOT_MODIFIED;
        }
        let mut headers = HeaderMap::with_capacity(RESPONSE_HEADERS);
        headers.insert(VARY, HeaderValue::from_static("accept-encoding"));
        headers.insert(ETAG, self.0);
        *response.headers_mut() = headers;
        response
    }

    /// Whether a list of entity tags has this one, by weak comparison (RFC 9110, 8.8.3.2).
    fn is_among(&self, tags: &HeaderValue) -> bool {
        fn opaque(tag: &str) -> &str {
            tag.trim().trim_start_matches("W/")
        }
        let known = self.0.to_str().unwrap_or_default();
        tags.to_str().is_ok_and(|tags| {
            let mut each = tags.split(',').map(opaque);
            tags.trim() == "*" || each.any(|tag| tag == opaque(known))
        })
    }
}
