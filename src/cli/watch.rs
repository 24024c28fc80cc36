//! `railbird watch`: a board of live odds on a terminal, plain lines or JSON elsewhere.

use ::watch::{RaceFilter, RaceSelector, VenueSelector, WatchError, watch};
use anyhow::anyhow;
use clap::Args;
use client::{LiveOddsError, ServiceUrl};
use events::RacingDate;

use super::WrongConfiguration;
use super::api_key::ApiKeyFlags;
use crate::shutdown::Signals;

#[derive(Debug, Args)]
#[command(
    after_help = "A terminal shows a board per race; press ? for the keys. Elsewhere each message is a line. NO_COLOR=1 disables \
                  colours.\n\nExamples:\n  railbird watch\n  railbird watch --race ST/3 --race ST/4\n  \
                  railbird watch --url wss://odds.example.org --api-key-file key.txt --json | jq .seq"
)]
pub(super) struct Watch {
    /// The URL of the service. For wss://, the certificate is checked against the root certificates of this machine.
    #[arg(
        long,
        env = "RAILBIRD_URL",
        default_value = "ws://127.0.0.1:8080/ws/live/odds",
        hide_env_values = true
    )]
    url: String,
    #[command(flatten)]
    key: ApiKeyFlags,
    /// Show only this race: 3, ST/3 or 2026-11-21/ST/3. May be repeated.
    #[arg(long = "race", value_name = "RACE")]
    races: Vec<RaceSelector>,
    /// Show only this venue, by code or name. May be repeated.
    #[arg(long = "venue", value_name = "VENUE")]
    venues: Vec<VenueSelector>,
    /// Show only this date. May be repeated.
    #[arg(long = "date", value_name = "DATE", value_parser = RacingDate::parse)]
    dates: Vec<RacingDate>,
    /// Print each message unchanged, one JSON object per line.
    #[arg(long)]
    json: bool,
}

impl Watch {
    /// Shows live odds until the user quits or the reader of standard output closes it.
    ///
    /// # Errors
    /// Returns [`WrongConfiguration`] if the URL or the key is invalid, [`Unwatchable`] if the service is not
    /// available, and [`WatchError`] if the output fails.
    pub(super) async fn run(self) -> anyhow::Result<()> {
        let (url, key_of_url) = ServiceUrl::parse(&self.url)
            .map_err(|error| WrongConfiguration(format!("--url: {error}")))?;
        let key = self.key.read(key_of_url)?;
        let filter = RaceFilter {
            races: self.races,
            venues: self.venues,
            dates: self.dates,
        };
        let mut signals = Signals::install()?;
        let shown = tokio::select! {
            shown = watch(url, &key, filter, self.json) => shown,
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
pub(super) struct Unwatchable(LiveOddsError);

impl Unwatchable {
    /// Whether the service is not reachable or not ready.
    pub(super) fn is_unavailable(&self) -> bool {
        self.0.is_unavailable()
    }
}

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
