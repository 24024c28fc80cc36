//! `/keys/manage`: the page of the link in a mail, where a key is replaced or revoked.
//!
//! GET changes nothing, because mail scanners follow links. A link works for the key of its mail and for the keys that
//! replaced it.

use std::sync::Arc;

use askama::Template;
use axum::Extension;
use axum::extract::{Request, State};
use axum::http::StatusCode;
use axum::response::Response;
use events::{Moment, Text};
use jiff::fmt::friendly::{Designator, Spacing, SpanPrinter};
use jiff::{SignedDuration, Timestamp};

use super::form::Form;
use super::{PageCaching, PageError, page, run_command};
use crate::accounts::{ApiKey, CommandError, Key, KeyId, KeyState, is_secret, now, random_secret};
use crate::http::params::QueryParams;
use crate::http::state::App;
use crate::limits::Network;
use crate::log::LogError;

/// The number of keys shown, newest first.
const KEYS_SHOWN_MAX: usize = 5;
/// How often a revocation is tried while other writers change the key.
const REVOKE_TRIES_MAX: u32 = 10;
const REVOKED_BY_LINK: &str = "by the subscriber, with the link in the mail";

#[derive(Template)]
#[template(path = "pages/manage.html")]
struct ManagePage<'a> {
    token: &'a str,
    /// The new key is derived from the nonce and the token: pressing the same button again creates the same key.
    nonce: String,
    new_key: Option<ApiKey>,
    notice: Option<&'static str>,
    keys: Vec<KeyRow>,
    /// Whether no key is valid.
    is_over: bool,
    overlap: String,
    env: &'static str,
}

struct KeyRow {
    id: KeyId,
    state: &'static str,
    is_valid: bool,
    can_rotate: bool,
    issued: String,
    end: Option<String>,
}

impl KeyRow {
    fn of(key_id: KeyId, key: &Key, now: Moment) -> Self {
        let state = key.state(now);
        let until = |what: &str, end: Moment| format!("{what} {}", date_time(end));
        let end = match (&key.revoked, key.valid_until()) {
            (Some(revoked), _) => Some(until("revoked", revoked.at)),
            (None, Some(end)) if key.is_valid(now) => Some(until("valid until", end)),
            (None, Some(end)) => Some(until("ended", end)),
            (None, None) => None,
        };
        Self {
            id: key_id,
            state: match state {
                KeyState::Valid => "valid",
                KeyState::Overlapping => "replaced, and still valid",
                KeyState::Rotated => "replaced",
                KeyState::Expired => "expired",
                KeyState::Revoked => "revoked",
            },
            is_valid: key.is_valid(now),
            can_rotate: state == KeyState::Valid,
            issued: date_time(key.issued_at),
            end,
        }
    }
}

fn date_time(moment: Moment) -> String {
    let time = moment.timestamp();
    time.strftime("%-d %B %Y, %H:%M UTC").to_string()
}

/// A duration as words, such as `24 hours`.
fn duration_text(duration: SignedDuration) -> String {
    let printer = SpanPrinter::new()
        .designator(Designator::Verbose)
        .spacing(Spacing::BetweenUnitsAndDesignators);
    printer.duration_to_string(&duration)
}

/// The keys of a link, newest first.
fn rows(app: &App, token: &str) -> Result<Vec<KeyRow>, PageError> {
    let ledger = app.ledger.borrow();
    let Some((_, mail)) = ledger.mail_of_link(token) else {
        // Before all events are read, the link may be valid.
        return Err(if app.keys.is_complete() {
            PageError::UnknownLink
        } else {
            PageError::NotReady
        });
    };
    let now = now();
    let keys = ledger.keys_of_mail(mail);
    let mut rows: Vec<_> = keys.map(|(id, key)| KeyRow::of(id, key, now)).collect();
    rows.reverse();
    Ok(rows)
}

/// The page of a link, with a new key or a notice.
fn manage_page(
    app: &App,
    token: &str,
    new_key: Option<ApiKey>,
    notice: Option<&'static str>,
) -> Result<Response, PageError> {
    let mut keys = rows(app, token)?;
    let is_over = !keys.iter().any(|key| key.is_valid);
    keys.truncate(KEYS_SHOWN_MAX);
    let manage = ManagePage {
        token,
        nonce: random_secret().map_err(|_| PageError::NotReady)?,
        new_key,
        notice,
        keys,
        is_over,
        overlap: duration_text(app.pages.overlap),
        env: app.pages.key_env,
    };
    Ok(page(StatusCode::OK, PageCaching::NoStore, &manage))
}

pub(super) async fn show(State(app): State<Arc<App>>, query: QueryParams) -> Response {
    let token = query.get("token").unwrap_or_default();
    let page = manage_page(&app, token, None, None);
    page.unwrap_or_else(|error| error.page("../pricing"))
}

pub(super) async fn change(
    State(app): State<Arc<App>>,
    Extension(network): Extension<Network>,
    request: Request,
) -> Response {
    let changed = match Form::read(request).await {
        Ok(form) => apply(&app, network, &form).await,
        Err(error) => Err(error),
    };
    changed.unwrap_or_else(|error| error.page("../pricing"))
}

/// Carries out the button of a form.
async fn apply(app: &Arc<App>, network: Network, form: &Form) -> Result<Response, PageError> {
    let token = form.get("token");
    let rows = rows(app, token)?;
    let key_id = KeyId::parse(form.get("key")).filter(|id| rows.iter().any(|row| row.id == *id));
    let key_id = key_id.ok_or(PageError::InvalidForm)?;
    match form.get("do") {
        "rotate" => {
            let nonce = form.get("nonce");
            if !is_secret(nonce) {
                return Err(PageError::InvalidForm);
            }
            let limited = app.pages.per_network.take(&network);
            limited.map_err(|retry_after| PageError::TooManyRequests { retry_after })?;
            let new = ApiKey::derive(app.pages.key_env, &[token, nonce, key_id.as_str()]);
            let rotated = run_command(rotate(Arc::clone(app), key_id, new)).await?;
            let notice = rotated.is_none().then_some(
                "This key was replaced or revoked before, so nothing was changed. If you do not have the new key, replace that one.",
            );
            manage_page(app, token, rotated, notice)
        }
        "revoke" => {
            run_command(revoke(Arc::clone(app), key_id)).await?;
            let notice = "It is revoked. Programs that use it are rejected.";
            manage_page(app, token, None, Some(notice))
        }
        _ => Err(PageError::InvalidForm),
    }
}

/// Replaces a key by a new one, and returns the new one if it is valid: now, or by an earlier press of the same button.
async fn rotate(app: Arc<App>, key_id: KeyId, new: ApiKey) -> Result<Option<ApiKey>, CommandError> {
    let valid_until = Timestamp::now().saturating_add(app.pages.overlap);
    let valid_until = valid_until.unwrap_or(Timestamp::MAX).into();
    let rotated = app.pages.commands.rotate(key_id, &new, valid_until).await;
    if let Err(CommandError::Log(error)) = rotated
        && !matches!(error, LogError::Conflict)
    {
        return Err(error.into());
    }
    // The ledger has the outcome, whether this command or an earlier one rotated the key.
    let ledger = app.ledger.borrow();
    let key = ledger.key(new.key_id());
    let is_valid = key.is_some_and(|key| key.hash == new.hash() && key.is_valid(now()));
    Ok(is_valid.then_some(new))
}

/// Revokes a key, also if another writer changes it at the same time.
async fn revoke(app: Arc<App>, key_id: KeyId) -> Result<(), CommandError> {
    let reason = Text::parse(REVOKED_BY_LINK).unwrap_or_default();
    let mut retries = 1..REVOKE_TRIES_MAX;
    loop {
        match app.pages.commands.revoke(key_id, reason.clone()).await {
            Err(CommandError::Log(LogError::Conflict)) if retries.next().is_some() => {}
            outcome => return outcome,
        }
    }
}
