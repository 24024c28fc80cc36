//! `/api/v1/racecards/today` and `/api/v1/racecards/{date}`.

use std::sync::Arc;

use axum::Router;
use axum::extract::State;
use axum::response::Response;
use axum::routing::get;
use projections::keys;

use super::call::{Args, Call, Params};
use super::error::ApiError;
use super::meetings::races;
use crate::http::state::App;

pub(super) fn router() -> Router<Arc<App>> {
    Router::new()
        .route("/api/v1/racecards/today", get(today))
        .route("/api/v1/racecards/{date}", get(by_date))
}

async fn today(call: Call, State(app): State<Arc<App>>, args: Args) -> Result<Response, ApiError> {
    let date = app.clock.today();
    if call.store.scan(&keys::meetings_of(date)).next().is_none() {
        return Err(ApiError::NotFound(format!(
            "No meeting is scheduled for {date} ({})",
            app.clock.zone()
        )));
    }
    races(
        call,
        &app,
        date,
        &args,
        "/api/v1/racecards/today",
        keys::cards,
    )
}

async fn by_date(
    call: Call,
    State(app): State<Arc<App>>,
    params: Params,
    args: Args,
) -> Result<Response, ApiError> {
    let date = params.date()?;
    let path = format!("/api/v1/racecards/{date}");
    races(call, &app, date, &args, &path, keys::cards)
}
