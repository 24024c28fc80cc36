//! [`Candidate`]: views that are folded from the whole log beside the live ones, to replace them.

use std::sync::Arc;

use projections::{Checkpoint, Step, Store};
use tokio::sync::watch;

use super::announcer::Announcer;
use super::fold::{FoldError, FoldResult, RunningFold};
use super::snapshots::{SnapshotSecret, load_latest};
use super::status::{Phase, Status};
use super::views::{NewStore, Views};
use crate::clock::Uptime;
use crate::log::{Batch, Freshness, Log, LogReplaced, LogState};
use crate::metrics;
use crate::task::spawn_blocking;

/// A fold into a new store. Dropping it removes the store and ends the rebuild in the status.
pub(super) struct Candidate {
    fold: RunningFold,
    store: NewStore,
    progress: RebuildProgress,
    /// When the new views were last known to reflect the whole log.
    pub(super) freshness: Freshness,
}

/// The progress of a rebuild in the status, for as long as there is one.
struct RebuildProgress(watch::Sender<Status>);

impl Drop for RebuildProgress {
    fn drop(&mut self) {
        self.0.send_modify(|status| status.rebuild = None);
    }
}

impl Candidate {
    /// Begins to fold the log into a new store, and reports the progress in `status`. With a secret, the store is that
    /// of the latest snapshot of the views that is signed with it, if there is one.
    ///
    /// # Errors
    /// Returns a [`FoldError`] if the store cannot be created, or is of another log.
    pub(super) async fn begin(
        views: &Arc<Views>,
        log: &Log,
        state: &LogState,
        secret: Option<&SnapshotSecret>,
        status: &watch::Sender<Status>,
    ) -> FoldResult<Self> {
        status.send_modify(|status| status.rebuild = Some((0, state.last_seq)));
        let progress = RebuildProgress(status.clone());
        let mut store = begin(views, state).await?;
        let seq = store.store().seq();
        if let Some(secret) = secret
            && let Some(loaded) = load_latest(log, state, views, secret, seq).await
        {
            store = loaded;
        }
        let fold = RunningFold::resume(log, store.built(), state)?;
        Ok(Self {
            fold,
            store,
            progress,
            freshness: Freshness::default(),
        })
    }

    /// Folds the log up to the sequence `target`, which the log has had, or further, but not beyond `last`.
    ///
    /// # Errors
    /// Returns a [`FoldError`] if the store cannot be written, or the log was replaced.
    pub(super) async fn reach(mut self, target: u64, last: u64) -> FoldResult<Self> {
        let since = Uptime::now();
        while self.seq() < target {
            let batch = self.fold.next_batch_up_to(last).await?;
            (self, _) = self.fold_towards(target, since, batch).await?;
        }
        Ok(self)
    }

    /// Folds the log to its end, which is not before the sequence `target`, and announces the recent rejections.
    ///
    /// # Errors
    /// As [`Candidate::reach`].
    pub(super) async fn reach_end(
        mut self,
        target: u64,
        announcer: &mut Announcer,
    ) -> FoldResult<Self> {
        let since = Uptime::now();
        loop {
            let batch = self.fold.next_batch().await?;
            let pending = batch.pending;
            let step;
            (self, step) = self.fold_towards(target, since, batch).await?;
            metrics::folded(&step.tally);
            metrics::sources(&step.sources);
            let status = &self.progress.0;
            status.send_modify(|status| status.tally.add(&step.tally));
            announcer.announce(&self.fold.checkpoint().log, step.announcements, false);
            if pending == 0 && self.seq() >= target {
                return Ok(self);
            }
        }
    }

    /// Folds a batch. It is an error if the log, which was asked for its end at the time `since` or later, has lost the
    /// sequence `target`.
    async fn fold_towards(
        mut self,
        target: u64,
        since: Uptime,
        batch: Batch,
    ) -> FoldResult<(Self, Step)> {
        let (pending, head, step);
        (pending, head) = (batch.pending, batch.head);
        let is_lost = batch.ended_before(target, since) || self.fold.rest.is_some();
        (self.fold, step) = self.fold.step(batch, false).await?;
        let seq = self.seq();
        self.freshness.advance(head, seq);
        let status = &self.progress.0;
        status.send_modify(|status| status.rebuild = Some((seq, pending)));
        if is_lost && seq < target {
            return Err(LogReplaced::without(target).into());
        }
        Ok((self, step))
    }

    pub(super) fn store(&self) -> &Arc<Store> {
        self.store.store()
    }

    pub(super) fn seq(&self) -> u64 {
        self.fold.seq()
    }

    /// Puts the store in force, on disk first. Returns its fold, which reads on the connection of the live views.
    ///
    /// # Errors
    /// Returns [`FoldError::Views`] if it cannot be put in force. Then the old one stays, and nothing is left behind.
    pub(super) async fn promote(
        self,
        views: &Arc<Views>,
        live: &Log,
        reason: Option<String>,
    ) -> FoldResult<RunningFold> {
        let views = Arc::clone(views);
        let store = self.store;
        let promoted = spawn_blocking(move || views.promote(store, reason.as_deref())).await;
        let promoted = promoted.unwrap_or_else(|panicked| Err(panicked.into()));
        promoted.map_err(FoldError::Views)?;
        // Before the progress ends, so that nobody sees a rebuild that has neither failed nor succeeded.
        let status = &self.progress.0;
        status.send_modify(|status| status.rebuilds += u64::from(status.phase == Phase::Live));
        Ok(self.fold.read_on(live).served())
    }
}

/// Begins a store for a log, or continues the one that an earlier process had begun with it.
async fn begin(views: &Arc<Views>, state: &LogState) -> FoldResult<NewStore> {
    let views = Arc::clone(views);
    let log = state.identity.clone();
    let begun = spawn_blocking(move || {
        let begun = views.begin()?;
        let of_log = |found: &Checkpoint| found.log == log;
        match begun.store().checkpoint().as_ref().is_none_or(of_log) {
            true => Ok(begun),
            false => views.begin_empty(),
        }
    });
    let begun = begun.await.unwrap_or_else(|panicked| Err(panicked.into()));
    begun.map_err(FoldError::Views)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::Duration;

    use projections::LogIdentity;
    use tokio::sync::watch;

    use super::super::fold::{FoldError, RunningFold};
    use super::super::status::Status;
    use super::super::views::Views;
    use super::{Candidate, RebuildProgress};
    use crate::clock::Uptime;
    use crate::log::{Batch, Freshness, Head, LogMessage};

    /// The last messages of a log at this time.
    fn last_batch(seqs: impl IntoIterator<Item = u64>, asked_at: Uptime) -> Batch {
        let messages: Vec<_> = seqs.into_iter().map(LogMessage::garbage).collect();
        let head = Head {
            last_seq: messages.last().map_or(0, |last| last.seq),
            lag: 0,
            asked_at,
        };
        Batch {
            messages,
            pending: 0,
            head: Some(head),
        }
    }

    /// A candidate for a log of these batches.
    fn candidate(views: &Views, batches: Vec<Batch>) -> Candidate {
        let store = views.begin().expect("a folder");
        let identity = LogIdentity {
            name: "RACING".to_owned(),
            created: "now".to_owned(),
        };
        let fold = RunningFold::of_batches(Arc::clone(store.store()), identity, batches);
        Candidate {
            fold,
            store,
            progress: RebuildProgress(watch::channel(Status::default()).0),
            freshness: Freshness::default(),
        }
    }

    #[tokio::test]
    async fn a_rebuild_ends_where_the_log_has_lost_the_event_that_it_is_to_reach() {
        let data = tempfile::tempdir().expect("a folder");
        let views = Views::open(data.path()).expect("a folder");
        let later = Uptime::now() + Duration::from_secs(3600);
        let lost_last = || vec![last_batch(1..=3, later)];
        let lost_before_others = || vec![last_batch([1, 2, 3, 5, 6], later)];
        let lost = |reached: Result<Candidate, FoldError>| match reached {
            Err(FoldError::LogReplaced(error)) => error.to_string(),
            Err(error) => panic!("{error}"),
            Ok(candidate) => panic!("it is at {}", candidate.seq()),
        };
        let expected = "the log has no event 4 any more, which was read";
        let reached = candidate(&views, lost_last()).reach(4, u64::MAX).await;
        assert_eq!(lost(reached), expected);
        for batches in [lost_last(), lost_before_others()] {
            let reached = candidate(&views, batches).reach(4, 4).await;
            assert_eq!(lost(reached), expected);
        }
        let reached = candidate(&views, lost_before_others()).reach(3, 3).await;
        assert_eq!(reached.map(|candidate| candidate.seq()).ok(), Some(3));
        let reached = candidate(&views, lost_before_others())
            .reach(4, u64::MAX)
            .await;
        assert_eq!(reached.map(|candidate| candidate.seq()).ok(), Some(6));
    }

    #[tokio::test]
    async fn the_end_of_the_log_before_a_rebuild_knew_its_target_proves_no_loss() {
        let data = tempfile::tempdir().expect("a folder");
        let views = Views::open(data.path()).expect("a folder");
        let now = Uptime::now();
        let read_ahead = || vec![last_batch(1..=3, now), last_batch(4..=5, now)];
        let reached = candidate(&views, read_ahead()).reach(4, u64::MAX).await;
        assert_eq!(reached.map(|candidate| candidate.seq()).ok(), Some(5));
        let reached = candidate(&views, read_ahead()).reach(4, 4).await;
        assert_eq!(reached.map(|candidate| candidate.seq()).ok(), Some(4));
    }

    #[tokio::test]
    async fn views_that_cannot_be_written_are_continued_as_a_copy_of_what_is_on_disk_behind_them() {
        let data = tempfile::tempdir().expect("a folder");
        let views = Views::open(data.path()).expect("a folder");
        let log = vec![last_batch(1..=3, Uptime::now())];
        let Ok(Candidate { store, fold, .. }) = candidate(&views, log).reach(3, u64::MAX).await
        else {
            panic!("the log has it");
        };
        drop(fold);
        views.promote(store, None).expect("a folder");
        let before = views.current().expect("views");
        before.flush().expect("a healthy store");
        views.continue_copy().expect("whole views");
        let copy = views.begin().expect("a copy");
        assert_eq!(copy.store().checkpoint(), before.checkpoint());
        assert!(
            views
                .current()
                .is_some_and(|current| Arc::ptr_eq(&before, &current))
        );
    }
}
