//! [`SignedIn`]: the session of a request, by its cookie.

use axum::http::header::COOKIE;
use axum::http::{HeaderMap, HeaderValue};

use crate::accounts::{AccountSession, Holder, SESSION_LASTS, is_secret, now};
use crate::http::pages::PageError;
use crate::http::state::{App, Pages};

/// Browsers accept the prefix only of a page by TLS, and then for this host alone.
const NAME_SECURE: &str = "__Host-railbird";
const NAME: &str = "railbird";

/// Someone who is signed in.
pub(super) struct SignedIn {
    pub(super) session: AccountSession,
    pub(super) holder: Holder,
    /// The value of the cookie.
    pub(super) secret: String,
}

impl SignedIn {
    /// The session of a request; `None` if there is none, or it has ended.
    pub(super) fn of(app: &App, headers: &HeaderMap) -> Result<Option<Self>, PageError> {
        let Some(secret) = secret(headers, name(&app.pages)) else {
            return Ok(None);
        };
        let Some(session) = app.ledger.borrow().session(secret, now()).cloned() else {
            // Before all events are read, the session may be valid.
            return match app.keys.is_complete() {
                true => Ok(None),
                false => Err(PageError::NotReady),
            };
        };
        Ok(Some(Self {
            holder: Holder::Subscription(session.subscription_id.clone()),
            session,
            secret: secret.to_owned(),
        }))
    }
}

fn is_secure(pages: &Pages) -> bool {
    pages.public_url.as_ref().is_some_and(|url| url.is_secure())
}

fn name(pages: &Pages) -> &'static str {
    match is_secure(pages) {
        true => NAME_SECURE,
        false => NAME,
    }
}

/// The cookie of a session.
pub(super) fn cookie(pages: &Pages, secret: &str) -> HeaderValue {
    with_age(pages, secret, SESSION_LASTS.as_secs())
}

/// Removes the cookie.
pub(super) fn expired_cookie(pages: &Pages) -> HeaderValue {
    with_age(pages, "", 0)
}

fn with_age(pages: &Pages, secret: &str, seconds: i64) -> HeaderValue {
    let secure = if is_secure(pages) { "; Secure" } else { "" };
    let name = name(pages);
    let cookie =
        format!("{name}={secret}; Path=/; Max-Age={seconds}; HttpOnly; SameSite=Strict{secure}");
    HeaderValue::try_from(cookie).expect("ASCII")
}

/// The value of the cookie, if it has the form of a secret.
fn secret<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    let cookies = headers.get_all(COOKIE).iter();
    let mut cookies = cookies.flat_map(|value| value.to_str().unwrap_or_default().split(';'));
    let value = cookies.find_map(|cookie| cookie.trim().strip_prefix(name)?.strip_prefix('='));
    value.filter(|value| is_secret(value))
}
