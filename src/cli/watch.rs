//! `railbird watch`: a board of live odds on a terminal, plain lines or JSON elsewhere.

use ::watch::{RaceFilter, RaceSelector, VenueSelector, WatchError, watch};
use anyhow::anyhow;
use clap::Args;
use client::LiveOddsError;
use events::{Moment, RacingDate};

use super::WrongConfiguration;
use super::api_access::ApiAccess;
use crate::shutdown::Signals;

#[derive(Debug, Args)]
pub(super) struct Watch {
    #[command(flatten)]
    access: ApiAccess,
    /// Show only this race: 3, ST/3 or 2026-11-21/ST/3. May be repeated.
    #[arg(long = "race", value_name = "RACE")]
    races: Vec<RaceSelector>,
    /// Show only this venue, by code or name. May be repeated.
    #[arg(long = "venue", value_name = "VENUE")]
    venues: Vec<VenueSelector>,
    /// Show only this date. May be repeated.
    #[arg(long = "date", value_name = "DATE", value_parser = RacingDate::parse)]
    dates: Vec<RacingDate>,
    /// Replay the past instead: the selected races, of one date, as a live client was sent them.
    #[arg(long)]
    replay: bool,
    /// Seconds of the log that a replay plays in a second, 0.1 to 1000.
    #[arg(long, value_name = "N", requires = "replay", default_value_t = 1.0)]
    speed: f64,
    /// Begin a replay with what the log stored at this time or later, such as 2026-11-21T14:30:00+08:00.
    #[arg(long, value_name = "TIME", requires = "replay", value_parser = Moment::parse)]
    from: Option<Moment>,
    /// End a replay before this time.
    #[arg(long, value_name = "TIME", requires = "replay", value_parser = Moment::parse)]
    to: Option<Moment>,
    /// Print each message unchanged, one JSON object per line.
    #[arg(long)]
    json: bool,
}

impl Watch {
    /// Shows live odds or a replay until the user quits or the reader of standard output closes it.
    ///
    /// # Errors
    /// Returns [`WrongConfiguration`] if the URL or the key is invalid, [`Unwatchable`] if the service is not
    /// available, and [`WatchError`] if the output fails.
    pub(super) async fn run(self) -> anyhow::Result<()> {
        let (url, key) = self.access.read()?;
        let filter = RaceFilter {
            races: self.races,
            venues: self.venues,
            dates: self.dates,
        };
        let url = if self.replay {
            let time = |name, time: Option<Moment>| time.map(|time| (name, time.to_string()));
            // A heartbeat says that the replay has ended.
            let always = [
                ("speed", self.speed.to_string()),
                ("heartbeat_ms", "1000".to_owned()),
            ];
            let times = [time("from", self.from), time("to", self.to)];
            let query = always.into_iter().chain(times.into_iter().flatten());
            url.replay().with_query(&Vec::from_iter(query))
        } else {
            url
        };
        let speed = self.replay.then_some(self.speed);
        let mut signals = Signals::install()?;
        let shown = tokio::select! {
            shown = watch(url, &key, filter, speed, self.json) => shown,
            () = signals.next() => Ok(()),
        };
        shown.map_err(|error| match error {
            WatchError::LiveOdds(error) => Unwatchable(error).into(),
            WatchError::Key(error) => WrongConfiguration(error.to_string()).into(),
            error @ WatchError::Output(_) => anyhow!(error),
        })
    }
}

/// Why the live channel cannot be watched, and what to do.
#[derive(Debug, thiserror::Error)]
#[error("{0}.{hint}", hint = hint(.0))]
pub(super) struct Unwatchable(pub(super) LiveOddsError);

fn hint(error: &LiveOddsError) -> &'static str {
    match error {
        LiveOddsError::Unreachable { .. } => {
            " Check --url, and that the service runs (`railbird dev` or `railbird serve`)."
        }
        LiveOddsError::InvalidKey { .. } | LiveOddsError::KeyRevoked => {
            " `railbird keys issue --plan PLAN` creates a key."
        }
        LiveOddsError::Rejected { .. } | LiveOddsError::Closed { .. } => "",
    }
}
