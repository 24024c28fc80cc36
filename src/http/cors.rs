//! [`Cors`]: which web pages may read a response, by the CORS protocol of the Fetch standard; [`Origins`]: the pages
//! that may send a key.

use axum::body::Body;
use axum::extract::Request;
use axum::http::header::{
    ACCESS_CONTROL_ALLOW_HEADERS, ACCESS_CONTROL_ALLOW_METHODS, ACCESS_CONTROL_ALLOW_ORIGIN,
    ACCESS_CONTROL_EXPOSE_HEADERS, ACCESS_CONTROL_MAX_AGE, ACCESS_CONTROL_REQUEST_METHOD,
    CACHE_CONTROL, HOST, ORIGIN, VARY,
};
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode};
use axum::response::{IntoResponse, Response};

use super::error::ApiError;

/// The headers that a page may send, beside those that it always may.
const REQUEST_HEADERS: &str =
    "authorization, x-api-key, railbird-min-seq, if-none-match, x-request-id";
/// The headers that a page may read, beside those that it always may.
const RESPONSE_HEADERS: &str = "etag, link, railbird-feed, railbird-schema, railbird-seq, \
    retry-after, x-ratelimit-limit, x-ratelimit-remaining, x-ratelimit-reset, x-request-id";
/// The paths that supervisors and balancers request all the time.
pub(super) const PROBES: [&str; 2] = ["/healthz", "/readyz"];
/// How long a browser remembers a preflight: as long as any of them does.
const PREFLIGHT_SECONDS: &str = "86400";
/// Stands for any origin.
const ANY_ORIGIN: &str = "*";
/// Stands in an allowed origin for any port, or none.
const ANY_PORT: &str = ":*";
/// The pages of this machine, such as those that a development server serves.
const LOOPBACK_ORIGINS: [&str; 3] = ["http://localhost:*", "http://127.0.0.1:*", "http://[::1]:*"];

/// The pages of other origins that may send a key, to the API and to the live channel. An origin is as browsers send it
/// (RFC 6454), such as `https://racing.example`; `http://localhost:*` is one with any port, and `*` is any.
#[derive(Debug, Clone, Default)]
pub struct Origins(Vec<String>);

impl Origins {
    /// Allows these origins; all of them if one is `*`.
    pub fn new(allowed: Vec<String>) -> Self {
        Self(allowed)
    }

    /// These, and those of the pages of this machine.
    pub fn and_loopback(mut self) -> Self {
        self.0.extend(LOOPBACK_ORIGINS.map(str::to_owned));
        self
    }

    /// Checks the form of an origin, or `*`. A path would make it one that no browser sends.
    ///
    /// # Errors
    /// Returns the expected form.
    pub fn parse_one(text: &str) -> Result<String, String> {
        let is_host_char = |c: char| !c.is_whitespace() && !"/?#@,*".contains(c);
        let bare = text.strip_suffix(ANY_PORT).unwrap_or(text);
        let is_origin = bare.split_once("://").is_some_and(|(scheme, host)| {
            !scheme.is_empty() && !host.is_empty() && host.chars().all(is_host_char)
        });
        let is_known = (text == ANY_ORIGIN || is_origin).then(|| text.to_owned());
        let expected = "an origin is a scheme and a host, such as https://racing.example";
        is_known.ok_or_else(|| expected.to_owned())
    }

    fn allow(&self, origin: &HeaderValue) -> bool {
        let origin = origin.to_str().unwrap_or_default();
        self.0.iter().any(|allowed| covers(allowed, origin))
    }

    fn are_any(&self) -> bool {
        self.0.iter().any(|origin| origin == ANY_ORIGIN)
    }

    /// Whether a request comes from a page that may connect, or from no page. The pages of the service itself may:
    /// their origin has the host that the request is for.
    pub(super) fn allow_connection(&self, headers: &HeaderMap) -> bool {
        let host = headers.get(HOST).map(HeaderValue::as_bytes);
        let is_own = |origin: &HeaderValue| {
            let own_host = origin.to_str().ok().and_then(|text| text.split_once("://"));
            let hosts = own_host.map(|(_, host)| host.as_bytes()).zip(host);
            hosts.is_some_and(|(own, host)| own.eq_ignore_ascii_case(host))
        };
        let origin = headers.get(ORIGIN);
        origin.is_none_or(|origin| is_own(origin) || self.allow(origin))
    }
}

/// Whether an allowed origin is this one, or stands for it.
fn covers(allowed: &str, origin: &str) -> bool {
    let is_port = |text: &str| text.parse::<u16>().is_ok();
    match allowed.strip_suffix(ANY_PORT) {
        None => allowed == ANY_ORIGIN || allowed.eq_ignore_ascii_case(origin),
        Some(host) => origin
            .split_at_checked(host.len())
            .is_some_and(|(start, rest)| {
                let is_any_port = rest.is_empty() || rest.strip_prefix(':').is_some_and(is_port);
                start.eq_ignore_ascii_case(host) && is_any_port
            }),
    }
}

/// What a response says about the pages of other origins.
pub(super) struct Cors {
    /// The pages that may read it.
    allowed: Option<HeaderValue>,
    /// The page that may not send a key. It may read that, and nothing else.
    refused: Option<HeaderValue>,
    /// Whether they depend on the origin of the request.
    varies: bool,
}

impl Cors {
    /// What needs a key may be read by the pages that may send one, `with_key`. What needs none may be read by all
    /// pages if it is for programs; else it is for people.
    pub(super) fn of(request: &Request, with_key: Option<&Origins>) -> Self {
        let headers = request.headers();
        let origin = headers.get(ORIGIN);
        let are_any = match with_key {
            Some(origins) => origins.are_any(),
            None => is_for_programs(request.uri().path()),
        };
        let listed = with_key.filter(|origins| !are_any && !origins.0.is_empty());
        let allowed = if are_any {
            Some(HeaderValue::from_static("*"))
        } else {
            let is_listed =
                |origin: &&HeaderValue| listed.is_some_and(|origins| origins.allow(origin));
            origin.filter(is_listed).cloned()
        };
        let refused = with_key.filter(|origins| !origins.allow_connection(headers));
        let refused = refused.and(origin).cloned();
        Self {
            varies: listed.is_some() || refused.is_some(),
            allowed,
            refused,
        }
    }

    /// Why a page may not send a key.
    pub(super) fn check(&self) -> Result<(), ApiError> {
        let origin = self.refused.as_ref();
        origin.map_or(Ok(()), |origin| {
            let origin = String::from_utf8_lossy(origin.as_bytes());
            Err(ApiError::OriginNotAllowed(format!(
                "Web pages of {origin} may not send a key; the operator of the service allows origins with --origins"
            )))
        })
    }

    /// The answer to a preflight. It comes without a key. A page that may not send one is refused afterwards: no page
    /// can read why a preflight failed.
    pub(super) fn preflight(&self, request: &Request) -> Option<Response> {
        let headers = request.headers();
        let is_preflight = request.method() == Method::OPTIONS
            && headers.contains_key(ACCESS_CONTROL_REQUEST_METHOD);
        let is_of_page = self.allowed.is_some() || self.refused.is_some();
        (is_preflight && is_of_page).then(|| {
            let headers = [
                (ACCESS_CONTROL_ALLOW_METHODS, "GET, HEAD"),
                (ACCESS_CONTROL_ALLOW_HEADERS, REQUEST_HEADERS),
                (ACCESS_CONTROL_MAX_AGE, PREFLIGHT_SECONDS),
                (CACHE_CONTROL, "no-store"),
            ];
            (StatusCode::NO_CONTENT, headers, Body::empty()).into_response()
        })
    }

    /// Sets the headers of a response with a status.
    pub(super) fn set_headers(self, status: StatusCode, headers: &mut HeaderMap) {
        if self.varies {
            headers.append(VARY, HeaderValue::from_static("origin"));
        }
        // The only 403 of a page that is refused, and its preflight.
        let is_refusal = [StatusCode::FORBIDDEN, StatusCode::NO_CONTENT].contains(&status);
        if let Some(allowed) = self.allowed.or(self.refused.filter(|_| is_refusal)) {
            headers.insert(ACCESS_CONTROL_ALLOW_ORIGIN, allowed);
            let exposed = HeaderValue::from_static(RESPONSE_HEADERS);
            headers.insert(ACCESS_CONTROL_EXPOSE_HEADERS, exposed);
        }
    }
}

/// Whether a path without a key is for programs: health, and the documents, which are JSON.
fn is_for_programs(path: &str) -> bool {
    PROBES.contains(&path) || path.ends_with(".json")
}

#[cfg(test)]
mod tests {
    use super::Origins;

    #[test]
    fn an_origin_is_a_scheme_and_a_host() {
        for text in [
            "*",
            "https://racing.example",
            "http://localhost:3000",
            "http://localhost:*",
            "capacitor://localhost",
        ] {
            assert_eq!(Origins::parse_one(text).as_deref(), Ok(text));
        }
        for text in [
            "",
            "racing.example",
            "https://",
            "://x",
            "https://racing.example/",
            "https://a b",
            "https://*.racing.example",
            "null",
        ] {
            assert!(Origins::parse_one(text).is_err(), "{text:?}");
        }
    }

    #[test]
    fn an_asterisk_is_any_port_and_nothing_else() {
        let origins = Origins::default().and_loopback();
        let allow = |origin: &str| origins.allow(&origin.parse().unwrap());
        for origin in [
            "http://localhost",
            "http://localhost:5173",
            "http://LOCALHOST:1",
            "http://[::1]",
            "http://[::1]:80",
        ] {
            assert!(allow(origin), "{origin}");
        }
        for origin in [
            "null",
            "http://localhost.evil.example",
            "http://localhost:5173.evil.example",
            "http://localhost:",
            "http://localhost:80:90",
            "http://[::2]:80",
            "ftp://localhost:80",
        ] {
            assert!(!allow(origin), "{origin}");
        }
    }
}
