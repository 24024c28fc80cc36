//! `/api/v1/racecards/today` and `/api/v1/racecards/{date}`.

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
    Router::new()
        .route("/api/v1/racecards/today", get(today))
        .route("/api/v1/racecards/{date}", get(by_date))
}

async fn today(request: ApiRequest) -> Result<Response, ApiError> {
    let app = Arc::clone(&request.app);
    let (date, zone) = (app.clock.today(), app.clock.zone());
    request.answer(|request| {
        let mut meetings = request.store.scan(&keys::meetings_of(date));
        if meetings.next().is_none() {
            let message = format!("No meeting is scheduled for {date} ({zone})");
            return Err(ApiError::NotFound(message));
        }
        races_of_meeting(request, date, "/api/v1/racecards/today", keys::cards)
    })
}

async fn by_date(request: ApiRequest) -> Result<Response, ApiError> {
    let date = request.path.date()?;
    let path = format!("/api/v1/racecards/{date}");
    request.answer(|request| races_of_meeting(request, date, &path, keys::cards))
}
