//! `/api/v1/meetings`.

use projections::json::JsonObject;
use projections::keys;

use super::error::ApiError;
use super::paging::{PageRows, next_path, pages};
use super::request::{Answer, ApiRequest};
use super::routes::Routes;

pub(super) fn router() -> Routes {
    Routes::default().route(
        "/api/v1/meetings",
        pages(&["after", "from", "limit", "to"], list),
    )
}

/// The keys of the meetings of the days that a request asks for: the first one, and the one after the last.
pub(super) fn day_range(request: &ApiRequest) -> Result<(String, String), ApiError> {
    let from = request.query.date("from")?;
    let to = request.query.date("to")?;
    if from.zip(to).is_some_and(|(from, to)| from > to) {
        return Err(ApiError::InvalidParameter("from is after to".to_owned()));
    }
    let first = from.map_or_else(|| keys::MEETINGS.to_owned(), keys::meetings_of);
    let first = match request.query.get("after") {
        Some(after) => first.max(format!("{}{after}\0", keys::MEETINGS)),
        None => first,
    };
    let last = to.map_or_else(|| keys::MEETINGS.to_owned(), keys::meetings_of);
    Ok((first, format!("{last}~")))
}

fn list(request: &ApiRequest) -> Result<Answer, ApiError> {
    let mut page = PageRows::of(&request.query)?;
    let (first, end) = day_range(request)?;
    let mut key_before = String::new();
    let mut next = String::new();
    // A range from after its end would be an error of sled.
    let rows = (first < end).then(|| request.store.range(&first, &end));
    for row in rows.into_iter().flatten() {
        let (key, meeting) = row?;
        if page.is_full() {
            let after = key_before.strip_prefix(keys::MEETINGS).unwrap_or_default();
            next = next_path("/api/v1/meetings", &request.query, after);
            break;
        }
        page.push(&meeting);
        key_before = key;
    }
    let json = JsonObject::new().list("meetings", page.list());
    let json = json.field("more", &!next.is_empty());
    Ok(Answer::page(json, &next))
}
