//! `/api/v1/horses/{horse_no}` and its form.

use std::sync::Arc;

use axum::Router;
use axum::extract::State;
use axum::response::Response;
use axum::routing::get;
use events::HorseNo;
use projections::horse_form::RowKind;
use projections::{Store, horse_profile, keys};

use super::call::{Args, Call, Params};
use super::error::ApiError;
use crate::http::state::App;

/// Form rows in one answer at most, by the contract.
const FORM_LIMIT_MAX: usize = 1000;

pub(super) fn router() -> Router<Arc<App>> {
    Router::new()
        .route("/api/v1/horses/{horse_no}", get(profile))
        .route("/api/v1/horses/{horse_no}/form", get(form))
}

async fn profile(
    call: Call,
    State(app): State<Arc<App>>,
    params: Params,
) -> Result<Response, ApiError> {
    let json = find(&app, &call.store, &params.horse_no()?)?;
    Ok(call.answer(json))
}

fn find(app: &App, store: &Store, horse_no: &HorseNo) -> Result<Vec<u8>, ApiError> {
    let value = store
        .get(&keys::profile(horse_no))?
        .ok_or_else(|| ApiError::NotFound(format!("No horse {horse_no} is known")))?;
    horse_profile::serve(&value, app.clock.today())
        .ok_or_else(|| ApiError::Internal(format!("{horse_no}'s profile is damaged")))
}

async fn form(
    call: Call,
    State(app): State<Arc<App>>,
    params: Params,
    args: Args,
) -> Result<Response, ApiError> {
    #[derive(serde::Deserialize)]
    struct Named {
        horse_name: String,
    }
    let horse_no = params.horse_no()?;
    let limit = limit(&args)?;
    let before = args.date("before")?;
    let Named { horse_name } = serde_json::from_slice(&find(&app, &call.store, &horse_no)?)
        .map_err(|e| ApiError::Internal(e.to_string()))?;

    let all = keys::form(&horse_no);
    let end = before.map_or_else(
        || keys::form_end(&horse_no),
        |date| keys::form_from(&horse_no, date),
    );
    let (mut placed, mut unplaced) = (Vec::new(), Vec::new());
    for row in call.store.range(&all, &end).rev() {
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

    let name = serde_json::to_string(&horse_name).map_err(|e| ApiError::Internal(e.to_string()))?;
    let mut body =
        format!(r#"{{"horse_no":"{horse_no}","horse_name":{name},"form":["#).into_bytes();
    append(&mut body, &placed);
    body.extend_from_slice(br#"],"unplaced":["#);
    append(&mut body, &unplaced);
    body.extend_from_slice(b"]}");
    Ok(call.answer(body))
}

fn append(body: &mut Vec<u8>, rows: &[projections::View]) {
    for (index, row) in rows.iter().enumerate() {
        if index > 0 {
            body.push(b',');
        }
        body.extend_from_slice(RowKind::split(row).map_or(&[], |(_, json)| json));
    }
}

fn limit(args: &Args) -> Result<usize, ApiError> {
    let Some(text) = args.get("limit") else {
        return Ok(usize::MAX);
    };
    match text.parse() {
        Ok(limit) if (1..=FORM_LIMIT_MAX).contains(&limit) => Ok(limit),
        _ => Err(ApiError::InvalidParameter(format!(
            "limit is 1 to {FORM_LIMIT_MAX}"
        ))),
    }
}
