//! [`ApiRequest`]: an admitted API request with the store that answers it, and the response with its caching headers.

use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::extract::{FromRequestParts, Request, State};
use axum::http::header::{ACCEPT, CACHE_CONTROL, CONTENT_TYPE, IF_NONE_MATCH, LINK, VARY};
use axum::http::{HeaderMap, HeaderName, HeaderValue, Uri};
use axum::response::Response;
use axum::routing::{MethodRouter, get};
use events::{RaceKey, RacingDate};
use jiff::Timestamp;
use projections::{Store, Translation};
use tokio::time::timeout;

use super::entity_tag::EntityTag;
use super::error::{ApiError, odds_after};
use super::formats::{Accepted, BodyFormat};
use super::header_list::{elements, is_zero_weight};
use super::params::{PathParams, QueryParams, check_utf8};
use super::state::App;
use super::views_state::{RAILBIRD_SCHEMA, RAILBIRD_SEQ};
use crate::accounts::KeyEntry;
use crate::clock::now;
use crate::limits::plans::Plan;
use crate::projector::Phase;

const RAILBIRD_MIN_SEQ: HeaderName = HeaderName::from_static("railbird-min-seq");
/// How long a request waits for the sequence that it asks for.
const MIN_SEQ_WAIT: Duration = Duration::from_secs(2);

/// A request for views that the gate has admitted.
pub(super) struct ApiRequest {
    pub(super) app: Arc<App>,
    /// The store in force when the request came.
    pub(super) store: Arc<Store>,
    /// The message as of which the answer is wanted, if it is not the last one.
    pub(super) as_of: Option<AsOf>,
    schema: u32,
    /// Whether the store reflected the log then.
    pub(super) was_caught_up: bool,
    pub(super) uri: Uri,
    pub(super) path: PathParams,
    pub(super) query: QueryParams,
    /// The plan of the key.
    plan: Arc<Plan>,
    accepted: Accepted,
    if_none_match: Option<HeaderValue>,
}

/// The message as of which a request is answered.
#[derive(Debug, Clone, Copy)]
pub(super) struct AsOf {
    pub(super) seq: u64,
    pub(super) time: Timestamp,
    /// Whether no other answer will ever be given for it.
    pub(super) is_settled: bool,
}

/// JSON, and the `Link` headers of its response.
pub(super) struct Answer {
    pub(super) json: Vec<u8>,
    pub(super) links: Vec<String>,
}

impl From<Vec<u8>> for Answer {
    fn from(json: Vec<u8>) -> Self {
        let links = Vec::new();
        Self { json, links }
    }
}

/// A resource whose query may have these parameters, `as_of` and `lang`, and no others: a name that is mistyped would
/// give another answer.
pub(super) fn resource(
    parameters: &'static [&'static str],
    read: fn(&ApiRequest) -> Result<Answer, ApiError>,
) -> MethodRouter<Arc<App>> {
    get(async move |State(app): State<Arc<App>>, request: Request| {
        let request = ApiRequest::read(request, &app, parameters).await?;
        request.rewound().await?.answer(read)
    })
}

impl ApiRequest {
    /// Checks a request, and waits until the views reflect what it asks for.
    pub(super) async fn read(
        request: Request,
        app: &Arc<App>,
        parameters: &[&str],
    ) -> Result<Self, ApiError> {
        // Not `Parts` as an argument of the handler, for which axum copies all headers.
        let (mut parts, _) = request.into_parts();
        let accepted = Accepted::of(&parts.headers)?;
        let path = PathParams::from_request_parts(&mut parts, app).await?;
        path.check()?;
        check_utf8(&parts.uri)?;
        let query = QueryParams::parse(&parts.uri);
        if !query.is_empty() {
            let mut known = [parameters, &["as_of", "lang"]].concat();
            known.sort_unstable();
            query.check_names(&known)?;
            query.language()?;
        }
        if let Some(min_seq) = min_seq(&parts.headers)? {
            wait_for(app, min_seq).await?;
        }
        let was_caught_up = app.is_caught_up();
        let views = app.views.read_current().ok_or_else(|| app.not_ready())?;
        let entry = parts.extensions.get::<Arc<KeyEntry>>();
        let entry = entry.ok_or(ApiError::Unauthorized)?;
        Ok(Self {
            app: Arc::clone(app),
            was_caught_up,
            schema: views.schema,
            store: views.store,
            as_of: None,
            uri: parts.uri,
            path,
            query,
            plan: Arc::clone(&entry.meter.plan),
            accepted,
            if_none_match: parts.headers.remove(IF_NONE_MATCH),
        })
    }

    /// The date of the path. `today` is the date in the configured time zone.
    pub(super) fn date(&self) -> Result<RacingDate, ApiError> {
        match self.path.is_today() {
            true => Ok(self.today()),
            false => self.path.date(),
        }
    }

    /// The message as of which the request is answered, unless the views go on meanwhile.
    pub(super) fn seq(&self) -> u64 {
        (self.as_of).map_or_else(|| self.store.seq(), |as_of| as_of.seq)
    }

    /// The time as of which the request is answered.
    pub(super) fn now(&self) -> Timestamp {
        self.as_of.map_or_else(now, |as_of| as_of.time)
    }

    /// The date then, in the configured time zone.
    pub(super) fn today(&self) -> RacingDate {
        self.app.clock.day_of(self.now())
    }

    /// The event with which a race was off: the last one with a move of its prices. There is no end before it is off.
    pub(super) async fn end_of_moves(&self, race: &RaceKey) -> Result<u64, ApiError> {
        let off = self.app.past.off(race, self.seq()).await?;
        Ok(off.unwrap_or(u64::MAX))
    }

    /// Whether the plan of the key includes odds of any age.
    pub(super) fn has_live_odds(&self) -> bool {
        self.plan.connections.is_some()
    }

    /// Checks that the plan of the key includes odds that last changed at a time. Without a time, odds of some age are
    /// enough.
    ///
    /// # Errors
    /// Returns [`ApiError::LiveOddsNotIncluded`].
    pub(super) fn require_odds(&self, changed_at: Option<Timestamp>) -> Result<(), ApiError> {
        let age = changed_at.map(|time| Timestamp::now().duration_since(time));
        let is_included = self.plan.includes_odds(age);
        let not_included = || self.odds_not_included();
        is_included.then_some(()).ok_or_else(not_included)
    }

    pub(super) fn odds_not_included(&self) -> ApiError {
        let (plan, hint) = (Arc::clone(&self.plan), odds_after(&self.plan));
        ApiError::LiveOddsNotIncluded { plan, hint }
    }

    /// Checks that the plan of the key includes files of whole meetings.
    ///
    /// # Errors
    /// Returns [`ApiError::ExportsNotIncluded`].
    pub(super) fn require_exports(&self) -> Result<(), ApiError> {
        let plan = Arc::clone(&self.plan);
        let is_included = plan.exports.then_some(());
        is_included.ok_or(ApiError::ExportsNotIncluded { plan })
    }

    /// The format in which the request accepts a file.
    ///
    /// # Errors
    /// Returns [`ApiError::NotAcceptable`] if it accepts none.
    pub(super) fn file_format(&self) -> Result<BodyFormat, ApiError> {
        self.accepted.of_file.ok_or(ApiError::NotAcceptable)
    }

    /// Responds with what `read` reads from the store: all of it as of one sequence, however many views it is made of.
    /// `read` may be called more than once.
    pub(super) fn answer(
        self,
        read: impl Fn(&Self) -> Result<Answer, ApiError>,
    ) -> Result<Response, ApiError> {
        let read = || self.translate(read(&self)?);
        let (answer, seq) = self.store.read_consistently(read)?;
        match answer {
            Ok(answer) => {
                let seq = self.as_of.map_or(seq, |as_of| as_of.seq);
                self.respond(answer, seq)
            }
            Err(error) => Err(self.app.unless_caught_up(self.was_caught_up, error)),
        }
    }

    /// An answer with the names of the language that the request asks for.
    pub(super) fn translate(&self, mut answer: Answer) -> Result<Answer, ApiError> {
        if let Some(language) = self.query.language()? {
            let names = Translation::of(&answer.json, &language, &self.store)?;
            answer.json = names.apply(&answer.json);
        }
        Ok(answer)
    }

    /// Responds with an answer in an accepted format, or with 304 if the client has the same body cached.
    pub(super) fn respond(self, answer: Answer, seq: u64) -> Result<Response, ApiError> {
        let (format, body) = self.accepted.body(answer.json)?;
        let mut response = self.respond_with(EntityTag::of(&body), format, body, seq);
        for link in answer.links.into_iter().flat_map(HeaderValue::try_from) {
            response.headers_mut().append(LINK, link);
        }
        Ok(response)
    }

    /// Responds with a body as of a sequence, or with 304 if the client has it.
    pub(super) fn respond_with(
        &self,
        tag: EntityTag,
        format: BodyFormat,
        body: impl Into<Body>,
        seq: u64,
    ) -> Response {
        let mut response = tag.response(self.if_none_match.as_ref(), body);
        let headers = response.headers_mut();
        headers.insert(CONTENT_TYPE, format.content_type());
        headers.insert(VARY, HeaderValue::from_static("accept, accept-encoding"));
        let cached = match self.as_of {
            Some(as_of) if as_of.is_settled => "private, max-age=31536000, immutable",
            _ => "private, no-cache",
        };
        headers.insert(CACHE_CONTROL, HeaderValue::from_static(cached));
        headers.insert(RAILBIRD_SEQ, seq.into());
        headers.insert(RAILBIRD_SCHEMA, self.schema.into());
        response
    }
}

/// The sequence that the response must reflect.
fn min_seq(headers: &HeaderMap) -> Result<Option<u64>, ApiError> {
    let parse = |value: &HeaderValue| {
        let seq = value.to_str().ok().and_then(|seq| seq.parse().ok());
        seq.ok_or_else(|| ApiError::invalid("Railbird-Min-Seq is a sequence of the log"))
    };
    headers.get(RAILBIRD_MIN_SEQ).map(parse).transpose()
}

/// Waits until the views reflect a sequence.
///
/// # Errors
/// Returns [`ApiError::NotReady`] if they do not for [`MIN_SEQ_WAIT`].
pub(super) async fn wait_for(app: &App, seq: u64) -> Result<(), ApiError> {
    let mut status = app.projector.status.clone();
    let reached = status.wait_for(|status| status.phase == Phase::Live && status.seq >= seq);
    let late = || ApiError::NotReady(format!("The views do not reflect the event {seq} yet"));
    let reached = timeout(MIN_SEQ_WAIT, reached).await;
    reached.ok().and_then(Result::ok).map(drop).ok_or_else(late)
}

/// Whether `Accept` names one of these media ranges.
pub(super) fn accepts(headers: &HeaderMap, media_ranges: &[&str]) -> bool {
    elements(headers, ACCEPT).any(|(range, mut parameters)| {
        media_ranges.contains(&range) && !parameters.any(is_zero_weight)
    })
}
