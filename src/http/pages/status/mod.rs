//! `/status`: how the service is, for people, and `/status.atom`, its incidents and maintenance for feed readers.
//! `/status.json` is the same for programs.
//!
//! The whole page is rendered here. `web/status.js` loads it again and takes over what has changed.

mod chart;
mod words;

use std::sync::Arc;
use std::time::Duration;

use askama::Template;
use axum::extract::State;
use axum::http::StatusCode;
use axum::http::header::{CACHE_CONTROL, CONTENT_TYPE, X_CONTENT_TYPE_OPTIONS};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use bytes::Bytes;
use events::Moment;

use self::chart::{Chart, bars};
use self::words::{between, date_time, number};
use super::{SCRIPT_POLICY, html_response};
use crate::accounts::{IncidentKind, Maintenance};
use crate::health::{Component, Minute, STALE_AFTER};
use crate::http::status::board::rendered_once;
use crate::http::status::latest;
use crate::http::status::observation::ComponentState;
use crate::http::status::report::{DayStatus, ServiceStatus};
use crate::http::{ApiError, App, Routes};
use crate::public_url::PublicUrl;

/// Data of this age is stale. A chart of fresh data stays low.
const AGE_SCALE_MIN_MS: u64 = STALE_AFTER.as_millis() as u64;

#[derive(Template)]
#[template(path = "pages/status.html", config = "web/templates/askama.toml")]
struct StatusPage<'a> {
    status: &'a ServiceStatus,
    started: ShownTime,
    last_event: Option<ShownTime>,
    confirmed: ShownTime,
    charts: [Chart; 6],
    /// The days without an incident that users could notice.
    good_days: usize,
    maintenance: Vec<&'a Maintenance>,
}

#[derive(Template)]
#[template(path = "pages/status.xml", config = "web/templates/askama.toml")]
struct StatusFeed<'a> {
    status: &'a ServiceStatus,
    url: &'a PublicUrl,
    updated: Moment,
}

/// A point in time, and its age when the page was made. The age grows in the browser.
struct ShownTime {
    time: String,
    datetime: String,
    ms: u64,
    text: String,
}

pub(super) fn router() -> Routes {
    Routes::default()
        .route("/status", get(show))
        .route("/status.atom", get(feed))
}

async fn show(State(app): State<Arc<App>>) -> Response {
    let latest = latest(&app);
    let render = || StatusPage::of(&latest.status).render().map(Bytes::from);
    let html = rendered_once(&latest.html, render);
    html_response(StatusCode::OK, "max-age=1", SCRIPT_POLICY, html)
}

async fn feed(State(app): State<Arc<App>>) -> Result<impl IntoResponse, ApiError> {
    let latest = latest(&app);
    let feed = StatusFeed::of(&latest.status, &app.pages.url);
    let render = || feed.render().map(Bytes::from);
    let atom = rendered_once(&latest.atom, render).map_err(ApiError::internal)?;
    let headers = [
        (CONTENT_TYPE, "application/atom+xml"),
        (CACHE_CONTROL, "max-age=60"),
        (X_CONTENT_TYPE_OPTIONS, "nosniff"),
    ];
    Ok((headers, atom))
}

impl ShownTime {
    fn new(time: Moment, age: Duration) -> Self {
        Self {
            time: date_time(time),
            datetime: time.to_string(),
            ms: u64::try_from(age.as_millis()).unwrap_or(u64::MAX),
            text: words::duration(age),
        }
    }
}

impl<'a> StatusFeed<'a> {
    fn of(status: &'a ServiceStatus, url: &'a PublicUrl) -> Self {
        let incidents = status.incidents.iter();
        let incidents = incidents.map(|it| it.ended_at.unwrap_or(it.started_at));
        let maintenance = status.maintenance.iter();
        let changes = maintenance.map(|it| it.cancelled_at.unwrap_or(it.planned_at));
        let updated = incidents.chain(changes).max();
        Self {
            status,
            url,
            updated: updated.unwrap_or(status.started_at),
        }
    }
}

impl<'a> StatusPage<'a> {
    fn of(status: &'a ServiceStatus) -> Self {
        let now = status.time;
        let is_good = |day: &&DayStatus| day.state == ComponentState::Operational;
        let shown = |time| ShownTime::new(time, between(time, now));
        let age = Duration::from_millis(status.feed.age_ms);
        let confirmed = now.timestamp().checked_sub(age).unwrap_or(now.timestamp());
        let last_event = Moment::parse(&status.feed.health.last_event_at).ok();
        Self {
            started: shown(status.started_at),
            last_event: last_event.map(shown),
            confirmed: ShownTime::new(confirmed.into(), age),
            charts: charts(status),
            good_days: (status.days.iter().filter(is_good)).count(),
            maintenance: (status.maintenance.iter().filter(|it| it.is_ahead(now))).collect(),
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
            sum => {
                let [sum, highest] = [sum, highest(value)].map(number);
                format!("{sum}, at most {highest} a minute")
            }
        },
        class,
        bars: bars(minutes, 0, value),
    };
    let sockets = [status.sockets, highest(|m| m.sockets)].map(number);
    let age = Duration::from_millis(highest(|m| m.age_ms));
    [
        counted("Requests", "plain", |m| m.requests),
        counted("Refused requests (4xx)", "warning", |m| m.refused),
        counted("Errors (5xx)", "bad", |m| m.errors),
        counted("Events processed", "plain", |m| m.events),
        Chart {
            title: "Live connections",
            summary: format!("{} now, at most {}", sockets[0], sockets[1]),
            class: "plain",
            bars: bars(minutes, 0, |m| m.sockets),
        },
        Chart {
            title: "Age of the data",
            summary: format!("at most {}", words::duration(age)),
            class: "plain",
            bars: bars(minutes, AGE_SCALE_MIN_MS, |m| m.age_ms),
        },
    ]
}
