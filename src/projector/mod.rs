//! The projector: folds the log into the views, then publishes the changes to the feed and the rejections to feeders.

pub mod announcer;
mod fold;
mod rebuild;
pub mod views;

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use projections::open_races;
use tokio::sync::{mpsc, watch};
use tokio::time::{sleep, timeout};
use tokio_util::task::AbortOnDropHandle;

use self::announcer::Announcer;
use self::fold::{FoldError, RunningFold, blocking};
use self::rebuild::Candidate;
use self::views::Views;
use crate::live::feed::replay::replay;
use crate::live::feed::{EventTime, Feed, Replayed};
use crate::live::status::{Phase, Status};
use crate::log::{Batch, Log, LogError, LogState, RACING};
use crate::metrics;

/// The wait before the log or the disk is tried again.
const RETRY: Duration = Duration::from_millis(500);

/// The longest that clients wait for the replay of earlier messages.
const REPLAY_TIMEOUT: Duration = Duration::from_secs(20);

/// Folds the log into the views.
#[derive(Debug)]
pub struct Projector {
    log: Log,
    views: Arc<Views>,
    feed: Feed,
    announcer: Announcer,
    status: watch::Sender<Status>,
    rebuild_requests: mpsc::Receiver<()>,
}

/// The interface of a projector to the rest of the service.
#[derive(Debug, Clone)]
pub struct ProjectorHandle {
    /// The projector's progress.
    pub status: watch::Receiver<Status>,
    rebuild_requests: mpsc::Sender<()>,
}

impl ProjectorHandle {
    /// Requests a rebuild beside the live views. False if one is already running or requested.
    #[must_use]
    pub fn rebuild(&self) -> bool {
        self.status.borrow().rebuild.is_none() && self.rebuild_requests.try_send(()).is_ok()
    }
}

impl Projector {
    /// A projector of a log into views.
    pub fn new(
        log: Log,
        views: Arc<Views>,
        feed: Feed,
        announcer: Announcer,
    ) -> (Self, ProjectorHandle) {
        let (status, status_receiver) = watch::channel(Status::new(&views.current()));
        let (request_sender, rebuild_requests) = mpsc::channel(1);
        let projector = Self {
            log,
            views,
            feed,
            announcer,
            status,
            rebuild_requests,
        };
        let handle = ProjectorHandle {
            status: status_receiver,
            rebuild_requests: request_sender,
        };
        (projector, handle)
    }

    /// Follows the log until dropped. After an error it starts over, with an empty store if the old one cannot be used.
    pub async fn run(mut self) {
        loop {
            let Err(error) = self.follow().await;
            let replaced = match error {
                FoldError::LogReplaced(_) => self.views.replace_outdated(&error.to_string()),
                FoldError::StoreDamaged(reason) => self.views.replace_damaged(&reason),
                FoldError::ReaderEnded => Err(error.into()),
                FoldError::Io(error) => Err(error),
            };
            if let Err(error) = replaced {
                tracing::error!(error = format!("{error:#}"), "the fold is started again");
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

    /// Folds the log into the current store, and into a new one for each rebuild.
    async fn follow(&mut self) -> Result<Infallible, FoldError> {
        let state = self.wait_for_log().await;
        let mut live = RunningFold::resume(&self.log, self.views.current(), &state)?;
        self.status.send_modify(|status| {
            status.phase = Phase::CatchingUp;
            status.pending = state.last_seq.saturating_sub(status.seq);
        });
        loop {
            live = self.fold_until_rebuild(live).await?;
            live = self.rebuild(live, &state).await?;
        }
    }

    async fn wait_for_log(&self) -> LogState {
        loop {
            match self.log.ensure(RACING).await {
                Ok(state) => return state,
                Err(error @ (LogError::TooOld { .. } | LogError::Denied { .. })) => {
                    tracing::error!(%error, "cannot open the log");
                }
                Err(error) => tracing::debug!(%error, "cannot open the log"),
            }
            sleep(RETRY).await;
        }
    }

    /// Folds the log until a rebuild is requested.
    async fn fold_until_rebuild(
        &mut self,
        mut live: RunningFold,
    ) -> Result<RunningFold, FoldError> {
        loop {
            tokio::select! {
                batch = live.next_batch() => live = self.fold(live, batch?).await?,
                Some(()) = self.rebuild_requests.recv() => return Ok(live),
            }
        }
    }

    /// Folds the log anew beside the live views, and then replaces them. Returns the fold of the views then in force.
    async fn rebuild(
        &mut self,
        mut live: RunningFold,
        state: &LogState,
    ) -> Result<RunningFold, FoldError> {
        let target = live.seq();
        tracing::info!(target, "rebuilding beside the live views");
        self.status
            .send_modify(|status| status.rebuild = Some((0, target)));
        let mut building = AbortOnDropHandle::new(tokio::spawn(Candidate::build(
            Arc::clone(&self.views),
            self.log.clone(),
            state.clone(),
            target,
            self.status.clone(),
        )));
        let built = loop {
            tokio::select! {
                batch = live.next_batch() => live = self.fold(live, batch?).await?,
                built = &mut building => break built,
            }
        };
        match built.unwrap_or_else(|panicked| Err(FoldError::StoreDamaged(panicked.to_string()))) {
            Ok(candidate) => self.swap(live, candidate).await,
            Err(error) => {
                tracing::error!(%error, "rebuild failed, the live views stay in force");
                self.status.send_modify(|status| status.rebuild = None);
                Ok(live)
            }
        }
    }

    /// Replaces the live views by the candidate, once that has everything the live views have.
    async fn swap(
        &mut self,
        mut live: RunningFold,
        candidate: Candidate,
    ) -> Result<RunningFold, FoldError> {
        let Candidate { mut fold, store } = candidate;
        while live.seq() < fold.seq() {
            let batch = live.next_batch().await?;
            live = self.fold(live, batch).await?;
        }
        let seq = live.seq();
        // The last batch may go beyond the live views, so its changes are published, too.
        while fold.seq() < seq {
            let batch = fold.next_batch().await?;
            fold = self.fold(fold, batch).await?;
        }
        self.views.promote(store).map_err(FoldError::Io)?;
        self.status.send_modify(|status| {
            status.rebuild = None;
            status.rebuilds += 1;
        });
        tracing::info!(seq, "the rebuilt views are in force");
        Ok(fold)
    }

    /// Folds a batch, then publishes its changes, rejections and progress.
    async fn fold(&mut self, fold: RunningFold, batch: Batch) -> Result<RunningFold, FoldError> {
        let live = self.status.borrow().phase == Phase::Live;
        let (pending, head) = (batch.pending, batch.head);
        let events: Vec<EventTime> = batch.messages.iter().map(EventTime::of).collect();
        let (fold, step) = fold.step(batch, live).await?;
        let checkpoint = fold.checkpoint();
        metrics::folded(&step.tally);
        // Before the views are live the step has no updates, and the feed does not pass events without theirs.
        if live {
            self.feed.publish(step.updates, &events);
        }
        self.announcer
            .announce(&checkpoint.log, step.announcements, live);
        self.status.send_modify(|status| {
            status.seq = checkpoint.seq;
            status.pending = pending;
            status.recorded_at = checkpoint.recorded_at;
            status.freshness.advance(head, checkpoint.seq);
        });
        if pending == 0 && !live {
            self.go_live(&fold).await?;
        }
        metrics::progress(fold.seq(), pending);
        Ok(fold)
    }

    /// Publishes every change from here on. Clients that are connected, and were sent other views, first get new
    /// images.
    async fn go_live(&self, fold: &RunningFold) -> Result<(), FoldError> {
        let checkpoint = fold.checkpoint().clone();
        let seq = checkpoint.seq;
        let replayed = match timeout(REPLAY_TIMEOUT, replay(&self.log, &checkpoint)).await {
            Ok(replayed) => replayed?,
            Err(_) => {
                tracing::warn!(
                    timeout = ?REPLAY_TIMEOUT,
                    "replay of earlier messages timed out, clients that resume get fresh images"
                );
                Replayed::nothing(&checkpoint)
            }
        };
        let (store, feed) = (Arc::clone(fold.store()), self.feed.clone());
        blocking(move || {
            feed.reset(&checkpoint.log, seq, open_races(&store)?, replayed);
            Ok(())
        })
        .await?;
        self.status.send_modify(|status| status.phase = Phase::Live);
        tracing::info!(seq, "caught up with the log");
        Ok(())
    }
}
