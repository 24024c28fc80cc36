//! `/account`: the page where a subscriber sees, creates, replaces and revokes keys, and leaves.
//!
//! There is no password: the link in a mail starts a session. GET changes nothing, because mail scanners follow links.
//! The answer to a request for a link is the same whether or not the address is known, as nothing waits for the
//! outcome.

mod change;
mod overview;
mod session;

use std::sync::Arc;

use askama::Template;
use axum::Extension;
use axum::extract::{Request, State};
use axum::http::header::{LOCATION, RETRY_AFTER, SET_COOKIE};
use axum::http::{HeaderMap, HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};

use self::change::AccountChange;
use self::overview::{FormOutcome, account_page};
use self::session::{SignedIn, cookie};
use super::form::Form;
use super::{PageCaching, PageError, page, run_command, run_unseen, subscriber};
use crate::accounts::{
    AccountCommands, Email, LINK_LASTS, derive_secret, is_secret, now, random_secret,
};
use crate::http::params::QueryParams;
use crate::http::state::App;
use crate::limits::Network;

const TOO_MANY_LINKS: &str = "Too many links were sent to this address or from your network. Use the last one, or try again in 20 minutes.";
const COOKIE_CONTEXT: &str = "railbird 2026-11-22 the cookie of a session";

/// The form with which someone asks for a link.
#[derive(Default, Template)]
#[template(path = "pages/sign_in.html", config = "web/templates/askama.toml")]
struct SignInPage<'a> {
    can_mail: bool,
    email: &'a str,
    error: Option<&'static str>,
    notice: Option<&'static str>,
}

impl SignInPage<'_> {
    fn of(app: &App) -> Self {
        Self {
            can_mail: app.can_mail,
            ..Self::default()
        }
    }

    fn response(&self, status: StatusCode) -> Response {
        page(status, PageCaching::NoStore, self)
    }
}

#[derive(Template)]
#[template(path = "pages/link_sent.html", config = "web/templates/askama.toml")]
struct LinkSentPage<'a> {
    email: &'a str,
    link_minutes: i64,
}

/// The page of a link.
#[derive(Template)]
#[template(path = "pages/link.html", config = "web/templates/askama.toml")]
struct LinkPage<'a> {
    token: &'a str,
    /// The cookie is derived from the nonce and the token: pressing the button again starts the same session.
    nonce: String,
    is_confirmed: bool,
}

/// The last page of someone who left, or ended a link.
#[derive(Template)]
#[template(
    path = "pages/account_ended.html",
    config = "web/templates/askama.toml"
)]
enum LeftPage {
    Left,
    /// The address was never confirmed, and gets no mail again.
    Suppressed,
    LinkEnded,
}

pub(super) async fn show(
    State(app): State<Arc<App>>,
    query: QueryParams,
    headers: HeaderMap,
) -> Response {
    let shown = match query.get("token") {
        Some(token) => link_page(&app, token),
        None => match SignedIn::of(&app, &headers).await {
            Ok(Some(signed_in)) => account_page(&app, &signed_in, FormOutcome::Opened),
            Ok(None) => Ok(SignInPage::of(&app).response(StatusCode::OK)),
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
    let changed = match Form::read(request, &app.pages.url).await {
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
        "not-me" => return reject_link(app, commands, form.get("token")).await,
        _ => {}
    }
    let Some(signed_in) = SignedIn::of(app, headers).await? else {
        let signed_out = SignInPage {
            notice: Some(
                "You are not signed in any more, and nothing was changed. Ask for another link.",
            ),
            ..SignInPage::of(app)
        };
        return Ok(signed_out.response(StatusCode::FORBIDDEN));
    };
    let session = Some(signed_in.session.mail_id.clone());
    let change = AccountChange {
        app,
        commands: app.pages.commands.by(subscriber(network, session)),
        signed_in,
        form,
    };
    change.run().await
}

/// Sends a link to an address, if it is subscribed.
async fn send_link(
    app: &App,
    network: Network,
    commands: AccountCommands,
    typed: &str,
) -> Result<Response, PageError> {
    let again = |status, error| {
        let again = SignInPage {
            email: typed,
            error: Some(error),
            ..SignInPage::of(app)
        };
        again.response(status)
    };
    if !app.can_mail {
        return Ok(SignInPage::of(app).response(StatusCode::FORBIDDEN));
    }
    let email = match Email::parse_input(typed) {
        Ok(email) => email,
        Err(error) => return Ok(again(StatusCode::UNPROCESSABLE_ENTITY, error)),
    };
    let pages = &app.pages;
    let limited = pages.links_per_network.take(&network.customer());
    let limited = limited.and_then(|()| pages.links_per_email.take(&email.mailbox()));
    if let Err(retry_after) = limited {
        let mut response = again(StatusCode::TOO_MANY_REQUESTS, TOO_MANY_LINKS);
        let headers = response.headers_mut();
        headers.insert(RETRY_AFTER, retry_after.into());
        return Ok(response);
    }
    let shown = email.reveal().to_owned();
    let command = move || {
        let commands = commands.clone();
        let email = email.clone();
        async move { commands.request_link(&email).await }
    };
    run_unseen(app, command).await?;
    let sent = LinkSentPage {
        email: &shown,
        link_minutes: LINK_LASTS.as_mins(),
    };
    Ok(page(StatusCode::OK, PageCaching::NoStore, &sent))
}

/// The page of a link, with the buttons that use it.
fn link_page(app: &App, token: &str) -> Result<Response, PageError> {
    let link = LinkPage {
        token,
        nonce: random_secret().map_err(|_| PageError::NotReady)?,
        is_confirmed: is_confirmed(app, token)?,
    };
    Ok(page(StatusCode::OK, PageCaching::NoStore, &link))
}

/// Whether the subscription of a link was confirmed before.
fn is_confirmed(app: &App, token: &str) -> Result<bool, PageError> {
    let ledger = app.ledger.borrow();
    let Some((_, mail)) = ledger.mail_of_link(token, now()) else {
        // Before all events are read, the link may be valid.
        return Err(if app.keys.is_complete() {
            PageError::UnknownLink
        } else {
            PageError::NotReady
        });
    };
    let subscription = ledger.subscription(&mail.subscription_id);
    Ok(subscription.is_some_and(|known| known.confirmed_at.is_some()))
}

async fn sign_in(
    app: &Arc<App>,
    commands: AccountCommands,
    form: &Form,
) -> Result<Response, PageError> {
    let token = form.get("token").to_owned();
    let nonce = form.get("nonce");
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

async fn reject_link(
    app: &App,
    commands: AccountCommands,
    token: &str,
) -> Result<Response, PageError> {
    let left = if is_confirmed(app, token)? {
        LeftPage::LinkEnded
    } else {
        LeftPage::Suppressed
    };
    let token = token.to_owned();
    let rejected = run_command(async move { commands.reject_link(&token).await }).await?;
    rejected.map_err(|_| PageError::UnknownLink)?;
    Ok(page(StatusCode::OK, PageCaching::NoStore, &left))
}

/// Leads to the account page, and sets a cookie.
fn see_account(cookie: HeaderValue) -> Response {
    let account = HeaderValue::from_static("account");
    let headers = [(LOCATION, account), (SET_COOKIE, cookie)];
    (StatusCode::SEE_OTHER, headers).into_response()
}
