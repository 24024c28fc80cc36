//! `/api/v1/racecards/{date}`.

use axum::response::Response;
use projections::keys;

use super::error::ApiError;
use super::meeting_choice::races_of_meeting;
use super::request::{ApiRequest, resource};
use super::routes::Routes;

pub(super) fn router() -> Routes {
    Routes::default().route("/api/v1/racecards/{date}", resource(&["venue"], meeting))
}

async fn meeting(request: ApiRequest) -> Result<Response, ApiError> {
    request.answer(|request| races_of_meeting(request, keys::cards))
}
