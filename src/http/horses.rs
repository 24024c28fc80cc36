//! `/api/v1/horses/{horse_no}` and its form.

use std::sync::Arc;

use axum::Router;
use axum::response::Response;
use axum::routing::get;
use events::{HorseNo, RacingDate};
use projections::horse_form::RowKind;
use projections::json::JsonObject;
use projections::{View, horse_profile, keys};

use super::error::ApiError;
use super::request::ApiRequest;
use super::state::App;

/// The largest `limit` of form rows, by the contract.
const FORM_LIMIT_MAX: usize = 1000;

pub(super) fn router() -> Router<Arc<App>> {
    Router::new()
        .route("/api/v1/horses/{horse_no}", get(profile))
        .route("/api/v1/horses/{horse_no}/form", get(form))
}

async fn profile(request: ApiRequest) -> Result<Response, ApiError> {
    let horse_no = request.path.horse_no()?;
    request.answer(|request| find(request, &horse_no))
}

fn find(request: &ApiRequest, horse_no: &HorseNo) -> Result<Vec<u8>, ApiError> {
    let value = request.store.get(&keys::profile(horse_no))?;
    let value = value.ok_or_else(|| ApiError::NotFound(format!("No horse {horse_no} is known")))?;
    horse_profile::serve(&value, request.app.clock.today())
        .ok_or_else(|| ApiError::Internal(format!("the profile of {horse_no} is damaged")))
}

async fn form(request: ApiRequest) -> Result<Response, ApiError> {
    let horse_no = request.path.horse_no()?;
    let limit = request.query.limit(FORM_LIMIT_MAX)?.unwrap_or(usize::MAX);
    let before = request.query.date("before")?;
    request.answer(|request| read_form(request, &horse_no, limit, before))
}

fn read_form(
    request: &ApiRequest,
    horse_no: &HorseNo,
    limit: usize,
    before: Option<RacingDate>,
) -> Result<Vec<u8>, ApiError> {
    #[derive(serde::Deserialize)]
    struct ProfileName {
        horse_name: String,
    }
    let profile = find(request, horse_no)?;
    let ProfileName { horse_name } =
        serde_json::from_slice(&profile).map_err(ApiError::internal)?;

    let all = keys::form(horse_no);
    let end = match before {
        Some(date) => keys::form_from(horse_no, date),
        None => keys::form_end(horse_no),
    };
    let (mut placed, mut unplaced) = (Vec::new(), Vec::new());
    for row in request.store.range(&all, &end).rev() {
        let (_, value) = row?;
        let rows = match RowKind::split(&value) {
            Some((RowKind::Placed, _)) if placed.len() < limit => &mut placed,
            Some((RowKind::Unplaced, _)) => &mut unplaced,
            _ => continue,
        };
        rows.push(value);
        if placed.len() == limit {
            break;
        }
    }

    Ok(JsonObject::new()
        .field("horse_no", horse_no)
        .field("horse_name", &horse_name)
        .list("form", placed.iter().filter_map(json))
        .list("unplaced", unplaced.iter().filter_map(json))
        .finish())
}

/// The JSON of a form row, without its kind.
fn json(row: &View) -> Option<&[u8]> {
    RowKind::split(row).map(|(_, json)| json)
}
