//! The pages. Those for subscribers are plain HTML, whose only script copies a new key; the others read the public API
//! with the visitor's own key, or load themselves again. Their links are relative, so that a proxy can serve them under
//! any path.

mod account;
mod assets;
mod board;
mod docs;
mod form;
mod pricing;
mod status;
pub(super) mod words;

use std::sync::LazyLock;
use std::time::Duration;

use askama::Template;
use axum::body::Body;
use axum::http::header::{
    ALLOW, CACHE_CONTROL, CONTENT_LENGTH, CONTENT_SECURITY_POLICY, CONTENT_TYPE, REFERRER_POLICY,
    RETRY_AFTER, X_CONTENT_TYPE_OPTIONS,
};
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use sha2::{Digest, Sha256};
use tokio::time::{sleep, timeout};

pub(super) use account::session_secret;
pub(super) use form::is_of_own_page;
pub(crate) use pricing::SignUpOutcome;

use super::error::ApiError;
use crate::accounts::{Actor, CommandError, MailId};
use crate::http::{App, Routes, StaticDocument};
use crate::limits::Network;
use crate::log::Backoff;

const STYLE: &str = include_str!("../../../web/style.css");
/// The policy of pages without scripts.
static POLICY: LazyLock<HeaderValue> = LazyLock::new(|| policy("'none'"));
/// The policy of the page with a new key, whose only script copies it.
static NEW_KEY_POLICY: LazyLock<HeaderValue> = LazyLock::new(|| policy("'self'"));
/// The policy of pages with scripts: files and connections of this service, and nothing inline.
const SCRIPT_POLICY: HeaderValue = HeaderValue::from_static(
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; manifest-src 'self'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'",
);
const OPENER_POLICY: HeaderName = HeaderName::from_static("cross-origin-opener-policy");
const ROBOTS: HeaderName = HeaderName::from_static("x-robots-tag");

/// All pages and files that are the same for as long as the service runs.
pub(super) fn documents() -> impl Iterator<Item = &'static StaticDocument> {
    docs::documents().chain(assets::documents())
}

pub(super) fn router() -> Routes {
    let pricing = get(pricing::show).post(pricing::subscribe);
    let account = get(account::show).post(account::change);
    Routes::default()
        .merge(board::router())
        .merge(docs::router())
        .merge(status::router())
        .route("/pricing", pricing.fallback(method_not_allowed))
        .route("/account", account.fallback(method_not_allowed))
        .merge(assets::router())
}

/// The content type of a page.
const HTML: &str = "text/html; charset=utf-8";

/// A policy that allows the inline style, these scripts, and nothing else.
fn policy(scripts: &str) -> HeaderValue {
    let style = BASE64_STANDARD.encode(Sha256::digest(STYLE));
    let policy = format!(
        "default-src 'none'; script-src {scripts}; style-src 'sha256-{style}'; img-src data:; form-action 'self'; frame-ancestors 'none'; base-uri 'none'"
    );
    HeaderValue::try_from(policy).expect("ASCII")
}

/// A page about a subscriber, which no cache keeps.
fn page(status: StatusCode, template: &impl Template) -> Response {
    private_page(status, POLICY.clone(), template)
}

fn private_page(status: StatusCode, policy: HeaderValue, template: &impl Template) -> Response {
    let response = html_response(status, "no-store", policy, template.render());
    ([(ROBOTS, "noindex")], response).into_response()
}

/// A page for everybody, which caches keep and ask about again.
fn open_page(policy: HeaderValue, template: &impl Template) -> Response {
    html_response(StatusCode::OK, "no-cache", policy, template.render())
}

fn html_response(
    status: StatusCode,
    cache: &'static str,
    policy: HeaderValue,
    html: askama::Result<impl Into<Body>>,
) -> Response {
    match html {
        Ok(html) => {
            let html: Body = html.into();
            let mut response = (status, [(CONTENT_TYPE, HTML)], html).into_response();
            add_page_headers(response.headers_mut(), cache, policy);
            response
        }
        Err(error) => ApiError::internal(error).into_response(),
    }
}

/// Adds the headers of all pages.
fn add_page_headers(headers: &mut HeaderMap, cache: &'static str, policy: HeaderValue) {
    for (name, value) in [
        (CACHE_CONTROL, cache),
        // With `no-referrer`, browsers hide the origin of forms, by which those of other sites are refused.
        (REFERRER_POLICY, "same-origin"),
        (X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (OPENER_POLICY, "same-origin"),
    ] {
        headers.insert(name, HeaderValue::from_static(value));
    }
    headers.insert(CONTENT_SECURITY_POLICY, policy);
}

/// A page that is shown instead of the requested one. Its text is that of the page.
#[derive(Debug, Clone, Copy, thiserror::Error)]
enum PageError {
    #[error("Another web site sent it. Nothing was changed. Open the page here, and use its form.")]
    OtherSite,
    #[error(
        "The request body must be application/x-www-form-urlencoded, as the form on the page sends it."
    )]
    NotAForm,
    #[error("The form contains more text than we accept.")]
    TooLong,
    #[error("The connection is slow or was interrupted. Go back, and send the form again.")]
    Stalled,
    #[error("This page supports GET, HEAD and POST.")]
    MethodNotAllowed,
    #[error(
        "It works once, for 30 minutes. If you have a newer mail, use the link in that one, or ask for another."
    )]
    UnknownLink,
    #[error("Open your account again, and use the buttons on that page. Nothing was changed.")]
    InvalidForm,
    #[error(
        "You created or replaced too many keys in an hour. Wait a while. You can still revoke keys."
    )]
    TooManyChanges { retry_after: u32 },
    #[error(
        "We cannot save your request at the moment. Try again in a few seconds; sending it twice does no harm."
    )]
    NotReady,
}

/// The time limit of a command, which is less than the time limit of a handler.
const COMMAND_TIMEOUT: Duration = Duration::from_secs(5);
/// How often a command is tried whose form was answered: for some five minutes.
const UNSEEN_ATTEMPTS_MAX: u32 = 12;
const UNSEEN_BACKOFF: Backoff = Backoff::new(Duration::from_secs(1), Duration::from_secs(60));
/// The `Retry-After` of a service that cannot write to the log.
const RETRY_AFTER_SECONDS: u32 = 5;

#[derive(Template)]
#[template(path = "pages/problem.html", config = "web/templates/askama.toml")]
pub(super) struct ErrorPage<'a> {
    title: &'a str,
    text: &'a str,
    root: &'a str,
}

impl<'a> ErrorPage<'a> {
    /// A page whose links begin with `root`, the relative path of the board.
    pub(super) fn new(title: &'a str, text: &'a str, root: &'a str) -> Self {
        Self { title, text, root }
    }

    /// Replaces a response by a page, but for the status and the other headers. Without a template it stays.
    pub(super) fn replace(&self, response: &mut Response) {
        let Ok(html) = self.render() else { return };
        let headers = response.headers_mut();
        headers.remove(CONTENT_LENGTH);
        headers.insert(CONTENT_TYPE, HeaderValue::from_static(HTML));
        add_page_headers(headers, "no-store", POLICY.clone());
        *response.body_mut() = html.into();
    }
}

impl PageError {
    fn status_and_title(self) -> (StatusCode, &'static str) {
        match self {
            Self::OtherSite => (StatusCode::FORBIDDEN, "This form is not ours"),
            Self::NotAForm => (StatusCode::UNSUPPORTED_MEDIA_TYPE, "This is not a form"),
            Self::TooLong => (StatusCode::PAYLOAD_TOO_LARGE, "The form is too long"),
            Self::Stalled => (StatusCode::REQUEST_TIMEOUT, "The form did not arrive"),
            Self::MethodNotAllowed => (StatusCode::METHOD_NOT_ALLOWED, "Method not allowed"),
            Self::UnknownLink => (StatusCode::NOT_FOUND, "This link does not work"),
            Self::InvalidForm => (StatusCode::UNPROCESSABLE_ENTITY, "The form is incomplete"),
            Self::TooManyChanges { .. } => (StatusCode::TOO_MANY_REQUESTS, "Too many changes"),
            Self::NotReady => (StatusCode::SERVICE_UNAVAILABLE, "Temporarily unavailable"),
        }
    }
}

impl IntoResponse for PageError {
    fn into_response(self) -> Response {
        let (status, title) = self.status_and_title();
        let response = page(status, &ErrorPage::new(title, &self.to_string(), ""));
        let header = match self {
            Self::TooManyChanges { retry_after } => (RETRY_AFTER, retry_after.into()),
            Self::NotReady => (RETRY_AFTER, RETRY_AFTER_SECONDS.into()),
            Self::MethodNotAllowed => (ALLOW, HeaderValue::from_static("GET, HEAD, POST")),
            _ => return response,
        };
        ([header], response).into_response()
    }
}

async fn method_not_allowed() -> PageError {
    PageError::MethodNotAllowed
}

/// Runs a command with a time limit. The command continues when the client disconnects: someone who presses a button
/// twice does not wait for the first response. A command that was not carried out is an error of its own.
async fn run_command<T: Send + 'static>(
    command: impl Future<Output = Result<T, CommandError>> + Send + 'static,
) -> Result<Result<T, CommandError>, PageError> {
    match timeout(COMMAND_TIMEOUT, tokio::spawn(command)).await {
        Ok(Ok(Err(
            error @ (CommandError::Log(_)
            | CommandError::NoRandomNumbers(_)
            | CommandError::WrongSecret(_)),
        ))) => {
            tracing::warn!(%error, "a subscriber's command failed");
            Err(PageError::NotReady)
        }
        Ok(Ok(outcome)) => Ok(outcome),
        _ => Err(PageError::NotReady),
    }
}

/// Runs a command whose outcome must not be seen, because it depends on whether an address is known. The response waits
/// for the log to answer a request that is the same for all addresses, and not for the command, which is tried again
/// while the log is away.
async fn run_unseen<C>(
    app: &App,
    command: impl Fn() -> C + Send + Sync + 'static,
) -> Result<(), PageError>
where
    C: Future<Output = Result<(), CommandError>> + Send,
{
    if !app.keys.is_complete() {
        return Err(PageError::NotReady);
    }
    let commands = app.pages.commands.clone();
    let checked = run_command(async move { commands.check_log().await }).await?;
    checked.map_err(|_| PageError::NotReady)?;
    tokio::spawn(async move {
        for attempt in 0..UNSEEN_ATTEMPTS_MAX {
            match command().await {
                Err(CommandError::Log(error)) if !error.is_permanent() => {
                    tracing::warn!(%error, attempt, "a form could not be carried out yet");
                    sleep(UNSEEN_BACKOFF.delay(attempt)).await;
                }
                Err(error) => return tracing::warn!(%error, "a form was not carried out"),
                Ok(()) => return,
            }
        }
        tracing::error!("a form was given up; its sender can send it again");
    });
    Ok(())
}

/// Someone on a page.
fn subscriber(network: Network, session: Option<MailId>) -> Actor {
    Actor::Subscriber {
        network: network.coarse(),
        session,
    }
}
