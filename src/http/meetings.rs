//! `/api/v1/meetings`.

use projections::json::JsonObject;
use projections::meetings::MeetingFacts;
use projections::{StoreError, View, keys};

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

/// The meetings of the days that a request asks for, from the position of an earlier page on. That of a list of races
/// is within a meeting.
pub(super) fn meetings_of_days(
    request: &ApiRequest,
) -> Result<impl Iterator<Item = Result<MeetingFacts, ApiError>>, ApiError> {
    Ok(rows(request)?.map(|row| Ok(serde_json::from_slice(&row?.1)?)))
}

fn rows(
    request: &ApiRequest,
) -> Result<impl Iterator<Item = Result<(String, View), StoreError>>, ApiError> {
    let [from, to] = request.query.period()?;
    let first = from.map_or_else(|| keys::MEETINGS.to_owned(), keys::meetings_of);
    let after = request.query.get("after");
    let after = after.map(|after| match keys::parse_race(after) {
        Some(race) => keys::meeting_view(race.date, &race.venue),
        None => format!("{}{after}\0", keys::MEETINGS),
    });
    let first = first.max(after.unwrap_or_default());
    let last = to.map_or_else(|| keys::MEETINGS.to_owned(), keys::meetings_of);
    let end = format!("{last}~");
    // A range from after its end would be an error of sled.
    let rows = (first < end).then(|| request.store.range(&first, &end));
    Ok(rows.into_iter().flatten())
}

fn list(request: &ApiRequest) -> Result<Answer, ApiError> {
    let mut page = PageRows::of(&request.query)?;
    let mut key_before = String::new();
    let mut next = String::new();
    for row in rows(request)? {
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
    Ok(Answer::page(json.field("more", &!next.is_empty()), &next))
}
