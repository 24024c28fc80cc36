//! The health of the service: facts about its parts, the reasons why something is wrong, and what each means.
//!
//! [`Health`] reads the facts as a [`ServiceState`]; that finds the [`Reason`]s. HTTP, the live channel, the metrics
//! and the service manager only render them.

mod history;
mod liveness;
mod reason;
mod sources;
mod state;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use jiff::Timestamp;
use tokio::sync::watch;

use crate::accounts::{KeyCache, Ledger};
use crate::feed::Feed;
use crate::log::{Continuity, Durability};
use crate::projector::lag::Lag;
use crate::projector::snapshots::SnapshotRequests;
use crate::projector::views::Views;
use crate::shutdown::Shutdown;

pub(crate) use history::{History, MINUTES_MAX, Minute, Sample, Totals};
pub(crate) use liveness::FeedHealth;
pub use liveness::{FeedMonitor, Liveness, STALE_AFTER};
pub use reason::Reason;
pub(crate) use reason::{Component, Impact};
pub use sources::Sources;
pub(crate) use sources::{SourceHealth, SourceState};
pub use state::ServiceState;

/// The sources of the facts. Clones share them.
#[derive(Debug, Clone)]
pub struct Health {
    pub monitor: FeedMonitor,
    pub feed: Feed,
    pub views: Arc<Views>,
    pub keys: Arc<KeyCache>,
    /// All keys, subscriptions and mails.
    pub ledger: watch::Receiver<Ledger>,
    /// Whether the streams are those that were read before.
    pub continuity: Continuity,
    /// Whether the log keeps what it acknowledges; `None` before the first check.
    pub durability: watch::Receiver<Option<Durability>>,
    pub lag: Lag,
    /// Has snapshots of the views written.
    pub snapshots: SnapshotRequests,
    /// The service is going to stop, and new requests should go to another one.
    pub draining: Shutdown,
    /// Whether the service can mail keys. If not, sign-up is closed.
    pub can_mail: bool,
}

impl Health {
    /// The state of the service now.
    pub fn state(&self) -> ServiceState {
        let fold = self.monitor.progress();
        let has_views = self.views.read_current().is_some();
        let durability = self.durability.borrow();
        let (_, oldest_mail) = self.ledger.borrow().waiting_mails(Timestamp::now());
        ServiceState {
            is_draining: self.draining.is_cancelled(),
            has_views,
            // The first views of a service replace none.
            is_rebuilding: fold.rebuild.is_some() && (has_views || !self.views.note().is_empty()),
            connection: self.monitor.connection(),
            divergences: self.continuity.divergences(),
            has_keys: self.keys.is_complete(),
            are_keys_stale: self.keys.is_complete() && self.keys.is_stale(),
            has_been_live: self.feed.position().generation > 0,
            is_lagging: self.lag.should_leave(),
            snapshots_fail: self.snapshots.are_failing(),
            are_servers_away: (durability.as_ref()).is_some_and(|found| !found.away.is_empty()),
            has_risks: (durability.as_ref()).is_some_and(|found| !found.risks().is_empty()),
            oldest_mail: self.can_mail.then_some(oldest_mail),
            sources: self.monitor.sources.states(),
            fold,
        }
    }
}
