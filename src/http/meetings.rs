//! `/api/v1/meetings`.

use projections::json::JsonObject;
use projections::meetings::MeetingFacts;
use projections::{StoredRow, keys};

use super::paging::pages;
use super::{Answer, ApiError, ApiRequest, PageRows, Routes};

pub(super) fn router() -> Routes {
    let list = pages(&["after", "from", "limit", "to"], list);
    Routes::default().route("/api/v1/meetings", list)
}

/// The meetings of the days that a request asks for, from the position of an earlier page on. That of a list of races
/// is within a meeting.
pub(super) fn meetings_of_days(
    request: &ApiRequest,
) -> Result<impl Iterator<Item = Result<MeetingFacts, ApiError>>, ApiError> {
    Ok(rows(request)?.map(|row| Ok(serde_json::from_slice(&row?.1)?)))
}

fn rows(request: &ApiRequest) -> Result<impl Iterator<Item = StoredRow>, ApiError> {
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
    for row in rows(request)? {
        let (key, meeting) = row?;
        if !page.take(
            key.strip_prefix(keys::MEETINGS).unwrap_or_default(),
            &meeting,
        ) {
            break;
        }
    }
    let next = page.next("/api/v1/meetings", &request.query);
    let json = JsonObject::new().list("meetings", page.list());
    Ok(Answer::page(json.field("more", &!next.is_empty()), &next))
}
