//! `/docs`: the guides of `docs/`, and the references in `schemas/`, which tests make of the documents beside them.
//!
//! Every page is Markdown first, and is rendered once. All of it can be read without scripts; they add the key and the
//! address of the reader to the samples, the search, and the form for requests.

#[cfg(test)]
#[path = "../../../../tests/documents/generate/reference/mod.rs"]
mod documents;
mod markdown;
mod samples;
mod site;

use std::collections::HashMap;
use std::sync::{Arc, LazyLock};

use axum::extract::{Path, State};
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Redirect, Response};
use axum::routing::get;

use super::{HTML, SCRIPT_POLICY, add_page_headers, html_response};
use crate::http::{ApiError, App, Routes, StaticDocument};

/// All pages and files, by path. They are the same for as long as the service runs.
static SITE: LazyLock<askama::Result<HashMap<String, StaticDocument>>> =
    LazyLock::new(site::render_all);

pub(super) fn documents() -> impl Iterator<Item = &'static StaticDocument> {
    SITE.iter().flat_map(HashMap::values)
}

/// The page of `railbird dev`, which can ask the service for the key.
fn with_dev_key(page: &StaticDocument) -> StaticDocument {
    let text = String::from_utf8_lossy(&page.bytes);
    let form = "<form id=\"key\"";
    let text = text.replace(form, &format!("{form} data-dev-key=\"dev/key\""));
    StaticDocument::new(HTML, text)
}

pub(super) fn router() -> Routes {
    Routes::default()
        .route("/docs", get(show))
        .route("/docs/", get(async || Redirect::permanent("../docs")))
        .route("/docs/{*path}", get(show))
}

async fn show(
    State(app): State<Arc<App>>,
    path: Option<Path<String>>,
    headers: HeaderMap,
) -> Response {
    let path = path.map_or_else(|| "docs".to_owned(), |Path(path)| format!("docs/{path}"));
    let documents = match &*SITE {
        Ok(documents) => documents,
        Err(error) => return ApiError::internal(error).into_response(),
    };
    let Some(document) = documents.get(&path) else {
        let html = site::unknown(&path);
        return html_response(StatusCode::NOT_FOUND, "no-cache", SCRIPT_POLICY, html);
    };
    let mut response = match app.dev_key.get() {
        Some(_) if document.content_type == HTML => with_dev_key(document).answer(&headers),
        _ => document.answer(&headers),
    };
    add_page_headers(response.headers_mut(), "no-cache", SCRIPT_POLICY);
    response
}
