//! `/ws/live/odds` and `/sse/live/odds`: the handshake of the live channel. After it, the connection belongs to `live`.

use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::time::Duration;

use axum::Extension;
use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::HeaderMap;
use axum::http::header::{
    CACHE_CONTROL, CONTENT_TYPE, HeaderName, HeaderValue, SEC_WEBSOCKET_EXTENSIONS,
};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use tokio::time::timeout;
use tokio_util::io::ReaderStream;
use tracing::{Instrument as _, Span};
use tungstenite::handshake::server::create_response_with_body;

use super::header_list::elements;
use super::meeting_choice::race_of_today;
use super::server::take_stream;
use super::static_document::SentAsItIs;
use super::{ApiError, App, PathParams, QueryParams, Routes};
use crate::accounts::KeyEntry;
use crate::clock::Uptime;
use crate::feed::frame::Encoding;
use crate::live::{
    self, ConnectionRefused, Filter, Kinds, LiveSubscription, NewClient, NewConnection,
    ResumePoint, values_of,
};

/// The `Retry-After` of a network with too many connections. One of them has to end first.
const TOO_MANY_CONNECTIONS_SECONDS: u32 = 30;

impl From<ConnectionRefused> for ApiError {
    fn from(refused: ConnectionRefused) -> Self {
        match refused {
            ConnectionRefused::ServiceFull => {
                Self::NotReady("There are too many WebSocket connections".to_owned())
            }
            ConnectionRefused::NetworkFull => {
                let message = "There are too many WebSocket connections from this network";
                Self::RateLimitExceeded {
                    message: message.to_owned(),
                    retry_after: TOO_MANY_CONNECTIONS_SECONDS,
                    status: None,
                }
            }
        }
    }
}

/// How long a resume waits until this replica has read the event that the client was sent by another one, or knows that
/// the log has none: it asks for the end of the log every 3 seconds.
const RESUME_WAIT: Duration = Duration::from_secs(4);

const LAST_EVENT_ID: &str = "last-event-id";
const ACCEL_BUFFERING: HeaderName = HeaderName::from_static("x-accel-buffering");
/// Each message of either side is compressed alone, so that one compressed frame serves all clients.
const DEFLATE_ACCEPTED: &str =
    "permessage-deflate; server_no_context_takeover; client_no_context_takeover";

/// The parameters of a filter.
pub(super) const FILTERS: &str = "date venue race horse";
/// The other parameters.
pub(super) const PARAMETERS: &str =
    "api_key events markets conflate_ms heartbeat_ms since recorded_at epoch";

pub(super) fn router() -> Routes {
    Routes::default()
        .route("/ws/live/odds", get(live_odds))
        .route("/ws/live/odds/{race_number}", get(live_odds))
        .route("/sse/live/odds", get(live_odds))
        .route("/sse/live/odds/{race_number}", get(live_odds))
}

/// The live channel of the races that the query chooses, or of one race of today. Clients whose proxies pass no
/// WebSocket receive the same messages as Server-Sent Events.
async fn live_odds(
    State(app): State<Arc<App>>,
    Extension(key): Extension<Arc<KeyEntry>>,
    path: PathParams,
    query: QueryParams,
    request: Request,
) -> Result<Response, ApiError> {
    let subscription = requested(&app, &key, &path, &query)?;
    let is_websocket = request.uri().path().starts_with("/ws/");
    let last = request.headers().get(LAST_EVENT_ID);
    let last = last.filter(|_| !is_websocket);
    let resume = match last.and_then(|id| id.to_str().ok()) {
        // As `Frame` writes it.
        Some(id) => id.split_once(' ').and_then(|(seq, recorded_at)| {
            Some(ResumePoint::new(seq.parse().ok()?, None, Some(recorded_at)))
        }),
        None => resume_point(&query)?,
    };
    let handshake = is_websocket.then(|| Handshake::of(&request)).transpose()?;
    let permit = (app.fan_out).acquire(&key, request.extensions().get().copied())?;
    if let Some(point) = &resume {
        wait_for(&app, point).await?;
    }
    let span = permit.trace.span();
    let admit = move |connection| {
        app.fan_out.admit(NewClient {
            connection,
            subscription,
            resume,
            play: None,
            permit,
        });
    };
    match handshake {
        Some(handshake) => Ok(handshake.accept(request, span, admit)),
        None => event_stream(admit),
    }
}

/// An answer that does not end, and passes on what is written to a connection.
fn event_stream(admit: impl FnOnce(NewConnection)) -> Result<Response, ApiError> {
    // The socket of the response belongs to the server, which passes on what is written to this one.
    let pair = connected_pair();
    let (stream, response) = pair.map_err(|error| ApiError::NotReady(error.to_string()))?;
    admit(NewConnection {
        stream: stream.into(),
        tls: None,
        read_ahead: Vec::new(),
        encoding: Encoding::EventStream,
    });
    let headers = [
        (CONTENT_TYPE, HeaderValue::from_static("text/event-stream")),
        (CACHE_CONTROL, HeaderValue::from_static("no-store")),
        // nginx buffers responses otherwise.
        (ACCEL_BUFFERING, HeaderValue::from_static("no")),
    ];
    let body = Body::from_stream(ReaderStream::new(response));
    // Compression would collect messages.
    Ok((headers, Extension(SentAsItIs), body).into_response())
}

/// Two sockets that are connected to each other, and do not block.
fn connected_pair() -> std::io::Result<(UnixStream, tokio::net::UnixStream)> {
    let (ours, theirs) = UnixStream::pair()?;
    ours.set_nonblocking(true)?;
    theirs.set_nonblocking(true)?;
    Ok((ours, tokio::net::UnixStream::from_std(theirs)?))
}

/// The subscription that a request asks for.
///
/// # Errors
/// Returns an [`ApiError`] if the plan of the key includes no live odds, the service is not ready, or the request is
/// invalid.
fn requested(
    app: &App,
    key: &KeyEntry,
    path: &PathParams,
    query: &QueryParams,
) -> Result<LiveSubscription, ApiError> {
    check_allowed(app, key)?;
    let filter = if path.is_empty() {
        query.check_list(&format!("{FILTERS} {PARAMETERS}"))?;
        filter(query)?
    } else {
        query.check_list(&format!("venue {PARAMETERS}"))?;
        Filter::of_race(&race_of_today(app, path.race_number()?, query)?)
    };
    subscription(query, filter)
}

/// Checks the plan of the key, and that the service is ready.
pub(super) fn check_allowed(app: &App, key: &KeyEntry) -> Result<(), ApiError> {
    let plan = &key.meter.plan;
    if plan.connections.is_none() {
        let (plan, hint) = (Arc::clone(plan), String::new());
        return Err(ApiError::LiveOddsNotIncluded { plan, hint });
    }
    app.require_feed()
}

pub(super) fn filter(query: &QueryParams) -> Result<Filter, ApiError> {
    Filter::from_query(|name| query.get(name)).map_err(ApiError::invalid)
}

pub(super) fn subscription(
    query: &QueryParams,
    filter: Filter,
) -> Result<LiveSubscription, ApiError> {
    let kinds = query.get("events");
    let kinds = kinds.map(|names| Kinds::parse(values_of(names)));
    let kinds = kinds.transpose().map_err(ApiError::invalid)?;
    let markets = query.get("markets").map(live::markets).transpose();
    let conflate_ms = query.number("conflate_ms")?;
    let heartbeat_ms = query.number("heartbeat_ms")?;
    let mut subscription = LiveSubscription {
        filter,
        markets: markets.map_err(ApiError::invalid)?.unwrap_or_default(),
        ..LiveSubscription::default()
    };
    let set = subscription.set(kinds, conflate_ms, heartbeat_ms);
    set.map_err(ApiError::invalid).map(|()| subscription)
}

/// A handshake of a WebSocket that is accepted.
pub(super) struct Handshake {
    response: Response,
    encoding: Encoding,
}

impl Handshake {
    /// # Errors
    /// Returns [`ApiError::UpgradeRequired`] if the request is not a handshake.
    pub(super) fn of(request: &Request) -> Result<Self, ApiError> {
        let mut response = create_response_with_body(request, Body::empty).map_err(|error| {
            ApiError::UpgradeRequired(format!("This path is a WebSocket: {error}"))
        })?;
        let encoding = if offers_deflate(request.headers()) {
            let accepted = HeaderValue::from_static(DEFLATE_ACCEPTED);
            let headers = response.headers_mut();
            headers.insert(SEC_WEBSOCKET_EXTENSIONS, accepted);
            Encoding::Deflated
        } else {
            Encoding::WebSocket
        };
        Ok(Self { response, encoding })
    }

    /// Answers it, and passes the connection on.
    pub(super) fn accept(
        self,
        mut request: Request,
        span: Span,
        admit: impl FnOnce(NewConnection) + Send + 'static,
    ) -> Response {
        let upgraded = hyper::upgrade::on(&mut request);
        let encoding = self.encoding;
        let hand_over = async move {
            match take_stream(upgraded, encoding).await {
                Ok(connection) => admit(connection),
                Err(error) => tracing::debug!(%error, "the handshake failed"),
            }
        };
        tokio::spawn(hand_over.instrument(span));
        self.response
    }
}

/// The point that a query resumes from.
pub(super) fn resume_point(query: &QueryParams) -> Result<Option<ResumePoint>, ApiError> {
    let epoch = query.get("epoch").map(str::to_owned);
    let since = query.number("since")?;
    Ok(since.map(|seq| ResumePoint::new(seq, epoch, query.get("recorded_at"))))
}

/// Whether a client offers compression that allows every message to be compressed alone, with the usual window
/// (RFC 7692, 7.1).
fn offers_deflate(headers: &HeaderMap) -> bool {
    elements(headers, SEC_WEBSOCKET_EXTENSIONS).any(|(name, mut parameters)| {
        name == "permessage-deflate"
            && !parameters.any(|parameter| parameter.starts_with("server_max_window_bits"))
    })
}

/// Waits until a resume from a point can be decided: this replica has read the event, or knows that the log ends before
/// it.
///
/// # Errors
/// Returns [`ApiError::NotReady`] after [`RESUME_WAIT`]: another replica may have read the event.
async fn wait_for(app: &App, point: &ResumePoint) -> Result<(), ApiError> {
    if !app.health.feed.position().is_of(point.epoch.as_deref()) {
        return Ok(());
    }
    let asked_at = Uptime::now();
    let mut status = app.projector.status.clone();
    let known = async {
        tokio::select! {
            () = app.health.feed.until_seq(point.seq) => {}
            _ = status.wait_for(|status| status.seq < point.seq && status.freshness.is_proved_since(asked_at)) => {}
        }
    };
    let known = timeout(RESUME_WAIT, known).await;
    known.map_err(|_| ApiError::NotReady("The live channel has not reached `since` yet".to_owned()))
}
