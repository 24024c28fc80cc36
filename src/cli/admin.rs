//! [`AdminClient`]: an HTTP client of a running service's admin address. [`AdminToken`]: the secret that it may need.

use std::net::SocketAddr;
use std::path::PathBuf;

use anyhow::{Context, bail};
use bytes::Bytes;
use clap::Args;
use http_body_util::{BodyExt, Empty};
use hyper::{Method, Request};
use serde_json::Value;
use tokio::net::TcpStream;

use super::WrongConfiguration;
use super::api_client::handshake;
use super::secret::{TOKEN_VARIABLE, read_secret};

pub(super) const ADMIN_DEFAULT: &str = "127.0.0.1:9090";

/// Fewer characters could be guessed: nothing limits the attempts.
const TOKEN_CHARS_MIN: usize = 16;
const TOKEN_FORM: &str =
    "--admin-token, or its file: a token is 16 visible ASCII characters or more";

/// The token of the admin address. It is parsed later, because command line errors repeat the value.
#[derive(Debug, Clone, Default, Args)]
pub(super) struct AdminToken {
    /// Token that requests to the admin address need, as `Authorization: Bearer`: 16 visible ASCII characters or more.
    #[arg(long, env = TOKEN_VARIABLE, value_name = "TOKEN", hide_env_values = true,
          conflicts_with = "admin_token_file")]
    admin_token: Option<String>,
    /// File with that token, which RAILBIRD_ADMIN_TOKEN_FILE names as well.
    #[arg(long, value_name = "FILE")]
    admin_token_file: Option<PathBuf>,
}

impl AdminToken {
    pub(super) fn read(&self) -> Result<Option<String>, WrongConfiguration> {
        let token = match &self.admin_token_file {
            Some(file) => std::fs::read_to_string(file)
                .map_err(|error| format!("{} cannot be read: {error}", file.display()))?,
            None => match read_secret(TOKEN_VARIABLE, self.admin_token.as_deref())? {
                Some(token) => token,
                None => return Ok(None),
            },
        };
        let token = token.trim_ascii();
        let is_token =
            token.len() >= TOKEN_CHARS_MIN && token.bytes().all(|b| b.is_ascii_graphic());
        Ok(Some(is_token.then(|| token.to_owned()).ok_or(TOKEN_FORM)?))
    }
}

#[derive(Debug, Clone, Args)]
pub(super) struct AdminClient {
    /// Admin address of the running service.
    #[arg(long, env = "RAILBIRD_ADMIN", value_name = "ADDRESS", default_value = ADMIN_DEFAULT)]
    pub(super) admin: SocketAddr,
    #[command(flatten)]
    pub(super) token: AdminToken,
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
        let body = self.request(Method::GET, path).await?;
        Ok(String::from_utf8(body.into())?)
    }

    async fn json(&self, method: Method, path: &str) -> anyhow::Result<Value> {
        serde_json::from_slice(&self.request(method, path).await?)
            .with_context(|| format!("the answer of http://{}{path} is not JSON", self.admin))
    }

    /// Returns the body of an answer. Fails with the message of one that is an error.
    async fn request(&self, method: Method, path: &str) -> anyhow::Result<Bytes> {
        let address = self.admin;
        let token = self.token.read()?;
        let stream = TcpStream::connect(address).await.with_context(|| {
            format!("no service answers on {address}; --admin names its admin address")
        })?;
        let mut sender = handshake(stream).await?;
        let request = Request::builder().method(method).uri(path);
        let mut request = request.header("host", address.to_string());
        if let Some(token) = token {
            request = request.header("authorization", format!("Bearer {token}"));
        }
        let response = sender.send_request(request.body(Empty::new())?).await?;
        let status = response.status();
        let body = response.into_body().collect().await?.to_bytes();
        if !status.is_success() {
            let error: Value = serde_json::from_slice(&body).unwrap_or_default();
            let message = error["message"].as_str().unwrap_or(status.as_str());
            bail!("{path}: {message}");
        }
        Ok(body)
    }
}
