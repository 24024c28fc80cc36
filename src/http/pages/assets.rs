//! `/assets/{name}`: the scripts and styles of the pages, from the folder `web/`. They are embedded in the binary.

use axum::body::Body;
use axum::extract::Path;
use axum::http::header::{
    ACCEPT_ENCODING, CACHE_CONTROL, CONTENT_ENCODING, CONTENT_TYPE, ETAG, IF_NONE_MATCH, VARY,
    X_CONTENT_TYPE_OPTIONS,
};
use axum::http::{HeaderMap, HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use axum::routing::get;

use crate::http::error::ApiError;
use crate::http::request::{is_zero_weight, matches_etag};
use crate::http::routes::Routes;

/// A file of `web/`.
struct Asset {
    /// Its path in that folder.
    name: &'static str,
    etag: &'static str,
    content_type: &'static str,
    bytes: &'static [u8],
    gzip: &'static [u8],
}

/// All files, ordered by name.
static ASSETS: &[Asset] = &include!(concat!(env!("OUT_DIR"), "/assets.rs"));

pub(super) fn router() -> Routes {
    Routes::default().route("/assets/{*name}", get(asset))
}

/// The names of the files in a folder, with its name.
pub(super) fn names_in(folder: &'static str) -> impl Iterator<Item = &'static str> {
    let names = ASSETS.iter().map(|asset| asset.name);
    names.filter(move |name| name.starts_with(folder))
}

/// Returns a file with an entity tag. Clients ask again each time: the files belong together, and a new version of the
/// service replaces all of them.
async fn asset(Path(name): Path<String>, headers: HeaderMap) -> Result<Response, ApiError> {
    let index = ASSETS.binary_search_by_key(&name.as_str(), |asset| asset.name);
    let asset = index
        .ok()
        .and_then(|index| ASSETS.get(index))
        .ok_or_else(|| ApiError::NotFound("There is no such file".to_owned()))?;
    let is_cached = headers
        .get(IF_NONE_MATCH)
        .is_some_and(|tags| matches_etag(tags, asset.etag));
    let compressed = accepts_gzip(&headers);
    let mut response = match (is_cached, compressed) {
        (true, _) => StatusCode::NOT_MODIFIED.into_response(),
        (false, true) => Response::new(Body::from(asset.gzip)),
        (false, false) => Response::new(Body::from(asset.bytes)),
    };
    let headers = response.headers_mut();
    if compressed && !is_cached {
        headers.insert(CONTENT_ENCODING, HeaderValue::from_static("gzip"));
    }
    for (name, value) in [
        (CONTENT_TYPE, asset.content_type),
        (ETAG, asset.etag),
        (CACHE_CONTROL, "no-cache"),
        (VARY, "accept-encoding"),
        (X_CONTENT_TYPE_OPTIONS, "nosniff"),
    ] {
        headers.insert(name, HeaderValue::from_static(value));
    }
    Ok(response)
}

fn accepts_gzip(headers: &HeaderMap) -> bool {
    let accepted = headers.get_all(ACCEPT_ENCODING).iter();
    let accepted = accepted.filter_map(|value| value.to_str().ok());
    let mut codings = accepted.flat_map(|value| value.split(','));
    codings.any(|coding| {
        let mut parts = coding.split(';').map(str::trim);
        let is_gzip = parts
            .next()
            .is_some_and(|name| name.eq_ignore_ascii_case("gzip"));
        is_gzip && !parts.any(is_zero_weight)
    })
}
