//! `/account`: the page where a subscriber sees, creates, replaces and revokes keys, and leaves.
//!
//! There is no password: the link in a mail starts a session. GET changes nothing, because mail scanners follow links.
//! The answer to a request for a link is the same whether or not the address is known, as nothing waits for the
//! outcome.

mod session;

use std::sync::Arc;
use std::time::Duration;

use askama::Template;
use axum::Extension;
use axum::extract::{Request, State};
use axum::http::header::{LOCATION, SET_COOKIE};
use axum::http::{HeaderMap, HeaderValue, StatusCode};
use axum::response::Response;
use events::{Moment, Text};
use jiff::{SignedDuration, Timestamp};
use tokio::time::sleep;

use self::session::{SignedIn, cookie, expired_cookie};
use super::form::Form;
use super::{PageCaching, PageError, page, run_command, subscriber};
use crate::accounts::{
    AccountCommands, ApiKey, CommandError, Email, Key, KeyId, KeyState, LINK_LASTS,
    SubscriptionState, derive_secret, is_secret, now, random_secret,
};
use crate::http::params::QueryParams;
use crate::http::state::App;
use crate::limits::{Network, Period};
use crate::log::LogError;

/// The time of the answer to a request for a link.
const ANSWER_AFTER: Duration = Duration::from_millis(300);
/// The keys that are shown, newest first: all valid ones, and then some of the others.
const KEYS_SHOWN_MAX: usize = 50;
/// How often a revocation is tried while other writers change the key.
const REVOKE_TRIES_MAX: u32 = 10;
/// The longest name of a key.
const NAME_CHARS_MAX: usize = 60;
const REVOKED_BY_SUBSCRIBER: &str = "by the subscriber";
const COOKIE_CONTEXT: &str = "railbird 2026-11-22 the cookie of a session";
/// For how long a replaced key stays valid, as the form offers it.
const OVERLAPS: [(&str, &str, SignedDuration); 4] = [
    ("24h", "24 hours", SignedDuration::from_hours(24)),
    ("7d", "7 days", SignedDuration::from_hours(7 * 24)),
    ("1h", "1 hour", SignedDuration::from_hours(1)),
    ("none", "not at all", SignedDuration::ZERO),
];

/// The form with which someone asks for a link.
#[derive(Default, Template)]
#[template(path = "pages/sign_in.html")]
struct SignInPage<'a> {
    can_mail: bool,
    email: &'a str,
    error: Option<&'static str>,
    notice: Option<&'static str>,
}

#[derive(Template)]
#[template(path = "pages/link_sent.html")]
struct LinkSentPage<'a> {
    email: &'a str,
    link_minutes: i64,
}

/// The page of a link.
#[derive(Template)]
#[template(path = "pages/link.html")]
struct LinkPage<'a> {
    token: &'a str,
    /// The cookie is derived from the nonce and the token: pressing the button again starts the same session.
    nonce: String,
    is_confirmed: bool,
}

/// The last page of someone who left, or did not subscribe.
#[derive(Template)]
#[template(path = "pages/left.html")]
struct LeftPage {
    is_erased: bool,
}

#[derive(Template)]
#[template(path = "pages/account.html")]
struct AccountPage {
    state: SubscriptionState,
    subscription_id: String,
    plan: String,
    limits: Vec<String>,
    keys: Vec<KeyRow>,
    keys_max: u32,
    can_create: bool,
    /// A new key is derived from the nonce and the cookie: pressing the same button again creates the same key.
    nonce: String,
    new_key: Option<ApiKey>,
    notice: Option<String>,
    url: String,
    overlaps: [(&'static str, &'static str, SignedDuration); 4],
    name_chars_max: usize,
}

struct KeyRow {
    id: KeyId,
    name: String,
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
            name: key.name.to_string(),
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

pub(super) async fn show(
    State(app): State<Arc<App>>,
    query: QueryParams,
    headers: HeaderMap,
) -> Response {
    let shown = match query.get("token") {
        Some(token) => link_page(&app, token),
        None => match SignedIn::of(&app, &headers) {
            Ok(Some(signed_in)) => account_page(&app, &signed_in, None, None),
            Ok(None) => Ok(sign_in_page(&app, StatusCode::OK, "", None, None)),
            Err(error) => Err(error),
        },
    };
    shown.unwrap_or_else(PageError::page)
}

pub(super) async fn change(
    State(app): State<Arc<App>>,
    Extension(network): Extension<Network>,
    request: Request,
) -> Response {
    let headers = request.headers().clone();
    let changed = match Form::read(request, app.pages.public_url.as_ref()).await {
        Ok(form) => apply(&app, network, &headers, &form).await,
        Err(error) => Err(error),
    };
    changed.unwrap_or_else(PageError::page)
}

/// Carries out the button of a form.
async fn apply(
    app: &Arc<App>,
    network: Network,
    headers: &HeaderMap,
    form: &Form,
) -> Result<Response, PageError> {
    let commands = app.pages.commands.by(subscriber(network, None));
    match form.get("do") {
        "link" => return send_link(app, network, commands, form.get("email")).await,
        "sign-in" => return sign_in(app, commands, form).await,
        "not-me" => return reject_link(commands, form.get("token")).await,
        _ => {}
    }
    let Some(signed_in) = SignedIn::of(app, headers)? else {
        let notice = Some("You are not signed in any more. Ask for another link.");
        let page = sign_in_page(app, StatusCode::FORBIDDEN, "", None, notice);
        return Ok(page);
    };
    let session = Some(signed_in.session.mail_id.clone());
    let commands = app.pages.commands.by(subscriber(network, session));
    let request = AccountChange {
        app,
        commands,
        signed_in,
        form,
    };
    match form.get("do") {
        "create" => request.create().await,
        "rotate" => request.rotate().await,
        "revoke" => request.revoke().await,
        "sign-out" => request.sign_out().await,
        "leave" if form.get("sure") == "yes" => request.leave().await,
        _ => Err(PageError::InvalidForm),
    }
}

fn sign_in_page(
    app: &App,
    status: StatusCode,
    email: &str,
    error: Option<&'static str>,
    notice: Option<&'static str>,
) -> Response {
    let sign_in = SignInPage {
        can_mail: app.can_mail,
        email,
        error,
        notice,
    };
    page(status, PageCaching::NoStore, &sign_in)
}

/// Sends a link to an address, if it is subscribed.
async fn send_link(
    app: &App,
    network: Network,
    commands: AccountCommands,
    typed: &str,
) -> Result<Response, PageError> {
    let again = |status, error| Ok(sign_in_page(app, status, typed, Some(error), None));
    if !app.can_mail {
        return again(
            StatusCode::FORBIDDEN,
            "This service cannot send mail at the moment.",
        );
    }
    let email = match Email::parse_input(typed) {
        Ok(email) => email,
        Err(error) => return again(StatusCode::UNPROCESSABLE_ENTITY, error),
    };
    let pages = &app.pages;
    let limited = pages.links_per_network.take(&network.customer());
    let limited = limited.and_then(|()| pages.links_per_email.take(&email.mailbox()));
    limited.map_err(|retry_after| PageError::TooManyRequests { retry_after })?;
    if !app.connection.borrow().up || !app.keys.is_complete() {
        return Err(PageError::NotReady);
    }
    let shown = email.reveal().to_owned();
    tokio::spawn(async move {
        if let Err(error) = commands.request_link(&email).await {
            tracing::warn!(%error, "a link could not be requested");
        }
    });
    sleep(ANSWER_AFTER).await;
    let sent = LinkSentPage {
        email: &shown,
        link_minutes: LINK_LASTS.as_mins(),
    };
    Ok(page(StatusCode::OK, PageCaching::NoStore, &sent))
}

/// The page of a link, with the buttons that use it.
fn link_page(app: &App, token: &str) -> Result<Response, PageError> {
    let ledger = app.ledger.borrow();
    let Some((_, mail)) = ledger.mail_of_link(token, now()) else {
        // Before all events are read, the link may be valid.
        return Err(match app.keys.is_complete() {
            true => PageError::UnknownLink,
            false => PageError::NotReady,
        });
    };
    let subscription = ledger.subscription(&mail.subscription_id);
    let link = LinkPage {
        token,
        nonce: nonce()?,
        is_confirmed: subscription.is_some_and(|known| known.confirmed_at.is_some()),
    };
    Ok(page(StatusCode::OK, PageCaching::NoStore, &link))
}

async fn sign_in(
    app: &Arc<App>,
    commands: AccountCommands,
    form: &Form,
) -> Result<Response, PageError> {
    let (token, nonce) = (form.get("token").to_owned(), form.get("nonce"));
    if !is_secret(nonce) {
        return Err(PageError::InvalidForm);
    }
    let secret = derive_secret(COOKIE_CONTEXT, &[&token, nonce]);
    let command = {
        let secret = secret.clone();
        async move { commands.start_session(&token, &secret).await }
    };
    // A second press finds the link used, and its session started.
    let _ = run_command(command).await?;
    if app.ledger.borrow().session(&secret, now()).is_none() {
        return Err(PageError::UnknownLink);
    }
    Ok(see_account(cookie(&app.pages, &secret)))
}

async fn reject_link(commands: AccountCommands, token: &str) -> Result<Response, PageError> {
    let token = token.to_owned();
    let command = async move { commands.reject_link(&token).await };
    match run_command(command).await? {
        Ok(()) => Ok(page(
            StatusCode::OK,
            PageCaching::NoStore,
            &LeftPage { is_erased: false },
        )),
        Err(_) => Err(PageError::UnknownLink),
    }
}

/// Leads to the account page, and sets a cookie.
fn see_account(cookie: HeaderValue) -> Response {
    let mut response = Response::new(axum::body::Body::empty());
    *response.status_mut() = StatusCode::SEE_OTHER;
    let headers = response.headers_mut();
    headers.insert(LOCATION, HeaderValue::from_static("account"));
    headers.insert(SET_COOKIE, cookie);
    response
}

fn nonce() -> Result<String, PageError> {
    random_secret().map_err(|_| PageError::NotReady)
}

/// The account page, with a new key or a notice.
fn account_page(
    app: &App,
    signed_in: &SignedIn,
    new_key: Option<ApiKey>,
    notice: Option<String>,
) -> Result<Response, PageError> {
    let (ledger, now) = (app.ledger.borrow(), now());
    let id = &signed_in.session.subscription_id;
    let (Some(subscription), Some(account)) =
        (ledger.subscription(id), ledger.account(&signed_in.holder))
    else {
        return Err(PageError::NotReady);
    };
    let mut keys: Vec<_> = ledger.keys_of(&signed_in.holder).collect();
    keys.reverse();
    keys.sort_by_key(|(_, key)| !key.is_valid(now));
    let valid = keys
        .iter()
        .filter(|(_, key)| key.state(now) == KeyState::Valid);
    let keys_max = keys_max(app, &account.plan);
    let url = app.pages.public_url.as_ref();
    let account = AccountPage {
        state: subscription.state(),
        subscription_id: id.to_string(),
        plan: account.plan.to_string(),
        limits: limits(app, account.keys.iter().copied()),
        can_create: subscription.is_active() && valid.count() < keys_max as usize,
        keys_max,
        keys: keys
            .iter()
            .take(KEYS_SHOWN_MAX)
            .map(|(id, key)| KeyRow::of(*id, key, now))
            .collect(),
        nonce: nonce()?,
        new_key,
        notice,
        url: url.map_or_else(|| "http://127.0.0.1:8080".to_owned(), ToString::to_string),
        overlaps: OVERLAPS,
        name_chars_max: NAME_CHARS_MAX,
    };
    Ok(page(StatusCode::OK, PageCaching::NoStore, &account))
}

/// The maximum valid keys on a plan.
fn keys_max(app: &App, plan: &Text) -> u32 {
    let known = app.plans.get(plan.as_str());
    known
        .map_or_else(|| app.plans.tightest(plan.clone()).keys, |known| known.keys)
        .get()
}

/// What a subscriber has used, in sentences. All keys share the limits.
fn limits(app: &App, mut keys: impl Iterator<Item = KeyId>) -> Vec<String> {
    let Some(entry) = keys.find_map(|id| app.keys.get(id)) else {
        return Vec::new();
    };
    let of_period = |period: Period| {
        let usage = entry.meter.usage(period)?;
        let (used, limit) = (usage.used, usage.limit);
        Some(format!(
            "{used} of {limit} requests this {}",
            period.as_str()
        ))
    };
    let requests = [Period::Day, Period::Minute]
        .into_iter()
        .filter_map(of_period);
    let connections = entry.meter.plan().connections.map(|limit| {
        let open = app.fan_out.clients_of(&entry.holder);
        format!("{open} of {limit} live connections")
    });
    requests.chain(connections).collect()
}

/// A change by someone who is signed in.
struct AccountChange<'a> {
    app: &'a Arc<App>,
    commands: AccountCommands,
    signed_in: SignedIn,
    form: &'a Form,
}

impl AccountChange<'_> {
    fn shown(&self, new_key: Option<ApiKey>, notice: &str) -> Result<Response, PageError> {
        let notice = (new_key.is_none() && !notice.is_empty()).then(|| notice.to_owned());
        account_page(self.app, &self.signed_in, new_key, notice)
    }

    /// Counts a change against the limit of the subscription: those of others never delay it.
    fn count(&self) -> Result<(), PageError> {
        let limited = self
            .app
            .pages
            .changes
            .take(&self.signed_in.session.subscription_id);
        limited.map_err(|retry_after| PageError::TooManyRequests { retry_after })
    }

    /// The key that a button creates.
    fn new_key(&self, button: &str) -> Result<ApiKey, PageError> {
        let nonce = self.form.get("nonce");
        if !is_secret(nonce) {
            return Err(PageError::InvalidForm);
        }
        let secrets = [&*self.signed_in.secret, nonce, button];
        Ok(ApiKey::derive(self.app.pages.key_env, &secrets))
    }

    /// The key that the form names.
    fn key(&self) -> Result<KeyId, PageError> {
        let key_id = KeyId::parse(self.form.get("key")).ok_or(PageError::InvalidForm)?;
        let ledger = self.app.ledger.borrow();
        let key = ledger
            .key(key_id)
            .filter(|key| key.holder == self.signed_in.holder);
        key.map(|_| key_id).ok_or(PageError::InvalidForm)
    }

    fn keys_max(&self) -> usize {
        let ledger = self.app.ledger.borrow();
        let account = ledger.account(&self.signed_in.holder);
        account.map_or(0, |account| keys_max(self.app, &account.plan)) as usize
    }

    /// Shows a key if it is valid: now, or by an earlier press of the same button. Else shows why not.
    fn created(&self, key: ApiKey, error: Option<CommandError>) -> Result<Response, PageError> {
        let is_valid = {
            let ledger = self.app.ledger.borrow();
            let found = ledger.key(key.key_id());
            found.is_some_and(|found| found.hash == key.hash() && found.is_valid(now()))
        };
        let notice = match error {
            Some(CommandError::TooManyKeys { keys_max }) => format!(
                "Nothing was changed: {keys_max} keys are valid, and your plan allows no more. Revoke one first."
            ),
            Some(CommandError::NotActive(_)) => {
                "Nothing was changed: the operator of the service has to approve your subscription first.".to_owned()
            }
            _ => "Nothing was changed: this key was replaced or revoked before.".to_owned(),
        };
        self.shown(is_valid.then_some(key), &notice)
    }

    async fn create(self) -> Result<Response, PageError> {
        let name = self.form.get("name").trim();
        let is_short = name.chars().count() <= NAME_CHARS_MAX;
        let Some(name) = Text::parse(name).ok().filter(|_| is_short) else {
            return self.shown(
                None,
                "Nothing was changed: the name is too long, or has line breaks.",
            );
        };
        let key = self.new_key("create")?;
        self.count()?;
        let (id, keys_max) = (
            self.signed_in.session.subscription_id.clone(),
            self.keys_max(),
        );
        let commands = self.commands.clone();
        let command = async move {
            let created = commands
                .issue_to_subscriber(id, (&key, name), keys_max)
                .await;
            Ok((key, unless_conflict(created)?))
        };
        let (key, error) = run_command(command)
            .await?
            .map_err(|_| PageError::NotReady)?;
        self.created(key, error)
    }

    async fn rotate(self) -> Result<Response, PageError> {
        let key_id = self.key()?;
        let chosen = self.form.get("overlap");
        let overlap = OVERLAPS.iter().find(|(value, ..)| *value == chosen);
        let (_, _, overlap) = overlap.ok_or(PageError::InvalidForm)?;
        let new = self.new_key(key_id.as_str())?;
        self.count()?;
        let valid_until = Timestamp::now().saturating_add(*overlap);
        let valid_until = valid_until.unwrap_or(Timestamp::MAX).into();
        let (holder, keys_max) = (self.signed_in.holder.clone(), self.keys_max());
        let commands = self.commands.clone();
        let command = async move {
            let rotated = commands
                .rotate_of_subscriber(&holder, key_id, &new, valid_until, keys_max)
                .await;
            Ok((new, unless_conflict(rotated)?))
        };
        let (new, error) = run_command(command)
            .await?
            .map_err(|_| PageError::NotReady)?;
        self.created(new, error)
    }

    async fn revoke(self) -> Result<Response, PageError> {
        let (key_id, commands) = (self.key()?, self.commands.clone());
        let revoked = run_command(async move { revoke(&commands, key_id).await }).await?;
        revoked.map_err(|_| PageError::InvalidForm)?;
        self.shown(None, "It is revoked. Programs that use it are rejected.")
    }

    async fn sign_out(self) -> Result<Response, PageError> {
        let (commands, mail_id) = (self.commands, self.signed_in.session.mail_id);
        let ended = run_command(async move { commands.end_session(mail_id).await });
        ended.await?.map_err(|_| PageError::NotReady)?;
        Ok(see_account(expired_cookie(&self.app.pages)))
    }

    async fn leave(self) -> Result<Response, PageError> {
        let (commands, id) = (self.commands, self.signed_in.session.subscription_id);
        let left = run_command(async move { commands.forget(id).await });
        left.await?.map_err(|_| PageError::NotReady)?;
        let left = LeftPage { is_erased: true };
        let mut response = page(StatusCode::OK, PageCaching::NoStore, &left);
        let headers = response.headers_mut();
        headers.insert(SET_COOKIE, expired_cookie(&self.app.pages));
        Ok(response)
    }
}

/// Why a command was not carried out, unless the log failed. After a conflict the ledger has the outcome of the other
/// writer, which may be an earlier press of the same button.
fn unless_conflict(
    outcome: Result<(), CommandError>,
) -> Result<Option<CommandError>, CommandError> {
    match outcome {
        Err(CommandError::Log(error)) if !matches!(error, LogError::Conflict) => Err(error.into()),
        Err(error) => Ok(Some(error)),
        Ok(()) => Ok(None),
    }
}

/// Revokes a key, also if another writer changes it at the same time.
async fn revoke(commands: &AccountCommands, key_id: KeyId) -> Result<(), CommandError> {
    let reason = Text::parse(REVOKED_BY_SUBSCRIBER).unwrap_or_default();
    let mut retries = 1..REVOKE_TRIES_MAX;
    loop {
        match commands.revoke(key_id, reason.clone()).await {
            Err(CommandError::Log(LogError::Conflict)) if retries.next().is_some() => {}
            outcome => return outcome,
        }
    }
}
