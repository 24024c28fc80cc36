//! [`Call`]: a request of the API that was let in, and how it is answered.

use std::sync::Arc;

use axum::body::Body;
use axum::extract::{FromRequestParts, RawPathParams, Request};
use axum::http::header::{
    ACCEPT, CACHE_CONTROL, CONTENT_LENGTH, CONTENT_TYPE, ETAG, IF_NONE_MATCH, LINK,
    TRANSFER_ENCODING,
};
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode, Uri};
use axum::response::Response;
use events::{HorseNo, RaceNumber, RacingDate};
use projections::Store;

use super::error::ApiError;
use crate::http::state::App;
use crate::live::status::Phase;

pub(super) const API_KEY: HeaderName = HeaderName::from_static("x-api-key");
const RAILBIRD_SEQ: HeaderName = HeaderName::from_static("railbird-seq");

/// Longer than any path and query of the API, with room for a key.
const URI_BYTES_MAX: usize = 2048;
/// Those of an answer, with the three that the gate adds and what the compression may: the map grows once.
const HEADERS: usize = 9;
/// A GET request has no use for a body; a small one is let pass, as some clients send `{}`.
const BODY_BYTES_MAX: u64 = 1024;

/// A request that the gate let in, as it does with a valid key, and the store that answers it.
#[derive(Debug)]
pub(super) struct Call {
    /// The views.
    pub store: Arc<Store>,
    seq: u64,
    if_none_match: Option<HeaderValue>,
}

impl FromRequestParts<Arc<App>> for Call {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, app: &Arc<App>) -> Result<Self, ApiError> {
        if !takes_json(&parts.headers) {
            return Err(ApiError::NotAcceptable);
        }
        let store = app.ready_store()?;
        let seq = store.seq();
        Ok(Self {
            store,
            seq,
            if_none_match: parts.headers.get(IF_NONE_MATCH).cloned(),
        })
    }
}

impl Call {
    /// Answers with JSON, or with 304 where the client has it.
    #[must_use]
    pub(super) fn answer(self, json: Vec<u8>) -> Response {
        self.answer_with_links(json, Vec::new())
    }

    /// As [`Call::answer`], with links to alternatives.
    #[must_use]
    pub(super) fn answer_with_links(self, json: Vec<u8>, links: Vec<String>) -> Response {
        let tag = entity_tag(&json);
        let fresh = self
            .if_none_match
            .is_some_and(|have| matches_tag(&have, &tag));
        let mut response = Response::new(if fresh {
            Body::empty()
        } else {
            Body::from(json)
        });
        let headers = response.headers_mut();
        headers.reserve(HEADERS);
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        headers.insert(CACHE_CONTROL, HeaderValue::from_static("private, no-cache"));
        headers.insert(RAILBIRD_SEQ, self.seq.into());
        if let Ok(tag) = HeaderValue::try_from(tag) {
            headers.insert(ETAG, tag);
        }
        for link in links {
            if let Ok(link) = HeaderValue::try_from(link) {
                headers.append(LINK, link);
            }
        }
        if fresh {
            *response.status_mut() = StatusCode::NOT_MODIFIED;
        }
        response
    }
}

/// Weak, as the same body may be sent compressed.
fn entity_tag(json: &[u8]) -> String {
    let hash = blake3::hash(json);
    let (first, _) = hash.as_bytes().split_at(8);
    let short = first
        .iter()
        .fold(0_u64, |n, byte| n << 8 | u64::from(*byte));
    format!("W/\"{short:016x}\"")
}

/// Weak comparison (RFC 9110, 8.8.3.2) with a list of tags.
fn matches_tag(have: &HeaderValue, tag: &str) -> bool {
    let opaque = |tag: &str| tag.trim().trim_start_matches("W/").to_owned();
    let wanted = opaque(tag);
    have.to_str()
        .is_ok_and(|have| have.trim() == "*" || have.split(',').any(|tag| opaque(tag) == wanted))
}

fn takes_json(headers: &HeaderMap) -> bool {
    let mut accepts = headers.get_all(ACCEPT).iter().peekable();
    if accepts.peek().is_none() {
        return true;
    }
    accepts
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .any(|range| {
            let mut parts = range.split(';').map(str::trim);
            let json = matches!(
                parts.next(),
                Some("*/*" | "application/*" | "application/json" | "")
            );
            json && !parts.any(forbids)
        })
}

/// A weight of 0 in an Accept header (RFC 9110, 12.4.2).
pub(super) fn forbids(parameter: &str) -> bool {
    matches!(parameter.trim(), "q=0" | "q=0.0" | "q=0.00" | "q=0.000")
}

/// Holds a request to the bounds that apply before anything is looked up.
pub(super) fn check_size(request: &Request) -> Result<(), ApiError> {
    let (uri, headers) = (request.uri(), request.headers());
    if uri.path().len() + uri.query().map_or(0, str::len) > URI_BYTES_MAX {
        return Err(ApiError::UriTooLong);
    }
    let length = headers
        .get(CONTENT_LENGTH)
        .and_then(|value| value.to_str().ok()?.parse::<u64>().ok());
    if length.unwrap_or(0) > BODY_BYTES_MAX || headers.contains_key(TRANSFER_ENCODING) {
        return Err(ApiError::BodyTooLarge);
    }
    Ok(())
}

/// The parameters of the path.
#[derive(Debug)]
pub struct Params(RawPathParams);

impl<S: Send + Sync> FromRequestParts<S> for Params {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, ApiError> {
        let params = RawPathParams::from_request_parts(parts, state).await;
        params
            .map(Self)
            .map_err(|_| ApiError::InvalidParameter("The path is not UTF-8".to_owned()))
    }
}

impl Params {
    fn get(&self, name: &str) -> &str {
        self.0
            .iter()
            .find(|(key, _)| *key == name)
            .map_or("", |(_, value)| value)
    }

    /// The `{date}`.
    ///
    /// # Errors
    /// It is none.
    pub(super) fn date(&self) -> Result<RacingDate, ApiError> {
        RacingDate::parse(self.get("date")).map_err(ApiError::InvalidDate)
    }

    /// The `{race_number}`.
    ///
    /// # Errors
    /// It is none.
    pub fn race_number(&self) -> Result<RaceNumber, ApiError> {
        RaceNumber::parse(self.get("race_number")).map_err(ApiError::InvalidRaceNumber)
    }

    /// The `{horse_no}`.
    ///
    /// # Errors
    /// It is none.
    pub(super) fn horse_no(&self) -> Result<HorseNo, ApiError> {
        HorseNo::parse(self.get("horse_no")).map_err(ApiError::InvalidHorseNo)
    }
}

/// The parameters of the query. Names that an endpoint does not know are ignored.
#[derive(Debug, Default)]
pub struct Args(Vec<(String, String)>);

impl<S: Send + Sync> FromRequestParts<S> for Args {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, ApiError> {
        Self::of(&parts.uri)
    }
}

impl Args {
    /// Those of an address.
    ///
    /// # Errors
    /// The query cannot be read.
    pub(super) fn of(uri: &Uri) -> Result<Self, ApiError> {
        if uri.query().is_none() {
            return Ok(Self::default());
        }
        let query = axum::extract::Query::try_from_uri(uri);
        query.map(|query| Self(query.0)).map_err(|e| {
            ApiError::InvalidParameter(format!("The query cannot be read: {}", e.body_text()))
        })
    }

    /// A parameter, if it is there.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&str> {
        self.0
            .iter()
            .find(|(key, _)| key == name)
            .map(|(_, value)| value.as_str())
    }

    /// A whole number, if it is there.
    ///
    /// # Errors
    /// It is none.
    pub fn number(&self, name: &str) -> Result<Option<u64>, ApiError> {
        let wrong = |text: &str| {
            ApiError::InvalidParameter(format!("{name} is a whole number, not {text:?}"))
        };
        let number = self
            .get(name)
            .map(|text| text.parse().map_err(|_| wrong(text)));
        number.transpose()
    }

    /// A date, if it is there.
    ///
    /// # Errors
    /// It is none.
    pub fn date(&self, name: &str) -> Result<Option<RacingDate>, ApiError> {
        self.get(name)
            .map(RacingDate::parse)
            .transpose()
            .map_err(ApiError::InvalidDate)
    }
}

impl App {
    /// The views, once they reflect the log.
    ///
    /// # Errors
    /// They do not yet.
    pub fn ready_store(&self) -> Result<Arc<Store>, ApiError> {
        match self.projector.status.borrow().phase {
            Phase::Live => Ok(self.views.current()),
            Phase::CatchingUp => Err(ApiError::NotReady(
                "The views are catching up with the log; see /readyz",
            )),
            Phase::WaitingForLog => Err(ApiError::NotReady(
                "The log cannot be reached yet; see /readyz",
            )),
        }
    }
}
