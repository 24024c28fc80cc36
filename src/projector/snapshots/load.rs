//! [`load_latest`]: new views made of the latest snapshot that fits the log.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt;
use projections::{Row, StoreError, StoreImport};
use sha2::{Digest, Sha256};
use tokio::sync::mpsc;
use tokio::task::{JoinHandle, spawn_blocking};
use tokio::time::timeout;

use super::parts::{PartDecoder, PartError};
use super::{SnapshotSecret, ViewsSnapshot};
use crate::log::{Log, LogError, LogState, RACING, ReadPosition, object_digest};
use crate::metrics;
use crate::projector::views::{NewStore, Views};

/// How long a start waits for the object store without a next part. Then the log is folded instead.
const PROGRESS_TIMEOUT: Duration = Duration::from_secs(10);
/// Parts whose rows are decoded ahead of those that are written.
const PARTS_AHEAD: usize = 2;

/// A snapshot that was not used, and why.
#[derive(Debug, Clone)]
pub struct RefusedSnapshot {
    pub name: String,
    pub reason: String,
}

/// What loading a snapshot returns.
type LoadResult<T> = Result<T, LoadError>;

/// Why a snapshot was not loaded.
#[derive(Debug, thiserror::Error)]
enum LoadError {
    #[error("part {0} is missing")]
    Missing(u64),
    #[error(transparent)]
    Part(#[from] PartError),
    #[error("the checksum of all parts is wrong")]
    Checksum,
    #[error("it has other views than it claims: {0}")]
    Views(StoreError),
    #[error("it has another checkpoint than it claims")]
    Checkpoint,
    /// The object store, not the snapshot.
    #[error(transparent)]
    Log(#[from] LogError),
    #[error("the object store made no progress for {PROGRESS_TIMEOUT:?}")]
    Stalled,
    /// The data folder, not the snapshot.
    #[error("the views cannot be written: {0:#}")]
    Folder(anyhow::Error),
}

/// Loads the latest snapshot of this log with more events than `seq`. `None` if there is none, or the object store
/// fails: the log has everything. Each snapshot that cannot be used is logged and counted.
pub(in crate::projector) async fn load_latest(
    log: &Log,
    state: &LogState,
    views: &Arc<Views>,
    secret: &SnapshotSecret,
    seq: u64,
) -> Option<NewStore> {
    let mut refused = Vec::new();
    let loaded = load(log, state, views, secret, seq, &mut refused).await;
    for RefusedSnapshot { name, reason } in &refused {
        let snapshot = name;
        tracing::warn!(snapshot, reason, "a snapshot of the views is not used");
        metrics::count("railbird_snapshots_refused_total");
    }
    match loaded {
        Ok(Some((snapshot, store))) => {
            let (name, seq) = (snapshot.object.info.name, snapshot.checkpoint.seq);
            tracing::info!(snapshot = name, seq, "loaded a snapshot of the views");
            Some(store)
        }
        Ok(None) => None,
        Err(error) => {
            tracing::warn!(%error, "cannot load a snapshot of the views: the whole log is folded");
            metrics::count("railbird_snapshots_refused_total");
            None
        }
    }
}

/// Loads the latest snapshot that fits into a data folder without views, in which a service then continues. Returns it,
/// and those that were not used.
///
/// # Errors
/// Returns an error if the object store fails, or the folder cannot be written.
pub async fn restore(
    log: &Log,
    views: &Arc<Views>,
    secret: &SnapshotSecret,
) -> anyhow::Result<(Option<ViewsSnapshot>, Vec<RefusedSnapshot>)> {
    let state = log.state(RACING).await?;
    let mut refused = Vec::new();
    let Some((snapshot, store)) = load(log, &state, views, secret, 0, &mut refused).await? else {
        return Ok((None, refused));
    };
    let views = Arc::clone(views);
    spawn_blocking(move || views.promote(store, None)).await??;
    Ok((Some(snapshot), refused))
}

/// Loads the latest snapshot that fits, into new views.
async fn load(
    log: &Log,
    state: &LogState,
    views: &Arc<Views>,
    secret: &SnapshotSecret,
    seq: u64,
    refused: &mut Vec<RefusedSnapshot>,
) -> LoadResult<Option<(ViewsSnapshot, NewStore)>> {
    for listed in progress(ViewsSnapshot::list(log)).await?? {
        let snapshot = match listed {
            // Less than what there is already.
            Ok(snapshot) if snapshot.checkpoint.seq <= seq => continue,
            Ok(snapshot) => snapshot,
            Err(refusal) => {
                refused.push(refusal);
                continue;
            }
        };
        let name = snapshot.object.info.name.clone();
        let reason = match misfit(log, state, secret, &snapshot).await? {
            Some(reason) => reason,
            None => match load_one(log, views, &snapshot).await {
                Ok(store) => return Ok(Some((snapshot, store))),
                Err(error @ (LoadError::Log(_) | LoadError::Stalled | LoadError::Folder(_))) => {
                    return Err(error);
                }
                // Another snapshot may be loaded nevertheless.
                Err(error) => error.to_string(),
            },
        };
        refused.push(RefusedSnapshot { name, reason });
    }
    Ok(None)
}

/// Why a snapshot is not one of this log, by a replica of this service, that this version can continue.
async fn misfit(
    log: &Log,
    state: &LogState,
    secret: &SnapshotSecret,
    snapshot: &ViewsSnapshot,
) -> LoadResult<Option<String>> {
    if !snapshot.is_signed(secret) {
        let reason = "it is not signed with the --snapshot-secret";
        return Ok(Some(reason.to_owned()));
    }
    if !snapshot.is_of_this_schema() {
        let schema = snapshot.schema;
        let views = snapshot.views;
        return Ok(Some(format!("it is of schema {schema}-{views}")));
    }
    if snapshot.checkpoint.log != state.identity {
        let created = &snapshot.checkpoint.log.created;
        return Ok(Some(format!("it is of a stream created at {created}")));
    }
    let position = ReadPosition::from(snapshot.checkpoint.clone());
    let compared = progress(log.compare(RACING, &position)).await??;
    Ok(compared.err().map(|replaced| replaced.to_string()))
}

/// Loads a snapshot into a new store. All rows together have the digest of its checkpoint.
async fn load_one(log: &Log, views: &Arc<Views>, snapshot: &ViewsSnapshot) -> LoadResult<NewStore> {
    let store = {
        let views = Arc::clone(views);
        blocking(move || views.begin_empty().map_err(LoadError::Folder)).await?
    };
    let (sender, parts) = mpsc::channel(PARTS_AHEAD);
    let import = StoreImport::new(Arc::clone(store.store()));
    let importing = tokio::spawn(import_rows(import, parts));
    let decoded = decode(log, snapshot, sender).await;
    let imported = importing.await;
    imported.unwrap_or_else(|panicked| Err(LoadError::Folder(panicked.into())))?;
    decoded?;
    let is_right = store.store().checkpoint().as_ref() == Some(&snapshot.checkpoint);
    is_right.then_some(store).ok_or(LoadError::Checkpoint)
}

/// The rows of a part, which are being made.
type MadeRows = JoinHandle<Vec<Row>>;

/// Fetches the parts of a snapshot, and passes their rows on until the receiver ends. Rows are made while the next part
/// is decompressed and the last one is written.
async fn decode(log: &Log, snapshot: &ViewsSnapshot, to: mpsc::Sender<MadeRows>) -> LoadResult<()> {
    let mut decoder = PartDecoder::default();
    let mut checksum = Sha256::new();
    let mut chunks = pin!(log.chunks(&snapshot.object));
    let mut number = 0;
    while let Some(chunk) = progress(chunks.next()).await? {
        let chunk = chunk?.ok_or(LoadError::Missing(number))?;
        let entries;
        (decoder, checksum, entries) = blocking(move || {
            checksum.update(&chunk);
            let entries = decoder.add(&chunk)?;
            Ok((decoder, checksum, entries))
        })
        .await?;
        let rows = entries.into_iter().map(|(key, value)| Row::new(key, value));
        let rows = spawn_blocking(move || rows.collect());
        if to.send(rows).await.is_err() {
            return Ok(());
        }
        number += 1;
    }
    let is_whole =
        object_digest(checksum) == snapshot.object.info.digest && decoder.is_at_end_of_row();
    is_whole.then_some(()).ok_or(LoadError::Checksum)
}

/// Writes rows while the next ones are made.
async fn import_rows(
    mut import: StoreImport,
    mut parts: mpsc::Receiver<MadeRows>,
) -> LoadResult<()> {
    while let Some(rows) = parts.recv().await {
        let rows = rows
            .await
            .map_err(|panicked| LoadError::Folder(panicked.into()))?;
        import = blocking(move || match import.add(rows) {
            Ok(()) => Ok(import),
            Err(error) if error.is_of_disk() => Err(LoadError::Folder(error.into())),
            Err(error) => Err(LoadError::Views(error)),
        })
        .await?;
    }
    Ok(())
}

async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> LoadResult<T> + Send + 'static,
) -> LoadResult<T> {
    let done = spawn_blocking(work).await;
    done.unwrap_or_else(|panicked| Err(LoadError::Folder(panicked.into())))
}

async fn progress<T>(step: impl Future<Output = T>) -> LoadResult<T> {
    let step = timeout(PROGRESS_TIMEOUT, step).await;
    step.map_err(|_| LoadError::Stalled)
}
