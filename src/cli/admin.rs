//! [`Admin`]: a client of a running service's admin address.

use std::net::SocketAddr;

use anyhow::{Context, bail};
use bytes::Bytes;
use http_body_util::{BodyExt, Empty};
use hyper::body::Incoming;
use hyper::{Method, Request, Response};
use hyper_util::rt::TokioIo;
use serde_json::Value;
use tokio::net::TcpStream;

/// The admin address of a running service.
#[derive(Debug, Clone, Copy)]
pub(super) struct Admin(pub(super) SocketAddr);

impl Admin {
    /// Asks for JSON.
    pub(super) async fn get(&self, path: &str) -> anyhow::Result<Value> {
        self.json(Method::GET, path).await
    }

    /// Tells the service to do something.
    pub(super) async fn post(&self, path: &str) -> anyhow::Result<Value> {
        self.json(Method::POST, path).await
    }

    /// Asks for text, and hands it out line by line.
    pub(super) async fn lines(&self, path: &str, mut take: impl FnMut(&str)) -> anyhow::Result<()> {
        let mut body = self.ask(Method::GET, path).await?.into_body();
        let mut rest = Vec::new();
        while let Some(frame) = body.frame().await {
            if let Some(data) = frame?.data_ref() {
                rest.extend_from_slice(data);
            }
            while let Some(end) = rest.iter().position(|byte| *byte == b'\n') {
                let line: Vec<u8> = rest.drain(..=end).collect();
                take(String::from_utf8_lossy(&line).trim_end());
            }
        }
        Ok(())
    }

    async fn json(&self, method: Method, path: &str) -> anyhow::Result<Value> {
        let response = self.ask(method, path).await?;
        let status = response.status();
        let body = response.into_body().collect().await?.to_bytes();
        let body: Value =
            serde_json::from_slice(&body).with_context(|| format!("{path} answered no JSON"))?;
        if !status.is_success() {
            bail!(
                "{path}: {}",
                body.get("message")
                    .and_then(Value::as_str)
                    .unwrap_or(status.as_str())
            );
        }
        Ok(body)
    }

    async fn ask(&self, method: Method, path: &str) -> anyhow::Result<Response<Incoming>> {
        let Self(address) = self;
        let stream = TcpStream::connect(address)
            .await
            .with_context(|| format!("no service answers on {address}"))?;
        let (mut sender, connection) =
            hyper::client::conn::http1::handshake(TokioIo::new(stream)).await?;
        tokio::spawn(connection);
        let request = Request::builder()
            .method(method)
            .uri(path)
            .header("host", address.to_string())
            .body(Empty::<Bytes>::new())?;
        Ok(sender.send_request(request).await?)
    }
}
