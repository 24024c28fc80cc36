//! HTTP: a resource a file. Handlers read bytes from the store and hand them on.

mod admin;
mod call;
mod error;
mod horses;
mod meetings;
mod odds;
mod openapi;
mod ops;
mod racecards;
mod results;
pub mod server;

use std::any::Any;
use std::sync::Arc;

use axum::extract::{FromRequestParts, Request, State};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::{IntoResponse, Response};
use axum::{Router, routing};
use tower_http::catch_panic::CatchPanicLayer;
use tower_http::compression::CompressionLayer;
use tower_http::compression::predicate::SizeAbove;

pub use admin::router as admin_router;
pub use call::Args;
pub use error::{ApiError, UNAUTHORIZED_BODY};
pub use openapi::document as openapi;

use crate::state::App;
use crate::ws;
use call::Call;

/// What is under this needs a key, whether it is there or not.
const API: &str = "/api/v1";

/// Below this a compressed answer saves no packet.
const COMPRESS_BYTES_MIN: u64 = 1024;

/// Everything that clients may ask.
pub fn router(app: Arc<App>) -> Router {
    let api = Router::new()
        .merge(horses::router())
        .merge(results::router())
        .merge(racecards::router())
        .merge(odds::router())
        .merge(meetings::router())
        .layer(CompressionLayer::new().compress_when(SizeAbove::new(COMPRESS_BYTES_MIN)));
    Router::new()
        .nest(API, api)
        .route("/ws/live/odds", routing::get(ws::live_odds))
        .merge(ops::router())
        .method_not_allowed_fallback(method_not_allowed)
        .fallback(no_such_path)
        .layer(CatchPanicLayer::custom(panicked))
        .layer(from_fn_with_state(Arc::clone(&app), count))
        .with_state(app)
}

/// Without a key it is nobody's business what there is under the API.
async fn no_such_path(State(app): State<Arc<App>>, request: Request) -> ApiError {
    let (mut parts, _) = request.into_parts();
    let refused = match parts.uri.path().starts_with(API) {
        true => Call::from_request_parts(&mut parts, &app).await.err(),
        false => None,
    };
    refused.unwrap_or_else(|| {
        ApiError::NotFound("There is no such path; see /openapi.json".to_owned())
    })
}

async fn method_not_allowed(State(app): State<Arc<App>>, request: Request) -> ApiError {
    let key = request
        .headers()
        .get("x-api-key")
        .and_then(|key| key.to_str().ok());
    let refused = if request.uri().path().starts_with(API) {
        app.authorize(key).err()
    } else {
        None
    };
    refused.unwrap_or(ApiError::MethodNotAllowed)
}

async fn count(State(app): State<Arc<App>>, request: Request, next: Next) -> Response {
    let response = next.run(request).await;
    app.metrics.answered(response.status().as_u16());
    response
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
