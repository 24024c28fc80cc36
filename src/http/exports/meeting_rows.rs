//! The rows of a file: those that answers about the meeting have.

use std::collections::BTreeMap;
use std::fs::File;
use std::sync::LazyLock;

use events::{HorseNo, RaceKey};
use projections::horse_form::RowKind;
use projections::json::{JsonObject, render};
use projections::odds_history::ticks;
use projections::{View, keys};
use serde::Deserialize;
use strum::IntoEnumIterator;

use super::columns::{ExportColumns, columns_of};
use super::kind::ExportKind;
use super::row_file::RowFile;
use crate::http::descriptions::openapi;
use crate::http::formats::{BodyFormat, RowFields};
use crate::http::meeting_choice::MeetingChoice;
use crate::http::meeting_races::race_of_meeting;
use crate::http::{ApiError, ApiRequest};

static COLUMNS: LazyLock<BTreeMap<ExportKind, ExportColumns>> = LazyLock::new(|| {
    let document = openapi();
    let columns = |kind: ExportKind| {
        let (path, lists) = kind.source();
        let columns = columns_of(&document, path, lists);
        (kind, columns.expect("the document has the path"))
    };
    ExportKind::iter().map(columns).collect()
});

/// Writes the rows of the meeting in the path of a request.
///
/// # Errors
/// Returns [`ApiError::NotFound`] if there is no such meeting, and [`ApiError::Internal`] if the file cannot be
/// written.
pub(super) fn write(
    request: &ApiRequest,
    kind: ExportKind,
    format: BodyFormat,
    file: File,
) -> Result<File, ApiError> {
    let (_, lists) = kind.source();
    let mut file = RowFile::create(file, format, &COLUMNS[&kind]).map_err(ApiError::internal)?;
    let take = |answer: JsonObject| {
        let json = request.translate(answer.finish().into())?.json;
        let answer: RowFields<'_> = serde_json::from_slice(&json)?;
        for row in answer.rows(lists)? {
            file.write(&row).map_err(ApiError::internal)?;
        }
        Ok(())
    };
    each_answer(request, kind, take)?;
    file.finish().map_err(ApiError::internal)
}

/// Passes on parts of the answers that have the rows.
fn each_answer(
    request: &ApiRequest,
    kind: ExportKind,
    mut take: impl FnMut(JsonObject) -> Result<(), ApiError>,
) -> Result<(), ApiError> {
    let (store, date, venue) = (&request.store, request.date()?, request.path.venue()?);
    let today = request.today();
    let choice = MeetingChoice::find(&request.app, store, today, date, Some(venue.as_str()))?;
    let prefix = match kind {
        ExportKind::Racecards => keys::cards(date, &venue),
        ExportKind::Odds => keys::boards_of(date),
        _ => keys::results(date, &venue),
    };
    for row in store.scan(&prefix) {
        let (key, view) = row?;
        let race = keys::parse_race(&key).filter(|race| race.venue == venue);
        let Some(race) = race else { continue };
        match kind {
            ExportKind::Results | ExportKind::Racecards => {
                let race = race_of_meeting(&choice.meeting, &view);
                take(JsonObject::new().list("races", [race]))?;
            }
            ExportKind::Odds => {
                let (first, _) = keys::ticks_from(&race, 0);
                for chunk in store.range(&first, &(keys::ticks(&race) + "~")) {
                    let (key, chunk) = chunk?;
                    let rows = ticks(&key, &chunk)?.into_iter().map(|tick| render(&tick));
                    take(JsonObject::from_rendered(view.to_vec()).list("history", rows))?;
                }
            }
            ExportKind::Dividends => {
                if let Some(declared) = store.get(&keys::dividends(&race))? {
                    take(choice.object().fields_of(&declared))?;
                }
            }
            ExportKind::Form => each_run(request, &race, &view, &mut take)?,
        }
    }
    Ok(())
}

#[derive(Deserialize)]
struct ResultHorses {
    runners: Vec<ResultHorse>,
    unplaced: Vec<ResultHorse>,
}

#[derive(Deserialize)]
struct ResultHorse {
    horse_no: HorseNo,
    horse_name: String,
}

/// Passes on the form of each horse in a result, with this race alone.
fn each_run(
    request: &ApiRequest,
    race: &RaceKey,
    result: &View,
    take: &mut impl FnMut(JsonObject) -> Result<(), ApiError>,
) -> Result<(), ApiError> {
    let horses: ResultHorses = serde_json::from_slice(result)?;
    for horse in horses.runners.into_iter().chain(horses.unplaced) {
        let row = request.store.get(&keys::form_row(&horse.horse_no, race))?;
        let (list, row) = match row.as_deref().and_then(RowKind::split) {
            Some((RowKind::Placed, row)) => ("form", row),
            Some((RowKind::Unplaced, row)) => ("unplaced", row),
            _ => continue,
        };
        let form = JsonObject::new().field("horse_no", &horse.horse_no);
        let form = form.field("horse_name", &horse.horse_name);
        take(form.list(list, [row]))?;
    }
    Ok(())
}
