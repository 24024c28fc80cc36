//! [`HttpServer`]: the accept loop, with bounded connections, timeouts, and a drain at the shutdown.
//!
//! It is our own because `axum::serve` installs no timer, without which hyper enforces no timeout on slow request
//! heads.

use std::convert::Infallible;
use std::io;
use std::net::IpAddr;
use std::os::fd::AsFd;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use axum::BoxError;
use axum::body::Body;
use axum::extract::Request;
use axum::http::header::{CONNECTION, STRICT_TRANSPORT_SECURITY};
use axum::http::{HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use futures::FutureExt;
use http_body_util::Either;
use hyper::body::{Body as _, Incoming};
use hyper::service::service_fn;
use hyper::upgrade::OnUpgrade;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpListener;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{sleep, timeout};
use tower::{Service, ServiceExt};
use tracing::Instrument;

use super::error::ApiError;
use super::paced_stream::{AnswerCounter, PacedStream};
use super::routes::RouteTable;
use super::trace::{AccessLog, RequestTrace};
use crate::limits::{NetworkConnections, NetworkPermit, Proxies};
use crate::metrics::{GaugeGuard, HttpMetrics};
use crate::shutdown::Shutdown;
use crate::tls::{TlsServer, TlsSession, TlsStream};

/// The time for the head of a request, from the opening of the connection or the end of the previous request. It bounds
/// slow heads and idle connections.
const HEADER_READ_TIMEOUT: Duration = Duration::from_secs(30);
/// Bytes of the head of a request.
const HEAD_BYTES_MAX: usize = 16 * 1024;
/// The time for requests in flight to end at the shutdown.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(10);
/// The pause after an error of `accept`, for example when no file handle is left.
const ACCEPT_RETRY: Duration = Duration::from_millis(100);

/// Has browsers use TLS alone for this host, for a year after each answer: a page in which somebody pastes a key, or
/// signs in, is never loaded from another server. Answers without TLS do not have it; a proxy adds its own.
const ONLY_ENCRYPTED: HeaderValue = HeaderValue::from_static("max-age=31536000");

/// Ends a connection with its answer, while the service is going to stop: a balancer that keeps a connection could send
/// its next request just when the service closes it.
const LAST_ANSWER: HeaderValue = HeaderValue::from_static("close");

/// A listener and the bounds of its connections.
#[derive(Debug)]
pub(crate) struct HttpServer {
    pub(crate) listener: TcpListener,
    /// Without it, connections are plain HTTP.
    pub(crate) tls: Option<TlsServer>,
    pub(crate) connections_max: usize,
    /// The limit of each network. The trusted proxies are exempt: they have many clients.
    pub(crate) per_network: NetworkConnections,
    pub(crate) proxies: Proxies,
    /// The time for a handler.
    pub(crate) handler_timeout: Duration,
    /// The time for a client to read an answer.
    pub(crate) answer_timeout: Duration,
    pub(crate) access_log: AccessLog,
    pub(crate) metrics: Arc<HttpMetrics>,
    /// The service is going to stop: each connection ends with its next answer.
    pub(crate) draining: Shutdown,
    pub(crate) shutdown: Shutdown,
}

impl HttpServer {
    /// Serves until the shutdown, then lets requests in flight end. `service_for` makes the service of a connection
    /// from its peer's address. With `routes`, the answers are counted.
    pub(crate) async fn run<S, B>(
        self,
        routes: Option<Arc<RouteTable>>,
        service_for: impl Fn(IpAddr) -> S,
    ) where
        S: Service<Request, Response = Response<B>, Error = Infallible, Future: Send>
            + Clone
            + Send
            + 'static,
        B: hyper::body::Body<Data = Bytes, Error: Into<BoxError>> + Send + 'static,
    {
        let permits = Arc::new(Semaphore::new(self.connections_max));
        loop {
            let accepted = tokio::select! {
                accepted = self.listener.accept() => accepted,
                () = self.shutdown.cancelled() => break,
            };
            let (stream, peer) = match accepted {
                Ok(accepted) => accepted,
                Err(error) => {
                    tracing::warn!(%error, "accept failed");
                    sleep(ACCEPT_RETRY).await;
                    continue;
                }
            };
            let Some(admission) = self.admit(peer.ip(), &permits) else {
                self.metrics.refused.increment(1);
                continue;
            };
            let answers = AnswerCounter::default();
            let stream = PacedStream::new(stream, answers.clone(), self.answer_timeout);
            let connection = HttpConnection {
                answers,
                service: service_for(peer.ip()),
                requests: Arc::new(RequestContext {
                    access_log: self.access_log,
                    handler_timeout: self.handler_timeout,
                    is_encrypted: self.tls.is_some(),
                    routes: routes.clone(),
                    metrics: Arc::clone(&self.metrics),
                    draining: self.draining.clone(),
                }),
                shutdown: self.shutdown.clone(),
            };
            let tls = self.tls.clone();
            tokio::spawn(async move {
                match tls {
                    None => connection.serve(stream).await,
                    // On the heap, because a connection without TLS would have its size as well.
                    Some(tls) => Box::pin(connection.serve_encrypted(stream, tls)).await,
                }
                // Released last, when nothing is left of the connection.
                drop(admission);
            });
        }
        drop(self.listener);
        let all = u32::try_from(self.connections_max).unwrap_or(u32::MAX);
        let drained = timeout(DRAIN_TIMEOUT, permits.acquire_many(all)).await;
        if drained.is_err() {
            tracing::warn!(timeout = ?DRAIN_TIMEOUT, "requests did not end in time and were cut off");
        }
    }

    /// `None` if the service, or the network of a client, has too many connections.
    fn admit(&self, peer: IpAddr, permits: &Arc<Semaphore>) -> Option<Admission> {
        let permit = Arc::clone(permits).try_acquire_owned().ok()?;
        let is_proxy = self.proxies.is_trusted(peer.to_canonical());
        let of_network = if is_proxy {
            None
        } else {
            let of_network = self.per_network.acquire(peer);
            if of_network.is_none() {
                tracing::debug!(%peer, "the network has too many connections");
                return None;
            }
            of_network
        };
        Some(Admission {
            _permit: permit,
            _of_network: of_network,
            _open: GaugeGuard::new(&self.metrics.connections),
        })
    }
}

/// Counts a connection until it is dropped.
struct Admission {
    _permit: OwnedSemaphorePermit,
    _of_network: Option<NetworkPermit>,
    _open: GaugeGuard,
}

/// What serves the requests of one connection.
struct HttpConnection<S> {
    answers: AnswerCounter,
    service: S,
    requests: Arc<RequestContext>,
    shutdown: Shutdown,
}

/// What the requests of a connection share.
struct RequestContext {
    access_log: AccessLog,
    handler_timeout: Duration,
    is_encrypted: bool,
    /// `None` if answers are not counted.
    routes: Option<Arc<RouteTable>>,
    metrics: Arc<HttpMetrics>,
    draining: Shutdown,
}

impl<S, B> HttpConnection<S>
where
    S: Service<Request, Response = Response<B>, Error = Infallible, Future: Send>
        + Clone
        + Send
        + 'static,
    B: hyper::body::Body<Data = Bytes, Error: Into<BoxError>> + Send + 'static,
{
    /// Does the handshake of TLS, and then serves.
    async fn serve_encrypted(self, stream: PacedStream, tls: TlsServer) {
        let accepted = tokio::select! {
            accepted = tls.accept(stream) => accepted,
            () = self.shutdown.cancelled() => return,
        };
        // The error is logged.
        if let Ok(stream) = accepted {
            self.serve(stream).await;
        }
    }

    /// Serves until the connection ends or, at the shutdown, until its request in flight has ended.
    async fn serve(self, stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static) {
        let connection = hyper::server::conn::http1::Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(HEADER_READ_TIMEOUT)
            .max_buf_size(HEAD_BYTES_MAX)
            .serve_connection(
                TokioIo::new(stream),
                service_fn(move |request| {
                    self.answers.next();
                    respond(self.service.clone(), request, Arc::clone(&self.requests))
                }),
            )
            .with_upgrades();
        let mut connection = pin!(connection);
        let ended = tokio::select! {
            ended = &mut connection => ended,
            () = self.shutdown.cancelled() => {
                connection.as_mut().graceful_shutdown();
                connection.await
            }
        };
        if let Err(error) = ended {
            tracing::debug!(%error, "connection ended early");
        }
    }
}

/// A connection that the live channel takes over.
pub(super) struct TakenStream {
    /// Without timeouts.
    pub(super) stream: std::net::TcpStream,
    pub(super) tls: Option<TlsSession>,
    /// Bytes that were already read, and decrypted.
    pub(super) read_ahead: Vec<u8>,
}

/// The connection behind an upgrade. Fails if the handshake failed, the connection is not one of this server, or no
/// file handle is left.
pub(super) async fn take_stream(upgraded: OnUpgrade) -> io::Result<TakenStream> {
    let upgraded = upgraded.await.map_err(io::Error::other)?;
    let (stream, tls, read_ahead) = match upgraded.downcast::<TokioIo<PacedStream>>() {
        Ok(parts) => (parts.io.into_inner(), None, parts.read_buf),
        Err(upgraded) => {
            let parts = upgraded.downcast::<TokioIo<TlsStream<PacedStream>>>();
            let parts =
                parts.map_err(|_| io::Error::other("the connection is of another server"))?;
            let (stream, tls) = parts.io.into_inner().into_inner();
            (stream, Some(TlsSession::new(tls)), parts.read_buf)
        }
    };
    let handle = stream.into_inner()?.as_fd().try_clone_to_owned()?;
    Ok(TakenStream {
        stream: handle.into(),
        tls,
        read_ahead: read_ahead.to_vec(),
    })
}

/// Responds to a request within the time for its handler.
async fn respond<S, B>(
    mut service: S,
    request: hyper::Request<Incoming>,
    context: Arc<RequestContext>,
) -> Result<Response<Either<B, Body>>, Infallible>
where
    S: Service<Request, Response = Response<B>, Error = Infallible>,
{
    let trace = RequestTrace::start(&request, context.access_log);
    let counted = context.routes.as_ref().map(|routes| routes.start(&request));
    let request = request.map(|body| {
        if body.is_end_stream() {
            Body::empty()
        } else {
            Body::new(body)
        }
    });
    let service = service.ready().await?;
    let handling = trace.span.in_scope(|| service.call(request));
    let mut handling = pin!(handling.instrument(trace.span.clone()));
    // Nearly all responses are ready at once, and need no timer.
    let handled = match handling.as_mut().now_or_never() {
        Some(handled) => Ok(handled),
        None => timeout(context.handler_timeout, handling).await,
    };
    let mut response = match handled {
        Ok(response) => response?.map(Either::Left),
        Err(_) => ApiError::Internal("the handler timed out".to_owned())
            .into_response()
            .map(Either::Right),
    };
    if context.is_encrypted {
        let headers = response.headers_mut();
        headers.insert(STRICT_TRANSPORT_SECURITY, ONLY_ENCRYPTED);
    }
    // A WebSocket outlives its handshake: it is closed at the shutdown.
    if context.draining.is_cancelled() && response.status() != StatusCode::SWITCHING_PROTOCOLS {
        response.headers_mut().insert(CONNECTION, LAST_ANSWER);
    }
    if let Some(counted) = counted {
        let status = response.status().as_u16();
        counted.answered(status);
        context.metrics.answered(status);
    }
    trace.finish(&mut response);
    Ok(response)
}
