//! [`AdminClient`]: an HTTP client of a running service's admin address.

use std::net::SocketAddr;

use anyhow::{Context, bail};
use bytes::Bytes;
use clap::Args;
use http_body_util::{BodyExt, Empty};
use hyper::{Method, Request, StatusCode};
use hyper_util::rt::TokioIo;
use serde_json::Value;
use tokio::net::TcpStream;

pub(super) const ADMIN_DEFAULT: &str = "127.0.0.1:9090";

#[derive(Debug, Clone, Copy, Args)]
pub(super) struct AdminClient {
    /// Admin address of the running service.
    #[arg(long, env = "RAILBIRD_ADMIN", value_name = "ADDRESS", default_value = ADMIN_DEFAULT)]
    pub(super) admin: SocketAddr,
}

impl AdminClient {
    /// Gets a JSON document.
    pub(super) async fn get(&self, path: &str) -> anyhow::Result<Value> {
        self.json(Method::GET, path).await
    }

    /// Posts an empty body and returns the JSON answer.
    pub(super) async fn post(&self, path: &str) -> anyhow::Result<Value> {
        self.json(Method::POST, path).await
    }

    /// Gets a text document.
    pub(super) async fn get_text(&self, path: &str) -> anyhow::Result<String> {
        let (_, body) = self.request(Method::GET, path).await?;
        Ok(String::from_utf8(body.into())?)
    }

    async fn json(&self, method: Method, path: &str) -> anyhow::Result<Value> {
        let (status, body) = self.request(method, path).await?;
        let body: Value = serde_json::from_slice(&body)
            .with_context(|| format!("the answer of http://{}{path} is not JSON", self.admin))?;
        if !status.is_success() {
            let message = body["message"].as_str().unwrap_or(status.as_str());
            bail!("{path}: {message}");
        }
        Ok(body)
    }

    async fn request(&self, method: Method, path: &str) -> anyhow::Result<(StatusCode, Bytes)> {
        let address = self.admin;
        let stream = TcpStream::connect(address).await.with_context(|| {
            format!("no service answers on {address}; --admin names its admin address")
        })?;
        let (mut sender, connection) =
            hyper::client::conn::http1::handshake(TokioIo::new(stream)).await?;
        tokio::spawn(connection);
        let request = Request::builder()
            .method(method)
            .uri(path)
            .header("host", address.to_string())
            .body(Empty::<Bytes>::new())?;
        let response = sender.send_request(request).await?;
        let status = response.status();
        Ok((status, response.into_body().collect().await?.to_bytes()))
    }
}
