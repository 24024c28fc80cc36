//! [`ApiClient`]: a client of the API of a running service, which waits while the service limits or restarts.

use std::fs::File;
use std::io::{self, Seek, Write};
use std::time::Duration;

use anyhow::{Context, anyhow, bail};
use bytes::Bytes;
use http_body_util::{BodyExt, Empty, Limited};
use hyper::client::conn::http1::{self, SendRequest};
use hyper::header::{ACCEPT, HOST, HeaderValue, RETRY_AFTER};
use hyper::{Request, StatusCode, Uri, http::response::Parts};
use hyper_util::rt::TokioIo;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::time::{sleep, timeout};

use super::WrongConfiguration;
use super::api_access::ApiAccess;
use super::report::line;
use crate::tls::ClientTls;

/// Far above a page, the card of the largest meeting, and the OpenAPI document.
const BODY_BYTES_MAX: usize = 64 * 1024 * 1024;
/// For a connection, a request and its answer together: a service begins to answer within 10 s, and gives a client two
/// minutes to read the answer.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(150);
/// The wait after which a request is sent again, where the service names none.
const PAUSE: Duration = Duration::from_secs(1);
/// The requests in a row that get no answer, or that the service is not ready: after minutes it is down.
const FAILURES_MAX: u32 = 120;
/// A wait is reported if it is long.
const REPORTED_WAIT_MIN: Duration = Duration::from_secs(5);
const SEQ: &str = "railbird-seq";
/// A list without rows, of the first day that there is: it costs nothing.
const CHEAP_PATH: &str = "/api/v1/meetings?from=1700-01-01&to=1700-01-01";

/// The service does not answer.
#[derive(Debug, thiserror::Error)]
#[error("no service answers at {0}: {1}. Check --url, and that the service runs")]
pub(super) struct NoService(String, String);

/// The disk does not take the body of an answer.
#[derive(Debug, thiserror::Error)]
#[error("cannot write the file: {0}")]
pub(super) struct NotSaved(io::Error);

/// An answer with status 200.
pub(super) struct ApiAnswer {
    /// The last event of the log that it reflects.
    pub(super) seq: u64,
    pub(super) body: Bytes,
}

/// Sends GET requests, one at a time.
pub(super) struct ApiClient {
    /// Scheme, host and port.
    pub(super) address: String,
    host: String,
    port: u16,
    authority: String,
    tls: Option<ClientTls>,
    key: HeaderValue,
    sender: Option<SendRequest<Empty<Bytes>>>,
    /// Whether the service was ever reached.
    has_answered: bool,
    /// The last event of the log that an answer reflected: no replica may answer as of an earlier one.
    seq: u64,
}

impl ApiClient {
    pub(super) fn new(access: &ApiAccess) -> Result<Self, WrongConfiguration> {
        let (url, key) = access.read()?;
        let invalid = "the API key has characters that no key has";
        let mut key = HeaderValue::from_str(key.trim()).map_err(|_| invalid)?;
        key.set_sensitive(true);
        let address = url.address().replacen("ws", "http", 1);
        let uri = address.parse::<Uri>();
        let uri = uri.map_err(|error| format!("--url: {error}"))?;
        let is_secure = uri.scheme_str() == Some("https");
        let authority = uri.authority().ok_or("--url: it names no host")?;
        Ok(Self {
            host: authority.host().trim_matches(['[', ']']).to_owned(),
            port: uri.port_u16().unwrap_or(if is_secure { 443 } else { 80 }),
            authority: authority.to_string(),
            tls: is_secure.then(ClientTls::new),
            address,
            key,
            sender: None,
            has_answered: false,
            seq: 0,
        })
    }

    /// Gets a path with its query. Returns `None` if there is no such thing. Waits as long as the service limits
    /// requests, and some minutes for one that is not ready or cannot be reached any more.
    ///
    /// # Errors
    /// Returns [`NoService`] if it was never reached, or waited for too long, and the message of any other answer.
    pub(super) async fn get(&mut self, path: &str) -> anyhow::Result<Option<ApiAnswer>> {
        self.request(path, "application/json", None).await
    }

    /// As [`get`](Self::get), of a media type, and with the body in the file, if there is one.
    ///
    /// # Errors
    /// As that, and [`NotSaved`].
    pub(super) async fn request(
        &mut self,
        path: &str,
        media_type: &'static str,
        mut file: Option<&mut File>,
    ) -> anyhow::Result<Option<ApiAnswer>> {
        let mut failures = 0;
        loop {
            let sending = self.send(path, media_type, file.as_deref_mut());
            let sent = timeout(ANSWER_TIMEOUT, sending).await;
            let sent = sent.unwrap_or_else(|_| Err(anyhow!("no answer in {ANSWER_TIMEOUT:?}")));
            let (reason, wait) = match sent {
                Ok((parts, body)) => {
                    self.has_answered = true;
                    match parts.status.as_u16() {
                        200 => {
                            let seq = number(&parts, SEQ).unwrap_or_default();
                            self.seq = self.seq.max(seq);
                            return Ok(Some(ApiAnswer { seq, body }));
                        }
                        404 => return Ok(None),
                        429 => failures = 0,
                        // Of a service that is not ready, or of a proxy in front of one that is away.
                        502..=504 => failures += 1,
                        _ => bail!("{path}: {}", message(&parts, &body)),
                    }
                    (message(&parts, &body), number(&parts, RETRY_AFTER.as_str()))
                }
                Err(error) if error.is::<NotSaved>() => return Err(error),
                Err(error) => {
                    failures += 1;
                    (format!("{error:#}"), None)
                }
            };
            if !self.has_answered || failures > FAILURES_MAX {
                return Err(NoService(self.address.clone(), reason).into());
            }
            let wait = wait.map_or(PAUSE, Duration::from_secs).max(PAUSE);
            if wait >= REPORTED_WAIT_MIN {
                line(format_args!("waiting for {wait:?}: {reason}"));
            }
            sleep(wait).await;
        }
    }

    /// Gets a page of a list as a type, and the path of the next one, which is empty on the last one.
    pub(super) async fn page<T: DeserializeOwned>(
        &mut self,
        path: &str,
    ) -> anyhow::Result<Option<(T, String)>> {
        #[derive(Deserialize)]
        struct NextPage {
            #[serde(default)]
            next: String,
        }
        let Some(answer) = self.get(path).await? else {
            return Ok(None);
        };
        let unknown = || format!("the answer of {path} is not as expected");
        let page = serde_json::from_slice(&answer.body).with_context(unknown)?;
        let NextPage { next } = serde_json::from_slice(&answer.body).with_context(unknown)?;
        Ok(Some((page, next)))
    }

    /// The sequence of a place in the log, which is a sequence or a time. Without one, that of the last event.
    pub(super) async fn seq_of(&mut self, place: Option<&str>) -> anyhow::Result<u64> {
        let as_of = place.map(|place| with_as_of(CHEAP_PATH, place));
        let answer = self.get(as_of.as_deref().unwrap_or(CHEAP_PATH)).await?;
        let no_api = || format!("{} has no API of railbird", self.address);
        Ok(answer.with_context(no_api)?.seq)
    }

    /// Sends a request. The body of an answer 200 is in the file, if there is one.
    async fn send(
        &mut self,
        path: &str,
        media_type: &'static str,
        file: Option<&mut File>,
    ) -> anyhow::Result<(Parts, Bytes)> {
        let mut kept = self.sender.take();
        if let Some(sender) = &mut kept
            && sender.ready().await.is_err()
        {
            kept = None;
        }
        let mut sender = match kept {
            Some(sender) => sender,
            None => self.connect().await?,
        };
        let request = Request::get(path).header(HOST, &self.authority);
        let request = request.header("x-api-key", self.key.clone());
        let request = request.header(ACCEPT, media_type);
        let request = request.header("railbird-min-seq", self.seq);
        let response = sender.send_request(request.body(Empty::new())?).await?;
        let (parts, mut body) = response.into_parts();
        let body = match file.filter(|_| parts.status == StatusCode::OK) {
            Some(file) => {
                let emptied = file.set_len(0).and_then(|()| file.rewind());
                emptied.map_err(NotSaved)?;
                while let Some(frame) = body.frame().await {
                    if let Ok(bytes) = frame?.into_data() {
                        file.write_all(&bytes).map_err(NotSaved)?;
                    }
                }
                Bytes::new()
            }
            None => {
                let body = Limited::new(body, BODY_BYTES_MAX).collect().await;
                body.map_err(|error| anyhow!(error))?.to_bytes()
            }
        };
        self.sender = Some(sender);
        Ok((parts, body))
    }

    async fn connect(&self) -> anyhow::Result<SendRequest<Empty<Bytes>>> {
        let stream = TcpStream::connect((&*self.host, self.port)).await?;
        stream.set_nodelay(true)?;
        Ok(match &self.tls {
            Some(tls) => handshake(tls.connect(&self.host, stream).await?).await?,
            None => handshake(stream).await?,
        })
    }
}

/// Begins HTTP on a connection, whose task ends with it.
pub(super) async fn handshake(
    stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
) -> hyper::Result<SendRequest<Empty<Bytes>>> {
    let (sender, connection) = http1::handshake(TokioIo::new(stream)).await?;
    tokio::spawn(connection);
    Ok(sender)
}

/// A path with its query, as of a place in the log.
pub(super) fn with_as_of(path: &str, place: &str) -> String {
    let separator = if path.contains('?') { '&' } else { '?' };
    let place: String = form_urlencoded::byte_serialize(place.as_bytes()).collect();
    format!("{path}{separator}as_of={place}")
}

fn number(parts: &Parts, header: &str) -> Option<u64> {
    parts.headers.get(header)?.to_str().ok()?.parse().ok()
}

/// The message of an error, else its status.
fn message(parts: &Parts, body: &[u8]) -> String {
    let error: Value = serde_json::from_slice(body).unwrap_or_default();
    let message = error["message"].as_str();
    message.map_or_else(|| parts.status.to_string(), str::to_owned)
}
