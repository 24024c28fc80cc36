//! `/api/v1/racecards/{date}`.

use std::sync::Arc;

use axum::Router;
use axum::response::Response;
use axum::routing::get;
use projections::keys;

use super::error::ApiError;
use super::meeting_choice::races_of_meeting;
use super::request::ApiRequest;
use super::state::App;

pub(super) fn router() -> Router<Arc<App>> {
    Router::new().route("/api/v1/racecards/{date}", get(meeting))
}

async fn meeting(request: ApiRequest) -> Result<Response, ApiError> {
    request.answer(|request| races_of_meeting(request, keys::cards))
}
