//! `/api/v1/jockeys`, `/trainers`, `/owners` and `/venues`: the search, figures, and rides, newest first.
//! `/api/v1/horses/{horse_no}/against/{other_horse_no}`: the races that two horses ran in.

use std::iter;
use std::str::FromStr;
use std::sync::Arc;

use axum::routing::MethodRouter;
use events::{HorseNo, RaceKey};
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use projections::View;
use projections::horse_form::RowKind;
use projections::json::JsonObject;
use projections::keys::{self, RidesOf};
use projections::rides::{RideCounter, RideName, RidesBy, person_id, season_month};
use serde::Deserialize;
use serde_json::value::RawValue;
use strum::VariantNames;

use super::horses::find;
use super::paging::{INVALID_AFTER, present_pages};
use super::params::quoted;
use super::{Answer, ApiError, ApiRequest, App, PageRows, Routes, name_search};

/// Rides that one answer counts: some seasons of a jockey. They are read as of one event, which delays the next.
const RIDES_COUNTED_MAX: usize = 5_000;

/// The name of a list, which is the end of its path.
fn list(of: RidesOf) -> String {
    format!("{of}s")
}

pub(super) fn router() -> Routes {
    let search = |of| of_present(&["after", "limit", "name"], of, search);
    let figures = |of| of_present(&["by", "from", "to"], of, figures);
    let rides = |of| of_present(&["after", "before", "limit"], of, rides);
    let against = present_pages(&[], against);
    Routes::default()
        .route("/api/v1/jockeys", search(RidesOf::Jockey))
        .route("/api/v1/jockeys/{key}", figures(RidesOf::Jockey))
        .route("/api/v1/jockeys/{key}/rides", rides(RidesOf::Jockey))
        .route("/api/v1/trainers", search(RidesOf::Trainer))
        .route("/api/v1/trainers/{key}", figures(RidesOf::Trainer))
        .route("/api/v1/trainers/{key}/rides", rides(RidesOf::Trainer))
        .route("/api/v1/owners", search(RidesOf::Owner))
        .route("/api/v1/owners/{key}", figures(RidesOf::Owner))
        .route("/api/v1/owners/{key}/rides", rides(RidesOf::Owner))
        .route("/api/v1/venues", search(RidesOf::Venue))
        .route("/api/v1/venues/{key}", figures(RidesOf::Venue))
        .route("/api/v1/venues/{key}/rides", rides(RidesOf::Venue))
        .route(
            "/api/v1/horses/{horse_no}/against/{other_horse_no}",
            against,
        )
}

fn of_present(
    parameters: &'static [&'static str],
    of: RidesOf,
    read: fn(&ApiRequest, RidesOf) -> Result<Answer, ApiError>,
) -> MethodRouter<Arc<App>> {
    present_pages(parameters, move |request| read(request, of))
}

/// Those that have the text `name` in a name, by their keys.
fn search(request: &ApiRequest, of: RidesOf) -> Result<Answer, ApiError> {
    let after = request.query.get("after");
    let mut first = after.map_or_else(|| keys::all_rides(of), |after| keys::rides_end(of, after));
    let end = keys::all_rides(of) + "\u{10ffff}";
    let all = iter::from_fn(|| {
        // A range from after its end would be an error of sled.
        let entry = (first < end).then(|| request.store.range(&first, &end).next());
        let key = entry.flatten()?.map(|(entry, _)| {
            let key = keys::parse_whose_ride(of, &entry).unwrap_or_default();
            first = keys::rides_end(of, key);
            (key.to_owned(), ())
        });
        Some(key.map_err(ApiError::from))
    });
    name_search::search(request, &list(of), all, |key, (), part| {
        let (ride, value) = latest(request, of, key)?;
        let name = parse_name(&value)?;
        let row = part.is_in(name.names.iter().map(|name| &**name)).then(|| {
            let last_on = keys::parse_ride(&ride).map(|(race, _)| race.date);
            identity(of, key, &name).field("last_on", &last_on).finish()
        });
        Ok(row)
    })
}

/// The latest ride, by its key, and its name.
fn latest(request: &ApiRequest, of: RidesOf, key: &str) -> Result<(String, View), ApiError> {
    let (first, end) = (keys::rides(of, key), keys::rides_end(of, key));
    let latest = request.store.range(&first, &end).next_back();
    let unknown = || ApiError::NotFound(format!("No rides of the {of} {} are known", quoted(key)));
    Ok(latest.ok_or_else(unknown)??)
}

fn parse_name(value: &[u8]) -> Result<RideName<'_>, ApiError> {
    Ok(serde_json::from_slice(value)?)
}

fn identity(of: RidesOf, key: &str, name: &RideName<'_>) -> JsonObject {
    let json = JsonObject::new().field("key", key);
    let json = json.field(&of.to_string(), name.names.first().map_or("", |name| name));
    json.field("id", person_id(key)).field("area", &name.area)
}

/// An entry of the index, with the form row of the ride.
struct IndexedRide {
    entry: String,
    race: RaceKey,
    horse_no: HorseNo,
    row: Vec<u8>,
}

/// The rides from one key up to another one, newest first, each with its form row.
fn rows<'a>(
    request: &'a ApiRequest,
    first: &str,
    end: &str,
) -> impl Iterator<Item = Result<IndexedRide, ApiError>> + use<'a> {
    // A range from after its end would be an error of sled.
    let rides = (first < end).then(|| request.store.range(first, end).rev());
    rides.into_iter().flatten().map(|entry| {
        let (entry, _) = entry?;
        let damaged = || ApiError::Internal(format!("the ride {entry} is damaged"));
        let (race, horse_no) = keys::parse_ride(&entry).ok_or_else(damaged)?;
        let row = request.store.get(&keys::form_row(&horse_no, &race))?;
        let row = row.as_deref().and_then(RowKind::split);
        let (_, row) = row.ok_or_else(damaged)?;
        let row = row.to_vec();
        Ok(IndexedRide {
            entry,
            race,
            horse_no,
            row,
        })
    })
}

/// The figures of the rides in a period: of all, and by what they are grouped by.
fn figures(request: &ApiRequest, of: RidesOf) -> Result<Answer, ApiError> {
    let key = request.path.get("key");
    let [from, to] = request.query.period()?;
    let expected = format!("one of {}", RidesBy::VARIANTS.join(", "));
    let parse = |by: &str| RidesBy::from_str(by).ok();
    let by = request.query.parsed("by", &expected, parse)?;
    let (_, name) = latest(request, of, key)?;
    let name = parse_name(&name)?;
    let mut counter = RideCounter::new(by, season_month(&name.area));
    let from = from.map(|from| keys::rides_from(of, key, from));
    let first = from.unwrap_or_else(|| keys::rides(of, key));
    let of_last_day = to.map(|to| keys::rides_from(of, key, to) + "~");
    let end = of_last_day.unwrap_or_else(|| keys::rides_end(of, key));
    let mut dates = None;
    let mut is_complete = true;
    for (counted, ride) in rows(request, &first, &end).enumerate() {
        let ride = ride?;
        if counted == RIDES_COUNTED_MAX {
            is_complete = false;
            break;
        }
        counter.add(&ride.row)?;
        let [_, to] = dates.unwrap_or([ride.race.date; 2]);
        dates = Some([ride.race.date, to]);
    }
    let [from, to] = dates.map_or([None; 2], |dates| dates.map(Some));
    let (all, groups) = counter.finish();
    let json = identity(of, key, &name)
        .field("from", &from)
        .field("to", &to)
        .field("complete", &is_complete)
        .field("totals", &all)
        .field("by", &by)
        .field("groups", &groups);
    Ok(json.finish().into())
}

/// The rides before a date, and after the position of an earlier page, newest first, each with its form row.
fn rides(request: &ApiRequest, of: RidesOf) -> Result<Answer, ApiError> {
    let key = request.path.get("key");
    let (_, name) = latest(request, of, key)?;
    let all = keys::rides(of, key);
    let before = request.query.date("before")?;
    let before = before.map(|date| keys::rides_from(of, key, date));
    let after = request.query.get("after");
    let after = after.map(|after| format!("{all}{after}"));
    let is_wrong = |after: &String| keys::parse_ride(after).is_none();
    if after.as_ref().is_some_and(is_wrong) {
        return Err(ApiError::invalid(INVALID_AFTER));
    }
    let end = before.into_iter().chain(after).min();
    let end = end.unwrap_or_else(|| keys::rides_end(of, key));
    let mut page = PageRows::of(&request.query)?;
    for ride in rows(request, &all, &end) {
        let ride = ride?;
        let json = JsonObject::new().field("horse_no", &ride.horse_no);
        let row = json.fields_of(&ride.row).finish();
        if !page.take(ride.entry.strip_prefix(&all).unwrap_or_default(), &row) {
            break;
        }
    }
    let path = utf8_percent_encode(key, NON_ALPHANUMERIC);
    let next = page.next(
        &format!("/api/v1/{}/{path}/rides", list(of)),
        &request.query,
    );
    let json = identity(of, key, &parse_name(&name)?);
    Ok(Answer::page(json.list("rides", page.list()), &next))
}

/// The races that two horses ran in, newest first, with the form row of each.
fn against(request: &ApiRequest) -> Result<Answer, ApiError> {
    let horse_no = request.path.horse_no()?;
    let other_no = request.path.other_horse_no()?;
    for horse_no in [&horse_no, &other_no] {
        find(request, horse_no)?;
    }
    let (mut ahead, mut behind) = (0_u32, 0_u32);
    let mut races = Vec::new();
    for row in request.store.scan(&keys::form(&horse_no)).rev() {
        let (entry, row) = row?;
        let race = keys::parse_race(&entry);
        let other = race.map(|race| request.store.get(&keys::form_row(&other_no, &race)));
        let other = other.transpose()?.flatten();
        let other = other.as_deref().and_then(ran);
        if let (Some((place, row)), Some((other_place, other))) = (ran(&row), other) {
            ahead += u32::from(place < other_place);
            behind += u32::from(place > other_place);
            let other: &RawValue = serde_json::from_slice(other)?;
            let json = JsonObject::from_rendered(row.to_vec());
            races.push(json.field("other", other).finish());
        }
    }
    let json = JsonObject::new()
        .field("horse_no", &horse_no)
        .field("other_horse_no", &other_no)
        .field("ahead", &ahead)
        .field("behind", &behind);
    Ok(json.list("races", races).finish().into())
}

/// The place of a runner in a race, and its form row. `None` if it was declared only, or is no longer in the race. One
/// without an official placing is behind all others.
fn ran(row: &[u8]) -> Option<(u16, &[u8])> {
    #[derive(Deserialize)]
    struct Placing {
        position: Option<u16>,
    }
    let (kind, row) = RowKind::split(row)?;
    let is_in_result = matches!(kind, RowKind::Placed | RowKind::Unplaced);
    let placing: Placing = serde_json::from_slice(row).ok().filter(|_| is_in_result)?;
    Some((placing.position.unwrap_or(u16::MAX), row))
}
