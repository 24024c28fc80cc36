//! `/rejections` on the admin address: the rejected messages, in pages.

use std::borrow::Cow;
use std::sync::Arc;

use axum::extract::State;
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Response};
use projections::json::JsonObject;
use projections::{Store, View, keys};
use serde::Deserialize;

use super::error::ApiError;
use super::params::QueryParams;
use super::state::App;

/// Rejections in one page.
const PAGE_ROWS_MAX: usize = 1000;
/// Rejections read for one page. A filter may pass few of many.
const READ_ROWS_MAX: usize = 5000;

/// Where a page begins, and its direction.
enum PageStart {
    After(u64),
    Before(u64),
}

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
    let start = match (query.number("after")?, query.number("before")?) {
        (Some(_), Some(_)) => {
            return Err(ApiError::InvalidParameter(
                "A page has either after or before, not both".to_owned(),
            ));
        }
        (None, Some(seq)) => PageStart::Before(seq),
        (after, None) => PageStart::After(after.unwrap_or(0)),
    };
    let limit = query.limit(PAGE_ROWS_MAX)?.unwrap_or(PAGE_ROWS_MAX);
    let filter = RejectionFilter {
        code: query.get("code"),
        source: query.get("source"),
        subject: query.get("subject"),
    };
    let page = FoundRejections::find(&app.views.current(), &start, limit, &filter)?;
    Ok(([(CONTENT_TYPE, "application/json")], page.into_json()).into_response())
}

struct FoundRejections {
    rows: Vec<View>,
    /// The sequence of the last rejection that was read.
    next: u64,
    /// Whether there are more in the direction of the page.
    more: bool,
}

impl FoundRejections {
    fn find(
        store: &Store,
        start: &PageStart,
        limit: usize,
        filter: &RejectionFilter<'_>,
    ) -> Result<Self, ApiError> {
        let end = format!("{}~", keys::REJECTIONS);
        let (next, rows): (u64, &mut dyn Iterator<Item = _>) = match *start {
            PageStart::After(seq) => {
                let first = keys::rejection(seq.saturating_add(1));
                (seq, &mut store.range(&first, &end))
            }
            PageStart::Before(seq) => {
                let last = keys::rejection(seq);
                (seq, &mut store.range(keys::REJECTIONS, &last).rev())
            }
        };
        let mut page = Self {
            rows: Vec::new(),
            next,
            more: false,
        };
        for (read, row) in rows.enumerate() {
            if page.rows.len() == limit || read == READ_ROWS_MAX {
                page.more = true;
                break;
            }
            let (key, view) = row?;
            let rejection: RejectionFields<'_> = serde_json::from_slice(&view)
                .map_err(|error| ApiError::Internal(format!("{key}: {error}")))?;
            page.next = rejection.seq;
            if filter.matches(&rejection) {
                page.rows.push(view);
            }
        }
        if matches!(start, PageStart::Before(_)) {
            page.rows.reverse();
        }
        Ok(page)
    }

    fn into_json(self) -> Vec<u8> {
        JsonObject::new()
            .list("rejections", self.rows)
            .field("next", &self.next)
            .field("more", &self.more)
            .finish()
    }
}
