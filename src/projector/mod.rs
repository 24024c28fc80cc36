//! The projector: follows the log, folds it into the views, and tells the feed what changed and feeders what was refused.
//!
//! Reading and folding run side by side: while one batch is folded on a blocking thread, the next is read.

pub mod announcer;
pub mod views;

use std::sync::Arc;
use std::time::{Duration, Instant};

use projections::{Projection, Step, Store, StoreError, open_races};
use tokio::sync::{mpsc, watch};
use tokio::task::JoinHandle;
use tokio::time::{sleep, timeout};

use crate::live::feed::replay::replay;
use crate::live::feed::{Feed, Replayed};
use crate::live::status::{Phase, Status};
use crate::log::{Batch, Log, LogError, LogMessage, LogState, RACING, ReadError, ReadPosition};
use crate::metrics;
use crate::projector::announcer::Announcer;
use crate::projector::views::{Fresh, Views};

/// Batches that are read ahead of the fold.
const BATCHES_AHEAD: usize = 2;

/// How long to wait before the log, or the disk, is asked again.
const RETRY: Duration = Duration::from_millis(500);

/// Long enough for a thread to wake up on a busy machine. Only a log that touches much in little time is slowed by it.
const REST: Duration = Duration::from_millis(1);

/// What was told before is told again from the log, but clients do not wait longer for it than this.
const REPLAY_TIMEOUT: Duration = Duration::from_secs(20);

/// Why following has to begin anew, with other views.
enum Restart {
    AnotherLog(String),
    Damaged(String),
    Disk(anyhow::Error),
}

impl From<ReadError> for Restart {
    fn from(error: ReadError) -> Self {
        match error {
            ReadError::AnotherLog(reason) => Self::AnotherLog(reason),
        }
    }
}

/// Folds the log into the views.
#[derive(Debug)]
pub struct Projector {
    log: Log,
    views: Arc<Views>,
    feed: Feed,
    announcer: Announcer,
    status: watch::Sender<Status>,
    rebuilds: mpsc::Receiver<()>,
}

/// What the rest of the service holds of a projector.
#[derive(Debug, Clone)]
pub struct ProjectorHandle {
    /// Where it stands.
    pub status: watch::Receiver<Status>,
    rebuilds: mpsc::Sender<()>,
}

impl ProjectorHandle {
    /// Asks for a rebuild beside the live views. False if one is under way.
    #[must_use]
    pub fn rebuild(&self) -> bool {
        self.status.borrow().rebuild.is_none() && self.rebuilds.try_send(()).is_ok()
    }
}

/// A projection and the batches that it is fed with.
struct Following {
    projection: Projection,
    batches: Batches,
}

/// A projection that has caught up beside the one in force, and the store that it folds into.
type Beside = (Following, Fresh);
type Rebuild = JoinHandle<Result<Beside, Restart>>;

/// Batches of a reader that runs ahead on a task of its own.
struct Batches {
    receiver: mpsc::Receiver<Result<Batch, ReadError>>,
    task: JoinHandle<()>,
}

impl Drop for Batches {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Batches {
    async fn next(&mut self) -> Result<Batch, ReadError> {
        match self.receiver.recv().await {
            Some(batch) => batch,
            // The task ends only after an error, which was received before.
            None => std::future::pending().await,
        }
    }
}

impl Projector {
    /// A projector of a log into views.
    #[must_use]
    pub fn new(
        log: Log,
        views: Arc<Views>,
        feed: Feed,
        announcer: Announcer,
    ) -> (Self, ProjectorHandle) {
        let (status, watched) = watch::channel(Status::new(&views.current()));
        let (ask, rebuilds) = mpsc::channel(1);
        (
            Self {
                log,
                views,
                feed,
                announcer,
                status,
                rebuilds,
            },
            ProjectorHandle {
                status: watched,
                rebuilds: ask,
            },
        )
    }

    /// Follows the log until dropped.
    pub async fn run(mut self) {
        loop {
            let Err(restart) = self.follow().await;
            let replaced = match restart {
                Restart::AnotherLog(reason) => self
                    .views
                    .replace(&format!("the log is another one ({reason})"), false),
                Restart::Damaged(reason) => self.views.replace(&reason, true),
                Restart::Disk(error) => Err(error),
            };
            if let Err(error) = replaced {
                tracing::error!(error = format!("{error:#}"), "the views cannot be written");
                sleep(RETRY).await;
            }
            let store = self.views.current();
            self.status.send_modify(|status| {
                *status = Status {
                    rebuilds: status.rebuilds,
                    ..Status::new(&store)
                }
            });
        }
    }

    async fn follow(&mut self) -> Result<std::convert::Infallible, Restart> {
        let state = self.wait_for_log().await;
        let mut following = self.resume(self.views.current(), &state)?;
        let target = state.last_seq;
        self.status.send_modify(|status| {
            status.phase = Phase::CatchingUp;
            status.pending = target.saturating_sub(status.seq);
            status.progress_at = Instant::now();
        });
        if following.seq() >= target {
            self.caught_up(&following.projection).await?;
        }
        let mut rebuilding: Option<Rebuild> = None;
        let mut rebuilt: Option<Beside> = None;
        loop {
            tokio::select! {
                batch = following.batches.next() => {
                    following.projection = self.fold(following.projection, batch?).await?;
                }
                Some(()) = self.rebuilds.recv(), if rebuilding.is_none() && rebuilt.is_none() => {
                    rebuilding = Some(self.begin_rebuild(&state)?);
                }
                done = finished(&mut rebuilding) => {
                    rebuilding = None;
                    match done {
                        Ok(beside) => rebuilt = Some(beside),
                        Err(error) => self.rebuild_failed(&error),
                    }
                }
            }
            if let Some((mut beside, fresh)) =
                rebuilt.take_if(|(beside, _)| beside.seq() <= following.seq())
            {
                let until = following.seq();
                while beside.seq() < until {
                    let batch = beside.batches.next().await?;
                    beside.projection = self.fold(beside.projection, batch).await?;
                }
                self.views.promote(fresh).map_err(Restart::Disk)?;
                following = beside;
                self.status.send_modify(|status| {
                    status.rebuild = None;
                    status.rebuilds += 1;
                });
                tracing::info!(seq = until, "the rebuilt views are in force");
            }
        }
    }

    async fn wait_for_log(&self) -> LogState {
        loop {
            match self.log.ensure(RACING).await {
                Ok(state) => return state,
                Err(error) => {
                    match error {
                        LogError::TooOld { .. } | LogError::Denied { .. } => {
                            tracing::error!(%error, "waiting for the log")
                        }
                        _ => tracing::debug!(%error, "waiting for the log"),
                    }
                    sleep(RETRY).await;
                }
            }
        }
    }

    /// Goes on where a store stopped, if it is of this log.
    fn resume(&self, store: Arc<Store>, state: &LogState) -> Result<Following, Restart> {
        let checkpoint = store.checkpoint();
        let (seq, recorded_at) = match checkpoint {
            Some(checkpoint) if checkpoint.log != state.identity => {
                let (expected, found) = (checkpoint.log.created, &state.identity.created);
                return Err(Restart::AnotherLog(format!(
                    "created {found}, not {expected}"
                )));
            }
            Some(checkpoint) => (checkpoint.seq, checkpoint.recorded_at),
            None => (0, None),
        };
        let place = ReadPosition {
            log: state.identity.clone(),
            seq,
            recorded_at,
        };
        let mut reader = self.log.reader(RACING, place);
        let (send, receiver) = mpsc::channel(BATCHES_AHEAD);
        let task = tokio::spawn(async move {
            loop {
                let batch = reader.next().await;
                let last = batch.is_err();
                if send.send(batch).await.is_err() || last {
                    return;
                }
            }
        });
        let projection = Projection::new(store, state.identity.clone()).with_yield(rest);
        Ok(Following {
            projection,
            batches: Batches { receiver, task },
        })
    }

    /// Folds a batch into the live views.
    async fn fold(&mut self, projection: Projection, batch: Batch) -> Result<Projection, Restart> {
        let live = self.status.borrow().phase == Phase::Live;
        let pending = batch.pending;
        let moved = !batch.messages.is_empty();
        let (projection, step) = step(projection, batch, live).await?;
        metrics::folded(&step.tally);
        self.feed.publish(step.updates, projection.checkpoint().seq);
        self.announcer
            .announce(&projection.checkpoint().log, step.announcements, live);
        self.status.send_modify(|status| {
            status.seq = projection.checkpoint().seq;
            status.pending = pending;
            status.recorded_at = projection.checkpoint().recorded_at;
            if moved {
                status.progress_at = Instant::now();
            }
        });
        let seq = projection.checkpoint().seq;
        if pending == 0 && !live {
            self.caught_up(&projection).await?;
        }
        metrics::progress(seq, pending);
        Ok(projection)
    }

    /// From here on every change is told. Who listened before this, to other views, is given the images first.
    async fn caught_up(&self, projection: &Projection) -> Result<(), Restart> {
        let (log, seq) = (
            projection.checkpoint().log.clone(),
            projection.checkpoint().seq,
        );
        let replayed = match timeout(REPLAY_TIMEOUT, replay(&self.log, &log, seq)).await {
            Ok(replayed) => replayed?,
            Err(_) => {
                tracing::warn!(
                    "what was told before could not be read in time; clients that come back get fresh images"
                );
                Replayed {
                    complete_from: seq + 1,
                    updates: Vec::new(),
                }
            }
        };
        let (store, feed) = (Arc::clone(projection.store()), self.feed.clone());
        blocking(move || {
            feed.reset(&log, seq, open_races(&store)?, replayed);
            Ok(())
        })
        .await?;
        self.status.send_modify(|status| status.phase = Phase::Live);
        tracing::info!(seq, "caught up with the log");
        Ok(())
    }

    fn begin_rebuild(&self, state: &LogState) -> Result<Rebuild, Restart> {
        let fresh = self.views.begin().map_err(Restart::Disk)?;
        let mut beside = self.resume(Arc::clone(&fresh.store), state)?;
        let (status, target) = (self.status.clone(), self.status.borrow().seq);
        tracing::info!(target, "rebuilding beside the live views");
        status.send_modify(|status| status.rebuild = Some((0, target)));
        Ok(tokio::spawn(async move {
            while beside.seq() < target {
                let batch = beside.batches.next().await?;
                let pending = batch.pending;
                (beside.projection, _) = step(beside.projection, batch, false).await?;
                let seq = beside.seq();
                status.send_modify(|status| status.rebuild = Some((seq, pending)));
            }
            Ok((beside, fresh))
        }))
    }

    fn rebuild_failed(&self, error: &Restart) {
        let reason = match error {
            Restart::AnotherLog(reason) | Restart::Damaged(reason) => reason,
            Restart::Disk(error) => &format!("{error:#}"),
        };
        tracing::error!(reason, "the rebuild failed; the live views stay in force");
        self.status.send_modify(|status| status.rebuild = None);
    }
}

impl Following {
    fn seq(&self) -> u64 {
        self.projection.checkpoint().seq
    }
}

async fn finished(rebuilding: &mut Option<Rebuild>) -> Result<Beside, Restart> {
    match rebuilding {
        Some(task) => task
            .await
            .unwrap_or_else(|error| Err(Restart::Damaged(error.to_string()))),
        None => std::future::pending().await,
    }
}

/// Folds a batch on a blocking thread.
async fn step(
    mut projection: Projection,
    batch: Batch,
    live: bool,
) -> Result<(Projection, Step), Restart> {
    blocking(move || {
        let step = projection.step(batch.messages.iter().map(LogMessage::as_message), live)?;
        Ok((projection, step))
    })
    .await
}

/// Between two commits: requests that wait for the store get it, which they do not where the next commit is quicker.
fn rest() {
    std::thread::sleep(REST);
}

/// Works with the store on a blocking thread. sled may panic on a damaged store: that is a damaged store, too.
async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, StoreError> + Send + 'static,
) -> Result<T, Restart> {
    match tokio::task::spawn_blocking(work).await {
        Ok(Ok(done)) => Ok(done),
        Ok(Err(error)) => Err(Restart::Damaged(error.to_string())),
        Err(panicked) => Err(Restart::Damaged(panicked.to_string())),
    }
}
