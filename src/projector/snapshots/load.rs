//! [`load_latest`]: new views made of the latest snapshot that fits the log.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures::StreamExt;
use projections::{Store, StoreError};
use tokio::task::spawn_blocking;
use tokio::time::timeout;

use super::ViewsSnapshot;
use super::parts::{PartDecoder, PartError};
use crate::log::{Log, LogError, LogState, ObjectChecksum, RACING, ReadPosition};
use crate::metrics;
use crate::projector::views::{NewStore, Views};

/// How long a start waits for the object store without a next part. Then the log is folded instead.
const PROGRESS_TIMEOUT: Duration = Duration::from_secs(10);

/// A snapshot that was not used, and why.
#[derive(Debug, Clone)]
pub struct Refusal {
    pub name: String,
    pub reason: String,
}

/// Views that were loaded from a snapshot.
#[derive(Debug)]
pub struct Loaded {
    pub snapshot: ViewsSnapshot,
    store: NewStore,
}

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

impl LoadError {
    /// Whether another snapshot may be loaded nevertheless.
    fn is_of_snapshot(&self) -> bool {
        !matches!(self, Self::Log(_) | Self::Stalled | Self::Folder(_))
    }

    fn of_import(error: StoreError) -> Self {
        match error.is_of_disk() {
            true => Self::Folder(error.into()),
            false => Self::Views(error),
        }
    }
}

/// Loads the latest snapshot of this log with more events than `seq`. `None` if there is none, or the object store
/// fails: the log has everything. Each snapshot that cannot be used is logged and counted.
pub(in crate::projector) async fn load_latest(
    log: &Log,
    state: &LogState,
    views: &Arc<Views>,
    seq: u64,
) -> Option<NewStore> {
    let mut refused = Vec::new();
    let loaded = load(log, state, views, seq, &mut refused).await;
    for Refusal { name, reason } in &refused {
        tracing::warn!(
            snapshot = name,
            reason,
            "a snapshot of the views is not used"
        );
        metrics::snapshot_refused();
    }
    match loaded {
        Ok(Some(loaded)) => {
            let seq = loaded.snapshot.checkpoint.seq;
            tracing::info!(
                snapshot = loaded.snapshot.object.info.name,
                seq,
                "loaded a snapshot of the views"
            );
            Some(loaded.store)
        }
        Ok(None) => None,
        Err(error) => {
            tracing::warn!(%error, "cannot load a snapshot of the views: the whole log is folded");
            metrics::snapshot_refused();
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
) -> anyhow::Result<(Option<ViewsSnapshot>, Vec<Refusal>)> {
    let (state, mut refused) = (log.state(RACING).await?, Vec::new());
    let Some(loaded) = load(log, &state, views, 0, &mut refused).await? else {
        return Ok((None, refused));
    };
    let views = Arc::clone(views);
    spawn_blocking(move || views.promote(loaded.store, None)).await??;
    Ok((Some(loaded.snapshot), refused))
}

async fn load(
    log: &Log,
    state: &LogState,
    views: &Arc<Views>,
    seq: u64,
    refused: &mut Vec<Refusal>,
) -> Result<Option<Loaded>, LoadError> {
    let snapshots = progress(ViewsSnapshot::list(log)).await??;
    for listed in snapshots {
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
        let reason = match misfit(log, state, &snapshot).await? {
            Some(reason) => reason,
            None => match load_one(log, views, &snapshot).await {
                Ok(store) => return Ok(Some(Loaded { snapshot, store })),
                Err(error) if error.is_of_snapshot() => error.to_string(),
                Err(error) => return Err(error),
            },
        };
        refused.push(Refusal { name, reason });
    }
    Ok(None)
}

/// Why a snapshot is not one of this log that this version can continue.
async fn misfit(
    log: &Log,
    state: &LogState,
    snapshot: &ViewsSnapshot,
) -> Result<Option<String>, LoadError> {
    if !snapshot.is_of_this_schema() {
        let (schema, views) = (snapshot.schema, snapshot.views);
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

/// Loads a snapshot into a new store, and compares all of it with the digest.
async fn load_one(
    log: &Log,
    views: &Arc<Views>,
    snapshot: &ViewsSnapshot,
) -> Result<NewStore, LoadError> {
    let store = {
        let views = Arc::clone(views);
        blocking(move || views.begin_empty().map_err(LoadError::Folder)).await?
    };
    let (mut decoder, mut checksum) = (PartDecoder::default(), ObjectChecksum::default());
    let (mut chunks, mut number) = (pin!(log.chunks(&snapshot.object)), 0);
    while let Some(chunk) = progress(chunks.next()).await? {
        let chunk = chunk?.ok_or(LoadError::Missing(number))?;
        checksum.add(&chunk);
        decoder = import(store.store(), decoder, chunk).await?;
        number += 1;
    }
    if checksum.finish() != snapshot.object.info.digest || !decoder.is_at_end_of_row() {
        return Err(LoadError::Checksum);
    }
    if store.store().checkpoint().as_ref() != Some(&snapshot.checkpoint) {
        return Err(LoadError::Checkpoint);
    }
    let loaded = Arc::clone(store.store());
    blocking(move || loaded.check().map_err(LoadError::of_import)).await?;
    Ok(store)
}

/// Adds the rows of a part to a store.
async fn import(
    store: &Arc<Store>,
    mut decoder: PartDecoder,
    part: Bytes,
) -> Result<PartDecoder, LoadError> {
    let store = Arc::clone(store);
    blocking(move || {
        let rows = decoder.add(&part)?;
        store.import(rows).map_err(LoadError::of_import)?;
        Ok(decoder)
    })
    .await
}

async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, LoadError> + Send + 'static,
) -> Result<T, LoadError> {
    let done = spawn_blocking(work).await;
    done.unwrap_or_else(|panicked| Err(LoadError::Folder(panicked.into())))
}

async fn progress<T>(step: impl Future<Output = T>) -> Result<T, LoadError> {
    let step = timeout(PROGRESS_TIMEOUT, step).await;
    step.map_err(|_| LoadError::Stalled)
}
