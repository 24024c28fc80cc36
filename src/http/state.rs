//! [`App`]: the state that all requests share.

use std::sync::{Arc, OnceLock};

use events::VenueCode;
use projections::Store;

use super::asyncapi_documents::AsyncApiDocuments;
use super::cors::Origins;
use super::error::{ApiError, capitalized};
use super::exports::files::ExportFiles;
use super::front_page::FrontPage;
use super::status::board::StatusBoard;
use crate::accounts::{AccountCommands, KeyCache};
use crate::clock::Clock;
use crate::health::Health;
use crate::limits::{HashedLimiter, Proxies};
use crate::live::FanOut;
use crate::metrics::HttpMetrics;
use crate::past::Past;
use crate::projector::views::Views;
use crate::projector::{Phase, ProjectorHandle};
use crate::public_url::PublicUrl;

#[derive(derive_more::Debug)]
pub struct App {
    pub views: Arc<Views>,
    pub keys: Arc<KeyCache>,
    /// Limits requests without a valid key, by network.
    pub unauthenticated_limiter: HashedLimiter,
    /// Limits the KiB of pages and documents that need no key, by what one customer of a provider can have.
    pub open_limiter: HashedLimiter,
    /// The proxies whose `X-Forwarded-For` is trusted.
    pub proxies: Proxies,
    /// The status of the projector, and its commands.
    pub projector: ProjectorHandle,
    /// What is wrong with the service, and what that means.
    pub health: Health,
    pub clock: Clock,
    /// The venues by precedence, for days with several meetings.
    pub venue_order: Vec<VenueCode>,
    pub past: Arc<Past>,
    pub exports: ExportFiles,
    pub metrics: Arc<HttpMetrics>,
    pub fan_out: FanOut,
    /// What the status page shows.
    pub(crate) status: StatusBoard,
    /// The pages of other origins that may send a key.
    pub origins: Origins,
    pub asyncapi: AsyncApiDocuments,
    /// Where to report a vulnerability.
    pub security_contact: Option<String>,
    pub pages: Pages,
    pub front_page: FrontPage,
    /// The key of `railbird dev`, for its own board. It is set once, by that alone.
    #[debug(skip)]
    pub dev_key: OnceLock<String>,
}

/// The state of the pages for subscribers.
#[derive(Debug)]
pub struct Pages {
    pub commands: AccountCommands,
    /// The environment in the text of new keys.
    pub key_env: &'static str,
    /// Where browsers find the service: the configured URL, else the address that it listens on.
    pub url: PublicUrl,
    /// The address of the picture of the board: absolute, as other sites need it, if the URL is configured.
    pub picture: String,
    /// Limits sign-ups by what one customer of a provider can have.
    pub sign_ups_per_network: HashedLimiter,
    /// Limits sign-ups by mailbox.
    pub sign_ups_per_email: HashedLimiter,
    /// Which sign-ups are the first of a network.
    pub first_sign_ups: HashedLimiter,
    /// Limits all first sign-ups of a network, and all others.
    pub sign_ups: HashedLimiter,
    /// Limits requests for a link to sign in, apart from sign-ups: those of others never delay them.
    pub links_per_network: HashedLimiter,
    pub links_per_email: HashedLimiter,
    /// Limits changes of keys by subscription.
    pub changes: HashedLimiter,
}

impl App {
    /// The position of a venue in the configured order. Other venues come last.
    pub(super) fn venue_rank(&self, code: &str) -> usize {
        let mut order = self.venue_order.iter();
        let rank = order.position(|venue| venue.as_str() == code);
        rank.unwrap_or(self.venue_order.len())
    }

    /// The views in force. They may be older than the log; then nothing is known to be missing in it, see
    /// [`App::is_caught_up`].
    pub(super) fn store(&self) -> Result<Arc<Store>, ApiError> {
        self.views.current().ok_or_else(|| self.not_ready())
    }

    /// Whether the views reflect the log, so that what they do not have does not exist.
    pub(super) fn is_caught_up(&self) -> bool {
        self.health.monitor.progress().phase == Phase::Live
    }

    /// # Errors
    /// Returns [`ApiError::NotReady`] unless the live channel has the images of the views: those of the log, or of the
    /// log that they were folded from.
    pub(super) fn require_feed(&self) -> Result<(), ApiError> {
        match self.health.monitor.progress().phase {
            Phase::Live | Phase::Diverged => Ok(()),
            _ => Err(self.not_ready()),
        }
    }

    /// The error of a request that read views of which it is known whether they were caught up before. What older views
    /// do not have may exist.
    pub(super) fn unless_caught_up(&self, was_caught_up: bool, error: ApiError) -> ApiError {
        match error {
            ApiError::NotFound(_) if !was_caught_up => self.not_ready(),
            error => error,
        }
    }

    /// The reason why the views do not reflect the log.
    pub(super) fn not_ready(&self) -> ApiError {
        let reason = match self.health.state().unready(None) {
            none if none.is_empty() => "the views are being replaced".to_owned(),
            reason => reason,
        };
        ApiError::NotReady(format!("{}; see /readyz", capitalized(reason)))
    }
}
