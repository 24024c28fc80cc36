//! [`Form`]: what somebody typed.

use axum::extract::Request;
use axum::http::HeaderMap;
use axum::http::header::CONTENT_TYPE;
use http_body_util::{BodyExt, LengthLimitError, Limited};

use super::Problem;

/// An address of 254 bytes, each of them escaped, and what else there is, with room to spare.
const FORM_BYTES_MAX: usize = 4 * 1024;

/// The fields of a form that was sent.
pub(super) struct Form(Vec<(String, String)>);

impl Form {
    /// Reads what was sent.
    ///
    /// # Errors
    /// It is no form, or too long.
    pub(super) async fn read(request: Request) -> Result<Self, Problem> {
        let (parts, body) = request.into_parts();
        if !is_form(&parts.headers) {
            return Err(Problem::NotAForm);
        }
        let body = match Limited::new(body, FORM_BYTES_MAX).collect().await {
            Ok(body) => body.to_bytes(),
            Err(error) if error.is::<LengthLimitError>() => return Err(Problem::TooLong),
            Err(_) => return Err(Problem::NotAForm),
        };
        let fields = form_urlencoded::parse(&body).into_owned();
        Ok(Self(fields.collect()))
    }

    /// A field; empty if it is not there.
    pub(super) fn get(&self, name: &str) -> &str {
        let field = self.0.iter().find(|(field, _)| field == name);
        field.map_or("", |(_, value)| value)
    }
}

fn is_form(headers: &HeaderMap) -> bool {
    let kind = headers
        .get(CONTENT_TYPE)
        .and_then(|kind| kind.to_str().ok());
    let kind = kind
        .unwrap_or_default()
        .split(';')
        .next()
        .unwrap_or_default();
    kind.trim()
        .eq_ignore_ascii_case("application/x-www-form-urlencoded")
}
