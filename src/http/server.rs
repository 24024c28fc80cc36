//! The accept loop: bounded connections, time limits that bite, and a drain before the end.
//!
//! `axum::serve` installs no timer, without which hyper enforces no limit on slow headers; so the loop is our own.

use std::pin::{Pin, pin};
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use hyper::body::Incoming;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::time::{sleep, timeout};
use tokio_io_timeout::TimeoutStream;
use tower::ServiceExt;

use crate::metrics::{Held, HttpMetrics};
use crate::shutdown::Shutdown;

/// How long a client may take to send a request's head, from the first moment of the connection or from the end of the
/// last request: it bounds slow heads and idle connections alike.
const HEADER_READ_TIMEOUT: Duration = Duration::from_secs(30);
/// How long a handler may take. All of them read a local store.
const HANDLER_TIMEOUT: Duration = Duration::from_secs(10);
/// How long a connection may be without a byte in or out. WebSockets are pinged more often.
const IDLE_TIMEOUT: Duration = Duration::from_secs(75);
/// Bytes of a request's head at most.
const HEAD_BYTES_MAX: usize = 16 * 1024;
/// How long requests under way may take to end when the service stops.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(10);
/// After an error of `accept`, such as no file handle left, the loop takes a breath.
const ACCEPT_RETRY: Duration = Duration::from_millis(100);

/// Serves until the shutdown, then lets requests under way end.
pub async fn serve(
    listener: TcpListener,
    router: Router,
    connections_max: usize,
    metrics: Arc<HttpMetrics>,
    mut shutdown: Shutdown,
) {
    let places = Arc::new(Semaphore::new(connections_max));
    loop {
        let stream = tokio::select! {
            accepted = listener.accept() => match accepted {
                Ok((stream, _)) => stream,
                Err(error) => {
                    tracing::warn!(%error, "a connection could not be accepted");
                    sleep(ACCEPT_RETRY).await;
                    continue;
                }
            },
            () = shutdown.begun() => break,
        };
        let Ok(place) = Arc::clone(&places).try_acquire_owned() else {
            metrics.refused.increment(1);
            continue;
        };
        let held = Held::new(&metrics.connections);
        let (router, mut shutdown) = (router.clone(), shutdown.clone());
        tokio::spawn(async move {
            // Given back last, when nothing of the connection is left.
            let _held = (place, held);
            let mut connection = pin!(connection(stream, router));
            let ended = tokio::select! {
                ended = &mut connection => ended,
                () = shutdown.begun() => {
                    connection.as_mut().graceful_shutdown();
                    connection.await
                }
            };
            if let Err(error) = ended {
                tracing::debug!(%error, "a connection ended early");
            }
        });
    }
    drop(listener);
    let all = u32::try_from(connections_max).unwrap_or(u32::MAX);
    if timeout(DRAIN_TIMEOUT, places.acquire_many(all))
        .await
        .is_err()
    {
        tracing::warn!("some requests did not end in time");
    }
}

type Connection = hyper::server::conn::http1::UpgradeableConnection<
    TokioIo<Pin<Box<TimeoutStream<TcpStream>>>>,
    TowerToHyperService<Timed>,
>;

fn connection(stream: TcpStream, router: Router) -> Connection {
    if let Err(error) = stream.set_nodelay(true) {
        tracing::debug!(%error, "a connection keeps Nagle's delay");
    }
    let mut stream = TimeoutStream::new(stream);
    stream.set_read_timeout(Some(IDLE_TIMEOUT));
    stream.set_write_timeout(Some(IDLE_TIMEOUT));
    hyper::server::conn::http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEADER_READ_TIMEOUT)
        .max_buf_size(HEAD_BYTES_MAX)
        .serve_connection(
            TokioIo::new(Box::pin(stream)),
            TowerToHyperService::new(Timed(router)),
        )
        .with_upgrades()
}

/// The router, with a limit on how long a handler may take.
#[derive(Debug, Clone)]
struct Timed(Router);

impl tower::Service<hyper::Request<Incoming>> for Timed {
    type Response = axum::response::Response;
    type Error = std::convert::Infallible;
    type Future = futures::future::BoxFuture<'static, Result<Self::Response, Self::Error>>;

    fn poll_ready(
        &mut self,
        _: &mut std::task::Context<'_>,
    ) -> std::task::Poll<Result<(), Self::Error>> {
        std::task::Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: hyper::Request<Incoming>) -> Self::Future {
        let answer = self.0.clone().oneshot(request.map(axum::body::Body::new));
        Box::pin(async move {
            match timeout(HANDLER_TIMEOUT, answer).await {
                Ok(answer) => answer,
                Err(_) => Ok(axum::response::IntoResponse::into_response(
                    super::ApiError::Internal("a handler took too long".to_owned()),
                )),
            }
        })
    }
}
