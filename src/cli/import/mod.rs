//! `railbird import`: publishes what importers make of files.

mod logged_events;
mod logged_races;
mod replay;
mod source_statement;

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, Result};
use clap::error::ErrorKind;
use clap::{Args, CommandFactory, Subcommand};
use events::{Envelope, RaceNumber, RacingDate};
use tokio::time::{Instant, sleep_until};

use self::logged_events::{Logged, LoggedEvents};
use self::logged_races::LoggedRaces;
use self::replay::ReplayClock;
use super::report::{Progress, Summary};
use super::speed::Speed;
use super::{Cli, Nats};
use crate::log::{Appender, Log, LogError, Outgoing, RACING};
use importers::{BetfairStream, Item, Items};

/// Events that are looked up in the log and published together.
const CHUNK: usize = 512;
/// Notes that are printed; further ones are only counted.
const NOTES_SHOWN: u64 = 20;

#[derive(Debug, Args)]
pub(super) struct Import {
    #[command(subcommand)]
    format: Format,
    #[command(flatten)]
    nats: Nats,
    /// Read and check the files without publishing anything.
    #[arg(long, global = true, env = "RAILBIRD_DRY_RUN")]
    dry_run: bool,
}

#[derive(Debug, Args)]
struct ImportFiles {
    /// Files and folders.
    #[arg(required = true)]
    paths: Vec<PathBuf>,
}

/// Files that identify horses by brands.
#[derive(Debug, Args)]
struct BrandedFiles {
    /// Files and folders.
    #[arg(required = true)]
    paths: Vec<PathBuf>,
    /// JSON of results or cards that maps a brand and a name to a horse_no; without it the brand is the horse_no.
    #[arg(long, num_args = 1..)]
    ids: Vec<PathBuf>,
}

#[derive(Debug, Subcommand)]
enum Format {
    /// Results of the Hong Kong Jockey Club: JSON, CSV, or both of the same meetings.
    HkjcResults(ImportFiles),
    /// Race cards of the Hong Kong Jockey Club, JSON.
    HkjcCards(ImportFiles),
    /// Odds trends of the Hong Kong Jockey Club, JSON.
    HkjcOdds {
        /// Files and folders.
        #[arg(required = true)]
        paths: Vec<PathBuf>,
        /// JSON of results or cards of these races, which maps the number of a runner to its horse_no.
        #[arg(long, num_args = 1.., required = true)]
        ids: Vec<PathBuf>,
    },
    /// Horse profiles, CSV.
    HorsesCsv {
        #[command(flatten)]
        files: BrandedFiles,
        /// The day on which the ages in the file were true.
        #[arg(long, value_parser = RacingDate::parse)]
        as_of: Option<RacingDate>,
    },
    /// Results of the Hong Kong Jockey Club in Chinese, CSV.
    HkjcZhResults(BrandedFiles),
    /// Horse profiles of the Hong Kong Jockey Club in Chinese, CSV.
    HkjcZhHorses {
        #[command(flatten)]
        files: BrandedFiles,
        /// The results in Chinese that the log has: the careers of the file include them.
        #[arg(long, num_args = 1..)]
        results: Vec<PathBuf>,
    },
    /// Results as the tool rpscrape writes them, CSV: British, Irish and other racing.
    Rpscrape {
        /// Files and folders. Give all files of a day together: races are numbered by the files of one import.
        #[arg(required = true)]
        paths: Vec<PathBuf>,
    },
    /// Odds of the Betfair exchange: stream files, plain, packed by bzip2 or gzip, or in archives.
    BetfairStream {
        /// Files, folders, and archives (.tar, .zip).
        #[arg(required = true)]
        paths: Vec<PathBuf>,
        /// Publish the events of one file so much faster than in life, 0.1 to 1000000; with max as fast as possible.
        #[arg(long, default_value = "max")]
        speed: Speed,
        /// The number of the race, for one race whose market name has none.
        #[arg(long, value_parser = RaceNumber::parse)]
        race_number: Option<RaceNumber>,
    },
}

impl Format {
    fn items(&self) -> Items {
        match self {
            Self::HkjcResults(files) => importers::hkjc_results(&files.paths),
            Self::HkjcCards(files) => importers::hkjc_cards(&files.paths),
            Self::HkjcOdds { paths, ids } => importers::hkjc_odds(paths, ids),
            Self::HorsesCsv { files, as_of } => {
                importers::horses_csv(&files.paths, &files.ids, *as_of)
            }
            Self::HkjcZhResults(files) => importers::hkjc_zh_results(&files.paths, &files.ids),
            Self::HkjcZhHorses { files, results } => {
                importers::hkjc_zh_horses(&files.paths, &files.ids, results)
            }
            Self::Rpscrape { paths } => importers::rpscrape(paths),
            Self::BetfairStream {
                paths, race_number, ..
            } => BetfairStream::find(paths).items(*race_number),
        }
    }

    /// Ends the process if the arguments exclude each other.
    fn check(&self) {
        if let Self::BetfairStream { paths, .. } = self
            && self.speed() != Speed::Max
            && BetfairStream::find(paths).count() > 1
        {
            let reason = "a --speed other than max plays one file: run an import for each file to play them side by side";
            Cli::command()
                .error(ErrorKind::ArgumentConflict, reason)
                .exit();
        }
    }

    /// Whether the files have no race numbers, so that those of an import may be those of other races in the log.
    fn numbers_races(&self) -> bool {
        matches!(self, Self::Rpscrape { .. } | Self::BetfairStream { .. })
    }

    fn speed(&self) -> Speed {
        match self {
            Self::BetfairStream { speed, .. } => *speed,
            _ => Speed::Max,
        }
    }
}

impl Import {
    pub(super) async fn run(self) -> Result<ExitCode> {
        self.format.check();
        let speed = self.format.speed();
        let mut target = None;
        if !self.dry_run {
            let log = self.nats.connect().await?;
            log.state_or_create(RACING).await?;
            target = Some(Target {
                appender: log.appender(),
                log,
                logged_events: LoggedEvents::default(),
                logged_races: self.format.numbers_races().then(LoggedRaces::default),
                clock: ReplayClock::new(speed),
            });
        }
        let chunk_size = if speed == Speed::Max { CHUNK } else { 1 };
        let mut summary = Summary::default();
        let mut progress = Progress::new("importing", 0);
        let mut items = self.format.items();
        loop {
            let chunk: Vec<Item> = items.by_ref().take(chunk_size).collect();
            if chunk.is_empty() {
                break;
            }
            let events = take_events(chunk, &mut summary, &progress);
            if let Some(target) = &mut target {
                (target.publish(events, &mut summary).await).context(STOPPED)?;
            }
            progress.set(summary.read);
        }
        if let Some(mut target) = target {
            target.restate(&mut summary).await.context(STOPPED)?;
            summary.count(target.appender.finish().await.context(STOPPED)?);
            target.log.close().await;
        }
        drop(progress);
        Ok(summary.print())
    }
}

const STOPPED: &str = "the import stopped; run the same command again to resume";

/// Counts the items, prints notes, and returns the events.
fn take_events(items: Vec<Item>, summary: &mut Summary, progress: &Progress) -> Vec<Envelope> {
    let mut events = Vec::with_capacity(items.len());
    for item in items {
        match item {
            Item::Event(event) => {
                summary.read += 1;
                events.push(*event);
            }
            Item::Rejected(rejected) => {
                summary.read += 1;
                summary.reject(rejected.to_string());
            }
            Item::Omitted(values) => summary.omit(values),
            Item::Note(note) => {
                summary.notes += 1;
                if summary.notes <= NOTES_SHOWN {
                    progress.print(&format!("note: {note}"));
                }
            }
        }
    }
    events
}

/// The log to which events are published.
struct Target {
    log: Log,
    appender: Appender,
    logged_events: LoggedEvents,
    /// `None` if the files number their races.
    logged_races: Option<LoggedRaces>,
    clock: ReplayClock,
}

impl Target {
    /// Publishes the events that the log does not have.
    async fn publish(&mut self, mut events: Vec<Envelope>, summary: &mut Summary) -> Result<()> {
        if let Some(logged_races) = &mut self.logged_races {
            for reason in logged_races.refuse(&self.log, &mut events).await? {
                summary.reject(reason);
            }
        }
        let outgoing: Vec<Outgoing> = events.iter().map(Outgoing::from).collect();
        let subjects = self.logged_events.not_loaded(&outgoing);
        if !subjects.is_empty() {
            // A subject may have been evicted: its events in flight must be in the log when it is looked up again.
            self.appender.flush().await?;
            self.logged_events.load(&self.log, subjects).await?;
        }
        for (event, message) in events.iter().zip(outgoing) {
            let logged = self.logged_events.insert(event, &message);
            if logged != Logged::Missing {
                summary.duplicates += 1;
                summary.outdated += u64::from(logged == Logged::Outdated);
                continue;
            }
            if let Some(due) = self.clock.due(event.time, Instant::now()) {
                self.appender.flush().await?;
                sleep_until(due).await;
            }
            self.appender.append(message).await?;
        }
        summary.count(self.appender.take_done());
        Ok(())
    }

    /// Publishes the statements again that the log has and that are not in force there.
    async fn restate(&mut self, summary: &mut Summary) -> Result<(), LogError> {
        for event in self.logged_events.take_replaced() {
            summary.duplicates -= 1;
            summary.restated += 1;
            self.appender.append(Outgoing::from(&event)).await?;
        }
        Ok(())
    }
}
