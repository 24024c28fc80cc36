//! `/api/v1/exports/{kind}/{date}/{venue}`: a meeting as a file of rows, as of one event.

mod columns;
pub(super) mod files;
mod kind;
mod meeting_rows;
mod parquet_rows;
mod row_file;

use std::sync::Arc;

use axum::extract::{Request, State};
use axum::http::StatusCode;
use axum::http::header::CONTENT_LENGTH;
use axum::response::Response;
use axum::routing::get;
use strum::VariantNames;

use super::{ApiError, ApiRequest, App, Routes};
use files::ExportName;

pub(crate) use kind::ExportKind;

pub(super) fn router() -> Routes {
    let export = get(export);
    Routes::default().route("/api/v1/exports/{kind}/{date}/{venue}", export)
}

async fn export(State(app): State<Arc<App>>, request: Request) -> Result<Response, ApiError> {
    let request = ApiRequest::read(request, &app, &[]).await?;
    let kind: ExportKind = request.path.get("kind").parse().map_err(unknown_kind)?;
    let format = request.file_format()?;
    request.require_exports()?;
    if kind == ExportKind::Odds && !request.has_live_odds() {
        return Err(request.odds_not_included());
    }
    let request = Arc::new(request.rewound_to_one_event().await?);
    let seq = request.seq();
    let name = ExportName {
        kind,
        date: request.date()?,
        venue: request.path.venue()?,
        language: request.query.language()?,
        seq,
        format,
    };
    let of_file = Arc::clone(&request);
    let make = move |file| meeting_rows::write(&of_file, kind, format, file);
    let file = app.exports.get(name, make).await;
    let file = file.map_err(|error| app.unless_caught_up(request.was_caught_up, error))?;
    let body = Arc::clone(&file).body();
    let mut response = request.respond_with(file.tag.clone(), format, body, seq);
    if response.status() == StatusCode::OK {
        let headers = response.headers_mut();
        headers.insert(CONTENT_LENGTH, file.bytes.into());
    }
    Ok(response)
}

fn unknown_kind(_: strum::ParseError) -> ApiError {
    let kinds = ExportKind::VARIANTS.join(", ");
    ApiError::NotFound(format!("There are exports of {kinds}"))
}
