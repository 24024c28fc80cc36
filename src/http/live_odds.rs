//! `/ws/live/odds`: the handshake of the live channel. After it, the connection belongs to `live`.

use std::sync::Arc;
use std::time::Duration;

use axum::Extension;
use axum::body::Body;
use axum::extract::{Request, State};
use axum::response::Response;
use axum::routing::get;
use tokio::time::timeout;
use tracing::Instrument as _;
use tungstenite::handshake::server::create_response_with_body;

use super::error::ApiError;
use super::meeting_choice::race_of_today;
use super::params::{PathParams, QueryParams};
use super::routes::Routes;
use super::server::take_stream;
use super::state::App;
use crate::accounts::KeyEntry;
use crate::clock::Uptime;
use crate::limits::Network;
use crate::live::{
    ConnectionRefused, Filter, FilterQuery, Kinds, LiveSubscription, NewClient, ResumePoint,
    values_of,
};

impl From<ConnectionRefused> for ApiError {
    fn from(refused: ConnectionRefused) -> Self {
        match refused {
            ConnectionRefused::ServiceFull => {
                Self::NotReady("There are too many WebSocket connections".to_owned())
            }
            ConnectionRefused::NetworkFull => Self::TooManyConnections,
        }
    }
}

/// How long a resume waits until this replica has read the event that the client was sent by another one, or knows that
/// the log has none: it asks for the end of the log every 3 seconds.
const RESUME_WAIT: Duration = Duration::from_secs(4);

/// The parameters of a filter.
const FILTERS: [&str; 4] = ["date", "venue", "race", "horse"];
/// The other parameters.
const PARAMETERS: [&str; 7] = [
    "api_key",
    "events",
    "conflate_ms",
    "heartbeat_ms",
    "since",
    "recorded_at",
    "epoch",
];

pub(super) fn router() -> Routes {
    Routes::default()
        .route("/ws/live/odds", get(live_odds))
        .route("/ws/live/odds/{race_number}", get(live_odds))
}

/// The live channel of the races that the query chooses, or of one race of today.
async fn live_odds(
    State(app): State<Arc<App>>,
    Extension(key): Extension<Arc<KeyEntry>>,
    path: PathParams,
    query: QueryParams,
    request: Request,
) -> Result<Response, ApiError> {
    check_allowed(&app, &key)?;
    let filter = if path.is_empty() {
        query.check_names(&[&FILTERS[..], &PARAMETERS].concat())?;
        filter(&query)?
    } else {
        query.check_names(&[&["venue"][..], &PARAMETERS].concat())?;
        Filter::of_race(&race_of_today(&app, path.race_number()?, &query)?)
    };
    let subscription = subscription(&query, filter)?;
    upgrade(&app, &key, &query, subscription, request).await
}

/// Checks the plan of the key, and that the service is ready.
fn check_allowed(app: &App, key: &KeyEntry) -> Result<(), ApiError> {
    let plan = key.meter.plan();
    if plan.connections.is_none() {
        let plan = Arc::clone(plan);
        return Err(ApiError::LiveOddsNotIncluded { plan });
    }
    app.require_feed()
}

pub(super) fn filter(query: &QueryParams) -> Result<Filter, ApiError> {
    let lists = FilterQuery {
        dates: query.get("date"),
        venues: query.get("venue"),
        races: query.get("race"),
        horses: query.get("horse"),
    };
    Filter::from_query(lists).map_err(invalid_parameter)
}

pub(super) fn subscription(
    query: &QueryParams,
    filter: Filter,
) -> Result<LiveSubscription, ApiError> {
    let kinds = query.get("events");
    let kinds = kinds.map(|names| Kinds::parse(values_of(names)));
    let kinds = kinds.transpose().map_err(invalid_parameter)?;
    let conflate_ms = query.number("conflate_ms")?;
    let heartbeat_ms = query.number("heartbeat_ms")?;
    let mut subscription = LiveSubscription {
        filter,
        ..LiveSubscription::default()
    };
    let set = subscription.set(kinds, conflate_ms, heartbeat_ms);
    set.map_err(invalid_parameter).map(|()| subscription)
}

fn invalid_parameter(error: impl ToString) -> ApiError {
    ApiError::InvalidParameter(error.to_string())
}

/// Answers the handshake, and hands the connection over to the live channel.
async fn upgrade(
    app: &Arc<App>,
    key: &KeyEntry,
    query: &QueryParams,
    subscription: LiveSubscription,
    mut request: Request,
) -> Result<Response, ApiError> {
    let epoch = query.get("epoch").map(str::to_owned);
    let resume = query.number("since")?;
    let resume = resume.map(|seq| ResumePoint::new(seq, epoch, query.get("recorded_at")));
    let response = create_response_with_body(&request, Body::empty)
        .map_err(|error| ApiError::UpgradeRequired(format!("This path is a WebSocket: {error}")))?;
    let network = request.extensions().get::<Network>().copied();
    let permit = app.fan_out.acquire(key, network)?;
    if let Some(point) = &resume {
        wait_for(app, point).await?;
    }
    let upgraded = hyper::upgrade::on(&mut request);
    let app = Arc::clone(app);
    let span = permit.trace.span();
    let hand_over = async move {
        match take_stream(upgraded).await {
            Ok(taken) => app.fan_out.admit(NewClient {
                stream: taken.stream,
                tls: taken.tls,
                read_ahead: taken.read_ahead,
                subscription,
                resume,
                permit,
            }),
            Err(error) => tracing::debug!(%error, "the handshake failed"),
        }
    };
    tokio::spawn(hand_over.instrument(span));
    Ok(response)
}

/// Waits until a resume from a point can be decided: this replica has read the event, or knows that the log ends before
/// it.
///
/// # Errors
/// Returns [`ApiError::NotReady`] after [`RESUME_WAIT`]: another replica may have read the event.
async fn wait_for(app: &App, point: &ResumePoint) -> Result<(), ApiError> {
    if !app.feed.position().is_of(point.epoch.as_deref()) {
        return Ok(());
    }
    let asked_at = Uptime::now();
    let mut status = app.projector.status.clone();
    let known = async {
        tokio::select! {
            () = app.feed.until_seq(point.seq) => {}
            _ = status.wait_for(|status| status.seq < point.seq && status.freshness.is_proved_since(asked_at)) => {}
        }
    };
    let known = timeout(RESUME_WAIT, known).await;
    known.map_err(|_| ApiError::NotReady("The live channel has not reached `since` yet".to_owned()))
}
