//! `/api/v1/horses`: the search by name, a profile, and its form.

use events::HorseNo;
use projections::horse_form::RowKind;
use projections::json::JsonObject;
use projections::{horse_profile, keys};

use super::paging::{INVALID_AFTER, next_path, pages, present_pages};
use super::{Answer, ApiError, ApiRequest, PageRows, QueryParams, Routes, name_search, resource};

/// Form rows that are read for one page. A horse may be on many cards without a result.
const FORM_READ_ROWS_MAX: usize = 1000;

pub(super) fn router() -> Routes {
    let search = present_pages(&["after", "limit", "name"], search);
    let form = pages(&["after", "before", "limit"], form);
    Routes::default()
        .route("/api/v1/horses", search)
        .route("/api/v1/horses/{horse_no}", resource(&[], profile))
        .route("/api/v1/horses/{horse_no}/form", form)
}

/// The profiles of the horses that have the text `name` in a name, and after the position of an earlier page, by name.
fn search(request: &ApiRequest) -> Result<Answer, ApiError> {
    let after = request.query.get("after").unwrap_or_default();
    let first = format!("{}{after}\0", keys::HORSE_NAMES);
    let end = format!("{}{}", keys::HORSE_NAMES, char::MAX);
    // A range from after its end would be an error of sled.
    let all = (first < end).then(|| request.store.range(&first, &end));
    let all = all.into_iter().flatten().map(|entry| {
        let (key, names) = entry?;
        let position = key.strip_prefix(keys::HORSE_NAMES).unwrap_or_default();
        Ok((position.to_owned(), names))
    });
    name_search::search(request, "horses", all, |position, names, part| {
        let horse_no = keys::parse_horse_name(position);
        let names = str::from_utf8(names).unwrap_or_default().lines();
        let found = horse_no.filter(|_| part.is_in(names));
        found.map(|horse_no| find(request, &horse_no)).transpose()
    })
}

fn profile(request: &ApiRequest) -> Result<Answer, ApiError> {
    Ok(find(request, &request.path.horse_no()?)?.into())
}

pub(super) fn find(request: &ApiRequest, horse_no: &HorseNo) -> Result<Vec<u8>, ApiError> {
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
    let ProfileName { horse_name } = serde_json::from_slice(&profile)?;

    let all = keys::form(&horse_no);
    let mut last = String::new();
    let mut next = String::new();
    for (read, row) in request.store.range(&all, &end).rev().enumerate() {
        let (key, value) = row?;
        if read == FORM_READ_ROWS_MAX || placed.is_full() || unplaced.is_full() {
            let after = last.strip_prefix(&all).unwrap_or_default();
            next = next_path(
                &format!("/api/v1/horses/{horse_no}/form"),
                &request.query,
                after,
            );
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
        let row = race.map(|race| keys::form_row(horse_no, &race));
        row.ok_or_else(|| ApiError::invalid(INVALID_AFTER))
    });
    let ends = before.into_iter().chain(after.transpose()?);
    Ok(ends.min().unwrap_or_else(|| keys::form_end(horse_no)))
}
