//! `/api/v1/days/{date}` and `/api/v1/races/next`: all meetings of a day, and the races that are off next.

use std::borrow::Cow;

use events::{RaceNumber, RaceStatus, RacingDate, VenueCode};
use jiff::{SignedDuration, Timestamp};
use projections::json::JsonObject;
use projections::meetings::MeetingFacts;
use projections::{Store, keys};
use serde::Deserialize;

use super::meeting_choice::MeetingChoice;
use super::meeting_races::race_of_meeting;
use super::paging::present_pages;
use super::{Answer, ApiError, ApiRequest, PageRows, Routes, resource};
use crate::clock::Clock;

pub(super) const NEXT: &str = "/api/v1/races/next";
/// Days ahead of which races are next.
const DAYS_AHEAD: i64 = 7;
/// A race that is this late has lost its feeder.
const LATE_MAX: SignedDuration = SignedDuration::from_hours(12);

pub(super) fn router() -> Routes {
    let movers = present_pages(&["limit"], movers);
    Routes::default()
        .route("/api/v1/days/{date}", resource(&[], day))
        .route("/api/v1/days/{date}/movers", movers)
        .route(NEXT, resource(&["limit"], next))
}

/// The meetings of a day with their race cards and results.
fn day(request: &ApiRequest) -> Result<Answer, ApiError> {
    let date = request.date()?;
    let races = |prefix: String| request.store.views(&prefix);
    let mut meetings = Vec::new();
    for view in races(keys::meetings_of(date))? {
        let meeting: MeetingFacts = serde_json::from_slice(&view)?;
        let json = JsonObject::from_rendered(view.to_vec())
            .list("racecards", races(keys::cards(date, &meeting.venue_code))?)
            .list("results", races(keys::results(date, &meeting.venue_code))?);
        meetings.push(json.finish());
    }
    if meetings.is_empty() {
        MeetingChoice::of_request(request, date)?;
    }
    let json = JsonObject::new().field("date", &date);
    Ok(json.list("meetings", meetings).finish().into())
}

/// The days of the races that may be next. One of yesterday is late, or in another time zone.
pub(super) fn next_days(clock: &Clock, now: Timestamp) -> impl Iterator<Item = RacingDate> {
    (-1..=DAYS_AHEAD).map(move |days| clock.day_of(now + SignedDuration::from_hours(24 * days)))
}

#[derive(Deserialize)]
struct NextRace {
    status: RaceStatus,
    off_time: String,
}

/// The races that are not off yet at a time, by the time of their off.
pub(super) fn next_races(
    clock: &Clock,
    store: &Store,
    now: Timestamp,
) -> Result<Vec<(Timestamp, Vec<u8>)>, ApiError> {
    let since = now - LATE_MAX;
    let mut next = Vec::new();
    for date in next_days(clock, now) {
        for meeting in store.views(&keys::meetings_of(date))? {
            let meeting: MeetingFacts = serde_json::from_slice(&meeting)?;
            for view in store.views(&keys::cards(date, &meeting.venue_code))? {
                let race: NextRace = serde_json::from_slice(&view)?;
                let off = race.off_time.parse::<Timestamp>().ok();
                if let Some(off) = off.filter(|off| *off > since && race.status < RaceStatus::Off) {
                    next.push((off, race_of_meeting(&meeting, &view)));
                }
            }
        }
    }
    next.sort_by_key(|(off, _)| *off);
    Ok(next)
}

fn next(request: &ApiRequest) -> Result<Answer, ApiError> {
    let next = next_races(&request.app.clock, &request.store, request.now())?;
    let mut page = PageRows::of(&request.query)?;
    for (_, race) in next {
        page.push(&race);
    }
    Ok(JsonObject::new().list("races", page.list()).finish().into())
}

#[derive(Deserialize)]
struct DayBoard<'a> {
    venue_code: VenueCode,
    race_number: RaceNumber,
    status: RaceStatus,
    recorded_at: String,
    #[serde(borrow)]
    runners: Vec<DayPrice<'a>>,
}

#[derive(Deserialize)]
struct DayPrice<'a> {
    horse_no: &'a str,
    number: u16,
    #[serde(borrow)]
    horse_name: Cow<'a, str>,
    win: Option<f64>,
    opening: Option<f64>,
}

/// The runners of the races of a day that are not over, the greatest move of the implied probability first.
fn movers(request: &ApiRequest) -> Result<Answer, ApiError> {
    let date = request.date()?;
    request.require_odds(None)?;
    let mut movers = Vec::new();
    let boards = request.store.views(&keys::boards_of(date))?;
    if boards.is_empty() {
        MeetingChoice::of_request(request, date)?;
    }
    for view in boards {
        let board: DayBoard<'_> = serde_json::from_slice(&view)?;
        let changed_at = board.recorded_at.parse().ok();
        if board.status.is_over() || request.require_odds(changed_at).is_err() {
            continue;
        }
        for runner in &board.runners {
            let (Some(opening), Some(price)) = (runner.opening, runner.win) else {
                continue;
            };
            let moved = ((1.0 / price - 1.0 / opening) * 10_000.0).round() / 10_000.0;
            if moved != 0.0 {
                let json = JsonObject::new()
                    .field("venue_code", &board.venue_code)
                    .field("race_number", &board.race_number)
                    .field("horse_no", runner.horse_no)
                    .field("horse_name", &runner.horse_name)
                    .field("number", &runner.number)
                    .field("opening", &opening)
                    .field("price", &price)
                    .field("probability_move", &moved);
                movers.push((moved, json.finish()));
            }
        }
    }
    movers.sort_by(|(a, _), (b, _)| b.abs().total_cmp(&a.abs()));
    let mut page = PageRows::of(&request.query)?;
    for (_, mover) in movers {
        page.push(&mover);
    }
    let json = JsonObject::new().field("date", &date);
    Ok(json.list("movers", page.list()).finish().into())
}
