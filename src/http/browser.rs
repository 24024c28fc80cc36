//! [`Browser`]: a browser that shows a person what it requests, and so is sent pages instead of JSON errors.

use axum::extract::Request;
use axum::http::StatusCode;
use axum::response::Response;

use super::error::ErrorMessage;
use super::pages::ErrorPage;
use super::request::accepts;

/// Folders of a path from which the links of its page lead back. No path of the service has as many.
const FOLDERS_MAX: usize = 32;

const NO_KEY: &str = "This address is for programs, which send a key with each request. Get a key, and see in the \
    documentation how to use it.";

/// A browser, and the relative path from what it requested to the root.
pub(super) struct Browser(String);

impl Browser {
    /// `None` for a program, which accepts any type, or JSON.
    pub(super) fn of(request: &Request) -> Option<Self> {
        let headers = request.headers();
        let is_browser =
            accepts(headers, &["text/html"]) && !accepts(headers, &["application/json"]);
        is_browser.then(|| {
            let slashes = request.uri().path().matches('/').count();
            let folders = slashes.saturating_sub(1).min(FOLDERS_MAX);
            Self("../".repeat(folders))
        })
    }

    /// Replaces the JSON of an error by a page; not for one who sends too many requests, to whom no page is rendered.
    pub(super) fn show_error(self, response: &mut Response) {
        let status = response.status();
        if status == StatusCode::TOO_MANY_REQUESTS {
            return;
        }
        let Some(ErrorMessage(message)) = response.extensions_mut().remove() else {
            return;
        };
        let title = match status {
            StatusCode::UNAUTHORIZED => "A key is needed",
            StatusCode::NOT_FOUND => "Page not found",
            StatusCode::SERVICE_UNAVAILABLE => "Temporarily unavailable",
            _ => status.canonical_reason().unwrap_or("Error"),
        };
        let text = match status {
            StatusCode::UNAUTHORIZED => NO_KEY.to_owned(),
            // A person has the status page instead.
            _ => format!("{}.", message.split("; see /").next().unwrap_or_default()),
        };
        ErrorPage::new(title, &text, &self.0).replace(response);
    }
}
