//! `/api/v1/meetings`.

use std::sync::Arc;

use axum::Router;
use axum::response::Response;
use axum::routing::get;
use projections::json::JsonObject;
use projections::keys;

use super::error::ApiError;
use super::request::{ApiRequest, views};
use super::state::App;

/// Meetings in one response: ten years of a busy venue.
const MEETINGS_MAX: usize = 5_000;

pub(super) fn router() -> Router<Arc<App>> {
    Router::new().route("/api/v1/meetings", get(list))
}

async fn list(request: ApiRequest) -> Result<Response, ApiError> {
    let (from, to) = (request.query.date("from")?, request.query.date("to")?);
    if from.zip(to).is_some_and(|(from, to)| from > to) {
        return Err(ApiError::InvalidParameter("from is after to".to_owned()));
    }
    let first = from.map_or_else(|| keys::MEETINGS.to_owned(), keys::meetings_of);
    let last = to.map_or_else(|| keys::MEETINGS.to_owned(), keys::meetings_of);
    request.answer(|request| {
        let mut rows = request.store.range(&first, &format!("{last}~"));
        let meetings = views(rows.by_ref().take(MEETINGS_MAX));
        let body = JsonObject::new().try_list("meetings", meetings)?;
        let more = rows.next().is_some();
        Ok(body.field("more", &more).finish())
    })
}
