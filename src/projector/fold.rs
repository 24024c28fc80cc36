//! [`RunningFold`]: a projection and the reader that feeds it.
//!
//! Reading and folding run side by side: while one batch is folded on a blocking thread, the next is read.

use std::any::Any;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Duration;

use projections::{Checkpoint, Projection, Step, Store, StoreError};
use tokio::sync::mpsc;
use tokio_util::task::AbortOnDropHandle;
use tracing::Span;

use super::status::FoldFailure;
use super::views::NamedStore;
use crate::log::{Batch, Log, LogMessage, LogReplaced, LogState, RACING, ReadPosition};
use crate::task;

/// Batches that are read ahead of the fold.
const BATCHES_AHEAD: usize = 2;

/// The pause between two commits: long enough for a thread to wake up on a busy machine. It slows down only a log whose
/// batches touch many views.
const COMMIT_PAUSE: Duration = Duration::from_millis(1);

/// The messages of a live batch that is folded without a blocking thread. At 500 quotes a second, that thread takes
/// 0.02 to 0.1 ms to begin, and as long to hand the result over. So few messages take 0.1 ms, or a few ms if they are
/// results; what else reads the log has another thread meanwhile.
const INLINE_MESSAGES_MAX: usize = 4;

/// What a fold returns.
pub(super) type FoldResult<T> = Result<T, FoldError>;

type Batches = mpsc::Receiver<Result<Batch, LogReplaced>>;

/// The reason why a fold ends.
#[derive(Debug, thiserror::Error)]
pub(super) enum FoldError {
    #[error(transparent)]
    LogReplaced(#[from] LogReplaced),
    #[error("the store {store} failed: {error}")]
    Store { store: String, error: StoreError },
    /// sled may panic on a damaged store, also in the middle of a commit.
    #[error("the store {store} failed: {reason}")]
    Panicked { store: String, reason: String },
    /// The reading task panicked. The views are as they were.
    #[error("the reader of the log ended")]
    ReaderEnded,
    #[error("the views cannot be written: {0:#}")]
    Views(anyhow::Error),
}

impl From<&FoldError> for FoldFailure {
    fn from(error: &FoldError) -> Self {
        let is_disk_full = match error {
            FoldError::Store { error, .. } => error.is_disk_full(),
            FoldError::Views(error) => is_disk_full(error),
            _ => false,
        };
        Self {
            reason: error.to_string(),
            is_disk_full,
        }
    }
}

/// Whether the views cannot be used because the disk is full.
pub(super) fn is_disk_full(error: &anyhow::Error) -> bool {
    let of_system = error.downcast_ref::<io::Error>();
    let of_store = error.downcast_ref::<StoreError>();
    of_store.is_some_and(StoreError::is_disk_full)
        || of_system.is_some_and(|error| error.kind() == io::ErrorKind::StorageFull)
}

/// A projection, and the batches after its checkpoint.
#[derive(Debug)]
pub(super) struct RunningFold {
    projection: Projection,
    /// The name of the store.
    pub(super) name: String,
    /// The end of a batch of which only the beginning was wanted.
    pub(super) rest: Option<Batch>,
    batches: Batches,
    _reading: AbortOnDropHandle<()>,
}

impl RunningFold {
    /// Continues after the checkpoint of a store, and starts to read ahead.
    ///
    /// # Errors
    /// Returns [`FoldError::LogReplaced`] if the checkpoint is of another log.
    pub(super) fn resume(log: &Log, views: &NamedStore, state: &LogState) -> FoldResult<Self> {
        let position = match views.store.checkpoint() {
            Some(checkpoint) if checkpoint.log != state.identity => {
                let found = &state.identity.created;
                let expected = &checkpoint.log.created;
                let reason =
                    format!("the views are of a stream created at {expected}, not at {found}");
                return Err(LogReplaced(reason).into());
            }
            Some(checkpoint) => ReadPosition::from(checkpoint),
            None => ReadPosition::start_of(state),
        };
        let (batches, reading) = read_ahead(log, position);
        let store = Arc::clone(&views.store);
        Ok(Self {
            projection: Projection::new(store, state.identity.clone()),
            name: views.name.clone(),
            rest: None,
            batches,
            _reading: reading,
        })
    }

    /// Reads on another connection from now on.
    pub(super) fn read_on(mut self, log: &Log) -> Self {
        let position = self.checkpoint().clone().into();
        (self.batches, self._reading) = read_ahead(log, position);
        self.rest = None;
        self
    }

    /// The fold of a store that is served from now on.
    pub(super) fn served(mut self) -> Self {
        self.projection = self.projection.with_readers(pause);
        self
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
    pub(super) async fn next_batch(&mut self) -> FoldResult<Batch> {
        if let Some(rest) = self.rest.take() {
            return Ok(rest);
        }
        let batch = self.batches.recv().await;
        Ok(batch.ok_or(FoldError::ReaderEnded)??)
    }

    /// Waits for the next batch, and takes its messages up to a sequence. Cancel-safe.
    pub(super) async fn next_batch_up_to(&mut self, seq: u64) -> FoldResult<Batch> {
        let mut batch = self.next_batch().await?;
        let end = batch.messages.partition_point(|message| message.seq <= seq);
        if end < batch.messages.len() {
            self.rest = Some(Batch {
                messages: batch.messages.split_off(end),
                pending: batch.pending,
                head: batch.head.take(),
            });
        }
        Ok(batch)
    }

    /// Folds and commits a batch, a large one on a blocking thread. With `live`, the step contains the updates for the
    /// live channel.
    ///
    /// # Errors
    /// Returns [`FoldError::Store`] or [`FoldError::Panicked`] if the store fails.
    #[tracing::instrument(
        name = "batch", level = "debug", skip_all,
        fields(seq = batch.messages.last().map(|last| last.seq), messages = batch.messages.len()),
    )]
    pub(super) async fn step(mut self, batch: Batch, live: bool) -> FoldResult<(Self, Step)> {
        let span = Span::current();
        let name = self.name.clone();
        let is_small = live && batch.messages.len() <= INLINE_MESSAGES_MAX;
        let step = move || {
            let messages = batch.messages.iter().map(LogMessage::as_message);
            let step = span.in_scope(|| self.projection.step(messages, live))?;
            Ok((self, step))
        };
        if !is_small {
            return blocking(&name, step).await;
        }
        // Nothing uses the fold after a panic.
        let (store, done) = (name, catch_unwind(AssertUnwindSafe(step)));
        match done.map_err(|panic| panic_reason(&*panic)) {
            Ok(done) => done.map_err(|error| FoldError::Store { store, error }),
            Err(reason) => Err(FoldError::Panicked { store, reason }),
        }
    }
}

/// Starts to read the log after a position, ahead of the fold.
fn read_ahead(log: &Log, position: ReadPosition) -> (Batches, AbortOnDropHandle<()>) {
    let mut reader = log.reader(RACING, position);
    let (sender, batches) = mpsc::channel(BATCHES_AHEAD);
    let reading = task::spawn(async move {
        loop {
            let batch = reader.next().await;
            let is_last = batch.is_err();
            if sender.send(batch).await.is_err() || is_last {
                return;
            }
        }
    });
    (batches, AbortOnDropHandle::new(reading))
}

/// Lets requests read the store between two commits. Without it they wait as long as each commit follows the last at
/// once.
fn pause() {
    #[cfg(test)]
    if crate::simulation::machine::uptime().is_some() {
        return;
    }
    std::thread::sleep(COMMIT_PAUSE);
}

/// Uses a store on a blocking thread.
///
/// # Errors
/// Returns [`FoldError::Store`] or [`FoldError::Panicked`] with the name of the store.
pub(super) async fn blocking<T: Send + 'static>(
    store: &str,
    work: impl FnOnce() -> Result<T, StoreError> + Send + 'static,
) -> FoldResult<T> {
    let done = task::spawn_blocking(work).await;
    let store = store.to_owned();
    match done.map_err(|panicked| panicked.to_string()) {
        Ok(done) => done.map_err(|error| FoldError::Store { store, error }),
        Err(reason) => Err(FoldError::Panicked { store, reason }),
    }
}

/// The message of a panic.
fn panic_reason(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    let text = text.or_else(|| panic.downcast_ref::<String>().cloned());
    text.unwrap_or_else(|| "a panic without a message".to_owned())
}

#[cfg(test)]
mod testing {
    use std::sync::Arc;

    use projections::{LogIdentity, Projection, Store};
    use tokio::sync::mpsc;
    use tokio_util::task::AbortOnDropHandle;

    use super::RunningFold;
    use crate::log::Batch;

    impl RunningFold {
        /// A fold of these batches into an empty store.
        pub(in crate::projector) fn of_batches(
            store: Arc<Store>,
            identity: LogIdentity,
            all: Vec<Batch>,
        ) -> Self {
            let (sender, batches) = mpsc::channel(all.len());
            for batch in all {
                sender.try_send(Ok(batch)).expect("room for all");
            }
            Self {
                projection: Projection::new(store, identity),
                name: String::new(),
                rest: None,
                batches,
                // Keeps the channel open, as a log does that has no more messages.
                _reading: AbortOnDropHandle::new(tokio::spawn(
                    async move { sender.closed().await },
                )),
            }
        }
    }
}
