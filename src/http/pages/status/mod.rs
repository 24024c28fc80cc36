//! `/status`: how the service is, for people. `/status.json` is the same for programs.
//!
//! The whole page is rendered here. `web/status.js` loads it again and takes over what has changed.

mod chart;
mod words;

use std::sync::Arc;
use std::time::Duration;

use askama::Template;
use axum::body::Body;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use bytes::Bytes;
use events::Moment;

use self::chart::{Chart, bars};
use self::words::{date_time, number};
use super::{SCRIPT_POLICY, html_response};
use crate::health::{Incident, Minute, STALE_AFTER};
use crate::http::error::ApiError;
use crate::http::routes::Routes;
use crate::http::state::App;
use crate::http::status::latest;
use crate::http::status::report::ServiceStatus;

/// Data of this age is stale. A chart of fresh data stays low.
const AGE_SCALE_MIN_MS: u64 = STALE_AFTER.as_millis() as u64;

#[derive(Template)]
#[template(path = "pages/status.html", config = "web/templates/askama.toml")]
struct StatusPage<'a> {
    status: &'a ServiceStatus,
    as_of: String,
    started: ShownTime,
    last_event: Option<ShownTime>,
    confirmed: ShownTime,
    lag: String,
    incidents: Vec<IncidentRow>,
    charts: [Chart; 6],
}

/// A point in time, and its age when the page was made. The age grows in the browser.
struct ShownTime {
    time: String,
    datetime: String,
    ms: u64,
    text: String,
}

struct IncidentRow {
    title: &'static str,
    started: ShownTime,
    /// The end and the duration; `None` while it lasts.
    ended: Option<(String, String)>,
    times: u64,
}

pub(super) fn router() -> Routes {
    Routes::default().route("/status", get(show))
}

async fn show(State(app): State<Arc<App>>) -> Response {
    let latest = latest(&app);
    let html = match latest.html.get() {
        Some(html) => html.clone(),
        None => match StatusPage::of(&latest.status).render() {
            Ok(html) => latest.html.get_or_init(|| Bytes::from(html)).clone(),
            Err(error) => return ApiError::internal(error).into_response(),
        },
    };
    html_response(StatusCode::OK, "max-age=1", SCRIPT_POLICY, Body::from(html))
}

impl ShownTime {
    fn of(time: Moment, now: Moment) -> Self {
        let age = now.timestamp().duration_since(time.timestamp());
        Self::new(time, Duration::try_from(age).unwrap_or_default())
    }

    fn new(time: Moment, age: Duration) -> Self {
        Self {
            time: date_time(time),
            datetime: time.to_string(),
            ms: u64::try_from(age.as_millis()).unwrap_or(u64::MAX),
            text: words::duration(age),
        }
    }
}

impl IncidentRow {
    fn of(incident: &Incident, now: Moment) -> Self {
        let ended = incident.ended_at.map(|end| {
            let lasted = end
                .timestamp()
                .duration_since(incident.started_at.timestamp());
            let lasted = Duration::try_from(lasted).unwrap_or_default();
            (
                words::end(incident.started_at, end),
                words::duration(lasted),
            )
        });
        Self {
            title: words::incident(incident.kind),
            started: ShownTime::of(incident.started_at, now),
            ended,
            times: incident.times,
        }
    }
}

impl<'a> StatusPage<'a> {
    fn of(status: &'a ServiceStatus) -> Self {
        let now = status.time;
        let age = Duration::from_millis(status.feed.age_ms);
        let confirmed = now.timestamp().checked_sub(age).unwrap_or(now.timestamp());
        let last_event = Moment::parse(&status.feed.health.last_event_at).ok();
        let lag = Duration::from_millis(status.feed.health.lag_ms);
        let incidents = status.incidents.iter();
        Self {
            as_of: date_time(now),
            started: ShownTime::of(status.started_at, now),
            last_event: last_event.map(|time| ShownTime::of(time, now)),
            confirmed: ShownTime::new(confirmed.into(), age),
            lag: match lag {
                Duration::ZERO => "none".to_owned(),
                lag => words::duration(lag),
            },
            incidents: incidents
                .map(|incident| IncidentRow::of(incident, now))
                .collect(),
            charts: charts(status),
            status,
        }
    }
}

/// The charts of the last hour.
fn charts(status: &ServiceStatus) -> [Chart; 6] {
    let minutes = &status.minutes;
    let highest = |value: fn(&Minute) -> u64| minutes.iter().map(value).max().unwrap_or(0);
    let counted = |title, class, value: fn(&Minute) -> u64| Chart {
        title,
        summary: match minutes.iter().map(value).sum() {
            0 => "none".to_owned(),
            sum => format!(
                "{}, at most {} a minute",
                number(sum),
                number(highest(value))
            ),
        },
        class,
        bars: bars(minutes, 0, value),
    };
    let (sockets, age) = (highest(|m| m.sockets), highest(|m| m.age_ms));
    [
        counted("Requests", "plain", |m| m.requests),
        counted("Refused requests (4xx)", "warning", |m| m.refused),
        counted("Errors (5xx)", "bad", |m| m.errors),
        counted("Events processed", "plain", |m| m.events),
        Chart {
            title: "Live connections",
            summary: format!(
                "{} now, at most {}",
                number(status.sockets),
                number(sockets)
            ),
            class: "plain",
            bars: bars(minutes, 0, |m| m.sockets),
        },
        Chart {
            title: "Age of the data",
            summary: format!("at most {}", words::duration(Duration::from_millis(age))),
            class: "plain",
            bars: bars(minutes, AGE_SCALE_MIN_MS, |m| m.age_ms),
        },
    ]
}
