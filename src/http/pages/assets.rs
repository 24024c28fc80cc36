//! `/assets/{name}`: the scripts and styles of the pages, from the folder `web/`. They are embedded in the binary.
//! `/favicon.ico` and `/robots.txt` are files of that folder, too.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use axum::extract::Path;
use axum::http::HeaderMap;
use axum::response::Response;
use axum::routing::get;

use crate::http::{ApiError, Routes, StaticDocument};

/// All files of `web/` but the templates, by their paths in that folder.
static ASSETS: LazyLock<BTreeMap<&str, StaticDocument>> =
    LazyLock::new(|| include!(concat!(env!("OUT_DIR"), "/assets.rs")).into());

pub(super) fn router() -> Routes {
    let icon = get(async |headers| file("favicon.svg", &headers));
    let robots = get(async |headers| file("robots.txt", &headers));
    Routes::default()
        .route("/assets/{*name}", get(asset))
        .route("/favicon.ico", icon)
        .route("/robots.txt", robots)
}

pub(super) fn documents() -> impl Iterator<Item = &'static StaticDocument> {
    ASSETS.values()
}

/// The names of the files in a folder, with its name.
pub(super) fn names_in(folder: &'static str) -> impl Iterator<Item = &'static str> {
    let names = ASSETS.keys().copied();
    names.filter(move |name| name.starts_with(folder))
}

async fn asset(Path(name): Path<String>, headers: HeaderMap) -> Result<Response, ApiError> {
    file(&name, &headers)
}

/// Returns a file with an entity tag. Clients ask again each time: the files belong together, and a new version of the
/// service replaces all of them.
fn file(name: &str, headers: &HeaderMap) -> Result<Response, ApiError> {
    let asset = ASSETS.get(name);
    let asset = asset.ok_or_else(|| ApiError::NotFound("There is no such file".to_owned()))?;
    Ok(asset.answer(headers))
}
