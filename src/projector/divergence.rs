//! What the projector does while the log has another history than the views.

use std::sync::Arc;

use projections::open_races;

use super::Projector;
use super::fold::{FoldError, RunningFold, blocking};
use crate::live::feed::Replayed;
use crate::live::status::Phase;
use crate::log::{LogReplaced, LogState, RACING, Resolution};

impl Projector {
    /// Serves the old views until their log is back, or until the views are folded from the log that an operator
    /// accepted.
    pub(super) async fn wait_for_decision(&mut self, replaced: LogReplaced) {
        self.status.send_modify(|status| {
            status.phase = Phase::Diverged;
            status.rebuild = None;
        });
        if let Err(error) = self.serve_old_views().await {
            tracing::error!(%error, "cannot serve the old views to sockets");
        }
        let resolving = self.continuity.resolve(&self.log, RACING, replaced);
        match resolving.await {
            Resolution::Continued => {}
            // The views that fail here are still those of the old log: the next attempt to follow ends here again.
            Resolution::Accepted(state) => match self.fold_accepted(&state).await {
                Ok(()) => self.reset_status(),
                Err(error) => tracing::error!(%error, "cannot fold the accepted log"),
            },
        }
    }

    /// Gives sockets the images of the old views, if this process has not been live yet.
    async fn serve_old_views(&self) -> Result<(), FoldError> {
        let (store, feed) = (self.views.current(), self.feed.clone());
        let Some(checkpoint) = store.checkpoint() else {
            return Ok(());
        };
        if feed.position().generation > 0 {
            return Ok(());
        }
        let none = Replayed {
            complete_from: checkpoint.seq + 1,
            updates: Vec::new(),
        };
        blocking(move || {
            feed.reset(&checkpoint.log, checkpoint.seq, open_races(&store)?, none);
            Ok(())
        })
        .await
    }

    /// Folds the accepted log beside the old views, and then replaces them.
    async fn fold_accepted(&mut self, state: &LogState) -> Result<(), FoldError> {
        let views = Arc::clone(&self.views);
        let created = tokio::task::spawn_blocking(move || views.create()).await;
        let store = created
            .unwrap_or_else(|panicked| Err(panicked.into()))
            .map_err(FoldError::Io)?;
        let mut fold = RunningFold::resume(&self.log, Arc::clone(&store.store), state)?;
        loop {
            let batch = fold.next_batch().await?;
            let pending = batch.pending;
            (fold, _) = fold.step(batch, false).await?;
            let seq = fold.seq();
            self.status
                .send_modify(|status| status.rebuild = Some((seq, pending)));
            if pending == 0 {
                break;
            }
        }
        self.views.promote(store).map_err(FoldError::Io)?;
        self.continuity.note(&fold.checkpoint().clone().into());
        // The sequences of the old log are used again.
        self.announcer.forget();
        tracing::info!(
            seq = fold.seq(),
            "the views of the accepted log are in force"
        );
        Ok(())
    }
}
