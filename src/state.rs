//! [`App`]: what every request may look at.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use events::VenueCode;
use tokio::sync::{Semaphore, watch};

use crate::clock::Clock;
use crate::feed::Feed;
use crate::keys::KeyRing;
use crate::log::Connection;
use crate::metrics::HttpMetrics;
use crate::projector::ProjectorHandle;
use crate::shutdown::Shutdown;
use crate::views::Views;

/// What every request may look at.
#[derive(Debug)]
pub struct App {
    /// The views.
    pub views: Arc<Views>,
    /// The keys.
    pub keys: Arc<KeyRing>,
    /// It is known which keys are valid.
    pub keys_read: Arc<AtomicBool>,
    /// Where the projector stands.
    pub projector: ProjectorHandle,
    /// Whether the log is there.
    pub connection: watch::Receiver<Connection>,
    /// Which day it is.
    pub clock: Clock,
    /// Which venue comes first.
    pub venue_order: Vec<VenueCode>,
    /// What changes.
    pub feed: Feed,
    /// What is counted.
    pub metrics: Arc<HttpMetrics>,
    /// Places for WebSockets.
    pub sockets: Arc<Semaphore>,
    /// When it ends.
    pub shutdown: Shutdown,
}

impl App {
    /// Where a venue stands in the configured order; those that are not in it come last.
    #[must_use]
    pub fn venue_rank(&self, code: &str) -> usize {
        let order = &self.venue_order;
        order
            .iter()
            .position(|venue| venue.as_str() == code)
            .unwrap_or(order.len())
    }

    /// Whether it is known which keys are valid.
    #[must_use]
    pub fn keys_loaded(&self) -> bool {
        self.keys_read.load(Ordering::Acquire)
    }
}
