//! `/api/v1/meetings`, and which meeting of a day an answer is about.

use std::sync::Arc;

use axum::Router;
use axum::response::Response;
use axum::routing::get;
use events::{RaceKey, RaceNumber, RacingDate, VenueCode};
use projections::meetings::MeetingView;
use projections::{Store, StoreError, View, keys};
use serde::Serialize;

use super::call::{Args, Call};
use super::error::ApiError;
use crate::http::state::App;

/// Meetings in one answer at most: ten years of a busy venue.
const MEETINGS_MAX: usize = 5_000;

pub(super) fn router() -> Router<Arc<App>> {
    Router::new().route("/api/v1/meetings", get(list))
}

async fn list(call: Call, args: Args) -> Result<Response, ApiError> {
    let (from, to) = (args.date("from")?, args.date("to")?);
    if from.zip(to).is_some_and(|(from, to)| from > to) {
        return Err(ApiError::InvalidParameter("from is after to".to_owned()));
    }
    let first = from.map_or_else(|| keys::MEETINGS.to_owned(), keys::meetings_of);
    let end = to.map_or_else(
        || format!("{}~", keys::MEETINGS),
        |to| format!("{}~", keys::meetings_of(to)),
    );
    let mut body = b"{\"meetings\":[".to_vec();
    let mut rows = call.store.range(&first, &end);
    append_rows(&mut body, rows.by_ref().take(MEETINGS_MAX))?;
    let more = rows.next().is_some();
    body.extend_from_slice(format!("],\"more\":{more}}}").as_bytes());
    Ok(call.answer(body))
}

/// Appends views with commas between them.
pub(super) fn append_rows(
    body: &mut Vec<u8>,
    rows: impl Iterator<Item = Result<(String, View), StoreError>>,
) -> Result<(), StoreError> {
    let mut first = true;
    for row in rows {
        if !std::mem::take(&mut first) {
            body.push(b',');
        }
        body.extend_from_slice(&row?.1);
    }
    Ok(())
}

/// The meeting that an answer is about, and the others of its day.
#[derive(Debug)]
pub(super) struct Chosen {
    pub(super) code: VenueCode,
    pub(super) meeting: MeetingView,
    pub(super) others: Vec<MeetingView>,
}

/// What stands before the races, or the fields of one race, in an answer.
#[derive(Serialize)]
struct Head<'a> {
    date: &'a str,
    venue: &'a str,
    venue_code: &'a str,
    meeting_status: &'a str,
    other_venues: Vec<&'a str>,
}

impl Chosen {
    /// The meeting's fields as the opening of a JSON object, up to and with the comma.
    pub(super) fn head(&self) -> Result<Vec<u8>, ApiError> {
        let head = Head {
            date: &self.meeting.date,
            venue: &self.meeting.venue,
            venue_code: &self.meeting.venue_code,
            meeting_status: &self.meeting.status,
            other_venues: self
                .others
                .iter()
                .map(|other| other.venue_code.as_str())
                .collect(),
        };
        let mut json = serde_json::to_vec(&head).map_err(|e| ApiError::Internal(e.to_string()))?;
        json.pop();
        json.push(b',');
        Ok(json)
    }

    /// An answer about the meeting that ends in a list: its fields, what opens the list, and the views in it.
    pub(super) fn with_list(
        &self,
        opening: &str,
        rows: impl Iterator<Item = Result<(String, View), StoreError>>,
    ) -> Result<Vec<u8>, ApiError> {
        let mut body = self.head()?;
        body.extend_from_slice(opening.as_bytes());
        append_rows(&mut body, rows)?;
        body.extend_from_slice(b"]}");
        Ok(body)
    }

    /// A link to the same answer for each other meeting of the day.
    pub(super) fn links(&self, path: &str) -> Vec<String> {
        let link =
            |other: &MeetingView| format!("<{path}?venue={}>; rel=\"alternate\"", other.venue_code);
        self.others.iter().map(link).collect()
    }
}

/// Answers with the races of a meeting; `of_meeting` names the views that they are.
pub(super) fn races(
    call: Call,
    app: &App,
    date: RacingDate,
    args: &Args,
    path: &str,
    of_meeting: fn(RacingDate, &VenueCode) -> String,
) -> Result<Response, ApiError> {
    let chosen = choose(app, &call.store, date, args.get("venue"))?;
    let rows = call.store.scan(&of_meeting(date, &chosen.code));
    let body = chosen.with_list("\"races\":[", rows)?;
    Ok(call.answer_with_links(body, chosen.links(path)))
}

/// A race of today's meeting, or of the one of today that `venue` names.
///
/// # Errors
/// There is no such meeting today.
pub(super) fn race_of_today(
    app: &App,
    race_number: RaceNumber,
    args: &Args,
) -> Result<RaceKey, ApiError> {
    let date = app.clock.today();
    let chosen = choose(app, &*app.ready_store()?, date, args.get("venue"))?;
    Ok(RaceKey {
        date,
        venue: chosen.code,
        race_number,
    })
}

/// Chooses a meeting of a day: the one that `venue` names, by code or by name, else the first in the configured order of
/// venues, then by code.
pub(super) fn choose(
    app: &App,
    store: &Store,
    date: RacingDate,
    venue: Option<&str>,
) -> Result<Chosen, ApiError> {
    let mut meetings = Vec::new();
    for row in store.scan(&keys::meetings_of(date)) {
        let meeting: MeetingView =
            serde_json::from_slice(&row?.1).map_err(|e| ApiError::Internal(e.to_string()))?;
        meetings.push(meeting);
    }
    if meetings.is_empty() {
        return Err(ApiError::NotFound(format!(
            "No meeting is known for {date}"
        )));
    }
    meetings.sort_by_key(|meeting| app.venue_rank(&meeting.venue_code));
    let named = |m: &MeetingView, name: &str| {
        m.venue_code.eq_ignore_ascii_case(name) || m.venue.eq_ignore_ascii_case(name)
    };
    let index = match venue {
        None => 0,
        Some(name) => meetings
            .iter()
            .position(|m| named(m, name))
            .ok_or_else(|| {
                let known: Vec<&str> = meetings.iter().map(|m| m.venue_code.as_str()).collect();
                let name: String = name.chars().take(40).collect();
                ApiError::NotFound(format!(
                    "No meeting is known for {date} at {name:?}; there is one at {}",
                    known.join(", ")
                ))
            })?,
    };
    let meeting = meetings.remove(index);
    let code =
        VenueCode::parse(&meeting.venue_code).map_err(|e| ApiError::Internal(e.to_string()))?;
    Ok(Chosen {
        code,
        meeting,
        others: meetings,
    })
}
