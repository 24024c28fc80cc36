//! `/api/v1/changes`: the events of the log, each with the paths whose answers it may have changed.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Duration;

use axum::extract::{Request, State};
use axum::response::Response;
use axum::routing::get;
use events::{
    EVENT_TYPES, Event, HorseNo, Moment, RaceKey, RaceNumber, RacingDate, Recorded, Subject,
    VenueCode,
};
use projections::json::{JsonObject, render};
use projections::{Store, keys};
use schemars::JsonSchema;
use serde::Serialize;
use tokio::time::{Instant, sleep, timeout_at};

use super::changed_paths::{changed_paths, changes_all_horses};
use super::paging::next_path;
use super::request::wait_for;
use super::{Answer, ApiError, ApiRequest, App, PageRows, QueryParams, Routes};
use crate::live::unknown_name;

const PATH: &str = "/api/v1/changes";
const PARAMETERS: [&str; 4] = ["after", "limit", "types", "wait_ms"];
/// The longest time for which an answer waits for a change: less than a handler has.
pub(super) const WAIT_MS_MAX: u64 = 8_000;
/// How long an answer waits for more once something has happened. A filter that passes little costs ten reads a second.
const GATHERED_FOR: Duration = Duration::from_millis(100);
/// Messages that are read at a time: as many changes fill a page.
const READ_MESSAGES: usize = 500;
/// The reads of one answer: a filter may pass few of many.
const READS_MAX: usize = 20;

/// An event of the log.
#[serde_with::skip_serializing_none]
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct LogChange<'a> {
    /// Its sequence in the log.
    seq: u64,
    /// When the log stored it, RFC 3339 in UTC.
    recorded_at: Moment,
    /// Its type, such as `racing.result.declared.v1`.
    #[serde(rename = "type")]
    type_name: &'a str,
    /// The feeder that published it.
    source: &'a str,
    /// The meeting's date, if it is about a race.
    date: Option<RacingDate>,
    /// The racecourse's code, if it is about a race.
    venue_code: Option<VenueCode>,
    /// The race's number, if it is about a race.
    race_number: Option<RaceNumber>,
    /// The horse, if it is the registration of one.
    horse_no: Option<HorseNo>,
    /// The paths whose answers it may have changed.
    resources: Vec<String>,
}

pub(super) fn router() -> Routes {
    Routes::default().route(PATH, get(changes))
}

/// The changes after a place in the log. Without any, it waits for the next one if the query wants that.
async fn changes(State(app): State<Arc<App>>, request: Request) -> Result<Response, ApiError> {
    let begun = Instant::now();
    QueryParams::parse(request.uri()).check_names(&PARAMETERS)?;
    let request = ApiRequest::read(request, &app, &PARAMETERS).await?;
    let wait_ms = request.query.number("wait_ms")?.unwrap_or(0);
    if wait_ms > WAIT_MS_MAX {
        let message = format!("wait_ms is 0 to {WAIT_MS_MAX}");
        return Err(ApiError::InvalidParameter(message));
    }
    let mut page = ChangePage::of(&request)?;
    require_known(&app, page.after).await?;
    let deadline = begun + Duration::from_millis(wait_ms);
    let seq = loop {
        let store = app.store()?;
        let seq = store.seq();
        page.fill(&app, &store, seq).await?;
        let has_some = page.rows.list().is_some() || page.after < seq;
        if has_some || !more_follows(&app, seq, deadline).await {
            break seq;
        }
    };
    let next = next_path(PATH, &request.query, &page.after.to_string());
    let json = JsonObject::new().list("changes", page.rows.list());
    let json = json.field("after", &page.after);
    let json = json.field("more", &(page.after < seq));
    request.respond(Answer::page(json, &next), seq)
}

/// Checks that the log has a place, and waits until the views reflect it.
async fn require_known(app: &App, after: u64) -> Result<(), ApiError> {
    let last = app.store()?.seq();
    if after <= last {
        return Ok(());
    }
    if app.past.recorded_at(after).await?.is_none() {
        let message = format!("after is beyond the last event of the log, which is {last}");
        return Err(ApiError::InvalidParameter(message));
    }
    wait_for(app, after).await
}

/// Waits until the views reflect more than a sequence. Returns false if they do not in time, or the service is going to
/// stop.
async fn more_follows(app: &App, seq: u64, deadline: Instant) -> bool {
    let mut status = app.projector.status.clone();
    let followed = status.wait_for(|status| status.seq > seq);
    let follows = tokio::select! {
        followed = timeout_at(deadline, followed) => matches!(followed, Ok(Ok(_))),
        () = app.health.draining.cancelled() => false,
    };
    if follows {
        sleep(GATHERED_FOR).await;
    }
    follows
}

/// A page of changes.
struct ChangePage<'a> {
    /// The types that the page may have; `None` for all.
    types: Option<Vec<&'a str>>,
    has_odds: bool,
    rows: PageRows,
    /// The message up to which the page has all changes.
    after: u64,
    /// The horses that were ever in the races of the page.
    horses: HashMap<RaceKey, BTreeSet<HorseNo>>,
}

impl<'a> ChangePage<'a> {
    fn of(request: &'a ApiRequest) -> Result<Self, ApiError> {
        let types = request.query.get("types");
        let types: Option<Vec<&str>> = types.map(|types| types.split(',').collect());
        let mut names = types.iter().flatten();
        if let Some(name) = names.find(|name| !EVENT_TYPES.contains(name)) {
            return Err(ApiError::invalid(unknown_name(name, EVENT_TYPES)));
        }
        Ok(Self {
            types,
            has_odds: request.has_live_odds(),
            rows: PageRows::of(&request.query)?,
            after: request.query.number("after")?.unwrap_or(0),
            horses: HashMap::new(),
        })
    }

    fn has(&self, event: &Event) -> bool {
        let is_odds = matches!(event.subject(), Subject::Odds(_));
        let types = self.types.as_ref();
        (self.has_odds || !is_odds) && types.is_none_or(|types| types.contains(&event.type_name()))
    }

    /// Adds the changes up to the message `last`, which the store reflects, until the page is full or enough is read.
    async fn fill(&mut self, app: &App, store: &Store, last: u64) -> Result<(), ApiError> {
        for _ in 0..READS_MAX {
            if self.after >= last || self.rows.is_full() {
                return Ok(());
            }
            let reading = app.past.events_after(self.after, last, READ_MESSAGES);
            let (events, reached) = reading.await?;
            for recorded in events {
                if self.rows.is_full() {
                    return Ok(());
                }
                if self.has(&recorded.envelope.event) {
                    let change = self.change(app, store, &recorded, last).await?;
                    self.rows.push(&render(&change));
                }
                self.after = recorded.seq;
            }
            self.after = reached;
        }
        Ok(())
    }

    async fn change<'b>(
        &mut self,
        app: &App,
        store: &Store,
        recorded: &'b Recorded,
        last: u64,
    ) -> Result<LogChange<'b>, ApiError> {
        let event = &recorded.envelope.event;
        let race = event.race();
        let mut venues = Vec::new();
        let mut horses = &BTreeSet::new();
        if let Some(race) = &race {
            venues = venues_on(store, race.date)?;
            if changes_all_horses(event) {
                if !self.horses.contains_key(race) {
                    let all = app.past.horses_of(race, last).await?;
                    self.horses.insert(race.clone(), all);
                }
                horses = &self.horses[race];
            }
        }
        Ok(LogChange {
            seq: recorded.seq,
            recorded_at: recorded.recorded_at,
            type_name: event.type_name(),
            source: &recorded.envelope.source,
            resources: changed_paths(event, &venues, horses, self.has_odds),
            date: race.as_ref().map(|race| race.date),
            venue_code: race.as_ref().map(|race| race.venue.clone()),
            race_number: race.map(|race| race.race_number),
            horse_no: match event.subject() {
                Subject::Horse(horse_no) => Some(horse_no),
                _ => None,
            },
        })
    }
}

/// The venues of the meetings of a day.
fn venues_on(store: &Store, date: RacingDate) -> Result<Vec<VenueCode>, ApiError> {
    let prefix = keys::meetings_of(date);
    let mut venues = Vec::new();
    for row in store.scan(&prefix) {
        venues.extend(VenueCode::parse(&row?.0[prefix.len()..]));
    }
    Ok(venues)
}
