//! `/api/v1/racecards/today` and `/api/v1/racecards/{date}`.

use std::sync::Arc;

use axum::Router;
use axum::extract::State;
use axum::response::Response;
use axum::routing::get;
use projections::keys;

use super::error::ApiError;
use super::meeting_choice::respond_with_races;
use super::params::{PathParams, QueryParams};
use super::request::ApiRequest;
use super::state::App;

pub(super) fn router() -> Router<Arc<App>> {
    Router::new()
        .route("/api/v1/racecards/today", get(today))
        .route("/api/v1/racecards/{date}", get(by_date))
}

async fn today(
    request: ApiRequest,
    State(app): State<Arc<App>>,
    query: QueryParams,
) -> Result<Response, ApiError> {
    let date = app.clock.today();
    let mut meetings = request.store.scan(&keys::meetings_of(date));
    if meetings.next().is_none() {
        return Err(ApiError::NotFound(format!(
            "No meeting is scheduled for {date} ({})",
            app.clock.zone()
        )));
    }
    let path = "/api/v1/racecards/today";
    respond_with_races(request, &app, date, &query, path, keys::cards)
}

async fn by_date(
    request: ApiRequest,
    State(app): State<Arc<App>>,
    path: PathParams,
    query: QueryParams,
) -> Result<Response, ApiError> {
    let date = path.date()?;
    let path = format!("/api/v1/racecards/{date}");
    respond_with_races(request, &app, date, &query, &path, keys::cards)
}
