//! HTTP: a resource a file. Handlers read bytes from the store and hand them on.

mod admin;
mod call;
mod error;
mod gate;
mod horses;
mod live_odds;
mod meetings;
mod odds;
mod openapi;
mod ops;
mod pages;
mod racecards;
mod rate_limit;
mod rejections;
mod results;
pub mod server;
pub mod state;

use std::any::Any;
use std::convert::Infallible;
use std::net::IpAddr;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::task::{Context, Poll};

use axum::Router;
use axum::body::Body;
use axum::extract::Request;
use axum::http::HeaderValue;
use axum::http::header::{ACCEPT_ENCODING, CONTENT_LENGTH};
use axum::response::{IntoResponse, Response};
use axum::routing::future::RouteFuture;
use futures::FutureExt;
use futures::future::{CatchUnwind, Map};
use tower::{Service, ServiceExt};
use tower_http::compression::predicate::Predicate;
use tower_http::compression::{Compression, CompressionBody};

pub use admin::router as admin_router;
pub use call::{Args, Params};
pub use error::{ApiError, UNAUTHORIZED_BODY};
pub use openapi::document as openapi;

use call::forbids;
use gate::gate;
use state::App;

/// Below this a compressed answer saves no packet.
const COMPRESS_BYTES_MIN: u64 = 1024;

/// Everything that clients may ask.
pub fn router(app: Arc<App>) -> Router {
    Router::new()
        .merge(horses::router())
        .merge(results::router())
        .merge(racecards::router())
        .merge(odds::router())
        .merge(meetings::router())
        .merge(live_odds::router())
        .merge(ops::router())
        .merge(pages::router())
        .method_not_allowed_fallback(async || ApiError::MethodNotAllowed)
        .fallback(no_such_path)
        .with_state(app)
}

/// The router as a client at an address has it. What is common to all answers lies around the router, and not in its layers: axum
/// boxes every layer of every route anew for each request.
pub fn service(
    app: Arc<App>,
    router: Router,
    peer: IpAddr,
) -> impl Service<Request, Response = Response<CompressionBody<Body>>, Error = Infallible, Future: Send>
+ Clone
+ Send
+ 'static {
    let answers = Compression::new(gate(app, peer, Caught(router))).compress_when(Large);
    ServiceExt::<Request>::map_request(answers, plain_if_strict)
}

/// A client that forbids some encoding gets the plain answer (RFC 9110, 12.5.3 leaves that to us): the compression
/// would turn it away with a body that is not ours.
fn plain_if_strict(mut request: Request) -> Request {
    let accepted = request.headers().get(ACCEPT_ENCODING);
    let strict = |value: &HeaderValue| {
        value
            .to_str()
            .is_ok_and(|value| value.split([',', ';']).any(forbids))
    };
    if accepted.is_some_and(strict) {
        request.headers_mut().remove(ACCEPT_ENCODING);
    }
    request
}

/// What is worth to be compressed. The answer to HEAD says its length in a header alone.
#[derive(Debug, Clone, Copy)]
struct Large;

impl Predicate for Large {
    fn should_compress<B: hyper::body::Body>(&self, response: &Response<B>) -> bool {
        let said = response.headers().get(CONTENT_LENGTH);
        let said = said.and_then(|length| length.to_str().ok()?.parse().ok());
        said.or(response.body().size_hint().upper())
            .is_none_or(|bytes: u64| bytes >= COMPRESS_BYTES_MIN)
    }
}

/// The router, and an answer for a handler that panics.
#[derive(Debug, Clone)]
struct Caught(Router);

type Caughtable = CatchUnwind<AssertUnwindSafe<RouteFuture<Infallible>>>;
type Outcome = Result<Result<Response, Infallible>, Box<dyn Any + Send>>;

impl Service<Request> for Caught {
    type Response = Response;
    type Error = Infallible;
    type Future = Map<Caughtable, fn(Outcome) -> Result<Response, Infallible>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Service::<Request>::poll_ready(&mut self.0, context)
    }

    fn call(&mut self, request: Request) -> Self::Future {
        let answer = AssertUnwindSafe(self.0.call(request)).catch_unwind();
        answer.map(|outcome| outcome.unwrap_or_else(|panic| Ok(panicked(panic))))
    }
}

async fn no_such_path() -> ApiError {
    ApiError::NotFound("There is no such path; see /openapi.json".to_owned())
}

#[expect(
    clippy::needless_pass_by_value,
    reason = "the layer hands over the payload"
)]
fn panicked(panic: Box<dyn Any + Send + 'static>) -> Response {
    let reason = panic
        .downcast_ref::<String>()
        .cloned()
        .or_else(|| panic.downcast_ref::<&str>().map(ToString::to_string));
    ApiError::Internal(format!(
        "a handler panicked: {}",
        reason.unwrap_or_default()
    ))
    .into_response()
}
