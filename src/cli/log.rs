//! `railbird log`.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anyhow::Context;
use clap::{Args, Subcommand};
use jiff::Timestamp;
use serde::Deserialize;

use super::Nats;
use super::admin::AdminClient;
use super::backup::{Backup, Draft, missing};
use super::backup_folders;
use super::backup_metrics::write_backup_metrics;
use super::log_status::print_log_status;
use super::report::result;
use crate::accounts::{self, AddressBook};
use crate::log::{ACCOUNTS, ADDRESSES, Divergence, Log, LogError, RACING, StreamName};

/// The streams in the order in which they are backed up. An account event is written after the key of the address in
/// it, so `ADDRESSES` comes after `ACCOUNTS`. `RACING` takes longest: a revocation should not have to wait for it.
/// They are restored in reverse: no service creates `ADDRESSES` where there is no `ACCOUNTS`.
const BACKED_UP: [StreamName; 3] = [RACING, ACCOUNTS, ADDRESSES];

#[derive(Debug, Subcommand)]
pub(super) enum LogCommand {
    /// Show the nats-servers, their space, and all streams with leaders, followers and consumers.
    ///
    /// A follower that is away or behind is shown with the seconds for which its leader has not heard from it, and the
    /// messages that it lacks. The user is admin.
    Status {
        #[command(flatten)]
        nats: Nats,
        /// Print all of it as a JSON object.
        #[arg(long)]
        json: bool,
    },
    /// Accept streams that are missing, replaced or shorter than what the service has read.
    ///
    /// The service then gives up what it has read of them. It creates a missing stream, folds the views from the log as
    /// it is now, and sends the socket message `resync`. Put the old log back instead if you can: the service then
    /// continues by itself. Run this for each replica.
    Accept(AdminClient),
    /// Write the streams to a folder, while the service and the feeders go on.
    ///
    /// Every event that was acknowledged before is in the backup. The folder gets its name once the backup is whole. It
    /// holds secrets. The user is admin.
    Backup(WriteBackup),
    /// Check a backup: that it is whole, and no byte has changed. Needs no NATS.
    Check {
        /// The folder of the backup.
        #[arg(value_name = "DIR")]
        folder: PathBuf,
    },
    /// Restore the streams of a backup that the server does not have.
    ///
    /// No stream is overwritten: with other streams of these names on the server, nothing is restored. A restored
    /// stream is the same log as before, so services that have read no more than the backup has continue by
    /// themselves. Others wait for `railbird log accept`. Run it again after a failure. The user is admin.
    Restore(BackupFolder),
}

#[derive(Debug, Args)]
pub(super) struct WriteBackup {
    #[command(flatten)]
    backup: BackupFolder,
    /// DIR has many backups: write a new one there, named by the time, and then remove old ones. All of the last 48
    /// hours stay, and the last one of each day of the last 14 (UTC).
    #[arg(long)]
    rotate: bool,
    /// Write to this file, for the textfile collector of node_exporter, whether it failed, when the last one began, its
    /// size and the free space of its disk.
    #[arg(long, value_name = "FILE.prom")]
    metrics: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub(super) struct BackupFolder {
    /// The folder of the backup.
    #[arg(value_name = "DIR")]
    folder: PathBuf,
    #[command(flatten)]
    nats: Nats,
}

impl LogCommand {
    pub(super) async fn run(self) -> anyhow::Result<()> {
        match self {
            Self::Status { nats, json } => print_log_status(&nats.connect().await?, json).await,
            Self::Accept(admin) => accept(&admin).await,
            Self::Backup(backup) => backup.run().await,
            Self::Check { folder } => {
                let backup = Backup::open(&folder)?;
                let began_at = backup.manifest.began_at;
                result(format_args!("the backup is whole, as of {began_at}"));
                Ok(())
            }
            Self::Restore(backup) => backup.restore().await,
        }
    }
}

async fn accept(admin: &AdminClient) -> anyhow::Result<()> {
    #[derive(Deserialize)]
    struct AcceptedLogs {
        accepted: BTreeMap<String, Divergence>,
    }
    let answer = serde_json::from_value(admin.post("/log/accept").await?);
    let answer: AcceptedLogs = answer.context("the answer of /log/accept is incomplete")?;
    for (stream, divergence) in &answer.accepted {
        result(line(stream, divergence));
    }
    result("the service folds the accepted log; /readyz shows its progress");
    Ok(())
}

impl WriteBackup {
    async fn run(&self) -> anyhow::Result<()> {
        let began_at = Timestamp::now();
        let folder = &self.backup.folder;
        let target = match self.rotate {
            true => backup_folders::named(folder, began_at),
            false => folder.clone(),
        };
        let written = self.backup.write(&target).await;
        if let Some(file) = &self.metrics {
            let last = written.as_ref().ok().map(|bytes| (began_at, *bytes));
            write_backup_metrics(last, &target, file)
                .with_context(|| format!("{} cannot be written", file.display()))?;
        }
        written?;
        if self.rotate {
            backup_folders::remove_old(folder, began_at)?;
        }
        Ok(())
    }
}

impl BackupFolder {
    /// Writes a backup to this folder, and returns the bytes of its streams.
    async fn write(&self, folder: &Path) -> anyhow::Result<u64> {
        let log = self.nats.connect().await?;
        let mut draft = Draft::new(folder, &log)?;
        for stream in BACKED_UP {
            match draft.add(&log, stream).await {
                // A service without subscribers has none.
                Err(error) if stream == ADDRESSES && is_missing(&error) => {
                    result("ADDRESSES: there is no such stream");
                }
                added => added?,
            }
        }
        let bytes = draft.finish()?;
        result(format_args!("the backup {} is whole", folder.display()));
        Ok(bytes)
    }

    async fn restore(&self) -> anyhow::Result<()> {
        let backup = Backup::open(&self.folder)?;
        let log = self.nats.connect().await?;
        let order: Vec<StreamName> = BACKED_UP.into_iter().rev().collect();
        let missing = missing(&log, &backup, &order).await?;
        for stream in &missing {
            let restored = backup.restore(&log, *stream).await;
            restored.with_context(|| format!("{} was not restored", stream.name))?;
        }
        if missing.contains(&ADDRESSES) {
            erase_forgotten(&log).await?;
        }
        if missing.contains(&ACCOUNTS) {
            let began_at = backup.manifest.began_at;
            result(format_args!(
                "ACCOUNTS is as of {began_at}. A service with the data folder of before revokes again the keys that \
                 were revoked since, once `railbird log accept` was run for it, and forgets who was forgotten. Without \
                 such a service these keys are valid again: see `railbird keys list`"
            ));
        }
        Ok(())
    }
}

fn is_missing(error: &anyhow::Error) -> bool {
    matches!(error.downcast_ref(), Some(LogError::NoStream(_)))
}

/// Erases the addresses in a restored stream that `ACCOUNTS` has as forgotten.
async fn erase_forgotten(log: &Log) -> anyhow::Result<()> {
    let ledger = accounts::read(log).await?;
    let book = AddressBook::new(log.clone());
    for (id, subscription) in &ledger.subscriptions {
        // An earlier generation was forgotten before the next one.
        let forgotten = subscription.generation + u32::from(subscription.forgotten_at.is_some());
        for generation in 1..forgotten {
            book.erase(id, generation).await?;
        }
    }
    Ok(())
}

/// What was given up of a stream, and what takes its place.
fn line(stream: &str, divergence: &Divergence) -> String {
    let read = match &divergence.read {
        None => "what was read".to_owned(),
        Some(read) => {
            let (seq, created) = (read.seq, &read.log.created);
            format!("the history up to event {seq} of the stream created at {created}")
        }
    };
    let found = match &divergence.found {
        None => "A new stream".to_owned(),
        Some(found) => {
            let (seq, created) = (found.seq, &found.log.created);
            format!("The stream created at {created}, which ends at event {seq},")
        }
    };
    let lost = divergence.lost.map(|lost| lost.to_string());
    let (lost, reason) = (lost.as_deref().unwrap_or("unknown"), &divergence.reason);
    format!("{stream}: {reason}. {found} takes the place of {read}. Events given up: {lost}")
}
