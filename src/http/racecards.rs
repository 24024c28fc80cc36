//! `/api/v1/racecards/today` and `/api/v1/racecards/{date}`.

use std::sync::Arc;

use axum::Router;
use axum::response::Response;
use axum::routing::get;
use projections::keys;

use super::error::ApiError;
use super::meeting_choice::respond_with_races;
use super::request::ApiRequest;
use super::state::App;

pub(super) fn router() -> Router<Arc<App>> {
    Router::new()
        .route("/api/v1/racecards/today", get(today))
        .route("/api/v1/racecards/{date}", get(by_date))
}

async fn today(request: ApiRequest) -> Result<Response, ApiError> {
    let clock = &request.app.clock;
    let (date, zone) = (clock.today(), clock.zone());
    let mut meetings = request.store.scan(&keys::meetings_of(date));
    if meetings.next().is_none() {
        let message = format!("No meeting is scheduled for {date} ({zone})");
        return Err(ApiError::NotFound(message));
    }
    respond_with_races(request, date, "/api/v1/racecards/today", keys::cards)
}

async fn by_date(request: ApiRequest) -> Result<Response, ApiError> {
    let date = request.path.date()?;
    let path = format!("/api/v1/racecards/{date}");
    respond_with_races(request, date, &path, keys::cards)
}
