//! [`gate`]: what every request goes through before the router, and every answer behind it: the key, and what its plan allows.

use std::convert::Infallible;
use std::net::IpAddr;
use std::sync::Arc;

use axum::extract::Request;
use axum::http::{HeaderMap, HeaderName};
use axum::response::{IntoResponse, Response};
use tower::{Service, service_fn};

use super::call::{API_KEY, Args, check_size};
use super::error::ApiError;
use super::rate_limit::set_rate_limit_headers;
use crate::accounts::{KeyEntry, Refusal};
use crate::http::state::App;
use crate::limits::{Network, RateLimitStatus};

/// What is under these needs a key, whether it is there or not.
const API: &str = "/api/v1";
const LIVE: &str = "/ws/";

const X_FORWARDED_FOR: HeaderName = HeaderName::from_static("x-forwarded-for");

/// Lets those through to the router who may ask, and says in every answer what is left to them. It lies around the router: axum
/// boxes every layer of every route anew for each request.
pub(super) fn gate<S>(
    app: Arc<App>,
    peer: IpAddr,
    mut router: S,
) -> impl Service<Request, Response = Response, Error = Infallible, Future: Send> + Clone + Send + 'static
where
    S: Service<Request, Response = Response, Error = Infallible, Future: Send>
        + Clone
        + Send
        + 'static,
{
    service_fn(move |mut request: Request| {
        let app = Arc::clone(&app);
        let admitted = admit(&app, peer, &mut request);
        let answer = admitted.map(|allowance| (router.call(request), allowance));
        async move {
            let answer = match answer {
                Ok((answer, allowance)) => {
                    let mut answer = answer.await?;
                    if let Some(allowance) = allowance {
                        set_rate_limit_headers(answer.headers_mut(), allowance);
                    }
                    answer
                }
                Err(refused) => refused.into_response(),
            };
            app.metrics.answered(answer.status().as_u16());
            Ok(answer)
        }
    })
}

/// Whether a request may go on, and what is left then to whom it is of. Its extensions have the [`KeyEntry`] where the live channel is asked
/// for, and the [`Network`] that it comes from where it needs no key and changes something.
fn admit(
    app: &App,
    peer: IpAddr,
    request: &mut Request,
) -> Result<Option<RateLimitStatus>, ApiError> {
    let path = request.uri().path();
    if path.starts_with(API) {
        check_size(request)?;
        let entry = app.authorize(api_key(request.headers()), peer, request.headers())?;
        app.count(&entry)
    } else if path.starts_with(LIVE) {
        let args = Args::of(request.uri()).unwrap_or_default();
        let key = args.get("api_key").or_else(|| api_key(request.headers()));
        let entry = app.authorize(key, peer, request.headers())?;
        let left = app.count(&entry);
        request.extensions_mut().insert(entry);
        left
    } else {
        if !request.method().is_safe() {
            let network = app.network(peer, request.headers());
            request.extensions_mut().insert(network);
        }
        Ok(None)
    }
}

/// The key in the header, if there is one.
fn api_key(headers: &HeaderMap) -> Option<&str> {
    headers.get(API_KEY)?.to_str().ok()
}

impl App {
    /// What is known of a valid key. Where others come from is counted, so that nobody tries one key after the other.
    fn authorize(
        &self,
        key: Option<&str>,
        peer: IpAddr,
        headers: &HeaderMap,
    ) -> Result<Arc<KeyEntry>, ApiError> {
        let metrics = &self.metrics;
        let count = match key.map(|key| self.keys.check(key)) {
            Some(Ok(entry)) => return Ok(entry),
            Some(Err(Refusal::NotKnownYet)) => {
                return Err(ApiError::NotReady(
                    "The keys have not been read from the log yet",
                ));
            }
            Some(Err(Refusal::NotValid)) => &metrics.key_not_valid,
            Some(Err(Refusal::Malformed)) => &metrics.key_malformed,
            None => &metrics.key_missing,
        };
        count.increment(1);
        Err(
            match self
                .unauthenticated_limiter
                .take(&self.network(peer, headers))
            {
                Ok(()) => ApiError::Unauthorized,
                Err(retry_after) => {
                    metrics.limited_address.increment(1);
                    ApiError::TooManyGuesses { retry_after }
                }
            },
        )
    }

    /// Counts a request of a key to its plan.
    fn count(&self, entry: &KeyEntry) -> Result<Option<RateLimitStatus>, ApiError> {
        entry.meter.take().map_err(|exceeded| {
            self.metrics.limited(exceeded.period);
            let plan = Arc::clone(entry.meter.plan());
            ApiError::RateLimited { plan, exceeded }
        })
    }

    /// Where a request comes from.
    fn network(&self, peer: IpAddr, headers: &HeaderMap) -> Network {
        let lines = headers.get_all(X_FORWARDED_FOR).iter();
        // What is no text is no address either, and so ends what is believed.
        let lines = lines.map(|line| line.to_str().unwrap_or_default());
        self.proxies.client(peer, lines).into()
    }
}
