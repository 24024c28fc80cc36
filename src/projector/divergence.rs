//! What the projector does while the log has another history than the views.

use projections::open_races;

use super::Projector;
use super::fold::{FoldResult, blocking};
use super::status::Phase;
use super::views::NamedStore;
use crate::feed::Replayed;
use crate::log::{LogReplaced, RACING, Resolution};

impl Projector {
    /// Serves the old views until their log is back, or until an operator accepts the other one. Its views are then
    /// built beside the old ones.
    pub(super) async fn wait_for_decision(&mut self, replaced: LogReplaced) {
        let reason = replaced.to_string();
        self.not_live(Phase::Diverged, None);
        if let Err(error) = self.serve_old_views().await {
            tracing::error!(%error, "cannot serve the old views to sockets");
        }
        // The log has to continue all that is served, also what was read since the position was last noted.
        if let Some(checkpoint) = self.views.current().and_then(|store| store.checkpoint()) {
            self.continuity.note_views(&checkpoint.into());
        }
        let resolving = self.continuity.resolve(&self.log, RACING, replaced);
        if let Resolution::Accepted(state) = resolving.await {
            self.accepted = Some(state);
            self.replace = Some(reason);
        }
    }

    /// Gives sockets the images of the old views, if this process has not been live yet.
    async fn serve_old_views(&self) -> FoldResult<()> {
        let feed = self.feed.clone();
        if let Some(NamedStore { name, store, .. }) = self.views.read_current()
            && let Some(checkpoint) = store.checkpoint()
            && feed.position().generation == 0
        {
            let reset = move || {
                let none = Replayed::nothing(&checkpoint);
                feed.reset(&checkpoint, open_races(&store)?, none);
                Ok(())
            };
            blocking(&name, reset).await?;
        }
        Ok(())
    }
}
