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
pub(in crate::http) use self::session::session_secret;
use self::session::{SignedIn, cookie};
use super::form::Form;
use super::{PageError, page, run_command, run_unseen, subscriber};
use crate::accounts::{AccountCommands, Email, derive_secret, is_secret, now, random_secret};
use crate::http::{App, QueryParams};
use crate::limits::Network;

const TOO_MANY_LINKS: &str = "Too many links were sent to this address or from your network. Use the last one, or try again in 20 minutes.";
const SIGNED_OUT: &str =
    "You are not signed in any more, and nothing was changed. Ask for another link.";
const STILL_READS: &str =
    "This browser still has the board. To see or change your account, ask for another link.";
const COOKIE_CONTEXT: &str = "railbird 2026-11-22 the cookie of a session";

/// The form with which someone asks for a link.
#[derive(Default, Template)]
#[template(path = "pages/sign_in.html", config = "web/templates/askama.toml")]
struct SignInPage<'a> {
    can_mail: bool,
    email: &'a str,
    error: Option<&'static str>,
    notice: Option<&'static str>,
    /// Whether there is a session, which can end.
    can_sign_out: bool,
}

/// The form, without an address that was typed.
fn sign_in_page(app: &App, status: StatusCode, notice: Option<&'static str>) -> Response {
    let shown = SignInPage {
        can_mail: app.health.can_mail,
        notice,
        can_sign_out: notice == Some(STILL_READS),
        ..SignInPage::default()
    };
    page(status, &shown)
}

#[derive(Template)]
#[template(path = "pages/link_sent.html", config = "web/templates/askama.toml")]
struct LinkSentPage<'a> {
    email: &'a str,
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
) -> Result<Response, PageError> {
    if let Some(token) = query.get("token") {
        return link_page(&app, token);
    }
    match SignedIn::of(&app, &headers).await? {
        Some(signed_in) if signed_in.can_change() => {
            account_page(&app, &signed_in, StatusCode::OK, FormOutcome::Opened)
        }
        reader => {
            let notice = reader.map(|_| STILL_READS);
            Ok(sign_in_page(&app, StatusCode::OK, notice))
        }
    }
}

/// Carries out the button of a form.
pub(super) async fn change(
    State(app): State<Arc<App>>,
    Extension(network): Extension<Network>,
    request: Request,
) -> Result<Response, PageError> {
    let headers = request.headers().clone();
    let form = Form::read(request, &app.pages.url).await?;
    let commands = app.pages.commands.by(subscriber(network, None));
    match form.get("do") {
        "link" => return send_link(&app, network, commands, form.get("email")).await,
        "sign-in" => return sign_in(&app, commands, &form).await,
        "not-me" => return reject_link(&app, commands, form.get("token")).await,
        _ => {}
    }
    let is_allowed = |it: &SignedIn| it.can_change() || form.get("do") == "sign-out";
    let Some(signed_in) = SignedIn::of(&app, &headers).await?.filter(is_allowed) else {
        return Ok(sign_in_page(&app, StatusCode::FORBIDDEN, Some(SIGNED_OUT)));
    };
    let session = Some(signed_in.session.mail_id.clone());
    let change = AccountChange {
        app: &app,
        commands: app.pages.commands.by(subscriber(network, session)),
        signed_in,
        form: &form,
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
    if !app.health.can_mail {
        return Ok(sign_in_page(app, StatusCode::FORBIDDEN, None));
    }
    let again = |status, error| {
        let again = SignInPage {
            can_mail: true,
            email: typed,
            error: Some(error),
            ..SignInPage::default()
        };
        page(status, &again)
    };
    let email = match Email::parse_input(typed) {
        Ok(email) => email,
        Err(error) => return Ok(again(StatusCode::UNPROCESSABLE_ENTITY, error)),
    };
    let pages = &app.pages;
    let limited = pages.links_per_network.take(&network.customer());
    if let Err(retry_after) = limited.and_then(|()| pages.links_per_email.take(&email.mailbox())) {
        let response = again(StatusCode::TOO_MANY_REQUESTS, TOO_MANY_LINKS);
        return Ok(([(RETRY_AFTER, retry_after)], response).into_response());
    }
    let shown = email.reveal().to_owned();
    let command = move || {
        let commands = commands.clone();
        let email = email.clone();
        async move { commands.request_link(&email).await }
    };
    run_unseen(app, command).await?;
    let sent = LinkSentPage { email: &shown };
    Ok(page(StatusCode::OK, &sent))
}

/// The page of a link, with the buttons that use it.
fn link_page(app: &App, token: &str) -> Result<Response, PageError> {
    let link = LinkPage {
        token,
        nonce: random_secret().map_err(|_| PageError::NotReady)?,
        is_confirmed: is_confirmed(app, token)?,
    };
    Ok(page(StatusCode::OK, &link))
}

/// Whether the subscription of a link was confirmed before.
fn is_confirmed(app: &App, token: &str) -> Result<bool, PageError> {
    let ledger = app.health.ledger.borrow();
    let Some((_, mail)) = ledger.mail_of_link(token, now()) else {
        // Before all events are read, the link may be valid.
        return Err(match app.keys.is_complete() {
            true => PageError::UnknownLink,
            false => PageError::NotReady,
        });
    };
    let subscription = ledger.subscriptions.get(&mail.subscription_id);
    Ok(subscription.is_some_and(|known| known.confirmed_at.is_some()))
}

async fn sign_in(app: &App, commands: AccountCommands, form: &Form) -> Result<Response, PageError> {
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
    if app.health.ledger.borrow().session(&secret, now()).is_none() {
        return Err(PageError::UnknownLink);
    }
    Ok(see_account(cookie(&app.pages, Some(&secret))))
}

async fn reject_link(
    app: &App,
    commands: AccountCommands,
    token: &str,
) -> Result<Response, PageError> {
    let left = match is_confirmed(app, token)? {
        true => LeftPage::LinkEnded,
        false => LeftPage::Suppressed,
    };
    let token = token.to_owned();
    let rejected = run_command(async move { commands.reject_link(&token).await }).await?;
    rejected.map_err(|_| PageError::UnknownLink)?;
    Ok(page(StatusCode::OK, &left))
}

/// Leads to the account page, and sets a cookie.
fn see_account(cookie: HeaderValue) -> Response {
    let account = HeaderValue::from_static("account");
    let headers = [(LOCATION, account), (SET_COOKIE, cookie)];
    (StatusCode::SEE_OTHER, headers).into_response()
}
