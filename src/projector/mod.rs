//! The projector: folds the log into the views, then publishes the changes to the feed and the rejections to feeders.

pub mod announcer;
mod divergence;
mod fold;
pub mod lag;
mod rebuild;
pub mod snapshots;
mod status;
pub mod views;

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use projections::{ClockStep, SCHEMA_VERSION, Store, StoreError, open_races, rejections};
use tokio::runtime::Handle;
use tokio::sync::{mpsc, watch};
use tokio::time::{Instant, sleep, timeout};
use tokio_util::task::AbortOnDropHandle;

use self::announcer::{Announcer, QUEUE_MAX};
use self::fold::{FoldError, FoldResult, RunningFold, blocking, is_disk_full};
use self::rebuild::Candidate;
use self::snapshots::SnapshotSecret;
pub use self::status::{FoldFailure, Phase, Status};
use self::views::Views;
use crate::feed::replay::replay;
use crate::feed::{EventTime, Feed, Replayed};
use crate::log::{Batch, Continuity, Log, LogState, RACING, ReadPosition};
use crate::metrics;
use crate::task::{spawn, spawn_blocking};

/// The wait before the log or the disk is tried again.
const RETRY: Duration = Duration::from_millis(500);

/// The wait before damaged views are rebuilt again after a rebuild that failed. A rebuild may read the whole log.
const HEAL_RETRY: Duration = Duration::from_secs(10);

/// The longest that clients wait for the replay of earlier messages.
const REPLAY_TIMEOUT: Duration = Duration::from_secs(20);

const REPLAY_LATE: &str =
    "replay of earlier messages timed out, clients that resume get fresh images";

/// Folds the log into the views.
#[derive(Debug)]
pub struct Projector {
    log: Log,
    continuity: Continuity,
    views: Arc<Views>,
    feed: Feed,
    announcer: Announcer,
    /// Without it, no snapshot is loaded.
    snapshot_secret: Option<SnapshotSecret>,
    status: watch::Sender<Status>,
    rebuild_requests: mpsc::Receiver<()>,
    /// Why the views in force cannot be continued.
    replace: Option<String>,
    /// The log that an operator accepted in place of that of the views.
    accepted: Option<LogState>,
    /// When damaged views may be rebuilt.
    heal_at: Instant,
    /// The threads that rebuild views beside the live ones.
    background: Handle,
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
        (log, continuity): (Log, Continuity),
        views: Arc<Views>,
        feed: Feed,
        announcer: Announcer,
        snapshot_secret: Option<SnapshotSecret>,
        background: Handle,
    ) -> (Self, ProjectorHandle) {
        let (status, status_receiver) = watch::channel(Status::default());
        let (request_sender, rebuild_requests) = mpsc::channel(1);
        let projector = Self {
            log,
            continuity,
            views,
            feed,
            announcer,
            snapshot_secret,
            status,
            rebuild_requests,
            replace: None,
            accepted: None,
            heal_at: Instant::now(),
            background,
        };
        let handle = ProjectorHandle {
            status: status_receiver,
            rebuild_requests: request_sender,
        };
        (projector, handle)
    }

    /// Opens the views and follows the log until dropped. After an error it starts over. Where the log has another
    /// history, an operator decides.
    ///
    /// The views in force are served for as long as they are whole, also while they cannot be written.
    pub async fn run(mut self) {
        self.load_views().await;
        loop {
            let Err(error) = self.follow().await;
            match error {
                FoldError::LogReplaced(replaced) => self.wait_for_decision(replaced).await,
                error => self.recover(error).await,
            }
        }
    }

    /// Prepares to start over after an error.
    async fn recover(&mut self, error: FoldError) {
        self.not_live(Phase::WaitingForLog, Some((&error).into()));
        match &error {
            FoldError::Store { error: failed, .. } => match self.views.current() {
                Some(store) if store.accepts_writes() && failed.is_of_disk() => {
                    self.wait_for_space(&store).await;
                }
                _ => self.replace_views(&error).await,
            },
            FoldError::Panicked { .. } => self.replace_views(&error).await,
            _ => sleep(RETRY).await,
        }
    }

    /// Has new views replace those that cannot be continued; where a write has failed, new ones that continue what is
    /// on disk. Until these are caught up, those in force are served as long as they are whole.
    async fn replace_views(&mut self, error: &FoldError) {
        self.replace = Some(error.to_string());
        if (self.views.current()).is_none_or(|store| store.accepts_writes()) {
            return;
        }
        let views = Arc::clone(&self.views);
        let copied = spawn_blocking(move || views.continue_copy()).await;
        if let Err(error) = copied.unwrap_or_else(|panicked| Err(panicked.into())) {
            let error = format!("{error:#}");
            tracing::error!(error, "cannot continue the views from what is on disk");
        }
    }

    /// Opens and checks the views in force, until that is possible.
    async fn load_views(&self) {
        loop {
            let views = Arc::clone(&self.views);
            match spawn_blocking(move || views.load()).await {
                Ok(Ok(())) => break,
                Ok(Err(error)) => {
                    let failure = FoldFailure {
                        reason: format!("{error:#}"),
                        is_disk_full: is_disk_full(&error),
                    };
                    self.not_live(Phase::OpeningViews, Some(failure));
                }
                Err(panicked) => tracing::error!(%panicked, "cannot open the views"),
            }
            sleep(RETRY).await;
        }
        self.not_live(Phase::WaitingForLog, None);
        let checkpoint = self.views.current().and_then(|store| store.checkpoint());
        self.continuity.begin(checkpoint.map(ReadPosition::from));
    }

    /// Waits until the disk has space for the views in force, and files can be opened. Notes how far the log goes on
    /// meanwhile.
    async fn wait_for_space(&self, store: &Store) {
        sleep(RETRY).await;
        while let Err(StoreError::DiskFull { .. } | StoreError::TooManyFiles { .. }) =
            store.check_disk()
        {
            // Without an answer, what was known last remains.
            if let Ok(state) = self.log.state(RACING).await {
                self.status.send_modify(|status| {
                    status.pending = state.last_seq.saturating_sub(status.seq);
                });
            }
            sleep(RETRY).await;
        }
    }

    /// Notes that the views are not known to be those of the log, with the error if there is one.
    fn not_live(&self, phase: Phase, failure: Option<FoldFailure>) {
        let checkpoint = self.views.current().and_then(|store| store.checkpoint());
        self.status.send_modify(|status| {
            // Once: what is tried again fails again for the same reason.
            if let Some(FoldFailure { reason, .. }) = &failure
                && status.failure != failure
            {
                tracing::error!(error = reason, ?phase, "the views are not live");
            }
            status.phase = phase;
            status.failures += u64::from(failure.as_ref().is_some_and(|f| !f.is_disk_full));
            status.failure = failure;
            status.reflect(checkpoint.as_ref());
        });
    }

    /// Folds the log into the views in force, and into new ones for each rebuild.
    async fn follow(&mut self) -> FoldResult<Infallible> {
        let state = match self.accepted.take() {
            Some(state) => state,
            None => self.continuity.find(&self.log, RACING).await?,
        };
        self.status.send_modify(|status| {
            status.phase = Phase::CatchingUp;
            status.pending = state.last_seq.saturating_sub(status.seq);
        });
        let mut live = match self.views.read_current() {
            Some(current) if self.replace.is_none() && current.schema == SCHEMA_VERSION => {
                self.announce_stored(&current.store).await;
                RunningFold::resume(&self.log, &current, &state)?.served()
            }
            _ => self.build(&state).await?,
        };
        loop {
            live = self.fold_until_rebuild(live).await?;
            live = self.rebuild(live, &state).await?;
        }
    }

    /// Folds the log into a new store while the one in force is served but not continued, and then replaces it. Retries
    /// until that succeeds.
    ///
    /// # Errors
    /// Returns [`FoldError::LogReplaced`].
    async fn build(&mut self, state: &LogState) -> FoldResult<RunningFold> {
        let reason = match (&self.replace, self.views.read_current()) {
            (Some(reason), _) => Some(reason.clone()),
            (None, Some(old)) => Some(format!("they were of schema {}", old.schema)),
            (None, None) => None,
        };
        tracing::info!(reason, last_seq = state.last_seq, "building the views");
        loop {
            match self.try_build(state, reason.clone()).await {
                Ok(fold) => return Ok(fold),
                Err(error @ FoldError::LogReplaced(_)) => return Err(error),
                Err(error) => {
                    self.not_live(Phase::CatchingUp, Some((&error).into()));
                    sleep(RETRY).await;
                }
            }
        }
    }

    async fn try_build(
        &mut self,
        state: &LogState,
        reason: Option<String>,
    ) -> FoldResult<RunningFold> {
        let views = &self.views;
        let log = &self.log;
        let secret = self.snapshot_secret.as_ref();
        let new = Candidate::begin(views, log, state, secret, &self.status).await?;
        // The log is shorter than the views in force where an operator has accepted that.
        let served = self.served_seq();
        let target = if served <= state.last_seq { served } else { 0 };
        self.complete(new, target, reason).await
    }

    /// The sequence of the views in force: no client reads less than it has read.
    fn served_seq(&self) -> u64 {
        self.views.current().map_or(0, |store| store.seq())
    }

    /// Folds the log to its end, which is not before the sequence `target`, into new views, and puts them in force.
    async fn complete(
        &mut self,
        new: Candidate,
        target: u64,
        reason: Option<String>,
    ) -> FoldResult<RunningFold> {
        self.announce_stored(new.store()).await;
        let new = new.reach_end(target, &mut self.announcer).await?;
        let freshness = new.freshness.clone();
        let fold = new.promote(&self.views, &self.log, reason).await?;
        self.replace = None;
        let checkpoint = fold.checkpoint();
        self.continuity.note(&checkpoint.clone().into());
        self.status.send_modify(|status| {
            status.reflect(Some(checkpoint));
            status.pending = 0;
            status.freshness = freshness;
        });
        self.go_live(&fold).await?;
        Ok(fold)
    }

    /// Announces the recent rejections of views that this process has not folded, or not announced. A damaged one stops
    /// nothing: the read of it has noted the damage, which is healed beside the views.
    async fn announce_stored(&mut self, store: &Arc<Store>) {
        let stored = Arc::clone(store);
        let read = move || anyhow::Ok(rejections::latest(&stored, QUEUE_MAX)?);
        let read = spawn_blocking(read).await;
        let read = read.unwrap_or_else(|panicked| Err(panicked.into()));
        match (read, store.checkpoint()) {
            (Ok(latest), Some(found)) => self.announcer.announce(&found.log, latest, false),
            (Ok(_), None) => {}
            (Err(error), _) => tracing::error!(%error, "cannot read the rejections of the views"),
        }
    }

    /// Folds the log until a rebuild is requested, or necessary because a reader has found damage.
    async fn fold_until_rebuild(&mut self, mut live: RunningFold) -> FoldResult<RunningFold> {
        loop {
            if live.store().damage().is_some() && self.heal_at <= Instant::now() {
                self.heal_at = Instant::now() + HEAL_RETRY;
                return Ok(live);
            }
            tokio::select! {
                biased;
                Some(()) = self.rebuild_requests.recv() => return Ok(live),
                batch = live.next_batch() => live = self.fold(live, batch?).await?,
            }
        }
    }

    /// Folds the log anew beside the live views, and then replaces them. Returns the fold of the views then in force.
    ///
    /// # Errors
    /// Returns a [`FoldError`] of the live views only. An error of the new ones ends the rebuild.
    async fn rebuild(
        &mut self,
        mut live: RunningFold,
        state: &LogState,
    ) -> FoldResult<RunningFold> {
        let target = live.seq();
        let damage = live.store().damage();
        tracing::info!(target, damage, "rebuilding beside the live views");
        let is_damaged = damage.is_some();
        let views = Arc::clone(&self.views);
        let log = self.log.clone();
        let state = state.clone();
        // Views that an operator wants rebuilt trust nothing but the log.
        let secret = self.snapshot_secret.clone().filter(|_| is_damaged);
        let status = self.status.clone();
        let building = async move {
            // On one connection, a live message would wait behind all that is pulled of the log.
            let log = log.connect_again("railbird-rebuild").await;
            let log = log.map_err(|error| FoldError::Views(error.into()))?;
            let new = Candidate::begin(&views, &log, &state, secret.as_ref(), &status).await?;
            new.reach(target, u64::MAX).await
        };
        let mut building = {
            let _entered = self.background.enter();
            AbortOnDropHandle::new(spawn(building))
        };
        let built = loop {
            tokio::select! {
                biased;
                built = &mut building => break built,
                batch = live.next_batch() => match self.fold(live, batch?).await {
                    Ok(fold) => live = fold,
                    // A commit has met the damage.
                    Err(error @ FoldError::Store { .. }) if is_damaged => {
                        return self.complete_rebuild(building, error).await;
                    }
                    Err(error) => return Err(error),
                },
            }
        };
        let rebuilt = match built {
            Ok(Ok(new)) => {
                // The new views may be ahead by a part of a batch.
                while live.seq() < new.seq() {
                    let batch = live.next_batch().await?;
                    live = self.fold(live, batch).await?;
                }
                self.replace(&live, new).await
            }
            Ok(Err(error)) => Err(error),
            Err(panicked) => Err(FoldError::Views(panicked.into())),
        };
        Ok(rebuilt.unwrap_or_else(|error| {
            tracing::error!(%error, "rebuild failed, the live views stay in force");
            live
        }))
    }

    /// Completes the new views of a rebuild after the live ones failed.
    ///
    /// # Errors
    /// Returns the error of the live views if the new ones failed as well.
    async fn complete_rebuild(
        &mut self,
        building: AbortOnDropHandle<FoldResult<Candidate>>,
        error: FoldError,
    ) -> FoldResult<RunningFold> {
        if !(self.views.current()).is_some_and(|store| store.accepts_writes()) {
            return Err(error);
        }
        self.not_live(Phase::CatchingUp, Some((&error).into()));
        let Ok(Ok(new)) = building.await else {
            return Err(error);
        };
        let reason = Some(error.to_string());
        self.complete(new, self.served_seq(), reason).await
    }

    /// Replaces the live views by new ones as of the same event. Returns their fold. Nothing is published before they
    /// are in force.
    ///
    /// # Errors
    /// Returns a [`FoldError`] of the new views. Then the live ones stay in force.
    async fn replace(&mut self, live: &RunningFold, new: Candidate) -> FoldResult<RunningFold> {
        let seq = live.seq();
        let new = new.reach(seq, seq).await?;
        let freshness = new.freshness.clone();
        let fold = new.promote(&self.views, &self.log, None).await?;
        (self.status).send_modify(|status| status.freshness.join(freshness));
        tracing::info!(seq, "the rebuilt views are in force");
        let old = live.checkpoint().digest;
        let new = fold.checkpoint().digest;
        if old != new && self.status.borrow().phase == Phase::Live {
            tracing::warn!(seq, %old, %new, "the rebuilt views differ from the replaced ones");
            // The views are in force, whether or not clients get new images.
            if let Err(error) = self.go_live(&fold).await {
                tracing::error!(%error, "clients get no new images");
            }
        }
        Ok(fold)
    }

    /// Folds a batch, then publishes its changes, rejections and progress.
    async fn fold(&mut self, fold: RunningFold, batch: Batch) -> FoldResult<RunningFold> {
        let live = self.status.borrow().phase == Phase::Live;
        let (pending, head) = (batch.pending, batch.head);
        let events: Vec<EventTime> = batch.messages.iter().map(EventTime::of).collect();
        let open_from = fold.checkpoint().open_from();
        let (fold, step) = fold.step(batch, live).await?;
        let checkpoint = fold.checkpoint();
        metrics::folded(&step.tally);
        metrics::sources(&step.sources);
        for ClockStep { seq, from, to } in &step.corrections {
            tracing::warn!(seq, %from, %to, "the clock of the log was corrected, it had been ahead");
            metrics::count("railbird_log_clock_steps_total");
        }
        // Before the views are live the step has no updates, and the feed does not pass events without theirs.
        if live {
            let log_time = checkpoint.clock.latest_time();
            self.feed.publish(step.updates, &events, log_time);
            if checkpoint.open_from() < open_from {
                let store = Arc::clone(fold.store());
                let open = blocking(&fold.name, move || open_races(&store)).await?;
                self.feed.reopen(open);
            }
        }
        (self.announcer).announce(&checkpoint.log, step.announcements, live);
        self.status.send_modify(|status| {
            status.reflect(Some(checkpoint));
            status.pending = pending;
            status.freshness.advance(head, checkpoint.seq);
            status.tally.add(&step.tally);
        });
        if pending == 0 && !live {
            self.go_live(&fold).await?;
        }
        if head.is_some() {
            (self.continuity).note_views(&fold.checkpoint().clone().into());
        }
        Ok(fold)
    }

    /// Publishes every change from here on. Clients that are connected, and were sent other views, first get new
    /// images.
    async fn go_live(&self, fold: &RunningFold) -> FoldResult<()> {
        let checkpoint = fold.checkpoint().clone();
        let seq = checkpoint.seq;
        let replaying = replay(&self.log, fold.store(), &checkpoint);
        let replayed = match timeout(REPLAY_TIMEOUT, replaying).await {
            Ok(replayed) => replayed?,
            Err(_) => {
                tracing::warn!(timeout = ?REPLAY_TIMEOUT, "{REPLAY_LATE}");
                Replayed::nothing(&checkpoint)
            }
        };
        let store = Arc::clone(fold.store());
        let feed = self.feed.clone();
        blocking(&fold.name, move || {
            feed.reset(&checkpoint, open_races(&store)?, replayed);
            Ok(())
        })
        .await?;
        self.status.send_modify(|status| {
            status.phase = Phase::Live;
            status.failure = None;
        });
        tracing::info!(seq, "caught up with the log");
        Ok(())
    }
}
