//! `/ws/live/odds`: the image of every open race, then every change in the order of the log.
//!
//! Here is the handshake. Behind it the connection goes to a shard (`shard.rs`), a thread that serves many clients; what one
//! client is sent is decided in `session.rs`, what it says is heard in `hear.rs`, and `wire.rs` reads and writes its frames.

mod asyncapi;
mod batch;
mod fan_out;
mod filter;
mod health;
mod hear;
mod message;
mod session;
mod shard;
mod tickets;
mod wire;

use std::net::TcpStream;
use std::sync::Arc;
use std::time::Duration;

use axum::Extension;
use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::HeaderMap;
use axum::http::header::ORIGIN;
use axum::response::Response;
use tungstenite::handshake::server::create_response_with_body;

pub(crate) use asyncapi::describe;
pub use fan_out::{Channel, FanOut};

use crate::accounts::KeyEntry;
use crate::http::{ApiError, Args, Params, race_of_today, take_stream};
use crate::state::App;
use filter::{Filter, Kinds};
use message::Wishes;
use tickets::Ticket;

/// What clients say is short, all fragments together.
const MESSAGE_BYTES_MAX: usize = 16 * 1024;
/// What is read from one client before others have their turn.
const READ_BYTES_PER_TURN: usize = 16 * 1024;
/// A replica may be a little behind the one that a client was with before.
const AHEAD_PATIENCE: Duration = Duration::from_secs(1);
/// Those who are sent away come back within this time, each at its own moment.
const RETRY_AFTER_MS: std::ops::Range<u32> = 500..5_000;

const TOO_MANY_CONNECTIONS: u16 = 4429;

/// What a client was sent last.
#[derive(Debug, Clone)]
struct Since {
    seq: u64,
    epoch: Option<String>,
}

/// A client behind its handshake.
#[derive(Debug)]
struct Arrival {
    stream: TcpStream,
    /// What came from it behind the handshake.
    read_ahead: Vec<u8>,
    wishes: Wishes,
    since: Option<Since>,
    ticket: Ticket,
    /// It is to be closed at once, with this code.
    refused: Option<(u16, &'static str)>,
}

/// Every race.
pub(crate) async fn live_odds(
    State(app): State<Arc<App>>,
    Extension(key): Extension<Arc<KeyEntry>>,
    args: Args,
    request: Request,
) -> Result<Response, ApiError> {
    check(&app, &key, request.headers())?;
    let wishes = wishes(&args, Filter::from_query(&args)?)?;
    upgrade(&app, &key, &args, wishes, request).await
}

/// One race of today.
pub(crate) async fn live_odds_of_race(
    State(app): State<Arc<App>>,
    Extension(key): Extension<Arc<KeyEntry>>,
    params: Params,
    args: Args,
    request: Request,
) -> Result<Response, ApiError> {
    check(&app, &key, request.headers())?;
    let race = race_of_today(&app, params.race_number()?, &args)?;
    let wishes = wishes(&args, Filter::of_race(&race))?;
    upgrade(&app, &key, &args, wishes, request).await
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

fn wishes(args: &Args, filter: Filter) -> Result<Wishes, ApiError> {
    let number = |name: &'static str| args.number(name);
    let kinds = args
        .get("events")
        .map(|names| Kinds::parse(names.split(',')));
    let kinds = kinds.transpose().map_err(ApiError::InvalidParameter)?;
    let mut wishes = Wishes {
        filter,
        ..Wishes::default()
    };
    wishes
        .set(kinds, number("conflate_ms")?, number("heartbeat_ms")?)
        .map_err(ApiError::InvalidParameter)?;
    Ok(wishes)
}

/// Answers the handshake, and hands the connection over.
async fn upgrade(
    app: &Arc<App>,
    key: &KeyEntry,
    args: &Args,
    wishes: Wishes,
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
            Ok((stream, read_ahead)) => app.fan_out.admit(Arrival {
                stream,
                read_ahead,
                wishes,
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

impl Filter {
    fn of_race(race: &events::RaceKey) -> Self {
        let pattern = filter::RacePattern::numbered(
            Some(race.date),
            Some(race.venue.to_string()),
            race.race_number,
        );
        Self {
            races: Some(vec![pattern]),
            ..Self::default()
        }
    }
}

/// When to come back, for a client that is sent away with a code; 0 where that is of no use.
fn retry_after_ms(code: u16) -> u64 {
    match code {
        1001 | 1008 | 4408 | TOO_MANY_CONNECTIONS => {
            u64::from(RETRY_AFTER_MS.start + random(RETRY_AFTER_MS.end - RETRY_AFTER_MS.start))
        }
        _ => 0,
    }
}

/// A number below `end`. Without random numbers, all do the same.
fn random(end: u32) -> u32 {
    getrandom::u32().unwrap_or(0) % end
}

fn now() -> String {
    events::Moment::from(jiff::Timestamp::now()).to_string()
}
