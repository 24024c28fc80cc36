//! [`AdminAccess`]: who may use the admin address.
//!
//! A browser on the operator's machine reaches that address for any page that it shows. A request of another page is
//! known by its `Origin` or `Sec-Fetch-Site`; a page whose own name was made to point here (DNS rebinding), by its
//! `Host`.

use std::convert::Infallible;
use std::net::IpAddr;
use std::sync::Arc;

use axum::extract::Request;
use axum::http::header::{AUTHORIZATION, HOST, ORIGIN, WWW_AUTHENTICATE};
use axum::http::uri::Authority;
use axum::http::{HeaderName, HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use axum::{Json, Router};
use serde_json::{Value, json};
use tower::{Service, service_fn};

use super::bearer::bearer_token;

/// Needs no token: it says that the process runs, and nothing else. The health check of a container has no token.
pub(super) const HEALTH: &str = "/healthz";

const NO_TOKEN: &str =
    "The header `Authorization: Bearer` with the token of --admin-token is required";

const SEC_FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");

/// Who may use the admin address: requests to one of its names, with the token if there is one.
#[derive(Debug, Clone, Default)]
pub struct AdminAccess {
    /// Names and addresses beside those of loopback and the bound one, in lower case.
    hosts: Vec<String>,
    /// The hash of the token. Hashes are compared in constant time.
    token: Option<blake3::Hash>,
}

/// Why a request is not answered: the status, the code and the message.
type AdminRefusal = (StatusCode, &'static str, String);

/// The response with an error of the admin address.
pub(super) fn admin_error(
    status: StatusCode,
    code: &str,
    message: &str,
) -> (StatusCode, Json<Value>) {
    (status, Json(json!({ "error": code, "message": message })))
}

impl AdminAccess {
    /// Access by these names, beside those that it always has.
    pub fn new(hosts: Vec<String>, token: Option<&str>) -> Self {
        Self {
            hosts: hosts.iter().map(|host| host.to_ascii_lowercase()).collect(),
            token: token.map(|token| blake3::hash(token.as_bytes())),
        }
    }

    /// Checks a request to the address that is bound to `bound`.
    fn check(&self, request: &Request, bound: IpAddr) -> Result<(), AdminRefusal> {
        let headers = request.headers();
        let mut hosts = headers.get_all(HOST).iter();
        let host = hosts.next().and_then(|host| host.to_str().ok());
        let host = host.filter(|_| hosts.next().is_none()).unwrap_or_default();
        if !self.is_own_host(host, bound) {
            let message =
                format!("This address is not {host:?}; --admin-hosts lists its other names");
            return Err((StatusCode::MISDIRECTED_REQUEST, "host_not_allowed", message));
        }
        let own_origin = format!("http://{host}");
        let is_own = |origin: &HeaderValue| origin.as_bytes() == own_origin.as_bytes();
        let is_same = |site: &HeaderValue| ["same-origin", "none"].iter().any(|same| site == same);
        if !headers.get_all(ORIGIN).iter().all(is_own)
            || !headers.get_all(SEC_FETCH_SITE).iter().all(is_same)
        {
            let message = "Web pages of other origins may not use this address".to_owned();
            return Err((StatusCode::FORBIDDEN, "origin_not_allowed", message));
        }
        let given = headers.get(AUTHORIZATION).and_then(bearer_token);
        let given = given.map(|token| blake3::hash(token.as_bytes()));
        if self.token.is_some() && given != self.token && request.uri().path() != HEALTH {
            let message = NO_TOKEN.to_owned();
            return Err((StatusCode::UNAUTHORIZED, "unauthorized", message));
        }
        Ok(())
    }

    /// Whether a `Host` names this address. A DNS name other than `localhost` does only if it is listed; an IP address
    /// cannot be rebound, so each does that the socket may have.
    fn is_own_host(&self, host: &str, bound: IpAddr) -> bool {
        let is_own_address =
            |address: IpAddr| address.is_loopback() || address == bound || bound.is_unspecified();
        host.parse::<Authority>().is_ok_and(|authority| {
            let name = authority.host().to_ascii_lowercase();
            let address = name.trim_start_matches('[').trim_end_matches(']').parse();
            name == "localhost" || self.hosts.contains(&name) || address.is_ok_and(is_own_address)
        })
    }
}

/// The service of the admin address: the router, behind the checks.
pub(crate) fn admin_service(
    access: Arc<AdminAccess>,
    bound: IpAddr,
    mut router: Router,
) -> impl Service<Request, Response = Response, Error = Infallible, Future: Send> + Clone + Send + 'static
{
    service_fn(move |request: Request| {
        let handling = access.check(&request, bound).map(|()| router.call(request));
        async move {
            match handling {
                Ok(handling) => handling.await,
                Err((status, code, message)) => {
                    let error = admin_error(status, code, &message);
                    let challenge = [(WWW_AUTHENTICATE, "Bearer")];
                    let challenge = (status == StatusCode::UNAUTHORIZED).then_some(challenge);
                    Ok((challenge, error).into_response())
                }
            }
        }
    })
}
