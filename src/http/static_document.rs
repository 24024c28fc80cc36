//! [`StaticDocument`]: an answer that is the same for the life of the process. Its bytes are made once, and compressed
//! once.

use std::io::Write;
use std::sync::OnceLock;

use axum::http::header::{
    ACCEPT_ENCODING, CACHE_CONTROL, CONTENT_ENCODING, CONTENT_TYPE, IF_NONE_MATCH,
};
use axum::http::{HeaderMap, HeaderValue, StatusCode};
use axum::response::Response;
use bytes::Bytes;
use flate2::Compression;
use flate2::write::GzEncoder;
use serde_json::Value;

use super::COMPRESSED_BYTES_MIN;
use super::entity_tag::EntityTag;
use super::header_list::{elements, is_zero_weight};

#[derive(Debug)]
pub(super) struct StaticDocument {
    pub(super) content_type: &'static str,
    pub(super) bytes: Bytes,
    etag: EntityTag,
    gzip: OnceLock<Bytes>,
}

impl StaticDocument {
    pub(super) fn new(content_type: &'static str, bytes: impl Into<Bytes>) -> Self {
        let bytes = bytes.into();
        Self {
            content_type,
            etag: EntityTag::of(&bytes),
            bytes,
            gzip: OnceLock::new(),
        }
    }

    pub(super) fn json(json: &Value) -> Self {
        Self::new("application/json", json.to_string())
    }

    /// The compressed bytes, which the first call makes; `None` of a small document.
    pub(super) fn compressed(&self) -> Option<&Bytes> {
        let is_large = self.bytes.len() as u64 >= COMPRESSED_BYTES_MIN;
        is_large.then(|| self.gzip.get_or_init(|| gzip(&self.bytes)))
    }

    /// The document, or 304 if the client has it. Clients ask again each time.
    pub(super) fn answer(&self, headers: &HeaderMap) -> Response {
        let gzip = accepts_gzip(headers).then(|| self.compressed()).flatten();
        let body = gzip.unwrap_or(&self.bytes);
        let etag = self.etag.clone();
        let mut response = etag.response(headers.get(IF_NONE_MATCH), body.clone());
        let is_sent = response.status() == StatusCode::OK;
        response.extensions_mut().insert(SentAsItIs);
        let headers = response.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static(self.content_type));
        headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-cache"));
        if gzip.is_some() && is_sent {
            headers.insert(CONTENT_ENCODING, HeaderValue::from_static("gzip"));
        }
        response
    }
}

/// Marks an answer that is not compressed again: for each `x-gzip` or `*` that would take the time of the document.
#[derive(Debug, Clone, Copy)]
pub(super) struct SentAsItIs;

fn gzip(bytes: &[u8]) -> Bytes {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
    let compressed = encoder.write_all(bytes).and_then(|()| encoder.finish());
    compressed.expect("a Vec takes all bytes").into()
}

fn accepts_gzip(headers: &HeaderMap) -> bool {
    elements(headers, ACCEPT_ENCODING).any(|(name, mut parameters)| {
        name.eq_ignore_ascii_case("gzip") && !parameters.any(is_zero_weight)
    })
}

#[cfg(test)]
mod tests {
    use axum::body::to_bytes;
    use axum::http::header::{ACCEPT_ENCODING, CONTENT_ENCODING};
    use axum::http::{HeaderMap, HeaderValue};

    use super::StaticDocument;

    #[tokio::test]
    async fn a_document_is_compressed_once() {
        let document = StaticDocument::new("text/plain", "words and words ".repeat(1_000));
        let headers = HeaderMap::from_iter([(ACCEPT_ENCODING, HeaderValue::from_static("gzip"))]);
        let mut bodies = Vec::new();
        for _ in 0..2 {
            let answer = document.answer(&headers);
            assert_eq!(answer.headers()[CONTENT_ENCODING], "gzip");
            let body = to_bytes(answer.into_body(), usize::MAX).await;
            bodies.push(body.expect("bytes"));
        }
        let places: Vec<_> = bodies.iter().map(|body| body.as_ptr()).collect();
        assert_eq!(places[0], places[1], "the same bytes in memory");
    }
}
