//! The parsers of paths and queries, for the fuzz targets.

use axum::Router;
use axum::body::Body;
use axum::http::{Request, StatusCode, Uri};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use futures::FutureExt;
use http_body_util::BodyExt;
use tower::ServiceExt;

use super::error::ApiError;
use super::live_odds::{filter, subscription};
use super::paging::next_path;
use super::params::{PathParams, QueryParams, check_utf8};
use crate::live::{LiveSubscription, values_of};

/// Parses path and query as each kind of resource does. Returns the bodies of the errors, and the path of a next page
/// with the parameters that it keeps.
pub fn parse_request(uri: &Uri) -> (Vec<Vec<u8>>, String) {
    let query = QueryParams::parse(uri);
    let checks = [
        check_utf8(uri),
        query.check_names(&["name", "venue", "limit", "since"]),
        query.number("since").map(drop),
        query.duration("since").map(drop),
        query.count("limit", 1000).map(drop),
        query.date("from").map(drop),
        filter(&query).map(drop),
        subscription(&query, LiveSubscription::default().filter).map(drop),
    ];
    let errors = checks.into_iter().filter_map(Result::err);
    let errors = errors.map(|error| body(error.into_response()));
    let values = query.get("venue").map_or(0, |list| values_of(list).count());
    let next = next_path("/", &query, &values.to_string());
    (errors.chain(path_error(uri)).collect(), next)
}

fn path_error(uri: &Uri) -> Option<Vec<u8>> {
    async fn check(path: PathParams) -> Result<(), ApiError> {
        path.check()
    }
    let router: Router = Router::new()
        .route("/{date}/{race_number}", get(check))
        .route("/{horse_no}", get(check));
    let request = Request::get(uri).body(Body::empty()).ok()?;
    let response = router.oneshot(request).now_or_never();
    let response = response.expect("waits for nothing").into_response();
    (response.status() == StatusCode::BAD_REQUEST).then(|| body(response))
}

fn body(response: Response) -> Vec<u8> {
    let body = response.into_body().collect().now_or_never();
    let body = body.and_then(Result::ok);
    body.expect("an error is in memory").to_bytes().into()
}
