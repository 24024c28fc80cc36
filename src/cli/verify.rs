//! `railbird verify`.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context, bail};
use clap::Args;
use projections::{Digest, LogIdentity, Projection, Store, keys};
use serde_json::Value;

use super::admin::Admin;
use super::report::{Progress, result};
use super::{Nats, Outcome};
use crate::log::{Log, LogMessage, RACING, ReadPosition};
use crate::projector::views::Views;

/// Differing keys that are named; the rest are counted.
const KEYS_SHOWN: usize = 20;

/// What is compared with a fresh fold.
#[derive(Debug, Args)]
#[command(
    after_help = "Example:\n  railbird verify --admin 127.0.0.1:9090\n  railbird verify --data /var/lib/railbird"
)]
pub(super) struct Verify {
    #[command(flatten)]
    nats: Nats,
    #[command(flatten)]
    views: Which,
}

#[derive(Debug, Args)]
#[group(required = true, multiple = false)]
struct Which {
    /// The admin address of a running service.
    #[arg(long)]
    admin: Option<SocketAddr>,
    /// The data folder of a service that does not run.
    #[arg(long)]
    data: Option<PathBuf>,
}

/// Views as they were found: where they are, and their digest.
struct Found {
    log: LogIdentity,
    seq: u64,
    digest: Digest,
}

impl Verify {
    pub(super) async fn run(self) -> anyhow::Result<Outcome> {
        let log = self.nats.connect().await?;
        let at_rest = match &self.views.data {
            Some(data) => Some(open(data)?),
            None => None,
        };
        let found = match (&at_rest, self.views.admin) {
            (Some(views), _) => at_rest_digest(&views.current())?,
            (None, Some(admin)) => live_digest(Admin(admin)).await?,
            (None, None) => bail!("--admin or --data says what is verified"),
        };
        let scratch = Scratch::new()?;
        let fresh = fold(&log, &found, &scratch.0).await?;
        let (views, digest) = fresh.recount()?;
        if digest == found.digest {
            result(format_args!(
                "{views} views at event {} equal a fresh fold: {digest}",
                found.seq
            ));
            return Ok(Outcome::Done);
        }
        result(format_args!(
            "the views at event {} do not equal a fresh fold: {} is not {digest}",
            found.seq, found.digest
        ));
        match (at_rest, self.views.admin) {
            (Some(views), _) => say_differences(&hashes(&fresh)?, &hashes(&views.current())?),
            (None, Some(admin)) => {
                let mut live = BTreeMap::new();
                Admin(admin)
                    .lines("/views", |line| {
                        if let Some((hash, key)) = line.split_once(' ') {
                            live.insert(key.to_owned(), hash.to_owned());
                        }
                    })
                    .await?;
                live.retain(|key, _| !key.starts_with(keys::META));
                if live_digest(Admin(admin)).await?.seq != found.seq {
                    result(format_args!(
                        "the service has moved on since: some of what follows may be newer, not wrong"
                    ));
                }
                say_differences(&hashes(&fresh)?, &live);
            }
            (None, None) => {}
        }
        Ok(Outcome::Refused)
    }
}

fn open(data: &Path) -> anyhow::Result<Views> {
    if !data.join("views").is_dir() {
        bail!("{} holds no views", data.display());
    }
    let views = Views::open(data)?;
    let note = views.note();
    if note.is_empty() {
        Ok(views)
    } else {
        bail!("{note}")
    }
}

/// The digest of the bytes themselves, without trusting the one that stands beside them.
fn at_rest_digest(store: &Store) -> anyhow::Result<Found> {
    let checkpoint = store.checkpoint().context("there are no views yet")?;
    let (_, digest) = store.recount()?;
    Ok(Found {
        log: checkpoint.log,
        seq: checkpoint.seq,
        digest,
    })
}

async fn live_digest(admin: Admin) -> anyhow::Result<Found> {
    let answer = admin.get("/digest").await?;
    let log = answer
        .get("log")
        .cloned()
        .context("the service says no log")?;
    Ok(Found {
        log: serde_json::from_value(log)?,
        seq: answer
            .get("seq")
            .and_then(Value::as_u64)
            .context("the service says no seq")?,
        digest: answer
            .get("digest")
            .and_then(Value::as_str)
            .and_then(Digest::parse)
            .context("the service says no digest")?,
    })
}

/// Folds the log up to the event that the views reflect.
async fn fold(log: &Log, found: &Found, folder: &Path) -> anyhow::Result<Arc<Store>> {
    let state = log.state(RACING).await?;
    if state.identity != found.log {
        bail!(
            "the views are of another log: {} {}, not {} {}",
            found.log.name,
            found.log.created,
            state.identity.name,
            state.identity.created
        );
    }
    let store = Arc::new(Store::open(folder)?);
    let mut projection = Projection::new(Arc::clone(&store), state.identity.clone());
    let mut reader = log.reader(
        RACING,
        ReadPosition {
            log: state.identity,
            seq: 0,
            recorded_at: None,
        },
    );
    let mut progress = Progress::new("folding", found.seq);
    while projection.checkpoint().seq < found.seq {
        let batch = reader.next().await?;
        let wanted = batch
            .messages
            .iter()
            .take_while(|message| message.seq <= found.seq);
        projection.step(wanted.map(LogMessage::as_message), false)?;
        progress.set(projection.checkpoint().seq);
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

fn say_differences(expected: &BTreeMap<String, String>, found: &BTreeMap<String, String>) {
    let missing = expected
        .keys()
        .filter(|key| !found.contains_key(*key))
        .map(|key| ("missing", key));
    let strange = found
        .keys()
        .filter(|key| !expected.contains_key(*key))
        .map(|key| ("not in the fold", key));
    let differing = expected
        .iter()
        .filter(|(key, hash)| found.get(*key).is_some_and(|other| other != *hash))
        .map(|(key, _)| ("differs", key));
    let all: Vec<_> = missing.chain(strange).chain(differing).collect();
    for (what, key) in all.iter().take(KEYS_SHOWN) {
        result(format_args!("{key}: {what}"));
    }
    if all.len() > KEYS_SHOWN {
        result(format_args!("and {} more", all.len() - KEYS_SHOWN));
    }
}

/// A folder that is gone when the command ends.
struct Scratch(PathBuf);

impl Scratch {
    fn new() -> anyhow::Result<Self> {
        let path =
            std::env::temp_dir().join(format!("railbird-verify-{}", uuid::Uuid::now_v7().simple()));
        std::fs::create_dir_all(&path)?;
        Ok(Self(path))
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        if let Err(error) = std::fs::remove_dir_all(&self.0) {
            tracing::debug!(%error, "the scratch folder stays");
        }
    }
}
