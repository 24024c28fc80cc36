//! [`App`]: what every request may look at.

use std::sync::Arc;

use events::VenueCode;
use jiff::SignedDuration;
use tokio::sync::watch;

use crate::accounts::{AccountCommands, KeyCache, Ledger};
use crate::clock::Clock;
use crate::limits::plans::Plans;
use crate::limits::{HashedLimiter, Proxies};
use crate::live::FanOut;
use crate::live::feed::Feed;
use crate::log::ConnectionStatus;
use crate::metrics::HttpMetrics;
use crate::projector::ProjectorHandle;
use crate::projector::views::Views;

/// What every request may look at.
#[derive(Debug)]
pub struct App {
    /// The views.
    pub views: Arc<Views>,
    /// The keys that are valid.
    pub keys: Arc<KeyCache>,
    /// All that is known of keys, subscriptions and mails.
    pub ledger: watch::Receiver<Ledger>,
    /// What those who hold keys may do.
    pub plans: Plans,
    /// How often who has no valid key is answered.
    pub unauthenticated_limiter: HashedLimiter,
    /// Whose word counts on where a request comes from.
    pub proxies: Proxies,
    /// Where the projector stands.
    pub projector: ProjectorHandle,
    /// Whether the log is there.
    pub connection: watch::Receiver<ConnectionStatus>,
    /// Which day it is.
    pub clock: Clock,
    /// Which venue comes first.
    pub venue_order: Vec<VenueCode>,
    /// What changes.
    pub feed: Feed,
    /// What is counted.
    pub metrics: Arc<HttpMetrics>,
    /// Who is told.
    pub fan_out: FanOut,
    /// Which web pages may connect to the live channel.
    pub ws_origins: Origins,
    /// Whether keys can be mailed. Where they cannot, sign-up is closed.
    pub can_mail: bool,
    /// What the pages for subscribers need.
    pub pages: Pages,
}

/// What the pages for subscribers need.
#[derive(Debug)]
pub struct Pages {
    /// Where it is said what they ask for.
    pub commands: AccountCommands,
    /// The environment that stands in keys.
    pub key_env: &'static str,
    /// For how long a key that was replaced by its link stays valid.
    pub overlap: SignedDuration,
    /// What may be asked for from one network.
    pub per_network: HashedLimiter,
    /// What may be asked for with one e-mail address.
    pub per_email: HashedLimiter,
}

/// Which web pages may connect, by the origin that browsers say (RFC 6454).
#[derive(Debug, Clone, Default)]
pub struct Origins(Vec<String>);

impl Origins {
    /// These, such as `https://racing.example`; any, if there are none or `*` is among them.
    #[must_use]
    pub fn new(allowed: Vec<String>) -> Self {
        let any = allowed.iter().any(|origin| origin == "*");
        Self(if any { Vec::new() } else { allowed })
    }

    /// Whether pages of an origin may connect.
    #[must_use]
    pub fn allow(&self, origin: &[u8]) -> bool {
        let is = |allowed: &String| allowed.as_bytes().eq_ignore_ascii_case(origin);
        self.0.is_empty() || self.0.iter().any(is)
    }
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
}
