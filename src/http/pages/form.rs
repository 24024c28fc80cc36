//! [`Form`]: the fields of a form.

use axum::extract::Request;
use axum::http::HeaderMap;
use axum::http::header::CONTENT_TYPE;
use http_body_util::{BodyExt, LengthLimitError, Limited};

use super::PageError;

/// Enough for an address of 254 bytes, each of them escaped, and the other fields.
const FORM_BYTES_MAX: usize = 4 * 1024;

pub(super) struct Form(Vec<(String, String)>);

impl Form {
    /// Reads the body of a request.
    pub(super) async fn read(request: Request) -> Result<Self, PageError> {
        let (parts, body) = request.into_parts();
        if !is_form(&parts.headers) {
            return Err(PageError::NotAForm);
        }
        let body = match Limited::new(body, FORM_BYTES_MAX).collect().await {
            Ok(body) => body.to_bytes(),
            Err(error) if error.is::<LengthLimitError>() => return Err(PageError::TooLong),
            Err(_) => return Err(PageError::NotAForm),
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
