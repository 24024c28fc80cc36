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

use std::sync::{Arc, LazyLock};

use axum::extract::{Path, State};
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Redirect, Response};
use axum::routing::get;

use self::site::Site;
use super::{HTML, SCRIPT_POLICY, add_page_headers, html_response};
use crate::http::error::ApiError;
use crate::http::routes::Routes;
use crate::http::state::App;
use crate::http::static_document::StaticDocument;

/// All pages. They are the same for as long as the service runs.
static SITE: LazyLock<Result<Site, askama::Error>> = LazyLock::new(Site::render);

/// The page of `railbird dev`, which can ask the service for the key.
fn with_dev_key(page: &StaticDocument) -> StaticDocument {
    let text = String::from_utf8_lossy(page.bytes());
    let form = "<form id=\"key\"";
    let text = text.replace(form, &format!("{form} data-dev-key=\"dev/key\""));
    StaticDocument::new(HTML, text)
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
            Ok(html) => html_response(
                StatusCode::NOT_FOUND,
                "no-cache",
                SCRIPT_POLICY,
                html.into(),
            ),
            Err(error) => ApiError::internal(error).into_response(),
        };
    };
    let mut response = match app.dev_key.get() {
        Some(_) if document.content_type() == HTML => with_dev_key(document).answer(headers),
        _ => document.answer(headers),
    };
    add_page_headers(response.headers_mut(), "no-cache", SCRIPT_POLICY);
    response
}
