//! [`App`]: the state that all requests share.

use std::sync::Arc;

use events::VenueCode;
use jiff::SignedDuration;
use projections::Store;
use tokio::sync::watch;

use super::error::ApiError;
use crate::accounts::{AccountCommands, KeyCache, Ledger};
use crate::clock::Clock;
use crate::limits::plans::Plans;
use crate::limits::{HashedLimiter, Proxies};
use crate::live::FanOut;
use crate::live::feed::Feed;
use crate::live::status::Phase;
use crate::log::ConnectionStatus;
use crate::metrics::HttpMetrics;
use crate::projector::ProjectorHandle;
use crate::projector::views::Views;
use crate::shutdown::Shutdown;

#[derive(Debug)]
pub struct App {
    pub views: Arc<Views>,
    pub keys: Arc<KeyCache>,
    /// All keys, subscriptions and mails.
    pub ledger: watch::Receiver<Ledger>,
    pub plans: Plans,
    /// Limits requests without a valid key, by network.
    pub unauthenticated_limiter: HashedLimiter,
    /// The proxies whose `X-Forwarded-For` is trusted.
    pub proxies: Proxies,
    /// The status of the projector, and its commands.
    pub projector: ProjectorHandle,
    /// Whether the log is connected.
    pub connection: watch::Receiver<ConnectionStatus>,
    /// The service is going to stop, and new requests should go to another one.
    pub draining: Shutdown,
    pub clock: Clock,
    /// The venues by precedence, for days with several meetings.
    pub venue_order: Vec<VenueCode>,
    pub feed: Feed,
    pub metrics: Arc<HttpMetrics>,
    pub fan_out: FanOut,
    /// The web pages that may connect to the live channel.
    pub ws_origins: Origins,
    /// Whether the service can mail keys. If not, sign-up is closed.
    pub can_mail: bool,
    pub pages: Pages,
}

/// The state of the pages for subscribers.
#[derive(Debug)]
pub struct Pages {
    pub commands: AccountCommands,
    /// The environment in the text of new keys.
    pub key_env: &'static str,
    /// The time for which a rotated key stays valid.
    pub overlap: SignedDuration,
    /// Limits sign-ups and rotations by network.
    pub per_network: HashedLimiter,
    /// Limits sign-ups by e-mail address.
    pub per_email: HashedLimiter,
}

/// The web pages that may connect, by the origin that browsers send (RFC 6454).
#[derive(Debug, Clone, Default)]
pub struct Origins(Vec<String>);

impl Origins {
    /// Allows these origins, such as `https://racing.example`. An empty list or one with `*` allows all.
    pub fn new(allowed: Vec<String>) -> Self {
        let any = allowed.iter().any(|origin| origin == "*");
        Self(if any { Vec::new() } else { allowed })
    }

    pub(super) fn allow(&self, origin: &[u8]) -> bool {
        let is = |allowed: &String| allowed.as_bytes().eq_ignore_ascii_case(origin);
        self.0.is_empty() || self.0.iter().any(is)
    }
}

impl App {
    /// The position of a venue in the configured order. Other venues come last.
    pub(super) fn venue_rank(&self, code: &str) -> usize {
        let mut order = self.venue_order.iter();
        let rank = order.position(|venue| venue.as_str() == code);
        rank.unwrap_or(self.venue_order.len())
    }

    /// The views, once they reflect the log.
    pub(super) fn ready_store(&self) -> Result<Arc<Store>, ApiError> {
        let reason = match self.projector.status.borrow().phase {
            Phase::Live => return Ok(self.views.current()),
            Phase::CatchingUp => "The views are catching up with the log; see /readyz",
            Phase::WaitingForLog => "The log cannot be reached yet; see /readyz",
        };
        Err(ApiError::NotReady(reason))
    }
}
