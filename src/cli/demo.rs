//! [`Demo`]: the simulated racing of `railbird dev`.

use std::collections::BTreeSet;

use anyhow::Context;
use events::{Moment, RacingDate};
use futures::future::{BoxFuture, FutureExt};
use futures::stream::{FuturesUnordered, StreamExt};
use jiff::{Timestamp, ToSpan};
use projections::keys;
use projections::meetings::{MeetingFacts, MeetingStatus};

use super::player::{EarlierRun, Player, pace_from_now};
use super::report::Summary;
use super::speed::Speed;
use crate::clock::sleep_until;
use crate::http::state::App;
use simulator::{Pace, RaceDay, VENUES, script};

/// Fast enough that odds move at once, and the first result is published after a minute.
const SPEED: f64 = 10.0;
const REAL_TIME: f64 = 1.0;
const RACES: u16 = 8;
const SEED: u64 = 1;

/// Publishes race days for as long as the service runs.
///
/// When the last race of today is off, the same number of further races of today follows, so that a race is always open
/// for betting. Yesterday is published with its real times: results and form exist from the start. Races of an earlier
/// run are completed at the times on their cards.
pub(super) struct Demo<'a> {
    pub(super) player: Player,
    pub(super) app: &'a App,
}

type RunningDays<'a> = FuturesUnordered<BoxFuture<'a, anyhow::Result<Summary>>>;

/// The race days of a date that earlier runs started, and the one after these; `None` when the race numbers are used
/// up.
type EarlierDays = (Vec<(RaceDay, Pace)>, Option<RaceDay>);

impl Demo<'_> {
    pub(super) async fn run(&self) -> anyhow::Result<()> {
        let mut running = RunningDays::new();
        self.run_past_dates(&mut running).await?;
        loop {
            self.run_today(&mut running).await?;
        }
    }

    async fn run_past_dates<'a>(&'a self, running: &mut RunningDays<'a>) -> anyhow::Result<()> {
        let today = self.app.clock.today();
        let yesterday = RacingDate::from(today.civil() - 1.day());
        let mut dates = self.unfinished_dates()?;
        dates.insert(yesterday);
        for date in dates.into_iter().filter(|date| *date < today) {
            let (days, next) = self.earlier_days(date).await?;
            if let (true, Some(day)) = (date == yesterday && days.is_empty(), next) {
                let midnight = self.app.clock.midnight(date);
                self.play(day, day.as_in_life(midnight), running).await?;
            }
            for (day, pace) in days {
                self.play(day, pace, running).await?;
            }
        }
        Ok(())
    }

    async fn run_today<'a>(&'a self, running: &mut RunningDays<'a>) -> anyhow::Result<()> {
        let clock = &self.app.clock;
        let today = clock.today();
        let midnight = clock.midnight(RacingDate::from(today.civil() + 1.day()));
        let (days, mut next) = self.earlier_days(today).await?;
        let mut next_at = Timestamp::now();
        for (day, pace) in days {
            tracing::info!(date = %today, zone = clock.zone, "simulated racing resumed");
            next_at = day.last_off(&pace);
            self.play(day, pace, running).await?;
        }
        while let Some(day) = next {
            run_until(running, next_at.min(midnight)).await?;
            if Timestamp::now() >= midnight {
                return Ok(());
            }
            let pace = pace_from_now(SPEED);
            tracing::info!(date = %today, zone = clock.zone, "simulated racing started");
            next_at = day.last_off(&pace);
            self.play(day, pace, running).await?;
            next = day.more();
        }
        run_until(running, midnight).await
    }

    /// Publishes a day that is over at once, and adds any other day to those that run.
    async fn play<'a>(
        &'a self,
        day: RaceDay,
        pace: Pace,
        running: &mut RunningDays<'a>,
    ) -> anyhow::Result<()> {
        let events = script(&day, &pace);
        let now = Moment::from(Timestamp::now());
        let is_over = events.last().is_none_or(|last| last.time < now);
        let speed = Speed::Times(pace.speed);
        let play = self.player.play(day, pace, events, speed, None).boxed();
        if is_over {
            play.await?;
        } else {
            running.push(play);
        }
        Ok(())
    }

    async fn earlier_days(&self, date: RacingDate) -> anyhow::Result<EarlierDays> {
        let mut days = Vec::new();
        let mut next = Some(RaceDay::new(date, RACES, SEED));
        while let Some(day) = next {
            match self.player.earlier_run(&day, &[SPEED, REAL_TIME]).await? {
                EarlierRun::None => break,
                EarlierRun::At(pace) => days.push((day, pace)),
                // Another program uses these race numbers.
                EarlierRun::Different => {}
            }
            next = day.more();
        }
        Ok((days, next))
    }

    /// The dates with a scheduled meeting at a simulated venue.
    fn unfinished_dates(&self) -> anyhow::Result<BTreeSet<RacingDate>> {
        let mut dates = BTreeSet::new();
        let views = self.app.views.current().context("there are no views")?;
        for row in views.scan(keys::MEETINGS) {
            let meeting: MeetingFacts = serde_json::from_slice(&row?.1)?;
            let mut simulated = VENUES.iter();
            let is_simulated = simulated.any(|(code, _)| *code == meeting.venue_code.as_str());
            if is_simulated && meeting.status == MeetingStatus::Scheduled {
                dates.insert(meeting.date);
            }
        }
        Ok(dates)
    }
}

async fn run_until(running: &mut RunningDays<'_>, end: Timestamp) -> anyhow::Result<()> {
    let mut end = std::pin::pin!(sleep_until(end));
    loop {
        tokio::select! {
            () = &mut end => return Ok(()),
            Some(finished) = running.next() => {
                finished?;
            }
        }
    }
}
