//! `railbird verify`.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::{Context, bail};
use clap::Args;
use projections::{Digest, LogIdentity, Projection, Recount, SCHEMA_VERSION, Store, keys};
use tempfile::TempDir;

use super::Nats;
use super::admin::{AdminClient, AdminToken};
use super::report::{Progress, result};
use crate::log::{Log, LogMessage, RACING, ReadPosition};
use crate::projector::views::{NamedStore, Views};

/// Differing keys that are listed; further ones are only counted.
const KEYS_SHOWN: usize = 20;

#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  railbird verify --admin 127.0.0.1:9090\n  railbird verify --data /var/lib/railbird"
)]
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
    Stopped(
        NamedStore,
        #[expect(dead_code, reason = "kept for as long as the store")] TempDir,
    ),
}

/// The digest of views, and the events of the log that they reflect.
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
        let views = self.target.open(self.token.clone())?;
        let found = views.digest().await?;
        let folder = TempDir::with_prefix("railbird-verify-")?;
        let fresh = fold(&log, &found, folder.path()).await?;
        let recount = fresh.recount()?;
        let (count, digest) = (recount.count, recount.digest);
        let history = recount.checkpoint.map(|checkpoint| checkpoint.history);
        let history = history.unwrap_or_default();
        let same_events = history.to_string() == found.history;
        if !same_events {
            result(format_args!(
                "the log has other events up to {} than the views were folded from: it lacks {}, and lacked {} then",
                found.seq, history.missing, found.missing
            ));
        }
        if digest == found.digest {
            result(format_args!(
                "{count} views at event {} equal a fresh fold: {digest}",
                found.seq
            ));
            return Ok(ExitCode::from(u8::from(!same_events)));
        }
        result(format_args!(
            "the views at event {} do not equal a fresh fold: their digest is {}, not {digest}",
            found.seq, found.digest
        ));
        let found_hashes = views.hashes().await?;
        if views.digest().await?.seq != found.seq {
            result(format_args!(
                "the service has folded newer events meanwhile: a difference below may be newer, not wrong"
            ));
        }
        print_differences(&hashes(&fresh)?, &found_hashes);
        Ok(ExitCode::FAILURE)
    }
}

impl VerifyTarget {
    fn open(&self, token: AdminToken) -> anyhow::Result<VerifiedViews> {
        let Some(data) = &self.data else {
            let admin = self.admin.context("--admin or --data is required")?;
            return Ok(VerifiedViews::Running(AdminClient { admin, token }));
        };
        let folder = TempDir::with_prefix("railbird-verify-copy-")?;
        let views = Views::open_copy(data, folder.path())?;
        Ok(VerifiedViews::Stopped(views, folder))
    }
}

impl VerifiedViews {
    async fn digest(&self) -> anyhow::Result<ViewsDigest> {
        match self {
            Self::Running(admin) => running_digest(admin).await,
            Self::Stopped(views, _) => {
                // Counted from the bytes: the stored digest may be wrong.
                let Recount {
                    digest, checkpoint, ..
                } = views.store().recount()?;
                let checkpoint = checkpoint.context("there are no views yet")?;
                Ok(ViewsDigest {
                    log: checkpoint.log,
                    seq: checkpoint.seq,
                    history: checkpoint.history.to_string(),
                    missing: checkpoint.history.missing,
                    digest,
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
                Ok(views
                    .map(|(hash, key)| (key.to_owned(), hash.to_owned()))
                    .collect())
            }
            Self::Stopped(views, _) => hashes(views.store()),
        }
    }
}

async fn running_digest(admin: &AdminClient) -> anyhow::Result<ViewsDigest> {
    let answer = admin.get("/digest?recount=true").await?;
    let field = |name: &'static str| {
        let value = answer.get(name);
        value.with_context(|| format!("the answer of /digest has no {name}"))
    };
    let schema = field("schema")?;
    if *schema != SCHEMA_VERSION {
        bail!("the views are of schema {schema}, and this version makes {SCHEMA_VERSION}");
    }
    let digest = field("digest")?.as_str().and_then(Digest::parse);
    Ok(ViewsDigest {
        log: serde_json::from_value(field("log")?.clone())?,
        seq: serde_json::from_value(field("seq")?.clone())?,
        history: serde_json::from_value(field("history")?.clone())?,
        missing: serde_json::from_value(field("missing")?.clone())?,
        digest: digest.context("the digest in the answer of /digest is invalid")?,
    })
}

/// Folds the log up to the event that the views reflect.
async fn fold(log: &Log, found: &ViewsDigest, folder: &Path) -> anyhow::Result<Arc<Store>> {
    let state = log.state(RACING).await?;
    if state.identity != found.log {
        bail!(
            "the views are of another log: {} created {}, not {} created {}",
            found.log.name,
            found.log.created,
            state.identity.name,
            state.identity.created
        );
    }
    if state.last_seq < found.seq {
        bail!(
            "the log ends at event {}, and the views reflect event {}: the log has lost its end",
            state.last_seq,
            found.seq
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
