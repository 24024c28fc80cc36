//! `/ws/live/odds`: the handshake of the live channel. Behind it the connection goes to `live`.

use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::HeaderMap;
use axum::http::header::ORIGIN;
use axum::response::Response;
use axum::{Extension, Router, routing};
use tungstenite::handshake::server::create_response_with_body;

use super::call::{Args, Params};
use super::error::ApiError;
use super::meetings::race_of_today;
use super::server::take_stream;
use super::state::App;
use crate::accounts::KeyEntry;
use crate::live::{
    Filter, FilterQuery, Kinds, LiveSubscription, NewClient, Since, TOO_MANY_CONNECTIONS,
};

/// A replica may be a little behind the one that a client was with before.
const AHEAD_PATIENCE: Duration = Duration::from_secs(1);

pub(super) fn router() -> Router<Arc<App>> {
    Router::new()
        .route("/ws/live/odds", routing::get(live_odds))
        .route(
            "/ws/live/odds/{race_number}",
            routing::get(live_odds_of_race),
        )
}

/// Every race.
async fn live_odds(
    State(app): State<Arc<App>>,
    Extension(key): Extension<Arc<KeyEntry>>,
    args: Args,
    request: Request,
) -> Result<Response, ApiError> {
    check(&app, &key, request.headers())?;
    let subscription = subscription(&args, filter(&args)?)?;
    upgrade(&app, &key, &args, subscription, request).await
}

/// One race of today.
async fn live_odds_of_race(
    State(app): State<Arc<App>>,
    Extension(key): Extension<Arc<KeyEntry>>,
    params: Params,
    args: Args,
    request: Request,
) -> Result<Response, ApiError> {
    check(&app, &key, request.headers())?;
    let race = race_of_today(&app, params.race_number()?, &args)?;
    let subscription = subscription(&args, Filter::of_race(&race))?;
    upgrade(&app, &key, &args, subscription, request).await
}

/// Holds a request with a valid key to what else has to be so.
fn check(app: &App, key: &KeyEntry, headers: &HeaderMap) -> Result<(), ApiError> {
    let origin = headers.get(ORIGIN);
    if origin.is_some_and(|origin| !app.ws_origins.allow(origin.as_bytes())) {
        return Err(ApiError::OriginNotAllowed);
    }
    let plan = key.meter.plan();
    if plan.connections.is_none() {
        let plan = Arc::clone(plan);
        return Err(ApiError::LiveOddsNotIncluded { plan });
    }
    app.ready_store()?;
    Ok(())
}

fn subscription(args: &Args, filter: Filter) -> Result<LiveSubscription, ApiError> {
    let number = |name: &'static str| args.number(name);
    let kinds = args
        .get("events")
        .map(|names| Kinds::parse(names.split(',')));
    let kinds = kinds.transpose().map_err(ApiError::InvalidParameter)?;
    let mut subscription = LiveSubscription {
        filter,
        ..LiveSubscription::default()
    };
    subscription
        .set(kinds, number("conflate_ms")?, number("heartbeat_ms")?)
        .map_err(ApiError::InvalidParameter)?;
    Ok(subscription)
}

/// Answers the handshake, and hands the connection over.
async fn upgrade(
    app: &Arc<App>,
    key: &KeyEntry,
    args: &Args,
    subscription: LiveSubscription,
    mut request: Request,
) -> Result<Response, ApiError> {
    let since = args.number("since")?.map(|seq| Since {
        seq,
        epoch: args.get("epoch").map(str::to_owned),
    });
    let response = create_response_with_body(&request, Body::empty);
    let response =
        response.map_err(|why| ApiError::UpgradeRequired(format!("This is a WebSocket: {why}")))?;
    let ticket = app.fan_out.ticket(key);
    let (ticket, allowed) = ticket.ok_or(ApiError::NotReady(
        "There are too many WebSocket connections",
    ))?;
    if let Some(since) = &since {
        app.feed.reached(since.seq, AHEAD_PATIENCE).await;
    }
    let upgraded = hyper::upgrade::on(&mut request);
    let app = Arc::clone(app);
    tokio::spawn(async move {
        let taken = match upgraded.await {
            Ok(upgraded) => take_stream(upgraded),
            Err(error) => Err(std::io::Error::other(error)),
        };
        match taken {
            Ok((stream, read_ahead)) => app.fan_out.admit(NewClient {
                stream,
                read_ahead,
                subscription,
                since,
                ticket,
                refused: (!allowed)
                    .then_some((TOO_MANY_CONNECTIONS, "too many connections of this key")),
            }),
            Err(error) => tracing::debug!(%error, "a handshake was not finished"),
        }
    });
    Ok(response)
}

fn filter(args: &Args) -> Result<Filter, ApiError> {
    let query = FilterQuery {
        dates: args.get("date"),
        venues: args.get("venue"),
        races: args.get("race"),
        horses: args.get("horse"),
    };
    Filter::from_query(query).map_err(|error| ApiError::InvalidParameter(error.to_string()))
}
