//! [`Demo`]: the racing that `railbird dev` shows.

use std::collections::BTreeSet;

use events::{Moment, RacingDate};
use futures::future::{BoxFuture, FutureExt};
use futures::stream::{FuturesUnordered, StreamExt};
use jiff::{Timestamp, ToSpan};
use projections::keys;
use projections::meetings::MeetingView;

use super::player::{Begun, Player, When, from_now};
use super::report::Summary;
use crate::clock::sleep_until;
use crate::http::state::App;
use simulator::{Pace, RaceDay, VENUES, script};

/// So much faster than in life, odds move at once, and the first result is there after a minute.
const SPEED: f64 = 10.0;
const AS_IN_LIFE: f64 = 1.0;
const RACES: u16 = 8;
const SEED: u64 = 1;

/// Plays race days for as long as the service runs.
///
/// When the last race of today is off, as many others of today are played, so that there is always one to bet on.
/// Yesterday is told as it was in life: there are results and form from the beginning. What an earlier run has begun is
/// told to its end, as the cards said: no race waits for the service to be started again.
pub(super) struct Demo<'a> {
    pub(super) player: Player,
    pub(super) app: &'a App,
}

type Playing<'a> = FuturesUnordered<BoxFuture<'a, anyhow::Result<Summary>>>;

/// What of a date has begun, and what comes next; nothing when the race numbers are used up.
struct Played {
    begun: Vec<(RaceDay, Pace)>,
    next: Option<RaceDay>,
}

impl Demo<'_> {
    pub(super) async fn run(&self) -> anyhow::Result<()> {
        let mut playing = Playing::new();
        self.play_the_past(&mut playing).await?;
        loop {
            self.play_today(&mut playing).await?;
        }
    }

    async fn play_the_past<'a>(&'a self, playing: &mut Playing<'a>) -> anyhow::Result<()> {
        let today = self.app.clock.today();
        let yesterday = RacingDate::from(today.civil() - 1.day());
        let mut dates = self.unfinished()?;
        dates.insert(yesterday);
        for date in dates.into_iter().filter(|date| *date < today) {
            let played = self.played(date).await?;
            if let (true, Some(day)) = (date == yesterday && played.begun.is_empty(), played.next) {
                let midnight = self.app.clock.midnight(date);
                self.play(day, day.as_in_life(midnight), playing).await?;
            }
            for (day, pace) in played.begun {
                self.play(day, pace, playing).await?;
            }
        }
        Ok(())
    }

    async fn play_today<'a>(&'a self, playing: &mut Playing<'a>) -> anyhow::Result<()> {
        let clock = &self.app.clock;
        let today = clock.today();
        let midnight = clock.midnight(RacingDate::from(today.civil() + 1.day()));
        let Played { begun, mut next } = self.played(today).await?;
        let mut due = Timestamp::now();
        for (day, pace) in begun {
            tracing::info!(date = %today, zone = clock.zone(), "simulated racing goes on");
            due = day.last_off(&pace);
            self.play(day, pace, playing).await?;
        }
        while let Some(day) = next {
            go_on(playing, due.min(midnight)).await?;
            if Timestamp::now() >= midnight {
                return Ok(());
            }
            let pace = from_now(SPEED);
            tracing::info!(date = %today, zone = clock.zone(), "simulated racing");
            due = day.last_off(&pace);
            self.play(day, pace, playing).await?;
            next = day.more();
        }
        go_on(playing, midnight).await
    }

    /// Tells a day that is over, and lets any other go on beside what is played.
    async fn play<'a>(
        &'a self,
        day: RaceDay,
        pace: Pace,
        playing: &mut Playing<'a>,
    ) -> anyhow::Result<()> {
        let events = script(&day, &pace);
        let now = Moment::from(Timestamp::now());
        let over = events.last().is_none_or(|last| last.time < now);
        let play = self.player.play(events, When::AtItsTime, None).boxed();
        if over {
            play.await?;
        } else {
            playing.push(play);
        }
        Ok(())
    }

    /// What earlier runs have begun of a date.
    async fn played(&self, date: RacingDate) -> anyhow::Result<Played> {
        let mut played = Played {
            begun: Vec::new(),
            next: Some(RaceDay::new(date, RACES, SEED)),
        };
        while let Some(day) = played.next {
            match self.player.begun(&day, &[SPEED, AS_IN_LIFE]).await? {
                Begun::No => break,
                Begun::At(pace) => played.begun.push((day, pace)),
                // Somebody else has races under these numbers.
                Begun::Otherwise => {}
            }
            played.next = day.more();
        }
        Ok(played)
    }

    /// The dates on which races are still to be run at the venues.
    fn unfinished(&self) -> anyhow::Result<BTreeSet<RacingDate>> {
        let mut dates = BTreeSet::new();
        for row in self.app.views.current().scan(keys::MEETINGS) {
            let meeting: MeetingView = serde_json::from_slice(&row?.1)?;
            let ours = VENUES.iter().any(|(code, _)| *code == meeting.venue_code);
            if ours && meeting.status == "scheduled" {
                dates.insert(RacingDate::parse(&meeting.date)?);
            }
        }
        Ok(dates)
    }
}

/// Lets what is begun go on until then.
async fn go_on(playing: &mut Playing<'_>, until: Timestamp) -> anyhow::Result<()> {
    let mut until = std::pin::pin!(sleep_until(until));
    loop {
        tokio::select! {
            () = &mut until => return Ok(()),
            Some(played) = playing.next() => {
                played?;
            }
        }
    }
}
