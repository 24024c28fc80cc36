//! Pages for people: plain HTML, without scripts. Addresses in them are relative, so that a proxy may put them under any path.

mod form;
mod manage;
mod pricing;

use std::sync::{Arc, LazyLock};
use std::time::Duration;

use askama::Template;
use axum::Router;
use axum::body::Body;
use axum::http::header::{
    ALLOW, CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, REFERRER_POLICY, RETRY_AFTER,
    X_CONTENT_TYPE_OPTIONS,
};
use axum::http::{HeaderName, HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use sha2::{Digest, Sha256};
use tokio::time::timeout;

use super::error::ApiError;
use crate::http::state::App;
use crate::log::LogError;

const STYLE: &str = include_str!("../../../templates/pages/style.css");
/// The style stands in the page, and is the only one that counts.
static POLICY: LazyLock<HeaderValue> = LazyLock::new(|| {
    let style = BASE64_STANDARD.encode(Sha256::digest(STYLE));
    let policy = format!(
        "default-src 'none'; style-src 'sha256-{style}'; img-src data:; form-action 'self'; frame-ancestors 'none'; base-uri 'none'"
    );
    HeaderValue::try_from(policy).expect("ASCII")
});
const OPENER_POLICY: HeaderName = HeaderName::from_static("cross-origin-opener-policy");
const ROBOTS: HeaderName = HeaderName::from_static("x-robots-tag");

pub(super) fn router() -> Router<Arc<App>> {
    let pricing = get(pricing::show).post(pricing::subscribe);
    let manage = get(manage::show).post(manage::change);
    Router::new()
        .route("/pricing", pricing.fallback(no_such_method))
        .route("/keys/manage", manage.fallback(no_such_method))
}

/// Who may keep a page.
#[derive(Debug, Clone, Copy)]
enum Keep {
    /// Anybody, to ask whether it is still the same.
    Anybody,
    /// Nobody: it is about somebody.
    Nobody,
}

fn page(status: StatusCode, keep: Keep, template: &impl Template) -> Response {
    let html = match template.render() {
        Ok(html) => html,
        Err(error) => return ApiError::Internal(error.to_string()).into_response(),
    };
    let mut response = Response::new(Body::from(html));
    *response.status_mut() = status;
    let headers = response.headers_mut();
    let cache = match keep {
        Keep::Anybody => "no-cache",
        Keep::Nobody => {
            headers.insert(ROBOTS, HeaderValue::from_static("noindex"));
            "no-store"
        }
    };
    for (name, value) in [
        (CONTENT_TYPE, "text/html; charset=utf-8"),
        (CACHE_CONTROL, cache),
        (REFERRER_POLICY, "no-referrer"),
        (X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (OPENER_POLICY, "same-origin"),
    ] {
        headers.insert(name, HeaderValue::from_static(value));
    }
    headers.insert(CONTENT_SECURITY_POLICY, POLICY.clone());
    response
}

/// Why a page cannot be had.
#[derive(Debug, Clone, Copy)]
enum Problem {
    NotAForm,
    TooLong,
    NoSuchMethod,
    NoSuchLink,
    NotFromThePage,
    TooMany { retry_after: u32 },
    NotReady,
}

/// How long somebody waits for the log: less than a handler may take.
const SAID_WITHIN: Duration = Duration::from_secs(5);
/// How long a browser waits before it asks a service again that cannot write to the log.
const RETRY_AFTER_SECONDS: u32 = 5;

#[derive(Template)]
#[template(path = "pages/problem.html")]
struct ProblemPage {
    title: &'static str,
    text: &'static str,
    back: &'static str,
}

impl Problem {
    fn parts(self) -> (StatusCode, &'static str, &'static str) {
        match self {
            Self::NotAForm => (
                StatusCode::UNSUPPORTED_MEDIA_TYPE,
                "That is not the form",
                "What was sent is not application/x-www-form-urlencoded, as the form on the page sends it.",
            ),
            Self::TooLong => (
                StatusCode::PAYLOAD_TOO_LARGE,
                "That is too long",
                "What was sent is longer than anything that the form on the page takes.",
            ),
            Self::NoSuchMethod => (
                StatusCode::METHOD_NOT_ALLOWED,
                "That is not how this page works",
                "It takes GET, HEAD and POST.",
            ),
            Self::NoSuchLink => (
                StatusCode::NOT_FOUND,
                "This link does not work",
                "It may have been cut off: copy all of it from the mail. If there is a newer mail, use the link in that one.",
            ),
            Self::NotFromThePage => (
                StatusCode::UNPROCESSABLE_ENTITY,
                "That does not come from the page",
                "Something is missing from what was sent. Open the link in the mail again, and press the button there. Nothing was changed.",
            ),
            Self::TooMany { .. } => (
                StatusCode::TOO_MANY_REQUESTS,
                "That was often",
                "Too much was asked from your network for now. Wait a while, and try again.",
            ),
            Self::NotReady => (
                StatusCode::SERVICE_UNAVAILABLE,
                "Not just now",
                "We cannot write that down at the moment. Try again in a little while: it does no harm to ask twice.",
            ),
        }
    }

    /// The answer, with the way to the pricing page from where it is read.
    fn page(self, back: &'static str) -> Response {
        let (status, title, text) = self.parts();
        let mut response = page(status, Keep::Nobody, &ProblemPage { title, text, back });
        self.mark(&mut response);
        response
    }

    /// Says in headers what programs want to know.
    fn mark(self, response: &mut Response) {
        let retry_after = match self {
            Self::TooMany { retry_after } => Some(retry_after),
            Self::NotReady => Some(RETRY_AFTER_SECONDS),
            _ => None,
        };
        let headers = response.headers_mut();
        if let Some(seconds) = retry_after {
            headers.insert(RETRY_AFTER, seconds.into());
        }
        if matches!(self, Self::NoSuchMethod) {
            headers.insert(ALLOW, HeaderValue::from_static("GET, HEAD, POST"));
        }
    }
}

async fn no_such_method() -> Response {
    Problem::NoSuchMethod.page("/pricing")
}

/// Waits until something was said to the log, for a bounded time. It is said to its end, even if nobody waits for the answer any
/// more: whoever presses a button twice does not wait for the first answer.
async fn said<T: Send + 'static>(
    saying: impl Future<Output = Result<T, LogError>> + Send + 'static,
) -> Result<T, Problem> {
    match timeout(SAID_WITHIN, tokio::spawn(saying)).await {
        Ok(Ok(Ok(said))) => Ok(said),
        Ok(Ok(Err(error))) => {
            tracing::warn!(%error, "what a subscriber asked for could not be said");
            Err(Problem::NotReady)
        }
        Ok(Err(_)) | Err(_) => Err(Problem::NotReady),
    }
}
