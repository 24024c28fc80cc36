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

/// The pages of other origins that may send a key, to the API and to the live channel.
#[derive(Debug, Clone, Default)]
pub enum Origins {
    #[default]
    None,
    /// Those of these origins, as browsers send them (RFC 6454): `https://racing.example`.
    Listed(Vec<String>),
    Any,
}

impl Origins {
    /// Allows these origins; all of them if one is `*`.
    pub fn new(allowed: Vec<String>) -> Self {
        match &allowed[..] {
            [] => Self::None,
            _ if allowed.iter().any(|origin| origin == "*") => Self::Any,
            _ => Self::Listed(allowed),
        }
    }

    /// Checks the form of an origin, or `*`. A path would make it one that no browser sends.
    ///
    /// # Errors
    /// Returns the expected form.
    pub fn parse_one(text: &str) -> Result<String, String> {
        let is_host_char = |c: char| !c.is_whitespace() && !"/?#@,".contains(c);
        let is_origin = text.split_once("://").is_some_and(|(scheme, host)| {
            !scheme.is_empty() && !host.is_empty() && host.chars().all(is_host_char)
        });
        if text == "*" || is_origin {
            Ok(text.to_owned())
        } else {
            Err("an origin is a scheme and a host, such as https://racing.example".into())
        }
    }

    fn allow(&self, origin: &HeaderValue) -> bool {
        let is = |allowed: &String| allowed.as_bytes().eq_ignore_ascii_case(origin.as_bytes());
        match self {
            Self::None => false,
            Self::Listed(origins) => origins.iter().any(is),
            Self::Any => true,
        }
    }

    /// Whether a request comes from a page that may connect, or from no page. The pages of the service itself may:
    /// their origin has the host that the request is for.
    pub(super) fn allow_connection(&self, headers: &HeaderMap) -> bool {
        let host = headers.get(HOST).map(HeaderValue::as_bytes);
        let is_own = |origin: &HeaderValue| {
            let own_host = origin.to_str().ok().and_then(|text| text.split_once("://"));
            let own_host = own_host.map(|(_, host)| host.as_bytes());
            own_host
                .zip(host)
                .is_some_and(|(own, host)| own.eq_ignore_ascii_case(host))
        };
        let origin = headers.get(ORIGIN);
        origin.is_none_or(|origin| is_own(origin) || self.allow(origin))
    }
}

/// What a response says about the pages of other origins.
#[derive(Debug)]
pub(super) struct Cors {
    /// The pages that may read it.
    allowed: Option<HeaderValue>,
    /// Whether they depend on the origin of the request.
    varies: bool,
}

impl Cors {
    /// What needs a key may be read by the pages that may send one, `with_key`. What needs none may be read by all
    /// pages if it is for programs; else it is for people.
    pub(super) fn of(request: &Request, with_key: Option<&Origins>) -> Self {
        let origins = with_key.unwrap_or(if is_for_programs(request.uri().path()) {
            &Origins::Any
        } else {
            &Origins::None
        });
        let allowed = match origins {
            Origins::Any => Some(HeaderValue::from_static("*")),
            origins => {
                let origin = request.headers().get(ORIGIN);
                origin.filter(|origin| origins.allow(origin)).cloned()
            }
        };
        let varies = matches!(origins, Origins::Listed(_));
        Self { allowed, varies }
    }

    /// The answer to a preflight of a page that may read the response. It comes without a key.
    pub(super) fn preflight(&self, request: &Request) -> Option<Response> {
        let is_preflight = request.method() == Method::OPTIONS
            && request
                .headers()
                .contains_key(ACCESS_CONTROL_REQUEST_METHOD);
        (is_preflight && self.allowed.is_some()).then(|| {
            let headers = [
                (ACCESS_CONTROL_ALLOW_METHODS, "GET, HEAD"),
                (ACCESS_CONTROL_ALLOW_HEADERS, REQUEST_HEADERS),
                (ACCESS_CONTROL_MAX_AGE, PREFLIGHT_SECONDS),
                (CACHE_CONTROL, "no-store"),
            ];
            (StatusCode::NO_CONTENT, headers, Body::empty()).into_response()
        })
    }

    pub(super) fn set_headers(self, headers: &mut HeaderMap) {
        if self.varies {
            headers.append(VARY, HeaderValue::from_static("origin"));
        }
        if let Some(allowed) = self.allowed {
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
            "null",
        ] {
            assert!(Origins::parse_one(text).is_err(), "{text:?}");
        }
    }
}
