//! [`CachedDocument`]: JSON that is the same for the life of the process. Its bytes are made once.

use axum::body::Body;
use axum::http::header::{CACHE_CONTROL, CONTENT_TYPE, ETAG, IF_NONE_MATCH, VARY};
use axum::http::{HeaderMap, HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use serde_json::Value;

use super::request::{entity_tag, matches_etag};

pub(super) struct CachedDocument {
    json: Bytes,
    etag: String,
}

impl CachedDocument {
    pub(super) fn new(json: &Value) -> Self {
        let json = json.to_string().into_bytes();
        Self {
            etag: entity_tag(&json),
            json: json.into(),
        }
    }

    /// The document, or 304 if the client has it.
    pub(super) fn answer(&self, headers: &HeaderMap) -> Response {
        let tags = headers.get(IF_NONE_MATCH);
        let mut response = match tags.is_some_and(|tags| matches_etag(tags, &self.etag)) {
            true => StatusCode::NOT_MODIFIED.into_response(),
            false => Response::new(Body::from(self.json.clone())),
        };
        let headers = response.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-cache"));
        headers.insert(VARY, HeaderValue::from_static("accept-encoding"));
        if let Ok(etag) = HeaderValue::try_from(&self.etag) {
            headers.insert(ETAG, etag);
        }
        response
    }
}
