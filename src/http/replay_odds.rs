//! `/ws/replay/odds`: a past day over the protocol of the live channel.

use std::sync::Arc;

use axum::Extension;
use axum::extract::{Request, State};
use axum::response::Response;
use axum::routing::get;
use events::{RaceNumber, RacingDate, VenueCode};
use tokio::sync::watch;

use super::as_of::beyond;
use super::live_odds::{
    FILTERS, Handshake, PARAMETERS, check_allowed, filter, resume_point, subscription,
};
use super::{ApiError, App, QueryParams, Routes};
use crate::accounts::KeyEntry;
use crate::live::NewClient;
use crate::past::{Part, PlayFrom, PlaybackControl, SPEED};

const ONE_DATE: &str = "A replay is of one date";

pub(super) fn router() -> Routes {
    Routes::default().route("/ws/replay/odds", get(replay))
}

/// Plays the races that the query chooses.
async fn replay(
    State(app): State<Arc<App>>,
    Extension(key): Extension<Arc<KeyEntry>>,
    query: QueryParams,
    request: Request,
) -> Result<Response, ApiError> {
    query.check_list(&format!("{FILTERS} {PARAMETERS} from to speed"))?;
    check_allowed(&app, &key)?;
    let subscription = subscription(&query, filter(&query)?)?;
    let resume = resume_point(&query)?;
    let from = match (&resume, query.moment("from")?) {
        (Some(point), _) => PlayFrom::After(point.seq),
        (None, Some(time)) => PlayFrom::Time(time),
        (None, None) => PlayFrom::Start,
    };
    let to = query.moment("to")?;
    let (control, controlled) = watch::channel(PlaybackControl {
        speed: speed(&query)?,
        is_paused: false,
        sought: (0, None),
        span: None,
    });
    let part = part(&query)?;
    let handshake = Handshake::of(&request)?;
    let permit = (app.fan_out).acquire(&key, request.extensions().get().copied())?;
    let whole = app.store()?.checkpoint().ok_or_else(|| beyond(0))?;
    let playback = app.past.play(whole, &part, from, to, controlled).await?;
    control.send_modify(|control| control.span = playback.span());
    let span = permit.trace.span();
    Ok(handshake.accept(request, span, move |connection| {
        let client = NewClient {
            connection,
            subscription,
            resume,
            play: Some(control),
            permit,
        };
        let feed = playback.feed.clone();
        if let Err(error) = app.fan_out.replay(client, feed, playback.run()) {
            tracing::warn!(%error, "a replay cannot be started");
        }
    }))
}

/// The races whose messages are played.
fn part(query: &QueryParams) -> Result<Part, ApiError> {
    let one_date = || ApiError::invalid(ONE_DATE);
    let date = query.get("date").ok_or_else(one_date)?;
    // Lists and names are filters of the session alone.
    let venue = query.get("venue").map(VenueCode::parse);
    let race_number = query.get("race").map(RaceNumber::parse);
    Ok(Part::Races {
        date: RacingDate::parse(date).map_err(|_| one_date())?,
        venue: venue.and_then(Result::ok),
        race_number: race_number.and_then(Result::ok),
    })
}

fn speed(query: &QueryParams) -> Result<f64, ApiError> {
    let is_allowed = |speed: &f64| SPEED.contains(speed);
    let parse = |text: &str| text.parse().ok().filter(is_allowed);
    let expected = format!("{} to {}", SPEED.start(), SPEED.end());
    Ok(query.parsed("speed", &expected, parse)?.unwrap_or(1.0))
}
