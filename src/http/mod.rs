//! The HTTP interface, with one file per resource. Handlers read the bytes of views from the store and send them as
//! they are.

mod account;
mod admin;
mod admin_access;
mod as_of;
mod asyncapi_documents;
mod bearer;
mod browser;
mod changed_paths;
mod changes;
mod cors;
mod days;
mod delayed_races;
mod descriptions;
#[cfg(test)]
#[path = "../../tests/documents/generate/openapi/mod.rs"]
mod documents;
mod entity_tag;
mod error;
mod exports;
pub(crate) mod formats;
mod front_page;
#[cfg(feature = "fuzzing")]
#[path = "../../tests/fuzz/doors/http.rs"]
pub(crate) mod fuzzing;
mod gate;
mod header_list;
mod horses;
mod live_odds;
mod meeting_choice;
mod meeting_races;
mod meetings;
mod name_search;
mod odds;
mod odds_history;
mod ops;
mod paced_stream;
mod pages;
mod paging;
mod params;
mod rate_limit;
mod readiness;
mod rejections;
mod replay_odds;
mod request;
mod results;
mod rides;
mod routes;
mod scrape;
mod server;
pub mod state;
mod static_document;
mod status;
mod trace;
mod views_state;

use std::convert::Infallible;
use std::net::IpAddr;
use std::sync::Arc;

use axum::Router;
use axum::body::Body;
use axum::extract::Request;
use axum::http::Uri;
use axum::http::header::{ACCEPT_ENCODING, CONTENT_LENGTH};
use axum::response::{IntoResponse, Redirect, Response};
use tower::{Service, ServiceExt};
use tower_http::compression::predicate::Predicate;
use tower_http::compression::{Compression, CompressionBody};

pub use admin_access::AdminAccess;
pub use asyncapi_documents::AsyncApiDocuments;
pub use cors::Origins;
pub use descriptions::{ASYNCAPI, OPENAPI, asyncapi, openapi};
pub use error::UNAUTHORIZED_BODY;
pub use exports::files::ExportFiles;
pub use front_page::{FrontPage, FrontRacing};
pub use trace::AccessLog;

pub(crate) use admin::router as admin_router;
pub(crate) use admin_access::admin_service;
pub(crate) use delayed_races::keep_front_page;
pub(crate) use exports::ExportKind;
pub(crate) use meeting_choice::is_at;
pub(crate) use pages::SignUpOutcome;
pub(crate) use routes::RouteTable;
pub(crate) use server::HttpServer;
pub(crate) use status::board::StatusBoard;
pub(crate) use status::{finish as finish_status, run as keep_status};

use error::{ApiError, capitalized};
use gate::gate;
use header_list::{elements, is_zero_weight};
use paging::PageRows;
use params::{PathParams, QueryParams};
use request::{Answer, ApiRequest, resource};
use routes::Routes;
use state::App;
use static_document::{SentAsItIs, StaticDocument};

/// The smallest body that is compressed: below it compression saves no packet.
const COMPRESSED_BYTES_MIN: u64 = 1024;
const NO_SUCH_PATH: &str = "There is no such path; see /openapi.json";

/// All paths of the public address, and what is counted of each.
pub(crate) fn router(app: Arc<App>) -> (Router, RouteTable) {
    let routes = Routes::default()
        .merge(horses::router())
        .merge(rides::router())
        .merge(results::router())
        .merge(odds::router())
        .merge(odds_history::router())
        .merge(meetings::router())
        .merge(changes::router())
        .merge(meeting_races::router())
        .merge(days::router())
        .merge(exports::router())
        .merge(live_odds::router())
        .merge(replay_odds::router())
        .merge(account::router())
        .merge(ops::router())
        .merge(status::router())
        .merge(pages::router());
    let (router, table) = routes.into_parts();
    let router = router
        .method_not_allowed_fallback(async || ApiError::MethodNotAllowed)
        .fallback(no_such_path)
        .with_state(app);
    (router, table)
}

/// Renders and compresses the documents, so that no request waits for it.
pub(crate) fn render_documents() {
    for document in ops::documents().chain(pages::documents()) {
        document.compressed();
    }
}

/// Redirects a path with a slash at its end to the one without it.
async fn no_such_path(uri: Uri) -> Response {
    match uri.path().strip_suffix('/') {
        // Two slashes at the beginning would lead to another host.
        Some(path) if !path.is_empty() && !path.starts_with("//") => {
            let query = uri.query().map(|query| format!("?{query}"));
            Redirect::permanent(&format!("{path}{}", query.unwrap_or_default())).into_response()
        }
        _ => ApiError::NotFound(NO_SUCH_PATH.to_owned()).into_response(),
    }
}

/// The service of one connection of the public address: the router, behind compression and the gate. They are not
/// layers of the router, because axum boxes each layer of a route for each request.
pub(crate) fn service(
    app: Arc<App>,
    router: Router,
    peer: IpAddr,
) -> impl Service<Request, Response = Response<CompressionBody<Body>>, Error = Infallible, Future: Send>
+ Clone
+ Send
+ 'static {
    let compressed = Compression::new(gate(app, peer, router)).compress_when(LargeBody);
    ServiceExt::<Request>::map_request(compressed, allow_identity)
}

/// Ignores an `Accept-Encoding` that excludes any encoding. RFC 9110, 12.5.3 permits to send the body as it is;
/// tower-http would reject the request with a body that is not ours.
fn allow_identity(mut request: Request) -> Request {
    let excludes = elements(request.headers(), ACCEPT_ENCODING)
        .any(|(_, mut parameters)| parameters.any(is_zero_weight));
    if excludes {
        request.headers_mut().remove(ACCEPT_ENCODING);
    }
    request
}

/// Compresses large bodies, but for those of documents. Unlike tower-http's `SizeAbove` it goes by `Content-Length`
/// first, so that HEAD has the headers of GET.
#[derive(Debug, Clone, Copy)]
struct LargeBody;

impl Predicate for LargeBody {
    fn should_compress<B: hyper::body::Body>(&self, response: &Response<B>) -> bool {
        if response.extensions().get::<SentAsItIs>().is_some() {
            return false;
        }
        let length = response.headers().get(CONTENT_LENGTH);
        let length = length.and_then(|length| length.to_str().ok()?.parse().ok());
        let length = length.or(response.body().size_hint().upper());
        length.is_none_or(|bytes: u64| bytes >= COMPRESSED_BYTES_MIN)
    }
}
