//! Keeps the [`FrontPage`](super::FrontPage) on the next races, with the prices of a while ago.

use std::sync::Arc;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use projections::keys;
use tokio::time::sleep;

use super::days::next_races;
use super::front_page::{FrontRace, FrontRaces};
use super::{ApiError, App};
use crate::clock::now;
use crate::past::Part;

/// Races that are shown. The odds of each are folded again.
const RACES_MAX: usize = 3;
const OLD: &str = "The views do not reflect the log";
const RENDER_EVERY: Duration = Duration::from_secs(10);

/// Renders the races again and again. What fails, as without NATS, leaves those that were rendered before, which name
/// the time of their prices.
pub(crate) async fn keep_front_page(app: Arc<App>, delay: SignedDuration) {
    loop {
        let shown = async { app.front_page.show(&read(&app, delay).await?) };
        if let Err(error) = shown.await {
            tracing::debug!(%error, "the front page was not rendered");
        }
        sleep(RENDER_EVERY).await;
    }
}

/// The next races as of now, with the prices as of `delay` ago.
async fn read(app: &App, delay: SignedDuration) -> Result<FrontRaces, ApiError> {
    let was_caught_up = app.is_caught_up();
    let (store, now) = (app.store()?, now());
    let whole = store.checkpoint().filter(|_| was_caught_up);
    let whole = whole.ok_or_else(|| ApiError::NotReady(OLD.to_owned()))?;
    let as_of = now.checked_sub(delay).unwrap_or(Timestamp::MIN);
    let seq = app.past.seq_at(as_of.into(), whole.seq).await?;
    let mut races = Vec::new();
    let next = next_races(&app.clock, &store, now)?.into_iter();
    for (off, view) in next.take(RACES_MAX) {
        let mut race: FrontRace = serde_json::from_slice(&view)?;
        let part = Part::Races {
            date: race.date,
            venue: Some(race.venue_code.clone()),
            race_number: Some(race.race_number),
        };
        let past = app.past.store(whole.clone(), part, false, seq).await?;
        // The part has this race alone.
        if let Some(row) = past.scan(&keys::boards_of(race.date)).next() {
            race.price(&row?.1)?;
        }
        let is_today = race.date == app.clock.today();
        let format = if is_today { "%H:%M" } else { "%-d %B, %H:%M" };
        race.off = local(app, off, &race.time_zone, format);
        races.push(race);
    }
    if races.is_empty() {
        return Ok(FrontRaces::demo());
    }
    let time = local(app, as_of, "", "%H:%M:%S on %-d %B");
    let city = app.clock.zone.rsplit('/').next().unwrap_or_default();
    let time = format!("{time}, {} time", city.replace('_', " "));
    let as_of = Some((as_of, time, delay));
    Ok(FrontRaces { races, as_of })
}

/// A time in a zone, or in that of the service.
fn local(app: &App, time: Timestamp, zone: &str, format: &str) -> String {
    let zoned = time.in_tz(zone).or_else(|_| time.in_tz(&app.clock.zone));
    let shown = zoned.map(|zoned| zoned.strftime(format).to_string());
    shown.unwrap_or_else(|_| time.to_string())
}
