//! `/docs`: the guides of `docs/`, and the references made from the documents that the service serves.
//!
//! Every page is Markdown first, and is rendered once. All of it can be read without scripts; they add the key and the
//! address of the reader to the samples, the search, and the form for requests.

mod markdown;
mod messages;
mod reference;
mod samples;
mod schema;
mod site;

use std::sync::{Arc, LazyLock};

use axum::body::Body;
use axum::extract::{Path, State};
use axum::http::header::{CONTENT_TYPE, ETAG, IF_NONE_MATCH};
use axum::http::{HeaderMap, HeaderValue, StatusCode};
use axum::response::{IntoResponse, Redirect, Response};
use axum::routing::get;
use bytes::Bytes;

use self::site::Site;
use super::{SCRIPT_POLICY, html_response};
use crate::http::error::ApiError;
use crate::http::request::matches_etag;
use crate::http::routes::Routes;
use crate::http::state::App;

/// The type of a page.
const HTML: &str = "text/html; charset=utf-8";

/// All pages. They are the same for as long as the service runs.
static SITE: LazyLock<Result<Site, askama::Error>> = LazyLock::new(Site::render);

/// A rendered page, a picture, or the index of the search.
#[derive(Debug)]
struct StaticDocument {
    content_type: &'static str,
    bytes: Bytes,
    etag: HeaderValue,
}

impl StaticDocument {
    fn new(content_type: &'static str, bytes: impl Into<Bytes>) -> Self {
        let bytes = bytes.into();
        let hash = blake3::hash(&bytes).to_hex();
        let etag = HeaderValue::try_from(format!("W/\"{}\"", &hash[..16])).expect("ASCII");
        Self {
            content_type,
            bytes,
            etag,
        }
    }

    /// The page of `railbird dev`, which can ask the service for the key.
    fn with_dev_key(&self) -> Self {
        let text = String::from_utf8_lossy(&self.bytes);
        let form = "<form id=\"key\"";
        let text = text.replace(form, &format!("{form} data-dev-key=\"dev/key\""));
        Self::new(self.content_type, text)
    }
}

pub(super) fn router() -> Routes {
    Routes::default()
        .route("/docs", get(start))
        .route("/docs/", get(async || Redirect::permanent("../docs")))
        .route("/docs/{*path}", get(below))
}

async fn start(State(app): State<Arc<App>>, headers: HeaderMap) -> Response {
    show(&app, "docs", &headers)
}

async fn below(
    State(app): State<Arc<App>>,
    Path(path): Path<String>,
    headers: HeaderMap,
) -> Response {
    show(&app, &format!("docs/{path}"), &headers)
}

fn show(app: &App, path: &str, headers: &HeaderMap) -> Response {
    let site = match &*SITE {
        Ok(site) => site,
        Err(error) => return ApiError::internal(error).into_response(),
    };
    let Some(document) = site.documents.get(path) else {
        return match site.unknown(path) {
            Ok(html) => response(StatusCode::NOT_FOUND, HTML, html),
            Err(error) => ApiError::internal(error).into_response(),
        };
    };
    let document = match app.dev_key.get() {
        Some(_) if document.content_type == HTML => &document.with_dev_key(),
        _ => document,
    };
    let is_cached = headers
        .get(IF_NONE_MATCH)
        .is_some_and(|tags| matches_etag(tags, document.etag.to_str().unwrap_or_default()));
    let mut response = match is_cached {
        true => response(
            StatusCode::NOT_MODIFIED,
            document.content_type,
            Body::empty(),
        ),
        false => response(
            StatusCode::OK,
            document.content_type,
            document.bytes.clone(),
        ),
    };
    response.headers_mut().insert(ETAG, document.etag.clone());
    response
}

fn response(status: StatusCode, content_type: &'static str, body: impl Into<Body>) -> Response {
    let mut response = html_response(status, "no-cache", SCRIPT_POLICY, body.into());
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
    response
}
