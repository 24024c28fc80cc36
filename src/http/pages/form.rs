//! [`Form`]: the fields of a form.

use std::time::Duration;

use axum::extract::Request;
use axum::http::header::{CONTENT_TYPE, HOST, ORIGIN};
use axum::http::{HeaderMap, HeaderName};
use http_body_util::{BodyExt, LengthLimitError, Limited};
use tokio::time::timeout;

use super::PageError;
use crate::public_url::PublicUrl;

const SEC_FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");

/// Enough for an address of 254 bytes, each of them escaped, and the other fields.
const FORM_BYTES_MAX: usize = 4 * 1024;

/// The time for a client to send a form of that size. With the time of a command, less than that of a handler.
const READ_TIMEOUT: Duration = Duration::from_secs(4);

pub(super) struct Form(Vec<(String, String)>);

impl Form {
    /// Reads the body of a request that a page of this service sent.
    pub(super) async fn read(request: Request, service: &PublicUrl) -> Result<Self, PageError> {
        let (parts, body) = request.into_parts();
        // It could subscribe strangers with the visitor's network.
        if is_of_own_page(&parts.headers, service) == Some(false) {
            return Err(PageError::OtherSite);
        }
        if !is_form(&parts.headers) {
            return Err(PageError::NotAForm);
        }
        let reading = Limited::new(body, FORM_BYTES_MAX).collect();
        let body = match timeout(READ_TIMEOUT, reading).await {
            Ok(Ok(body)) => body.to_bytes(),
            Ok(Err(error)) if error.is::<LengthLimitError>() => return Err(PageError::TooLong),
            Ok(Err(_)) => return Err(PageError::NotAForm),
            Err(_) => {
                tracing::debug!(timeout = ?READ_TIMEOUT, "a client did not send its form in time");
                return Err(PageError::Stalled);
            }
        };
        Ok(Self(form_urlencoded::parse(&body).into_owned().collect()))
    }

    /// The value of a field; empty if it is missing.
    pub(super) fn get(&self, name: &str) -> &str {
        let field = self.0.iter().find(|(field, _)| field == name);
        field.map_or("", |(_, value)| value)
    }
}

/// Whether a page of this service sent a request, or another page. `None` if neither is known: from a visitor, who
/// repeats a form from the history or opens an address, or a program.
pub(in crate::http) fn is_of_own_page(headers: &HeaderMap, service: &PublicUrl) -> Option<bool> {
    let header = |name| {
        let value = headers.get(name);
        value.map(|value| value.to_str().unwrap_or_default())
    };
    if let Some(site) = header(SEC_FETCH_SITE) {
        return (site != "none").then_some(site == "same-origin");
    }
    // Browsers leave the first header out of plain HTTP to another machine, and some of WebSockets.
    let origin = header(ORIGIN)?;
    let host = header(HOST).unwrap_or_default();
    let of_host = |scheme| origin.strip_prefix(scheme).is_some_and(|rest| rest == host);
    Some(of_host("https://") || of_host("http://") || origin == service.origin())
}

fn is_form(headers: &HeaderMap) -> bool {
    let content_type = headers.get(CONTENT_TYPE).and_then(|v| v.to_str().ok());
    let mut parts = content_type.unwrap_or_default().split(';').map(str::trim);
    let is_form = |part: &str| part.eq_ignore_ascii_case("application/x-www-form-urlencoded");
    parts.next().is_some_and(is_form)
}
