//! `railbird simulate`.

use std::collections::{BTreeSet, HashSet};
use std::time::Duration;

use clap::Args;
use events::{Envelope, ParseError, RacingDate, Text, VenueCode};
use jiff::{SignedDuration, Timestamp};
use tokio::time::{Instant, sleep_until};

use super::report::{Progress, Summary};
use super::{Nats, Outcome, WrongConfiguration};
use crate::clock::Clock;
use crate::log::{Log, Outgoing, RACING};
use crate::shutdown::{Shutdown, shutdown, signalled};
use crate::simulate::{Meeting, VENUES, script};

/// Messages under way at a time.
const WINDOW: usize = 256;

/// The meeting that is played.
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  railbird simulate --races 6 --speed 60 --seed 7")]
pub(super) struct Simulate {
    /// Races of the meeting.
    #[arg(long, default_value_t = 8, value_parser = clap::value_parser!(u16).range(1..=20))]
    races: u16,
    /// How much faster than a real meeting it runs.
    #[arg(long, default_value_t = 10.0, value_parser = parse_speed)]
    speed: f64,
    /// The same seed gives the same meeting.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// The meeting's date; today in the zone where it is left out.
    #[arg(long, value_parser = parse_date)]
    date: Option<RacingDate>,
    /// The zone of the racing day.
    #[arg(long, env = "RAILBIRD_TIMEZONE", default_value = "Asia/Hong_Kong")]
    timezone: String,
    #[command(flatten)]
    nats: Nats,
}

fn parse_speed(text: &str) -> Result<f64, String> {
    match text.parse() {
        Ok(speed) if (0.1..=1_000_000.0).contains(&speed) => Ok(speed),
        _ => Err("a speed is 0.1 to 1000000".to_owned()),
    }
}

fn parse_date(text: &str) -> Result<RacingDate, ParseError> {
    RacingDate::parse(text)
}

impl Simulate {
    pub(super) async fn run(self) -> anyhow::Result<Outcome> {
        let date = match self.date {
            Some(date) => date,
            None => Clock::new(&self.timezone)
                .map_err(|error| WrongConfiguration(format!("{error:#}")))?
                .today(),
        };
        let log = self.nats.connect().await?;
        log.state_or_create(RACING).await?;
        let (code, name) = VENUES[0];
        let mut player = Player::new(&log, date, code, name)?;
        player.meeting.races = self.races;
        player.meeting.seed = self.seed;
        let (trigger, ending) = shutdown();
        let events = script(&player.meeting, Timestamp::now(), self.speed);
        let progress = Progress::new("simulating", events.len() as u64);
        let mut playing = std::pin::pin!(player.play(events, Some(progress), &ending));
        let summary = tokio::select! {
            summary = &mut playing => summary?,
            signalled = signalled() => {
                signalled?;
                trigger.pull();
                playing.await?
            }
        };
        log.close().await;
        summary.say();
        Ok(Outcome::Done)
    }
}

/// Publishes a made-up meeting as its clock runs.
pub(super) struct Player<'a> {
    log: &'a Log,
    meeting: Meeting,
}

impl<'a> Player<'a> {
    pub(super) fn new(
        log: &'a Log,
        date: RacingDate,
        code: &str,
        name: &str,
    ) -> Result<Self, ParseError> {
        let meeting = Meeting {
            date,
            venue: VenueCode::parse(code)?,
            venue_name: Text::parse(name)?,
            races: 8,
            seed: 1,
        };
        Ok(Self { log, meeting })
    }

    /// Goes on where an earlier run stopped, as if no time had passed since.
    pub(super) async fn resume(&self, speed: f64, ending: &Shutdown) -> anyhow::Result<()> {
        let events = script(&self.meeting, Timestamp::UNIX_EPOCH, speed);
        let subjects: BTreeSet<String> = events
            .iter()
            .map(|(_, e)| e.event.subject().to_string())
            .collect();
        let mut said = HashSet::new();
        for subject in subjects {
            said.extend(self.log.last_id(RACING, &subject).await?);
        }
        let next = events
            .iter()
            .rposition(|(_, e)| said.contains(&e.id))
            .map_or(0, |last| last + 1);
        let Some((offset, _)) = events.get(next) else {
            return Ok(());
        };
        let start = Timestamp::now() - SignedDuration::try_from(*offset)?;
        let rest = script(&self.meeting, start, speed).split_off(next);
        self.play(rest, None, ending).await?;
        Ok(())
    }

    async fn play(
        &self,
        events: Vec<(Duration, Envelope)>,
        mut progress: Option<Progress>,
        ending: &Shutdown,
    ) -> anyhow::Result<Summary> {
        let (mut summary, mut ending) = (Summary::new(), ending.clone());
        let mut appender = self.log.appender(WINDOW);
        let first = events
            .first()
            .map(|(offset, _)| *offset)
            .unwrap_or_default();
        let began = Instant::now();
        for (offset, envelope) in events {
            let due = began + offset.saturating_sub(first);
            if due > Instant::now() {
                appender.settle().await?;
                tokio::select! {
                    () = sleep_until(due) => {}
                    () = ending.begun() => break,
                }
            }
            appender.append(Outgoing::from(&envelope)).await?;
            summary.read += 1;
            for appended in appender.take_done() {
                summary.count(appended);
            }
            if let Some(progress) = &mut progress {
                progress.set(summary.read);
            }
        }
        for appended in appender.finish().await? {
            summary.count(appended);
        }
        Ok(summary)
    }
}
