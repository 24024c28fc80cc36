//! [`Candidate`]: views that are folded from the whole log beside the live ones, to replace them.

use std::sync::Arc;

use tokio::sync::watch;

use super::fold::{FoldError, RunningFold};
use super::views::{NamedStore, Views};
use crate::live::status::Status;
use crate::log::{Log, LogState};

/// A fold into a new store, at or after the sequence that the live views had when it began.
pub(super) struct Candidate {
    pub(super) fold: RunningFold,
    pub(super) store: NamedStore,
}

impl Candidate {
    /// Folds the log into a new store up to the sequence `target`, and reports the progress in `status`.
    ///
    /// # Errors
    /// Returns a [`FoldError`] if the store cannot be created or written, or the log was replaced.
    pub(super) async fn build(
        views: Arc<Views>,
        log: Log,
        state: LogState,
        target: u64,
        status: watch::Sender<Status>,
    ) -> Result<Self, FoldError> {
        let created = tokio::task::spawn_blocking(move || views.create()).await;
        let store = created
            .unwrap_or_else(|panicked| Err(panicked.into()))
            .map_err(FoldError::Io)?;
        let mut fold = RunningFold::resume(&log, Arc::clone(&store.store), &state)?;
        while fold.seq() < target {
            let batch = fold.next_batch().await?;
            let pending = batch.pending;
            (fold, _) = fold.step(batch, false).await?;
            let seq = fold.seq();
            status.send_modify(|status| status.rebuild = Some((seq, pending)));
        }
        Ok(Self { fold, store })
    }
}
