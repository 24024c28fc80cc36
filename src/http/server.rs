//! The accept loop: bounded connections, time limits that bite, and a drain before the end.
//!
//! `axum::serve` installs no timer, without which hyper enforces no limit on slow headers; so the loop is our own.

use std::convert::Infallible;
use std::io;
use std::net::IpAddr;
use std::os::fd::AsFd;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::time::Duration;

use axum::BoxError;
use axum::body::Body;
use axum::extract::Request;
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use futures::FutureExt;
use http_body_util::Either;
use hyper::body::{Body as _, Incoming};
use hyper::service::service_fn;
use hyper::upgrade::Upgraded;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::time::{sleep, timeout};
use tokio_io_timeout::TimeoutStream;
use tower::{Service, ServiceExt};

use super::ApiError;
use crate::metrics::{GaugeGuard, HttpMetrics};
use crate::shutdown::Shutdown;

/// How long a client may take to send a request's head, from the first moment of the connection or from the end of the
/// last request: it bounds slow heads and idle connections alike.
const HEADER_READ_TIMEOUT: Duration = Duration::from_secs(30);
/// How long a handler may take. All of them read a local store.
const HANDLER_TIMEOUT: Duration = Duration::from_secs(10);
/// How long a connection may be without a byte in or out.
const IDLE_TIMEOUT: Duration = Duration::from_secs(75);
/// Bytes of a request's head at most.
const HEAD_BYTES_MAX: usize = 16 * 1024;
/// How long requests under way may take to end when the service stops.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(10);
/// After an error of `accept`, such as no file handle left, the loop takes a breath.
const ACCEPT_RETRY: Duration = Duration::from_millis(100);

/// Serves until the shutdown, then lets requests under way end. Each connection has a service for the address that it comes from.
pub async fn serve<S, B>(
    listener: TcpListener,
    service_for: impl Fn(IpAddr) -> S,
    connections_max: usize,
    metrics: Arc<HttpMetrics>,
    shutdown: Shutdown,
) where
    S: Service<Request, Response = Response<B>, Error = Infallible, Future: Send>
        + Clone
        + Send
        + 'static,
    B: hyper::body::Body<Data = Bytes, Error: Into<BoxError>> + Send + 'static,
{
    let places = Arc::new(Semaphore::new(connections_max));
    loop {
        let (stream, peer) = tokio::select! {
            accepted = listener.accept() => match accepted {
                Ok(accepted) => accepted,
                Err(error) => {
                    tracing::warn!(%error, "a connection could not be accepted");
                    sleep(ACCEPT_RETRY).await;
                    continue;
                }
            },
            () = shutdown.cancelled() => break,
        };
        let Ok(place) = Arc::clone(&places).try_acquire_owned() else {
            metrics.refused.increment(1);
            continue;
        };
        let held = GaugeGuard::new(&metrics.connections);
        let (service, shutdown) = (service_for(peer.ip()), shutdown.clone());
        tokio::spawn(async move {
            // Given back last, when nothing of the connection is left.
            let _held = (place, held);
            let connection = hyper::server::conn::http1::Builder::new()
                .timer(TokioTimer::new())
                .header_read_timeout(HEADER_READ_TIMEOUT)
                .max_buf_size(HEAD_BYTES_MAX)
                .serve_connection(
                    TokioIo::new(bounded(stream)),
                    service_fn(move |request| answer(service.clone(), request)),
                )
                .with_upgrades();
            let mut connection = pin!(connection);
            let ended = tokio::select! {
                ended = &mut connection => ended,
                () = shutdown.cancelled() => {
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

/// A connection that is not for ever without a byte.
type Bounded = Pin<Box<TimeoutStream<TcpStream>>>;

fn bounded(stream: TcpStream) -> Bounded {
    if let Err(error) = stream.set_nodelay(true) {
        tracing::debug!(%error, "a connection keeps Nagle's delay");
    }
    let mut stream = TimeoutStream::new(stream);
    stream.set_read_timeout(Some(IDLE_TIMEOUT));
    stream.set_write_timeout(Some(IDLE_TIMEOUT));
    Box::pin(stream)
}

/// The connection behind an upgrade, without time limits, and what had been read of it already.
///
/// # Errors
/// It is no connection of this server, or there is no file handle left.
pub fn take_stream(upgraded: Upgraded) -> io::Result<(std::net::TcpStream, Vec<u8>)> {
    let parts = upgraded.downcast::<TokioIo<Bounded>>();
    let parts = parts.map_err(|_| io::Error::other("the connection is of another server"))?;
    let stream = parts.io.into_inner();
    let handle = stream.get_ref().as_fd().try_clone_to_owned()?;
    Ok((handle.into(), parts.read_buf.to_vec()))
}

/// Answers a request, in a bounded time.
async fn answer<S, B>(
    mut service: S,
    request: hyper::Request<Incoming>,
) -> Result<Response<Either<B, Body>>, Infallible>
where
    S: Service<Request, Response = Response<B>, Error = Infallible>,
{
    let request = request.map(|body| {
        if body.is_end_stream() {
            Body::empty()
        } else {
            Body::new(body)
        }
    });
    let mut answer = pin!(service.ready().await?.call(request));
    // Nearly every answer is there at once, and needs no timer.
    let answered = match answer.as_mut().now_or_never() {
        Some(answered) => Ok(answered),
        None => timeout(HANDLER_TIMEOUT, answer).await,
    };
    match answered {
        Ok(answered) => Ok(answered?.map(Either::Left)),
        Err(_) => Ok(ApiError::Internal("a handler took too long".to_owned())
            .into_response()
            .map(Either::Right)),
    }
}
