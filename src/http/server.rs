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
use std::sync::atomic::Ordering;
use std::time::Duration;

use axum::BoxError;
use axum::body::Body;
use axum::extract::Request;
use axum::http::header::{CONNECTION, STRICT_TRANSPORT_SECURITY};
use axum::http::{HeaderValue, StatusCode};
use axum::response::Response;
use bytes::Bytes;
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

use super::paced_stream::{AnswerCounter, PacedStream};
use super::routes::RouteTable;
use super::trace::{AccessLog, RequestTrace};
use crate::feed::frame::Encoding;
use crate::limits::{NetworkConnections, NetworkPermit, Proxies};
use crate::live::NewConnection;
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

/// The bounds of the connections of an address, and of their requests.
#[derive(Debug)]
pub(crate) struct HttpServer {
    /// Without it, connections are plain HTTP.
    pub(crate) tls: Option<TlsServer>,
    pub(crate) connections_max: usize,
    /// The limit of each network. The trusted proxies are exempt: they have many clients.
    pub(crate) per_network: NetworkConnections,
    pub(crate) proxies: Proxies,
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
        listener: TcpListener,
        routes: Option<RouteTable>,
        service_for: impl Fn(IpAddr) -> S,
    ) where
        S: Service<Request, Response = Response<B>, Error = Infallible, Future: Send>
            + Clone
            + Send
            + 'static,
        B: hyper::body::Body<Data = Bytes, Error: Into<BoxError>> + Send + 'static,
    {
        let permits = Arc::new(Semaphore::new(self.connections_max));
        let shared = Arc::new(ServerContext {
            server: self,
            routes,
        });
        let server = &shared.server;
        loop {
            let accepted = tokio::select! {
                accepted = listener.accept() => accepted,
                () = server.shutdown.cancelled() => break,
            };
            let (stream, peer) = match accepted {
                Ok(accepted) => accepted,
                Err(error) => {
                    tracing::warn!(%error, "accept failed");
                    sleep(ACCEPT_RETRY).await;
                    continue;
                }
            };
            let Some(admission) = server.admit(peer.ip(), &permits) else {
                server.metrics.refused.increment(1);
                continue;
            };
            let answers = AnswerCounter::default();
            let stream = PacedStream::new(stream, answers.clone(), server.answer_timeout);
            let connection = HttpConnection {
                answers,
                service: service_for(peer.ip()),
                shared: Arc::clone(&shared),
            };
            let tls = server.tls.clone();
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
        drop(listener);
        let all = u32::try_from(server.connections_max).unwrap_or(u32::MAX);
        let drained = timeout(DRAIN_TIMEOUT, permits.acquire_many(all)).await;
        if drained.is_err() {
            tracing::warn!(timeout = ?DRAIN_TIMEOUT, "requests did not end in time and were cut off");
        }
    }

    /// `None` if the service, or the network of a client, has too many connections.
    fn admit(&self, peer: IpAddr, permits: &Arc<Semaphore>) -> Option<Admission> {
        let permit = Arc::clone(permits).try_acquire_owned().ok()?;
        let is_client = !self.proxies.is_trusted(peer.to_canonical());
        let of_network = is_client.then(|| self.per_network.acquire(peer));
        if let Some(None) = of_network {
            tracing::debug!(%peer, "the network has too many connections");
            return None;
        }
        Some(Admission {
            _permit: permit,
            _of_network: of_network.flatten(),
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
    shared: Arc<ServerContext>,
}

/// What all connections share.
struct ServerContext {
    server: HttpServer,
    /// `None` if answers are not counted.
    routes: Option<RouteTable>,
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
            () = self.shared.server.shutdown.cancelled() => return,
        };
        // The error is logged.
        if let Ok(stream) = accepted {
            self.serve(stream).await;
        }
    }

    /// Serves until the connection ends or, at the shutdown, until its request in flight has ended.
    async fn serve(self, stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static) {
        let shared = Arc::clone(&self.shared);
        let connection = hyper::server::conn::http1::Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(HEADER_READ_TIMEOUT)
            .max_buf_size(HEAD_BYTES_MAX)
            .serve_connection(
                TokioIo::new(stream),
                service_fn(move |request| {
                    self.answers.fetch_add(1, Ordering::Relaxed);
                    Self::respond(self.service.clone(), request, Arc::clone(&self.shared))
                }),
            )
            .with_upgrades();
        let mut connection = pin!(connection);
        let ended = tokio::select! {
            ended = &mut connection => ended,
            () = shared.server.shutdown.cancelled() => {
                connection.as_mut().graceful_shutdown();
                connection.await
            }
        };
        if let Err(error) = ended {
            tracing::debug!(%error, "connection ended early");
        }
    }

    /// Responds to a request.
    async fn respond(
        mut service: S,
        request: hyper::Request<Incoming>,
        shared: Arc<ServerContext>,
    ) -> Result<Response<B>, Infallible> {
        let ServerContext { server, routes } = &*shared;
        let trace = RequestTrace::start(&request, server.access_log);
        let counted = routes.as_ref().map(|routes| routes.start(&request));
        let request = request.map(|body| match body.is_end_stream() {
            true => Body::empty(),
            false => Body::new(body),
        });
        let service = service.ready().await?;
        let handling = trace.span.in_scope(|| service.call(request));
        let mut response = handling.instrument(trace.span.clone()).await?;
        if server.tls.is_some() {
            let headers = response.headers_mut();
            headers.insert(STRICT_TRANSPORT_SECURITY, ONLY_ENCRYPTED);
        }
        // A WebSocket outlives its handshake: it is closed at the shutdown.
        if server.draining.is_cancelled() && response.status() != StatusCode::SWITCHING_PROTOCOLS {
            response.headers_mut().insert(CONNECTION, LAST_ANSWER);
        }
        if let Some(counted) = counted {
            let status = response.status().as_u16();
            counted(status);
            server.metrics.answered(status);
        }
        trace.finish(&mut response);
        Ok(response)
    }
}

/// The connection behind an upgrade, without timeouts. Fails if the handshake failed, the connection is not one of this
/// server, or no file handle is left.
pub(super) async fn take_stream(
    upgraded: OnUpgrade,
    encoding: Encoding,
) -> io::Result<NewConnection> {
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
    Ok(NewConnection {
        stream: stream.into_inner()?.as_fd().try_clone_to_owned()?,
        tls,
        read_ahead: read_ahead.to_vec(),
        encoding,
    })
}
