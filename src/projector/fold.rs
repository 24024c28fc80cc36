//! [`RunningFold`]: a projection and the reader that feeds it.
//!
//! Reading and folding run side by side: while one batch is folded on a blocking thread, the next is read.

use std::sync::Arc;
use std::time::Duration;

use projections::{Checkpoint, Projection, Step, Store, StoreError};
use tokio::sync::mpsc;
use tokio_util::task::AbortOnDropHandle;
use tracing::Span;

use crate::log::{Batch, Log, LogMessage, LogReplaced, LogState, RACING, ReadPosition};

/// Batches that are read ahead of the fold.
const BATCHES_AHEAD: usize = 2;

/// The pause between two commits: long enough for a thread to wake up on a busy machine. It slows down only a log whose
/// batches touch many views.
const COMMIT_PAUSE: Duration = Duration::from_millis(1);

/// The reason why a fold ends.
#[derive(Debug, thiserror::Error)]
pub(super) enum FoldError {
    #[error(transparent)]
    LogReplaced(#[from] LogReplaced),
    #[error("the store is damaged: {0}")]
    StoreDamaged(String),
    /// The reading task panicked. The views are as they were.
    #[error("the reader of the log ended")]
    ReaderEnded,
    #[error("the views cannot be written: {0:#}")]
    Io(anyhow::Error),
}

/// A projection, and the batches after its checkpoint.
#[derive(Debug)]
pub(super) struct RunningFold {
    projection: Projection,
    batches: mpsc::Receiver<Result<Batch, LogReplaced>>,
    _reading: AbortOnDropHandle<()>,
}

impl RunningFold {
    /// Continues after the checkpoint of a store, and starts to read ahead.
    ///
    /// # Errors
    /// Returns [`FoldError::LogReplaced`] if the checkpoint is of another log.
    pub(super) fn resume(
        log: &Log,
        store: Arc<Store>,
        state: &LogState,
    ) -> Result<Self, FoldError> {
        let (seq, recorded_at) = match store.checkpoint() {
            Some(checkpoint) if checkpoint.log != state.identity => {
                let (found, expected) = (&state.identity.created, &checkpoint.log.created);
                let reason =
                    format!("the views are of a stream created at {expected}, not at {found}");
                return Err(LogReplaced(reason).into());
            }
            Some(checkpoint) => (checkpoint.seq, checkpoint.recorded_at),
            None => (0, None),
        };
        let position = ReadPosition {
            log: state.identity.clone(),
            seq,
            recorded_at,
        };
        let mut reader = log.reader(RACING, position);
        let (sender, batches) = mpsc::channel(BATCHES_AHEAD);
        let reading = tokio::spawn(async move {
            loop {
                let batch = reader.next().await;
                let is_last = batch.is_err();
                if sender.send(batch).await.is_err() || is_last {
                    return;
                }
            }
        });
        Ok(Self {
            projection: Projection::new(store, state.identity.clone()).with_yield(pause),
            batches,
            _reading: AbortOnDropHandle::new(reading),
        })
    }

    pub(super) fn checkpoint(&self) -> &Checkpoint {
        self.projection.checkpoint()
    }

    pub(super) fn seq(&self) -> u64 {
        self.checkpoint().seq
    }

    pub(super) fn store(&self) -> &Arc<Store> {
        self.projection.store()
    }

    /// Waits for the next batch. Cancel-safe.
    pub(super) async fn next_batch(&mut self) -> Result<Batch, FoldError> {
        match self.batches.recv().await {
            Some(batch) => Ok(batch?),
            None => Err(FoldError::ReaderEnded),
        }
    }

    /// Folds and commits a batch on a blocking thread. With `live`, the step contains the updates for the live channel.
    ///
    /// # Errors
    /// Returns [`FoldError::StoreDamaged`] if the store fails.
    #[tracing::instrument(
        name = "batch", level = "debug", skip_all,
        fields(seq = batch.messages.last().map(|last| last.seq), messages = batch.messages.len()),
    )]
    pub(super) async fn step(
        mut self,
        batch: Batch,
        live: bool,
    ) -> Result<(Self, Step), FoldError> {
        let span = Span::current();
        blocking(move || {
            let messages = batch.messages.iter().map(LogMessage::as_message);
            let step = span.in_scope(|| self.projection.step(messages, live))?;
            Ok((self, step))
        })
        .await
    }
}

/// Lets requests read the store between two commits. Without it they wait as long as each commit follows the last at
/// once.
fn pause() {
    std::thread::sleep(COMMIT_PAUSE);
}

/// Uses the store on a blocking thread. sled may panic on a damaged store, which counts as damage.
///
/// # Errors
/// Returns [`FoldError::StoreDamaged`].
pub(super) async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, StoreError> + Send + 'static,
) -> Result<T, FoldError> {
    match tokio::task::spawn_blocking(work).await {
        Ok(Ok(done)) => Ok(done),
        Ok(Err(error)) => Err(FoldError::StoreDamaged(error.to_string())),
        Err(panicked) => Err(FoldError::StoreDamaged(panicked.to_string())),
    }
}
