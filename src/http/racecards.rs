//! `/api/v1/racecards/today` and `/api/v1/racecards/{date}`.

use std::sync::Arc;

use axum::Router;
use axum::extract::State;
use axum::response::Response;
use axum::routing::get;
use events::RacingDate;
use projections::keys;

use super::call::{Args, Call, Params};
use super::error::ApiError;
use super::meetings::choose;
use crate::state::App;

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
    card(call, &app, date, &args, "/api/v1/racecards/today")
}

async fn by_date(
    call: Call,
    State(app): State<Arc<App>>,
    params: Params,
    args: Args,
) -> Result<Response, ApiError> {
    let date = params.date()?;
    card(
        call,
        &app,
        date,
        &args,
        &format!("/api/v1/racecards/{date}"),
    )
}

fn card(
    call: Call,
    app: &App,
    date: RacingDate,
    args: &Args,
    path: &str,
) -> Result<Response, ApiError> {
    let chosen = choose(app, &call.store, date, args.get("venue"))?;
    let rows = call.store.scan(&keys::cards(date, &chosen.code));
    let body = chosen.with_list("\"races\":[", rows)?;
    Ok(call.answer_with_links(body, chosen.links(path)))
}
