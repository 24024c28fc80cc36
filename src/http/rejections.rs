//! What was refused, a page at a time, on the admin address.

use std::borrow::Cow;
use std::sync::Arc;

use axum::extract::State;
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Response};
use projections::{Store, View, keys};
use serde::Deserialize;

use super::call::Args;
use super::error::ApiError;
use super::meetings::append_rows;
use crate::http::state::App;

/// Rejections in one answer at most.
const FOUND_MAX: u64 = 1000;
/// Rejections that are looked at for one answer at most: of many, a filter may let few pass.
const LOOKED_AT_MAX: usize = 5000;

/// From where on, and which way.
enum From {
    After(u64),
    Before(u64),
}

/// Which of them. What is left out lets everything pass.
struct Filter<'a> {
    code: Option<&'a str>,
    source: Option<&'a str>,
    /// A subject, and those under it.
    subject: Option<&'a str>,
}

/// What a filter looks at.
#[derive(Deserialize)]
struct Refused<'a> {
    seq: u64,
    #[serde(borrow)]
    code: Cow<'a, str>,
    #[serde(borrow)]
    source: Cow<'a, str>,
    #[serde(borrow)]
    subject: Cow<'a, str>,
}

impl Filter<'_> {
    fn lets_pass(&self, refused: &Refused<'_>) -> bool {
        let is_under = |subject: &str| {
            let below = refused.subject.strip_prefix(subject);
            below.is_some_and(|below| below.is_empty() || below.starts_with('.'))
        };
        self.code.is_none_or(|code| refused.code == code)
            && self.source.is_none_or(|source| refused.source == source)
            && self.subject.is_none_or(is_under)
    }
}

/// Answers with a page in the order of the log, and with where the next one begins.
pub(super) async fn rejections(
    State(app): State<Arc<App>>,
    args: Args,
) -> Result<Response, ApiError> {
    let from = match (args.number("after")?, args.number("before")?) {
        (Some(_), Some(_)) => {
            return Err(ApiError::InvalidParameter(
                "A page is after a place or before one, not both".to_owned(),
            ));
        }
        (None, Some(seq)) => From::Before(seq),
        (after, None) => From::After(after.unwrap_or(0)),
    };
    let limit = match args.number("limit")?.unwrap_or(FOUND_MAX) {
        limit @ 1..=FOUND_MAX => usize::try_from(limit).unwrap_or(usize::MAX),
        _ => {
            return Err(ApiError::InvalidParameter(format!(
                "limit is 1 to {FOUND_MAX}"
            )));
        }
    };
    let filter = Filter {
        code: args.get("code"),
        source: args.get("source"),
        subject: args.get("subject"),
    };
    let page = Page::find(&app.views.current(), &from, limit, &filter)?;
    Ok(([(CONTENT_TYPE, "application/json")], page.into_json()?).into_response())
}

/// What is answered.
struct Page {
    found: Vec<(String, View)>,
    /// The last place that was looked at.
    next: u64,
    /// There is more behind it, or in front of it.
    more: bool,
}

impl Page {
    fn find(
        store: &Store,
        from: &From,
        limit: usize,
        filter: &Filter<'_>,
    ) -> Result<Self, ApiError> {
        let end = format!("{}~", keys::REJECTIONS);
        let (next, rows): (u64, &mut dyn Iterator<Item = _>) = match *from {
            From::After(seq) => {
                let first = keys::rejection(seq.saturating_add(1));
                (seq, &mut store.range(&first, &end))
            }
            From::Before(seq) => {
                let last = keys::rejection(seq);
                (seq, &mut store.range(keys::REJECTIONS, &last).rev())
            }
        };
        let mut page = Self {
            found: Vec::new(),
            next,
            more: false,
        };
        for (looked_at, row) in rows.enumerate() {
            if page.found.len() == limit || looked_at == LOOKED_AT_MAX {
                page.more = true;
                break;
            }
            let (key, view) = row?;
            let refused: Refused<'_> = serde_json::from_slice(&view)
                .map_err(|error| ApiError::Internal(format!("{key}: {error}")))?;
            page.next = refused.seq;
            if filter.lets_pass(&refused) {
                page.found.push((key, view));
            }
        }
        if matches!(from, From::Before(_)) {
            page.found.reverse();
        }
        Ok(page)
    }

    fn into_json(self) -> Result<Vec<u8>, ApiError> {
        let Self { found, next, more } = self;
        let mut body = b"{\"rejections\":[".to_vec();
        append_rows(&mut body, found.into_iter().map(Ok))?;
        body.extend_from_slice(format!("],\"next\":{next},\"more\":{more}}}").as_bytes());
        Ok(body)
    }
}
