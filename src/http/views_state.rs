//! The headers `Railbird-Seq` and `Railbird-Feed`: what a response reflects, and whether that is all there is.

use axum::http::{HeaderMap, HeaderName, HeaderValue};

use super::state::App;
use crate::health::Liveness;

pub(super) const RAILBIRD_SEQ: HeaderName = HeaderName::from_static("railbird-seq");
/// The schema of the views that a response was read from. Responses of one schema and sequence are equal on all
/// replicas, whatever their versions.
pub(super) const RAILBIRD_SCHEMA: HeaderName = HeaderName::from_static("railbird-schema");
const RAILBIRD_FEED: HeaderName = HeaderName::from_static("railbird-feed");

/// The state of the views when a request came.
#[derive(Debug, Clone, Copy)]
pub(super) struct ViewsState {
    seq: u64,
    feed: Liveness,
}

impl ViewsState {
    pub(super) fn of(app: &App) -> Self {
        let progress = app.health.monitor.progress();
        Self {
            seq: progress.seq,
            feed: Liveness::of(&progress, app.health.monitor.connection()),
        }
    }

    /// Sets the state of the feed, and the sequence unless the response has a later one.
    pub(super) fn set_headers(self, headers: &mut HeaderMap) {
        let seq = headers.entry(RAILBIRD_SEQ);
        seq.or_insert_with(|| self.seq.into());
        headers.insert(
            RAILBIRD_FEED,
            HeaderValue::from_static(self.feed.into_str()),
        );
    }
}
