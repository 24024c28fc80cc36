//! `railbird import`.

use std::collections::HashMap;
use std::path::PathBuf;

use anyhow::Context;
use clap::{Args, Subcommand};
use events::{Envelope, RacingDate};
use futures::{StreamExt, TryStreamExt, stream};

use super::report::{Progress, Summary};
use super::{Nats, Outcome};
use crate::import::{self, Item, Items};
use crate::log::{Appender, Log, Outgoing, RACING};

/// Events that are looked up in the log and published together.
const CHUNK: usize = 512;
/// Messages under way at a time.
const WINDOW: usize = 256;
/// Look-ups under way at a time.
const LOOKUPS: usize = 64;
/// Notes that are said; the rest are counted.
const NOTES_SHOWN: u64 = 20;

/// What is read, and where it goes.
#[derive(Debug, Args)]
#[command(
    after_help = "Example:\n  railbird import hkjc-results results/2016-17 results.csv\n  railbird import horses-csv horse_info.csv --ids results/2016-17 --as-of 2018-03-01\n  railbird import rpscrape data/gb/flat/2020.csv data/gb/jumps/2020.csv"
)]
pub(super) struct Import {
    #[command(subcommand)]
    format: Format,
    #[command(flatten)]
    nats: Nats,
    /// Read and check everything, and publish nothing.
    #[arg(long, global = true, env = "RAILBIRD_DRY_RUN")]
    dry_run: bool,
}

#[derive(Debug, Subcommand)]
enum Format {
    /// Results of the Hong Kong Jockey Club: JSON files or folders, with CSV files of the same meetings joined in.
    HkjcResults {
        /// Files and folders, .json and .csv.
        #[arg(required = true)]
        paths: Vec<PathBuf>,
    },
    /// Race cards of the Hong Kong Jockey Club, JSON.
    HkjcCards {
        /// Files and folders.
        #[arg(required = true)]
        paths: Vec<PathBuf>,
    },
    /// Results of the Hong Kong Jockey Club, CSV alone.
    HkjcCsv {
        /// Files and folders.
        #[arg(required = true)]
        paths: Vec<PathBuf>,
    },
    /// Horse profiles, CSV.
    HorsesCsv {
        /// Files and folders.
        #[arg(required = true)]
        paths: Vec<PathBuf>,
        /// Results JSON that says which horse_no a brand and name mean; without it the brand is the horse_no.
        #[arg(long, num_args = 1..)]
        ids: Vec<PathBuf>,
        /// The day on which the ages in the file were true.
        #[arg(long, value_parser = parse_date)]
        as_of: Option<RacingDate>,
    },
    /// Results of the Hong Kong Jockey Club in Chinese, CSV.
    #[command(
        after_help = "Example:\n  railbird import hkjc-zh-results results_zh --ids results/2016-17"
    )]
    HkjcZhResults {
        /// Files and folders.
        #[arg(required = true)]
        paths: Vec<PathBuf>,
        /// Results or cards JSON that says which horse_no and name a brand means; without it the brand is the horse_no.
        #[arg(long, num_args = 1..)]
        ids: Vec<PathBuf>,
    },
    /// Horse profiles of the Hong Kong Jockey Club in Chinese, CSV.
    #[command(
        after_help = "Example:\n  railbird import hkjc-zh-horses horse_profiles.csv --ids results/2016-17 --results results_zh"
    )]
    HkjcZhHorses {
        /// Files and folders.
        #[arg(required = true)]
        paths: Vec<PathBuf>,
        /// Results or cards JSON that says which horse_no and name a brand means; without it the brand is the horse_no.
        #[arg(long, num_args = 1..)]
        ids: Vec<PathBuf>,
        /// The results in Chinese that the log has: the careers in the file include them.
        #[arg(long, num_args = 1..)]
        results: Vec<PathBuf>,
    },
    /// Results as the tool rpscrape writes them, CSV: British, Irish and other racing.
    #[command(
        after_help = "Example:\n  railbird import rpscrape data/gb/flat/2020.csv data/gb/jumps/2020.csv"
    )]
    Rpscrape {
        /// Files and folders. Give all files of a day in one call: the races are numbered in it.
        #[arg(required = true)]
        paths: Vec<PathBuf>,
    },
}

fn parse_date(text: &str) -> Result<RacingDate, events::ParseError> {
    RacingDate::parse(text)
}

impl Format {
    fn items(&self) -> Items {
        match self {
            Self::HkjcResults { paths } => import::hkjc_results(paths),
            Self::HkjcCards { paths } => import::hkjc_cards(paths),
            Self::HkjcCsv { paths } => import::hkjc_csv(paths),
            Self::HorsesCsv { paths, ids, as_of } => import::horses_csv(paths, ids, *as_of),
            Self::HkjcZhResults { paths, ids } => import::hkjc_zh_results(paths, ids),
            Self::HkjcZhHorses {
                paths,
                ids,
                results,
            } => import::hkjc_zh_horses(paths, ids, results),
            Self::Rpscrape { paths } => import::rpscrape(paths),
        }
    }
}

impl Import {
    pub(super) async fn run(self) -> anyhow::Result<Outcome> {
        let publishing = match self.dry_run {
            true => None,
            false => {
                let log = self.nats.connect().await?;
                log.state_or_create(RACING).await?;
                Some(log)
            }
        };
        let mut target = Target {
            appender: publishing.as_ref().map(|log| log.appender(WINDOW)),
            log: publishing,
            last_ids: HashMap::new(),
        };
        let (mut summary, mut progress) = (Summary::new(), Progress::new("importing", 0));
        let mut items = self.format.items();
        loop {
            let chunk: Vec<Item> = items.by_ref().take(CHUNK).collect();
            if chunk.is_empty() {
                break;
            }
            let events = sort_out(chunk, &mut summary, &progress);
            target
                .publish(events, &mut summary)
                .await
                .context("the import stopped; say it again to go on")?;
            progress.set(summary.read);
        }
        target
            .finish(&mut summary)
            .await
            .context("the import stopped; say it again to go on")?;
        drop(progress);
        summary.say();
        Ok(if summary.refused() > 0 {
            Outcome::Refused
        } else {
            Outcome::Done
        })
    }
}

/// Counts what is no event, and hands back the events.
fn sort_out(items: Vec<Item>, summary: &mut Summary, progress: &Progress) -> Vec<Envelope> {
    let mut events = Vec::with_capacity(items.len());
    for item in items {
        match item {
            Item::Event(event) => {
                summary.read += 1;
                events.push(*event);
            }
            Item::Refused(refused) => {
                summary.read += 1;
                summary.refuse(refused.to_string());
            }
            Item::Note(note) => {
                if summary.note() <= NOTES_SHOWN {
                    progress.say(&format!("note: {note}"));
                }
            }
        }
    }
    events
}

/// The log that is published to, or none in a dry run.
struct Target {
    log: Option<Log>,
    appender: Option<Appender>,
    /// The id of the last message on each subject that was looked up or published to.
    last_ids: HashMap<String, Option<String>>,
}

impl Target {
    /// Publishes what the log does not have as the last word on its subject.
    async fn publish(
        &mut self,
        events: Vec<Envelope>,
        summary: &mut Summary,
    ) -> anyhow::Result<()> {
        let (Some(log), Some(appender)) = (&self.log, &mut self.appender) else {
            return Ok(());
        };
        let outgoing: Vec<Outgoing> = events.iter().map(Outgoing::from).collect();
        let unknown = outgoing
            .iter()
            .map(|o| &o.subject)
            .filter(|subject| !self.last_ids.contains_key(*subject));
        let looked_up: Vec<_> =
            stream::iter(unknown.cloned().collect::<Vec<_>>())
                .map(|subject| async move {
                    log.last_id(RACING, &subject).await.map(|id| (subject, id))
                })
                .buffered(LOOKUPS)
                .try_collect()
                .await?;
        self.last_ids.extend(looked_up);
        for message in outgoing {
            let last = self.last_ids.entry(message.subject.clone()).or_default();
            if last.as_deref() == Some(message.id.as_str()) {
                summary.duplicates += 1;
                continue;
            }
            *last = Some(message.id.clone());
            appender.append(message).await?;
        }
        for appended in appender.take_done() {
            summary.count(appended);
        }
        Ok(())
    }

    async fn finish(self, summary: &mut Summary) -> anyhow::Result<()> {
        if let Some(appender) = self.appender {
            for appended in appender.finish().await? {
                summary.count(appended);
            }
        }
        if let Some(log) = self.log {
            log.close().await;
        }
        Ok(())
    }
}
