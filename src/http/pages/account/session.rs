//! [`SignedIn`]: the session of a request, by its cookie.

use std::time::Duration;

use axum::http::header::COOKIE;
use axum::http::{HeaderMap, HeaderValue};
use tokio::time::timeout;

use crate::accounts::{AccountSession, Holder, SESSION_READS, is_secret, now};
use crate::http::pages::PageError;
use crate::http::state::{App, Pages};

/// Browsers accept the prefix only of a page by TLS, and then for this host alone.
const NAME_SECURE: &str = "__Host-railbird";
const NAME: &str = "railbird";

/// The wait for a session that another replica has started a moment ago: it answers with a redirection, which may lead
/// here before the event does.
const REPLICA_LAG_MAX: Duration = Duration::from_secs(1);

/// Someone who is signed in.
pub(super) struct SignedIn {
    pub(super) session: AccountSession,
    pub(super) holder: Holder,
    /// The value of the cookie.
    pub(super) secret: String,
}

impl SignedIn {
    /// The session of a request; `None` without one, or after its end.
    pub(super) async fn of(app: &App, headers: &HeaderMap) -> Result<Option<Self>, PageError> {
        let Some(secret) = session_secret(headers, &app.pages) else {
            return Ok(None);
        };
        let mut ledger = app.health.ledger.clone();
        let folded = ledger.wait_for(|ledger| ledger.session(secret, now()).is_some());
        let _ = timeout(REPLICA_LAG_MAX, folded).await;
        // Before all events are read, the session may be valid.
        let Some(session) = app.health.ledger.borrow().session(secret, now()).cloned() else {
            let is_complete = app.keys.is_complete();
            return is_complete.then_some(None).ok_or(PageError::NotReady);
        };
        Ok(Some(Self {
            holder: Holder::Subscription(session.subscription_id.clone()),
            session,
            secret: secret.to_owned(),
        }))
    }

    /// Whether the account can be changed. Later, the session is for reading alone.
    pub(super) fn can_change(&self) -> bool {
        self.session.expires_at > now()
    }
}

fn name(pages: &Pages) -> &'static str {
    match pages.url.is_secure() {
        true => NAME_SECURE,
        false => NAME,
    }
}

/// The cookie of a session, or one that removes it.
pub(super) fn cookie(pages: &Pages, secret: Option<&str>) -> HeaderValue {
    let seconds = secret.map_or(0, |_| SESSION_READS.as_secs());
    let secret = secret.unwrap_or_default();
    let name = name(pages);
    let secure = match name {
        NAME_SECURE => "; Secure",
        _ => "",
    };
    let cookie =
        format!("{name}={secret}; Path=/; Max-Age={seconds}; HttpOnly; SameSite=Strict{secure}");
    HeaderValue::try_from(cookie).expect("ASCII")
}

/// The value of the cookie, if it has the form of a secret.
pub(in crate::http) fn session_secret<'a>(
    headers: &'a HeaderMap,
    pages: &Pages,
) -> Option<&'a str> {
    let name = name(pages);
    let cookies = headers.get_all(COOKIE).iter();
    let mut cookies = cookies.flat_map(|value| value.to_str().unwrap_or_default().split(';'));
    let value = cookies.find_map(|cookie| cookie.trim().strip_prefix(name)?.strip_prefix('='));
    value.filter(|value| is_secret(value))
}
