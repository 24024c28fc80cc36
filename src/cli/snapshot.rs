//! `railbird snapshot`.

use std::path::PathBuf;
use std::sync::Arc;

use anyhow::{Context, bail};
use clap::{Args, Subcommand};
use serde_json::Value;

use super::admin::AdminClient;
use super::report::result;
use super::secret::{SNAPSHOT_VARIABLE, read_secret};
use super::{Nats, WrongConfiguration};
use crate::log::Log;
use crate::projector::snapshots::{RefusedSnapshot, SnapshotSecret, ViewsSnapshot, restore};
use crate::projector::views::Views;

/// The secret of the replicas. It is parsed later, because command line errors repeat the value.
#[derive(Debug, Clone, Args)]
pub(super) struct SnapshotSecretFlag {
    /// Secret with which the replicas sign the snapshots of the views, 32 characters or more, or in the file that
    /// RAILBIRD_SNAPSHOT_SECRET_FILE names. Without it, no snapshot is written or loaded.
    #[arg(long, env = SNAPSHOT_VARIABLE, value_name = "SECRET", hide_env_values = true)]
    snapshot_secret: Option<String>,
}

impl SnapshotSecretFlag {
    pub(super) fn read(&self) -> Result<Option<SnapshotSecret>, WrongConfiguration> {
        let Some(text) = read_secret(SNAPSHOT_VARIABLE, self.snapshot_secret.as_deref())? else {
            return Ok(None);
        };
        let secret = SnapshotSecret::new(&text);
        let form = "--snapshot-secret, or its file: a secret is 32 characters or more";
        Ok(Some(secret.ok_or(form)?))
    }
}

#[derive(Debug, Subcommand)]
pub(super) enum SnapshotCommand {
    /// Have a running service write a snapshot of its views now.
    Create(AdminClient),
    /// List the snapshots of the views, the latest first.
    List {
        #[command(flatten)]
        nats: Nats,
        /// Print JSON, one object per line.
        #[arg(long)]
        json: bool,
    },
    /// Load the latest snapshot that fits the log into the data folder of a service that has not started yet.
    ///
    /// Every part and the digest are checked. A service does the same when it starts without views.
    Restore {
        /// The data folder, which has no views.
        #[arg(value_name = "DIR")]
        data: PathBuf,
        #[command(flatten)]
        nats: Nats,
        #[command(flatten)]
        secret: SnapshotSecretFlag,
    },
}

impl SnapshotCommand {
    pub(super) async fn run(self) -> anyhow::Result<()> {
        match self {
            Self::Create(admin) => {
                let written = admin.post("/snapshot").await?;
                result(format_args!("wrote {}", line(&written)));
                Ok(())
            }
            Self::List { nats, json } => list(&nats.connect().await?, json).await,
            Self::Restore { data, nats, secret } => {
                let unset = "--snapshot-secret is not set: it proves who wrote a snapshot";
                let secret = secret.read()?.ok_or(WrongConfiguration::from(unset))?;
                load(&nats.connect().await?, data, &secret).await
            }
        }
    }
}

async fn list(log: &Log, json: bool) -> anyhow::Result<()> {
    let snapshots = ViewsSnapshot::list(log).await?;
    if snapshots.is_empty() && !json {
        result("there are no snapshots");
    }
    for snapshot in snapshots {
        match snapshot {
            Ok(snapshot) if json => result(snapshot.to_json()),
            Ok(snapshot) => result(line(&snapshot.to_json())),
            Err(RefusedSnapshot { name, reason }) => tracing::warn!(name, reason, "not a snapshot"),
        }
    }
    Ok(())
}

async fn load(log: &Log, data: PathBuf, secret: &SnapshotSecret) -> anyhow::Result<()> {
    let views = Arc::new(Views::open(&data)?);
    if views.is_in_force() {
        let data = data.display();
        bail!("{data} has views already: a snapshot is for an empty folder");
    }
    let (loaded, refused) = restore(log, &views, secret).await?;
    for RefusedSnapshot { name, reason } in refused {
        result(format_args!("{name} is not used: {reason}"));
    }
    let loaded = loaded
        .context("there is no snapshot that fits the log: `railbird serve` folds all of it")?;
    result(format_args!("loaded {}", line(&loaded.to_json())));
    Ok(())
}

/// A snapshot as a row of the table.
fn line(snapshot: &Value) -> String {
    let text = |key: &str| snapshot[key].as_str().unwrap_or_default();
    let number = |key: &str| snapshot[key].as_u64().unwrap_or_default();
    let [name, written_at] = ["name", "written_at"].map(text);
    let [seq, bytes, parts, schema] = ["seq", "bytes", "parts", "schema"].map(number);
    format!("{name}: event {seq}, {bytes} bytes in {parts} parts, schema {schema}, of {written_at}")
}
