//! [`gate`]: the service around the router, which checks the key of each request, counts it to the key's plan and use,
//! and bounds the time of its handler.

use std::convert::Infallible;
use std::net::IpAddr;
use std::panic::AssertUnwindSafe;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::Request;
use axum::http::header::{
    AUTHORIZATION, CONTENT_LENGTH, HOST, TRANSFER_ENCODING, X_CONTENT_TYPE_OPTIONS,
};
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, Version};
use axum::response::{IntoResponse, Response};
use futures::FutureExt;
use hyper::body::Body as _;
use tokio::time::timeout;
use tower::{Service, service_fn};
use tracing::Span;

use super::bearer::bearer_token;
use super::browser::Browser;
use super::cors::{Cors, PROBES};
use super::pages::{is_of_own_page, session_secret};
use super::rate_limit::set_rate_limit_headers;
use super::views_state::ViewsState;
use super::{ApiError, App, QueryParams};
use crate::accounts::{KeyEntry, KeyId, Refusal};
use crate::health::Reason;
use crate::limits::{Network, RateLimitStatus};

/// Paths that need a key, whether they exist or not.
const API: &str = "/api/v1";
const LIVE: [&str; 2] = [WEBSOCKETS, "/sse/"];
const WEBSOCKETS: &str = "/ws/";

/// Costs no quota: it says what is left.
const ACCOUNT: &str = "/api/v1/account";

/// A proxy sends it that repeats a request at another replica after a 503. Without, old views are better than none.
const PREFER_FRESH: HeaderName = HeaderName::from_static("railbird-prefer-fresh");

/// Is never a key.
const NO_KEY: &str = "";

const API_KEY: HeaderName = HeaderName::from_static("x-api-key");
const X_FORWARDED_FOR: HeaderName = HeaderName::from_static("x-forwarded-for");

const NO_HOST: &str = "A request has one Host header";

/// Bytes of path and query: longer than any of the API, with room for a key.
const URI_BYTES_MAX: usize = 2048;
/// Path and query of the live channel, whose query may list hundreds of races and horses.
const LIVE_URI_BYTES_MAX: usize = 8 * 1024;
/// Bytes of a request body. GET requests need none, but some clients send `{}`.
const BODY_BYTES_MAX: u64 = 1024;

/// The time for a handler. Most read a local store, those of the past the log, and a long poll waits. The proxies of
/// `ops/` wait half a second longer.
const HANDLER_TIMEOUT: Duration = Duration::from_millis(8_500);

/// KiB that an answer without a key counts as at least: to find a page costs something, too.
const OPEN_COST_KIB_MIN: u32 = 4;

fn is_live(path: &str) -> bool {
    LIVE.iter().any(|live| path.starts_with(live))
}

/// How a request is admitted.
enum Admitted {
    /// A request that costs nothing.
    Free,
    /// A request that needs no key. This client is charged for the answer.
    Charged(Network),
    /// A request with a key. If its plan has a rate limit, that is reported.
    Counted(Option<RateLimitStatus>),
}

/// Admits requests to the router, adds the rate limits of the key and the state of the views to each response, and
/// answers for a handler that panics or takes too long.
///
/// It wraps the router from outside, because axum boxes each layer of a route for each request.
pub(super) fn gate(
    app: Arc<App>,
    peer: IpAddr,
    mut router: Router,
) -> impl Service<Request, Response = Response, Error = Infallible, Future: Send> + Clone + Send + 'static
{
    service_fn(move |mut request: Request| {
        let app = Arc::clone(&app);
        // Before the views are read: the response reflects this sequence or a later one.
        let state = ViewsState::of(&app);
        let browser = Browser::of(&request).filter(|_| api_key(request.headers(), None).is_none());
        let path = request.uri().path();
        let needs_key = path.starts_with(API) || is_live(path);
        let with_key = needs_key.then_some(&app.origins);
        let cors = Cors::of(&request, with_key);
        let routed = match cors.preflight(&request) {
            Some(answer) => Err(answer),
            None => admit(&app, peer, &cors, &mut request)
                .map(|admitted| (router.call(request), admitted))
                .map_err(ApiError::into_response),
        };
        async move {
            let (mut response, admitted) = match routed {
                Ok((handling, admitted)) => (answer(handling).await, admitted),
                Err(response) => (response, Admitted::Free),
            };
            if let Some(browser) = browser {
                browser.show_error(&mut response);
            }
            match admitted {
                Admitted::Charged(client) => app.open_limiter.charge(&client, cost_kib(&response)),
                Admitted::Counted(Some(rate_limit)) => {
                    set_rate_limit_headers(response.headers_mut(), rate_limit);
                }
                Admitted::Counted(None) | Admitted::Free => {}
            }
            let status = response.status();
            let headers = response.headers_mut();
            headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
            cors.set_headers(status, headers);
            state.set_headers(headers);
            Ok(response)
        }
    })
}

/// The answer of a handler, or an error if it panics or takes too long.
async fn answer(handling: impl Future<Output = Result<Response, Infallible>>) -> Response {
    let mut handling = pin!(AssertUnwindSafe(handling).catch_unwind());
    // Nearly all answers are ready at once, and need no timer.
    let handled = match handling.as_mut().now_or_never() {
        Some(handled) => Ok(handled),
        None => timeout(HANDLER_TIMEOUT, handling).await,
    };
    let failure = match handled {
        Ok(Ok(Ok(response))) => return response,
        // The panic hook has logged where and why.
        Ok(Err(_)) => "a handler panicked",
        Err(_) => "the handler timed out",
    };
    ApiError::internal(failure).into_response()
}

/// What an answer without a key costs: its bytes, which a page that is not compressed before also costs CPU.
fn cost_kib(response: &Response) -> u32 {
    let kib = u32::try_from(response.body().size_hint().lower() / 1024);
    kib.unwrap_or(u32::MAX).max(OPEN_COST_KIB_MIN)
}

/// Checks the key of a request, and counts the request to the key's plan and use. Without a key, checks what the client
/// was charged before.
///
/// Adds to the request's extensions: the [`KeyEntry`]; the [`Network`] of the client for the live channel, and for
/// requests without a key that change something.
fn admit(
    app: &App,
    peer: IpAddr,
    cors: &Cors,
    request: &mut Request,
) -> Result<Admitted, ApiError> {
    check_head(request)?;
    let path = request.uri().path();
    let is_api = path.starts_with(API);
    let is_live = is_live(path);
    if !is_api && !is_live {
        if PROBES.contains(&path) {
            return Ok(Admitted::Free);
        }
        let network = Network::from(app.client(peer, request.headers()));
        let charged = network.customer();
        let checked = app.open_limiter.check(&charged);
        checked.map_err(|retry_after| app.too_many(retry_after))?;
        if !request.method().is_safe() {
            request.extensions_mut().insert(network);
        }
        return Ok(Admitted::Charged(charged));
    }
    // Browsers send no headers with a WebSocket. Elsewhere a key in an address would be logged by proxies.
    let is_websocket = path.starts_with(WEBSOCKETS);
    let query = is_websocket.then(|| QueryParams::parse(request.uri()));
    let of_query = query.as_ref().and_then(|query| query.get("api_key"));
    let checked = match api_key(request.headers(), of_query) {
        Some(key) => Some(app.keys.check(key)),
        None => session_of(app, request).map(|cookie| app.keys.check_session(cookie)),
    };
    let entry = app.authorize(checked, peer, request.headers())?;
    let can_leave = is_live || request.headers().contains_key(PREFER_FRESH);
    if can_leave && app.health.lag.should_leave() {
        return Err(ApiError::unready(Reason::Lagging));
    }
    let rate_limit = match path {
        ACCOUNT => None,
        _ => app.count(&entry)?,
    };
    let client = app.client(peer, request.headers());
    entry.use_counter.count(client.into());
    cors.check()?;
    request.extensions_mut().insert(entry);
    if is_live {
        request.extensions_mut().insert(Network::from(client));
    }
    Ok(Admitted::Counted(rate_limit))
}

/// Checks what holds for each request, before the key is looked up.
fn check_head(request: &Request) -> Result<(), ApiError> {
    let uri = request.uri();
    let headers = request.headers();
    // RFC 9112, 3.2. Two programs on the way could each take another one.
    let hosts = headers.get_all(HOST).iter().count();
    if hosts > 1 || hosts == 0 && request.version() == Version::HTTP_11 {
        return Err(ApiError::invalid(NO_HOST));
    }
    let uri_bytes_max = match is_live(uri.path()) {
        true => LIVE_URI_BYTES_MAX,
        false => URI_BYTES_MAX,
    };
    if uri.path().len() + uri.query().map_or(0, str::len) > uri_bytes_max {
        return Err(ApiError::UriTooLong);
    }
    // The forms of the pages have a limit of their own.
    if !request.method().is_safe() && !uri.path().starts_with(API) {
        return Ok(());
    }
    let length = headers.get(CONTENT_LENGTH).map(|length| length.to_str());
    let length = length.and_then(|length| length.ok()?.parse::<u64>().ok());
    if length.unwrap_or(0) > BODY_BYTES_MAX || headers.contains_key(TRANSFER_ENCODING) {
        return Err(ApiError::PayloadTooLarge);
    }
    Ok(())
}

/// The key of a request: in `X-API-Key`, as a bearer token, or in the query of a WebSocket. An empty header has none,
/// and a bearer token without the form of a key is one for a proxy. A key that is given twice must be the same, because
/// the quota of one holder is used: else [`NO_KEY`] is returned.
fn api_key<'a>(headers: &'a HeaderMap, of_query: Option<&'a str>) -> Option<&'a str> {
    let of_header = headers.get_all(API_KEY).iter();
    let of_header = of_header.filter(|value| !value.is_empty());
    let of_header = of_header.map(|value| value.to_str().unwrap_or(NO_KEY));
    let bearer = headers.get_all(AUTHORIZATION).iter();
    let bearer = bearer.filter_map(bearer_token);
    let bearer = bearer.filter(|token| KeyId::of_key(token).is_some());
    let mut keys = of_query.into_iter().chain(of_header).chain(bearer);
    let key = keys.next()?;
    Some(match keys.all(|other| other == key) {
        true => key,
        false => NO_KEY,
    })
}

/// The session of a visitor, if a page of the service reads the API with it. That of another site must not.
fn session_of<'a>(app: &App, request: &'a Request) -> Option<&'a str> {
    let headers = request.headers();
    let is_read = [Method::GET, Method::HEAD].contains(request.method());
    let is_own = is_read && is_of_own_page(headers, &app.pages.url) == Some(true);
    is_own.then(|| session_secret(headers, &app.pages))?
}

impl App {
    /// Returns a key or session that is valid. Requests without one are limited by network, so that nobody can guess
    /// keys by trying them.
    fn authorize(
        &self,
        checked: Option<Result<Arc<KeyEntry>, Refusal>>,
        peer: IpAddr,
        headers: &HeaderMap,
    ) -> Result<Arc<KeyEntry>, ApiError> {
        let metrics = &self.metrics;
        let counter = match checked {
            Some(Ok(entry)) => {
                Span::current().record("key_id", tracing::field::display(entry.key_id));
                return Ok(entry);
            }
            Some(Err(Refusal::NotKnownYet)) => return Err(ApiError::unready(Reason::KeysNotRead)),
            Some(Err(Refusal::Stale)) => return Err(ApiError::unready(Reason::KeysStale)),
            Some(Err(Refusal::NotValid)) => &metrics.key_not_valid,
            Some(Err(Refusal::Malformed)) => &metrics.key_malformed,
            None => &metrics.key_missing,
        };
        counter.increment(1);
        let network = Network::from(self.client(peer, headers));
        let taken = self.unauthenticated_limiter.take(&network);
        taken.map_err(|retry_after| self.too_many(retry_after))?;
        Err(ApiError::Unauthorized)
    }

    fn too_many(&self, retry_after: u32) -> ApiError {
        self.metrics.limited_address.increment(1);
        let message = "Too many requests without a valid API key".to_owned();
        ApiError::RateLimitExceeded {
            message,
            retry_after,
            status: None,
        }
    }

    /// Counts a request to the plan of its key.
    fn count(&self, entry: &KeyEntry) -> Result<Option<RateLimitStatus>, ApiError> {
        entry.meter.take().map_err(|exceeded| {
            self.metrics.limited(exceeded.period);
            let name = entry.meter.plan.name.as_str();
            let (limit, period) = (exceeded.status.limit, exceeded.period.into_str());
            let message = format!("The plan {name:?} allows {limit} requests a {period}");
            ApiError::RateLimitExceeded {
                message,
                retry_after: exceeded.retry_after,
                status: Some(exceeded.status),
            }
        })
    }

    /// The address that a request comes from.
    fn client(&self, peer: IpAddr, headers: &HeaderMap) -> IpAddr {
        let forwarded = headers.get_all(X_FORWARDED_FOR).iter();
        // A value that is not text holds no address, and so ends the trusted part.
        let forwarded = forwarded.map(|value| value.to_str().unwrap_or_default());
        self.proxies.client(peer, forwarded)
    }
}

#[cfg(test)]
mod tests {
    use std::future::pending;

    use axum::body::Body;
    use axum::http::StatusCode;
    use axum::http::header::{ACCEPT, CONTENT_TYPE};

    use super::{Browser, Request, answer};

    #[tokio::test(start_paused = true)]
    async fn a_handler_that_takes_too_long_is_an_error_which_a_browser_shows_as_a_page() {
        let mut response = answer(pending()).await;
        assert_eq!(response.status(), StatusCode::INTERNAL_SERVER_ERROR);
        assert_eq!(response.headers()[CONTENT_TYPE], "application/json");
        let request = Request::builder().header(ACCEPT, "text/html");
        let request = request.body(Body::empty()).expect("a request");
        let browser = Browser::of(&request).expect("a browser");
        browser.show_error(&mut response);
        let content_type = &response.headers()[CONTENT_TYPE];
        assert_eq!(content_type, "text/html; charset=utf-8");
    }
}
