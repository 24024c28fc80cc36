//! `railbird verify`.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::{Context, bail};
use clap::Args;
use projections::{Digest, LogIdentity, Projection, SCHEMA_VERSION, Store, keys};
use serde::Deserialize;
use tempfile::TempDir;

use super::Nats;
use super::admin::{AdminClient, AdminToken};
use super::report::{Progress, result};
use crate::log::{Log, LogMessage, RACING, ReadPosition};
use crate::projector::views::{NamedStore, Views};

/// Differing keys that are listed; further ones are only counted.
const KEYS_SHOWN: usize = 20;

#[derive(Debug, Args)]
pub(super) struct Verify {
    #[command(flatten)]
    nats: Nats,
    #[command(flatten)]
    target: VerifyTarget,
    #[command(flatten)]
    token: AdminToken,
}

#[derive(Debug, Args)]
#[group(required = true, multiple = false)]
struct VerifyTarget {
    /// Admin address of a running service.
    #[arg(long, value_name = "ADDRESS")]
    admin: Option<SocketAddr>,
    /// Data folder of a service that does not run.
    #[arg(long, value_name = "DIR")]
    data: Option<PathBuf>,
}

/// The views under verification.
enum VerifiedViews {
    Running(AdminClient),
    /// A copy, which is removed afterwards.
    Stopped(NamedStore),
}

/// The digest of views, and the events of the log that they reflect.
#[derive(Deserialize)]
struct ViewsDigest {
    log: LogIdentity,
    seq: u64,
    history: String,
    /// How many sequences up to that event had none.
    missing: u64,
    digest: Digest,
}

impl Verify {
    pub(super) async fn run(self) -> anyhow::Result<ExitCode> {
        let log = self.nats.connect().await?;
        let folder = TempDir::with_prefix("railbird-verify-")?;
        let views = (self.target).open(self.token, &folder.path().join("copy"))?;
        let found = views.digest().await?;
        let fresh = fold(&log, &found, &folder.path().join("fold")).await?;
        let recount = fresh.recount()?;
        let (count, digest, seq) = (recount.count, recount.digest, found.seq);
        let history = recount.checkpoint.map(|checkpoint| checkpoint.history);
        let history = history.unwrap_or_default();
        let same_events = history.to_string() == found.history;
        if !same_events {
            result(format_args!(
                "the log has other events up to {seq} than the views were folded from: it lacks {}, and lacked {} then",
                history.missing, found.missing
            ));
        }
        if digest == found.digest {
            result(format_args!(
                "{count} views at event {seq} equal a fresh fold: {digest}"
            ));
            return Ok(ExitCode::from(u8::from(!same_events)));
        }
        result(format_args!(
            "the views at event {seq} do not equal a fresh fold: their digest is {}, not {digest}",
            found.digest
        ));
        let found_hashes = views.hashes().await?;
        if views.digest().await?.seq != seq {
            result(format_args!(
                "the service has folded newer events meanwhile: a difference below may be newer, not wrong"
            ));
        }
        print_differences(&hashes(&fresh)?, &found_hashes);
        Ok(ExitCode::FAILURE)
    }
}

impl VerifyTarget {
    fn open(&self, token: AdminToken, copy: &Path) -> anyhow::Result<VerifiedViews> {
        if let Some(data) = &self.data {
            return Ok(VerifiedViews::Stopped(Views::open_copy(data, copy)?));
        }
        let admin = self.admin.context("--admin or --data is required")?;
        Ok(VerifiedViews::Running(AdminClient { admin, token }))
    }
}

impl VerifiedViews {
    async fn digest(&self) -> anyhow::Result<ViewsDigest> {
        match self {
            Self::Running(admin) => running_digest(admin).await,
            Self::Stopped(views) => {
                // Counted from the bytes: the stored digest may be wrong.
                let recount = views.store.recount()?;
                let checkpoint = recount.checkpoint.context("there are no views yet")?;
                Ok(ViewsDigest {
                    log: checkpoint.log,
                    seq: checkpoint.seq,
                    history: checkpoint.history.to_string(),
                    missing: checkpoint.history.missing,
                    digest: recount.digest,
                })
            }
        }
    }

    /// The hash of each view by key.
    async fn hashes(&self) -> anyhow::Result<BTreeMap<String, String>> {
        match self {
            Self::Running(admin) => {
                let text = admin.get_text("/views").await?;
                let views = text.lines().filter_map(|line| line.split_once(' '));
                let views = views.filter(|(_, key)| !key.starts_with(keys::META));
                let views = views.map(|(hash, key)| (key.to_owned(), hash.to_owned()));
                Ok(views.collect())
            }
            Self::Stopped(views) => hashes(&views.store),
        }
    }
}

async fn running_digest(admin: &AdminClient) -> anyhow::Result<ViewsDigest> {
    let answer = admin.get("/digest?recount=true").await?;
    let schema = &answer["schema"];
    if *schema != SCHEMA_VERSION {
        bail!("the views are of schema {schema}, and this version makes {SCHEMA_VERSION}");
    }
    serde_json::from_value(answer).context("the answer of /digest is not as expected")
}

/// Folds the log up to the event that the views reflect.
async fn fold(log: &Log, found: &ViewsDigest, folder: &Path) -> anyhow::Result<Arc<Store>> {
    let state = log.state(RACING).await?;
    if state.identity != found.log {
        let logs = [&found.log, &state.identity];
        let [theirs, ours] = logs.map(|log| format!("{} created {}", log.name, log.created));
        bail!("the views are of another log: {theirs}, not {ours}");
    }
    let (last, seq) = (state.last_seq, found.seq);
    if last < seq {
        bail!(
            "the log ends at event {last}, and the views reflect event {seq}: the log has lost its end"
        );
    }
    let store = Arc::new(Store::open(folder)?);
    let mut projection = Projection::new(Arc::clone(&store), state.identity.clone());
    let mut reader = log.reader(RACING, ReadPosition::start_of(&state));
    let mut progress = Progress::new("folding", found.seq);
    while projection.checkpoint().seq < found.seq {
        let batch = reader.next().await?;
        let messages = batch.messages.iter();
        let wanted = messages.take_while(|message| message.seq <= found.seq);
        projection.step(wanted.map(LogMessage::as_message), false)?;
        progress.set(projection.checkpoint().seq);
        let is_beyond = |last: &LogMessage| last.seq > found.seq;
        if batch.pending == 0 || batch.messages.last().is_some_and(is_beyond) {
            // Without the event `found.seq` itself, which the history then shows.
            break;
        }
    }
    Ok(store)
}

fn hashes(store: &Store) -> anyhow::Result<BTreeMap<String, String>> {
    let mut hashes = BTreeMap::new();
    for entry in store.scan("") {
        let (key, view) = entry?;
        if !key.starts_with(keys::META) {
            hashes.insert(key, blake3::hash(&view).to_hex().to_string());
        }
    }
    Ok(hashes)
}

fn print_differences(expected: &BTreeMap<String, String>, found: &BTreeMap<String, String>) {
    let missing = expected.keys().filter(|key| !found.contains_key(*key));
    let extra = found.keys().filter(|key| !expected.contains_key(*key));
    let differs = |(key, hash): &(_, &String)| found.get(*key).is_some_and(|other| other != *hash);
    let differing = expected.iter().filter(differs).map(|(key, _)| key);
    let all: Vec<_> = (missing.map(|key| ("missing", key)))
        .chain(extra.map(|key| ("not in the fold", key)))
        .chain(differing.map(|key| ("differs", key)))
        .collect();
    for (difference, key) in all.iter().take(KEYS_SHOWN) {
        result(format_args!("{key}: {difference}"));
    }
    if all.len() > KEYS_SHOWN {
        result(format_args!("and {} more", all.len() - KEYS_SHOWN));
    }
}
