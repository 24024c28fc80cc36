//! [`Form`]: the fields of a form.

use std::time::Duration;

use axum::extract::Request;
use axum::http::HeaderMap;
use axum::http::header::CONTENT_TYPE;
use http_body_util::{BodyExt, LengthLimitError, Limited};
use tokio::time::timeout;

use super::PageError;

/// Enough for an address of 254 bytes, each of them escaped, and the other fields.
const FORM_BYTES_MAX: usize = 4 * 1024;

/// The time for a client to send a form of that size. With the time of a command, less than that of a handler.
const READ_TIMEOUT: Duration = Duration::from_secs(4);

pub(super) struct Form(Vec<(String, String)>);

impl Form {
    /// Reads the body of a request.
    pub(super) async fn read(request: Request) -> Result<Self, PageError> {
        let (parts, body) = request.into_parts();
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
        let fields = form_urlencoded::parse(&body).into_owned();
        Ok(Self(fields.collect()))
    }

    /// The value of a field; empty if it is missing.
    pub(super) fn get(&self, name: &str) -> &str {
        let field = self.0.iter().find(|(field, _)| field == name);
        field.map_or("", |(_, value)| value)
    }
}

fn is_form(headers: &HeaderMap) -> bool {
    let content_type = headers.get(CONTENT_TYPE).and_then(|v| v.to_str().ok());
    let mut parts = content_type.unwrap_or_default().split(';').map(str::trim);
    let is_form = |part: &str| part.eq_ignore_ascii_case("application/x-www-form-urlencoded");
    parts.next().is_some_and(is_form)
}
