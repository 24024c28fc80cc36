//! [`PageRows`]: the rows of one page of a long list, and the path of the next page.

use std::sync::Arc;

use axum::extract::{Request, State};
use axum::response::Response;
use axum::routing::{MethodRouter, get};
use projections::json::JsonObject;
use tokio::sync::Semaphore;
use tokio::task::spawn_blocking;

use super::{Answer, ApiError, ApiRequest, App, QueryParams};

/// The largest `limit`, by the contract.
pub(super) const LIMIT_MAX: usize = 1000;
/// The message about an invalid position.
pub(super) const INVALID_AFTER: &str = "after is the position from `next` of the page before";
/// Bytes of rows after which a page ends, also before its limit: a client that reads slowly keeps its page in memory.
const PAGE_BYTES_MAX: usize = 128 * 1024;
/// Room for the rows of a page and its last one. A buffer that grows would leave its smaller ones to the allocator.
const PAGE_CAPACITY: usize = PAGE_BYTES_MAX + 32 * 1024;
/// Pages that are read at a time. Each takes a thread, and leaves some megabytes of the store in the allocator of that
/// thread.
const READS_MAX: usize = 2;
/// The parameters of a page that the next one has as well.
const KEPT_PARAMS: [&str; 13] = [
    "venue", "name", "limit", "from", "to", "every", "market", "runner", "source", "lang", "as_of",
    "types", "wait_ms",
];

static READS: Semaphore = Semaphore::const_new(READS_MAX);

/// Rendered rows with commas between them.
#[derive(Default)]
pub(super) struct PageRows {
    /// How many rows the query asks for; [`LIMIT_MAX`] if it does not say.
    limit: Option<usize>,
    /// The rows, for one list of a rendered object.
    json: Vec<u8>,
    count: usize,
    /// The position of the last row that was taken.
    last: String,
    /// Whether a row follows that does not fit.
    more: bool,
}

impl PageRows {
    /// An empty page with the limit of a query.
    pub(super) fn of(query: &QueryParams) -> Result<Self, ApiError> {
        Ok(Self {
            limit: query.count("limit", LIMIT_MAX)?,
            ..Self::default()
        })
    }

    fn limit(&self) -> usize {
        self.limit.unwrap_or(LIMIT_MAX)
    }

    /// Whether no more rows belong on the page.
    pub(super) fn is_full(&self) -> bool {
        self.count >= self.limit() || self.json.len() >= PAGE_BYTES_MAX
    }

    /// Adds a row, unless the page is full.
    pub(super) fn push(&mut self, row: &[u8]) {
        if self.is_full() {
            return;
        }
        if self.count == 0 {
            let rows = self.limit() * row.len();
            self.json.reserve(PAGE_CAPACITY.min(rows));
        } else {
            self.json.push(b',');
        }
        self.json.extend_from_slice(row);
        self.count += 1;
    }

    /// The path of the next page of a list whose rows are numbered; empty on the last page.
    /// Adds the row at a position of the list; false if the page is full, so that the row is on the next one.
    pub(super) fn take(&mut self, position: &str, row: &[u8]) -> bool {
        self.more = self.is_full();
        if !self.more {
            self.push(row);
            position.clone_into(&mut self.last);
        }
        !self.more
    }

    /// The path of the next page, after the last row that was taken; empty if no row follows.
    pub(super) fn next(&self, path: &str, query: &QueryParams) -> String {
        let next = self.more.then(|| next_path(path, query, &self.last));
        next.unwrap_or_default()
    }

    /// The rows as the list of an object: one row that has all of them.
    pub(super) fn list(&self) -> Option<&[u8]> {
        (self.count > 0).then_some(&self.json)
    }
}

/// The path of the page after a position, with the parameters of this one.
pub(super) fn next_path(path: &str, query: &QueryParams, after: &str) -> String {
    let path = format!("{path}?");
    let length = path.len();
    let mut params = form_urlencoded::Serializer::for_suffix(path, length);
    for name in KEPT_PARAMS {
        params.extend_pairs(query.get(name).map(|value| (name, value)));
    }
    params.append_pair("after", after).finish()
}

impl Answer {
    /// A page of a list, and the `Link` to the next one.
    pub(super) fn page(json: JsonObject, next: &str) -> Self {
        let link = (!next.is_empty()).then(|| format!("<{next}>; rel=\"next\""));
        let json = json.field("next", next).finish();
        let links = link.into_iter().collect();
        Self { json, links }
    }
}

/// A resource with the pages of a long list.
pub(super) fn pages(
    parameters: &'static [&'static str],
    read: fn(&ApiRequest) -> Result<Answer, ApiError>,
) -> MethodRouter<Arc<App>> {
    get(async move |State(app): State<Arc<App>>, request: Request| {
        let request = ApiRequest::read(request, &app, parameters).await?;
        read_page(request.rewound().await?, read).await
    })
}

/// As [`pages`], for a resource without `as_of`: an answer depends on races and horses that the request does not name.
pub(super) fn present_pages(
    parameters: &'static [&'static str],
    read: impl Fn(&ApiRequest) -> Result<Answer, ApiError> + Copy + Send + Sync + 'static,
) -> MethodRouter<Arc<App>> {
    get(async move |State(app): State<Arc<App>>, request: Request| {
        let query = QueryParams::parse(request.uri());
        let mut known = [parameters, &["lang"]].concat();
        known.sort_unstable();
        query.check_names(&known)?;
        let request = ApiRequest::read(request, &app, parameters).await?;
        read_page(request, read).await
    })
}

/// Reads a page on a thread of its own, so that it does not delay other requests.
pub(super) async fn read_page(
    request: ApiRequest,
    read: impl Fn(&ApiRequest) -> Result<Answer, ApiError> + Send + 'static,
) -> Result<Response, ApiError> {
    let permit = READS.acquire().await.map_err(ApiError::internal)?;
    let reading = spawn_blocking(move || {
        // Given back when the read ends, also if the client is gone before that.
        let _permit = permit;
        request.answer(read)
    });
    reading.await?
}
