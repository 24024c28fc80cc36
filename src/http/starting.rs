//! [`answer_probes`]: answers while the views are being opened, so that probes are answered from the first second on.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use axum::Json;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use serde_json::json;
use tokio::net::TcpListener;
use tokio::sync::Semaphore;
use tokio::time::{sleep, timeout};

use super::error::ApiError;
use super::ops::health;
use super::server::ACCEPT_RETRY;

/// Connections at a time. Further ones wait to be accepted.
const CONNECTIONS_MAX: usize = 64;
/// The time for a connection. Each has one request.
const CONNECTION_TIMEOUT: Duration = Duration::from_secs(5);

/// Answers every request on a listener with 503, and `/healthz` with 200, until it is dropped. The connections that it
/// has accepted are answered also after that.
pub(crate) async fn answer_probes(listener: &TcpListener) -> Infallible {
    let permits = Arc::new(Semaphore::new(CONNECTIONS_MAX));
    loop {
        let permit = Arc::clone(&permits).acquire_owned().await;
        let stream = match listener.accept().await {
            Ok((stream, _)) => stream,
            Err(error) => {
                tracing::warn!(%error, "accept failed");
                sleep(ACCEPT_RETRY).await;
                continue;
            }
        };
        let connection = http1::Builder::new()
            // The next request is for the service itself.
            .keep_alive(false)
            .serve_connection(TokioIo::new(stream), service_fn(answer));
        tokio::spawn(async move {
            let _permit = permit;
            if let Ok(Err(error)) = timeout(CONNECTION_TIMEOUT, connection).await {
                tracing::debug!(%error, "connection ended early");
            }
        });
    }
}

async fn answer(request: hyper::Request<Incoming>) -> Result<Response, Infallible> {
    Ok(match request.uri().path() {
        "/healthz" => health().await.into_response(),
        "/readyz" => {
            let reason = "the views are being opened";
            let body = json!({ "ready": false, "reason": reason, "phase": "starting" });
            (StatusCode::SERVICE_UNAVAILABLE, Json(body)).into_response()
        }
        _ => ApiError::NotReady("The service is starting; see /readyz").into_response(),
    })
}
