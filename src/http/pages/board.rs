//! `/`: the board. Its scripts, in `web/board/`, read the public API with the visitor's own key.

use std::iter::once;
use std::sync::Arc;

use askama::Template;
use axum::Json;
use axum::extract::State;
use axum::http::header::{CACHE_CONTROL, HOST, ORIGIN, VARY};
use axum::http::uri::Authority;
use axum::http::{HeaderMap, HeaderName, HeaderValue};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use serde_json::json;

use super::assets::names_in;
use super::pricing::offer;
use super::{SCRIPT_POLICY, open_page, session_secret};
use crate::http::{ApiError, App, Routes};
use crate::public_url::is_loopback;

#[derive(Template)]
#[template(path = "pages/board.html", config = "web/templates/askama.toml")]
struct BoardPage<'a> {
    /// Whether the page can ask this service for a key, instead of the visitor.
    has_dev_key: bool,
    /// Whether the visitor is signed in, and needs no key.
    has_session: bool,
    /// The zone of the racing day.
    time_zone: String,
    /// The modules that the page loads, so that the browser requests them before it has read who imports them.
    modules: Vec<&'static str>,
    /// What the button that leads to the plans says.
    offer: &'static str,
    /// The racing for visitors, as HTML.
    racing: Arc<str>,
    /// The address of the picture with which others show a link to the page.
    picture: &'a str,
}

pub(super) fn router() -> Routes {
    Routes::default()
        .route("/", get(show))
        .route("/dev/key", post(dev_key))
}

async fn show(State(app): State<Arc<App>>, headers: HeaderMap) -> Response {
    let session = session_secret(&headers, &app.pages);
    let board = BoardPage {
        has_dev_key: app.dev_key.get().is_some(),
        has_session: session.is_some_and(|cookie| app.keys.check_session(cookie).is_ok()),
        time_zone: app.clock.zone.clone(),
        modules: once("railbird.js").chain(names_in("board/")).collect(),
        offer: offer(&app),
        racing: app.front_page.html(),
        picture: &app.pages.picture,
    };
    let response = open_page(SCRIPT_POLICY, &board);
    ([(VARY, "cookie")], response).into_response()
}

/// Returns the key of `railbird dev` to a page of this address.
async fn dev_key(State(app): State<Arc<App>>, headers: HeaderMap) -> Result<Response, ApiError> {
    let key = app.dev_key.get();
    let key =
        key.ok_or_else(|| ApiError::NotFound("Only `railbird dev` has a key for pages".into()))?;
    if !is_from_loopback_page(&headers) {
        let message = "Only pages of this loopback address get the key".to_owned();
        return Err(ApiError::OriginNotAllowed(message));
    }
    Ok(([(CACHE_CONTROL, "no-store")], Json(json!({ "key": key }))).into_response())
}

/// Whether the request was sent by a script of a page that the browser has from this address, a loopback one.
///
/// A browser sends the origin of the page with each POST, and no script can change it. It is another one for pages of
/// other sites, for a name that was made to resolve to a loopback address (DNS rebinding), and behind a proxy.
fn is_from_loopback_page(headers: &HeaderMap) -> bool {
    let text = |name: HeaderName| headers.get(name).map(HeaderValue::to_str)?.ok();
    let (Some(origin), Some(host)) = (text(ORIGIN), text(HOST)) else {
        return false;
    };
    let authority = host.parse::<Authority>();
    origin.strip_prefix("http://") == Some(host) && authority.is_ok_and(|a| is_loopback(a.host()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_dev_key_is_for_pages_of_a_loopback_address_alone() {
        let is_allowed = |origin: Option<&str>, host: &str| {
            let mut headers = HeaderMap::new();
            headers.insert(HOST, host.parse().unwrap());
            origin.map(|origin| headers.insert(ORIGIN, origin.parse().unwrap()));
            is_from_loopback_page(&headers)
        };
        for host in [
            "127.0.0.1:8080",
            "localhost:8080",
            "[::1]:8080",
            "127.0.0.1",
        ] {
            assert!(is_allowed(Some(&format!("http://{host}")), host), "{host}");
        }
        for (origin, host) in [
            (None, "127.0.0.1:8080"),
            (Some("null"), "127.0.0.1:8080"),
            // A page of another site, and one of another port of this machine.
            (Some("https://evil.example"), "127.0.0.1:8080"),
            (Some("http://127.0.0.1:3000"), "127.0.0.1:8080"),
            // A name that resolves to a loopback address.
            (Some("http://evil.example:8080"), "evil.example:8080"),
            (
                Some("http://127.0.0.1.evil.example"),
                "127.0.0.1.evil.example",
            ),
            // A proxy that passes its own address on as the host.
            (Some("https://racing.example"), "127.0.0.1:8080"),
            (Some("http://user@127.0.0.1"), "127.0.0.1"),
        ] {
            assert!(!is_allowed(origin, host), "{origin:?} {host}");
        }
    }
}
