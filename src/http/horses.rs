//! `/api/v1/horses`: the search by name, a profile, and its form.

use std::sync::Arc;

use axum::extract::State;
use axum::http::request::Parts;
use axum::response::Response;
use axum::routing::get;
use events::HorseNo;
use projections::horse_form::RowKind;
use projections::json::JsonObject;
use projections::{horse_profile, keys};

use super::error::ApiError;
use super::paging::{INVALID_AFTER, PageRows, next_path, pages, read_page};
use super::params::QueryParams;
use super::request::{Answer, ApiRequest, resource};
use super::routes::Routes;
use super::state::App;

/// Form rows that are read for one page. A horse may be on many cards without a result.
const FORM_READ_ROWS_MAX: usize = 1000;
const SEARCH: &[&str] = &["after", "lang", "limit", "name"];

pub(super) fn router() -> Routes {
    Routes::default()
        .route("/api/v1/horses", get(listed))
        .route("/api/v1/horses/{horse_no}", resource(&[], profile))
        .route(
            "/api/v1/horses/{horse_no}/form",
            pages(&["after", "before", "limit"], form),
        )
}

/// The search, which has no `as_of`: every horse may be in its answer.
async fn listed(State(app): State<Arc<App>>, mut parts: Parts) -> Result<Response, ApiError> {
    QueryParams::parse(&parts.uri).check_names(SEARCH)?;
    let request = ApiRequest::read(&mut parts, &app, SEARCH).await?;
    read_page(request, search).await
}

/// The profiles of the horses whose names begin with `name`, and after the position of an earlier page, by name.
fn search(request: &ApiRequest) -> Result<Answer, ApiError> {
    let mut page = PageRows::of(&request.query)?;
    let prefix = keys::horses_named(request.query.get("name").unwrap_or_default());
    let first = match request.query.get("after") {
        Some(after) => prefix
            .clone()
            .max(format!("{}{after}\0", keys::HORSE_NAMES)),
        None => prefix.clone(),
    };
    let end = format!("{prefix}{}", char::MAX);
    let mut key_before = String::new();
    let mut next = String::new();
    // A range from after its end would be an error of sled.
    let rows = (first < end).then(|| request.store.range(&first, &end));
    for row in rows.into_iter().flatten() {
        let (key, _) = row?;
        if page.is_full() {
            let after = key_before.strip_prefix(keys::HORSE_NAMES);
            let after = after.unwrap_or_default();
            next = next_path("/api/v1/horses", &request.query, after);
            break;
        }
        if let Some(horse_no) = keys::parse_horse_name(&key) {
            page.push(&find(request, &horse_no)?);
        }
        key_before = key;
    }
    let json = JsonObject::new().list("horses", page.list());
    Ok(Answer::page(json, &next))
}

fn profile(request: &ApiRequest) -> Result<Answer, ApiError> {
    Ok(find(request, &request.path.horse_no()?)?.into())
}

fn find(request: &ApiRequest, horse_no: &HorseNo) -> Result<Vec<u8>, ApiError> {
    let value = request.store.get(&keys::profile(horse_no))?;
    let value = value.ok_or_else(|| ApiError::NotFound(format!("No horse {horse_no} is known")))?;
    horse_profile::serve(&value, request.today())
        .ok_or_else(|| ApiError::Internal(format!("the profile of {horse_no} is damaged")))
}

/// The rows before a date, and after the position of an earlier page, newest first. The limit counts those of `form`.
fn form(request: &ApiRequest) -> Result<Answer, ApiError> {
    #[derive(serde::Deserialize)]
    struct ProfileName {
        horse_name: String,
    }
    let horse_no = request.path.horse_no()?;
    let mut placed = PageRows::of(&request.query)?;
    let mut unplaced = PageRows::default();
    let end = form_end(&horse_no, &request.query)?;
    let profile = find(request, &horse_no)?;
    let ProfileName { horse_name } =
        serde_json::from_slice(&profile).map_err(ApiError::internal)?;

    let all = keys::form(&horse_no);
    let mut last = String::new();
    let mut next = String::new();
    for (read, row) in request.store.range(&all, &end).rev().enumerate() {
        let (key, value) = row?;
        if read == FORM_READ_ROWS_MAX || placed.is_full() || unplaced.is_full() {
            let after = last.strip_prefix(&all).unwrap_or_default();
            let path = format!("/api/v1/horses/{horse_no}/form");
            next = next_path(&path, &request.query, after);
            break;
        }
        match RowKind::split(&value) {
            Some((RowKind::Placed, json)) => placed.push(json),
            Some((RowKind::Unplaced, json)) => unplaced.push(json),
            _ => {}
        }
        last = key;
    }

    let json = JsonObject::new()
        .field("horse_no", &horse_no)
        .field("horse_name", &horse_name)
        .list("form", placed.list())
        .list("unplaced", unplaced.list());
    Ok(Answer::page(json, &next))
}

/// The key before which the rows of a page are.
fn form_end(horse_no: &HorseNo, query: &QueryParams) -> Result<String, ApiError> {
    let before = query.date("before")?;
    let before = before.map(|date| keys::form_from(horse_no, date));
    let after = query.get("after").map(|text| {
        let race = keys::parse_race(&format!("form/{text}"));
        let invalid = || ApiError::InvalidParameter(INVALID_AFTER.to_owned());
        race.map(|race| keys::form_row(horse_no, &race))
            .ok_or_else(invalid)
    });
    let ends = before.into_iter().chain(after.transpose()?);
    Ok(ends.min().unwrap_or_else(|| keys::form_end(horse_no)))
}
