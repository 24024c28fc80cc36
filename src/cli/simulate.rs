//! `railbird simulate`: publishes a synthetic race day.

use clap::Args;
use events::RacingDate;

use super::player::{EarlierRun, Player, pace_from_now};
use super::report::Progress;
use super::speed::Speed;
use super::{Nats, WrongConfiguration};
use crate::clock::Clock;
use crate::log::RACING;
use crate::shutdown::{Shutdown, Signals, StoppedAtOnce};
use simulator::{RaceDay, VENUES, script};

#[derive(Debug, Args)]
pub(super) struct Simulate {
    /// Races of each meeting; with 4 or more, everything happens.
    #[arg(long, default_value_t = 8, value_parser = clap::value_parser!(u16).range(1..=20))]
    races: u16,
    /// How much faster than in life the day is played, 0.1 to 1000000. It begins now, and events have the times at
    /// which they are published. With max all events are published at once, with their times in life.
    #[arg(long, default_value = "10")]
    speed: Speed,
    /// The same seed makes the same races.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// The date of both meetings. Defaults to today in the time zone.
    #[arg(long, value_parser = RacingDate::parse)]
    date: Option<RacingDate>,
    /// The time zone of the racing day.
    #[arg(long, env = "RAILBIRD_TIMEZONE", default_value = "Asia/Hong_Kong")]
    timezone: String,
    #[command(flatten)]
    nats: Nats,
}

impl Simulate {
    pub(super) async fn run(self) -> anyhow::Result<()> {
        let clock = Clock::new(&self.timezone).map_err(WrongConfiguration)?;
        let date = self.date.unwrap_or_else(|| clock.today());
        let day = RaceDay::new(date, self.races, self.seed);
        let log = self.nats.connect().await?;
        log.state_or_create(RACING).await?;
        let ending = Shutdown::new();
        let player = Player::new(&log, &ending);
        let fresh = match self.speed {
            Speed::Times(speed) => pace_from_now(speed),
            Speed::Max => day.as_in_life(clock.midnight(date)),
        };
        let pace = match player.earlier_run(&day, &[fresh.speed]).await? {
            EarlierRun::None => fresh,
            EarlierRun::At(earlier) => earlier,
            EarlierRun::Different => anyhow::bail!(
                "there are other races of {date} at {} in the log already (another seed, speed or number of races): \
                 choose another --date",
                VENUES[0].0
            ),
        };
        let events = script(&day, &pace);
        let progress = Progress::new("simulating", events.len() as u64);
        let mut signals = Signals::install()?;
        let mut playing =
            std::pin::pin!(player.play(day, pace, events, self.speed, Some(progress)));
        let summary = tokio::select! {
            summary = &mut playing => summary?,
            () = signals.next() => {
                ending.cancel();
                tokio::select! {
                    summary = &mut playing => summary?,
                    () = signals.next() => return Err(StoppedAtOnce.into()),
                }
            }
        };
        log.close().await;
        summary.print();
        Ok(())
    }
}
