//! `/rejections` on the admin address: the rejected messages, in pages.

use std::borrow::Cow;
use std::sync::Arc;

use axum::extract::State;
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Response};
use projections::json::JsonObject;
use projections::{Store, keys};
use serde::Deserialize;

use super::error::ApiError;
use super::params::QueryParams;
use super::state::App;

/// Rejections in one page.
const PAGE_ROWS_MAX: usize = 1000;
/// Rejections read for one page. A filter may pass few of many.
const READ_ROWS_MAX: usize = 5000;

/// The rejections that a page has. `None` matches all.
struct RejectionFilter<'a> {
    code: Option<&'a str>,
    source: Option<&'a str>,
    /// A subject, or the beginning of one up to a dot.
    subject: Option<&'a str>,
}

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

impl RejectionFilter<'_> {
    fn matches(&self, rejection: &RejectionFields<'_>) -> bool {
        let is_under = |subject: &str| {
            let below = rejection.subject.strip_prefix(subject);
            below.is_some_and(|below| below.is_empty() || below.starts_with('.'))
        };
        self.code.is_none_or(|code| rejection.code == code)
            && self.source.is_none_or(|source| rejection.source == source)
            && self.subject.is_none_or(is_under)
    }
}

/// Responds with a page in the order of the log, and with the position of the next one.
pub(super) async fn rejections(
    State(app): State<Arc<App>>,
    query: QueryParams,
) -> Result<Response, ApiError> {
    query.check_names(&["after", "before", "limit", "code", "source", "subject"])?;
    let after = query.number("after")?;
    let before = query.number("before")?;
    if after.is_some() && before.is_some() {
        let message = "A page has either after or before, not both";
        return Err(ApiError::InvalidParameter(message.to_owned()));
    }
    let limit = query
        .count("limit", PAGE_ROWS_MAX)?
        .unwrap_or(PAGE_ROWS_MAX);
    let filter = RejectionFilter {
        code: query.get("code"),
        source: query.get("source"),
        subject: query.get("subject"),
    };
    let page = page(&*app.store()?, after, before, limit, &filter)?;
    Ok(([(CONTENT_TYPE, "application/json")], page).into_response())
}

/// The page that follows `after`, or else ends before `before`. Its `next` is the sequence of the last rejection that
/// was read, and `more` whether there are more in the direction of the page.
fn page(
    store: &Store,
    after: Option<u64>,
    before: Option<u64>,
    limit: usize,
    filter: &RejectionFilter<'_>,
) -> Result<Vec<u8>, ApiError> {
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
        if filter.matches(&rejection) {
            rows.push(view);
        }
    }
    if before.is_some() {
        rows.reverse();
    }
    let page = JsonObject::new().list("rejections", rows);
    Ok(page.field("next", &next).field("more", &more).finish())
}
