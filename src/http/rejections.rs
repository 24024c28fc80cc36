//! `/rejections` on the admin address: the rejected messages, in pages.

use std::borrow::Cow;
use std::sync::Arc;

use axum::extract::State;
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Response};
use projections::json::JsonObject;
use projections::keys;
use serde::Deserialize;

use super::{ApiError, App, QueryParams};

/// Rejections in one page.
const PAGE_ROWS_MAX: usize = 1000;
/// Rejections read for one page. A filter may pass few of many.
const READ_ROWS_MAX: usize = 5000;

/// The fields of a rejection that a filter reads.
#[derive(Deserialize)]
struct RejectionFields<'a> {
    seq: u64,
    #[serde(borrow)]
    code: Cow<'a, str>,
    #[serde(borrow)]
    source: Cow<'a, str>,
    #[serde(borrow)]
    subject: Cow<'a, str>,
}

/// Responds with a page in the order of the log, and with the position of the next one.
pub(super) async fn rejections(
    State(app): State<Arc<App>>,
    query: QueryParams,
) -> Result<Response, ApiError> {
    query.check_names(&["after", "before", "limit", "code", "source", "subject"])?;
    let page = page(&app, &query)?;
    Ok(([(CONTENT_TYPE, "application/json")], page).into_response())
}

/// The page that follows `after`, or else ends before `before`. Its `next` is the sequence of the last rejection that
/// was read, and `more` whether there are more in the direction of the page.
fn page(app: &App, query: &QueryParams) -> Result<Vec<u8>, ApiError> {
    let after = query.number("after")?;
    let before = query.number("before")?;
    if after.is_some() && before.is_some() {
        let message = "A page has either after or before, not both";
        return Err(ApiError::InvalidParameter(message.to_owned()));
    }
    let limit = query.count("limit", PAGE_ROWS_MAX)?;
    let limit = limit.unwrap_or(PAGE_ROWS_MAX);
    let store = app.store()?;
    let end = format!("{}~", keys::REJECTIONS);
    let (mut next, found): (u64, &mut dyn Iterator<Item = _>) = match before {
        None => {
            let after = after.unwrap_or(0);
            let first = keys::rejection(after.saturating_add(1));
            (after, &mut store.range(&first, &end))
        }
        Some(before) => {
            let last = keys::rejection(before);
            (before, &mut store.range(keys::REJECTIONS, &last).rev())
        }
    };
    let mut rows = Vec::new();
    let mut more = false;
    for (read, row) in found.enumerate() {
        if rows.len() == limit || read == READ_ROWS_MAX {
            more = true;
            break;
        }
        let (key, view) = row?;
        let rejection: RejectionFields<'_> = serde_json::from_slice(&view)
            .map_err(|error| ApiError::Internal(format!("{key}: {error}")))?;
        next = rejection.seq;
        if rejection.matches(query) {
            rows.push(view);
        }
    }
    if before.is_some() {
        rows.reverse();
    }
    let page = JsonObject::new().list("rejections", rows);
    Ok(page.field("next", &next).field("more", &more).finish())
}

impl RejectionFields<'_> {
    /// Whether a query asks for it: for all, or by its code, its source, and its subject or the beginning of that up to
    /// a dot.
    fn matches(&self, query: &QueryParams) -> bool {
        let is_under = |subject: &str| {
            let below = self.subject.strip_prefix(subject);
            below.is_some_and(|below| below.is_empty() || below.starts_with('.'))
        };
        let is = |name, value: &str| query.get(name).is_none_or(|wanted| wanted == value);
        is("code", &self.code)
            && is("source", &self.source)
            && query.get("subject").is_none_or(is_under)
    }
}
