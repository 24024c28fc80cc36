//! A plain HTTP client, and a WebSocket client that reads JSON.

use std::net::SocketAddr;

use bytes::Bytes;
use futures::{SinkExt, StreamExt};
use http_body_util::{BodyExt, Full};
use hyper::{HeaderMap, Request};
use hyper_util::rt::TokioIo;
use serde_json::Value;
use tokio::net::{TcpSocket, TcpStream};
use tokio::time::timeout;
use tokio_tungstenite::tungstenite::client::IntoClientRequest;
use tokio_tungstenite::tungstenite::{Error, Message};
use tokio_tungstenite::{MaybeTlsStream, WebSocketStream, client_async, connect_async};

use super::PATIENCE;

#[derive(Debug)]
pub(crate) struct Reply {
    pub(crate) status: u16,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Vec<u8>,
}

impl Reply {
    pub(crate) fn json(&self) -> Value {
        serde_json::from_slice(&self.body)
            .unwrap_or_else(|error| panic!("{error}: {}", self.text()))
    }

    pub(crate) fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    pub(crate) fn header(&self, name: &str) -> &str {
        self.headers
            .get(name)
            .map_or("", |value| value.to_str().unwrap())
    }
}

pub(crate) async fn request(
    address: SocketAddr,
    method: &str,
    path: &str,
    headers: &[(&str, &str)],
) -> Reply {
    send(address, method, path, headers, String::new()).await
}

/// The first page at a path, with the rows of all pages in its list.
pub(crate) async fn all_pages(get: impl AsyncFn(String) -> Value, path: &str, list: &str) -> Value {
    let mut first = get(path.to_owned()).await;
    let mut next = first["next"].as_str().unwrap().to_owned();
    while !next.is_empty() {
        let page = get(next).await;
        let rows = page[list].as_array().unwrap().clone();
        first[list].as_array_mut().unwrap().extend(rows);
        next = page["next"].as_str().unwrap().to_owned();
    }
    first
}

/// Sends a form, as a program does.
pub(crate) async fn post(address: SocketAddr, path: &str, fields: &[(&str, &str)]) -> Reply {
    post_with(address, path, &[], fields).await
}

/// Sends a form with more headers.
pub(crate) async fn post_with(
    address: SocketAddr,
    path: &str,
    headers: &[(&str, &str)],
    fields: &[(&str, &str)],
) -> Reply {
    let form = form_urlencoded::Serializer::new(String::new())
        .extend_pairs(fields)
        .finish();
    let form_type = ("content-type", "application/x-www-form-urlencoded");
    let headers: Vec<_> = headers.iter().copied().chain([form_type]).collect();
    send(address, "POST", path, &headers, form).await
}

/// Sends a body.
pub(crate) async fn send(
    address: SocketAddr,
    method: &str,
    path: &str,
    headers: &[(&str, &str)],
    body: String,
) -> Reply {
    let sent = try_send(address, method, path, headers, body).await;
    sent.unwrap_or_else(|error| panic!("{method} {path}: {error}"))
}

/// The same, where there may be no answer.
pub(crate) async fn try_send(
    address: SocketAddr,
    method: &str,
    path: &str,
    headers: &[(&str, &str)],
    body: String,
) -> Result<Reply, Box<dyn std::error::Error + Send + Sync>> {
    timeout(PATIENCE, exchange(address, method, path, headers, body)).await?
}

async fn exchange(
    address: SocketAddr,
    method: &str,
    path: &str,
    headers: &[(&str, &str)],
    body: String,
) -> Result<Reply, Box<dyn std::error::Error + Send + Sync>> {
    let stream = TokioIo::new(TcpStream::connect(address).await?);
    let (mut sender, connection) = hyper::client::conn::http1::handshake(stream).await?;
    tokio::spawn(connection);
    let mut request = Request::builder().method(method).uri(path);
    // A test may send another host.
    if headers.iter().all(|(name, _)| *name != "host") {
        request = request.header("host", address.to_string());
    }
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    let request = request.body(Full::<Bytes>::from(body)).unwrap();
    let (parts, body) = sender.send_request(request).await?.into_parts();
    let body = body.collect().await?.to_bytes().to_vec();
    Ok(Reply {
        status: parts.status.as_u16(),
        headers: parts.headers,
        body,
    })
}

/// Bytes that the system buffers at each end of a connection with small buffers.
pub(crate) const SMALL_BUFFER_BYTES: u32 = 256 * 1024;

pub(crate) async fn connect_with_small_buffer(address: SocketAddr) -> TcpStream {
    let socket = match address {
        SocketAddr::V4(_) => TcpSocket::new_v4(),
        SocketAddr::V6(_) => TcpSocket::new_v6(),
    };
    let socket = socket.unwrap();
    socket.set_recv_buffer_size(SMALL_BUFFER_BYTES).unwrap();
    socket.set_nodelay(true).unwrap();
    socket.connect(address).await.unwrap()
}

/// The request of a handshake with more headers.
fn handshake(address: SocketAddr, path: &str, headers: &[(&'static str, &str)]) -> Request<()> {
    let request = format!("ws://{address}{path}").into_client_request();
    let mut request = request.unwrap();
    for (name, value) in headers {
        // A header may be sent twice, but for one host.
        let (all, value) = (request.headers_mut(), value.parse().unwrap());
        if *name == "host" {
            all.insert(*name, value);
        } else {
            all.append(*name, value);
        }
    }
    request
}

pub(crate) struct Socket {
    stream: WebSocketStream<MaybeTlsStream<TcpStream>>,
    /// The close code of the service.
    closed: Option<u16>,
}

impl Socket {
    pub(crate) async fn open(address: SocketAddr, key: &str) -> Self {
        Self::connect(address, &format!("/ws/live/odds?api_key={key}")).await
    }

    /// The same for a client whose system buffers little: by itself it makes room for megabytes.
    pub(crate) async fn open_with_small_buffer(address: SocketAddr, key: &str) -> Self {
        let stream = MaybeTlsStream::Plain(connect_with_small_buffer(address).await);
        let url = format!("ws://{address}/ws/live/odds?api_key={key}");
        let (stream, _) = client_async(url, stream).await.unwrap();
        Self {
            stream,
            closed: None,
        }
    }

    pub(crate) async fn connect(address: SocketAddr, path: &str) -> Self {
        let connected = Self::try_connect(address, path).await;
        connected.unwrap_or_else(|error| panic!("{path}: {error}"))
    }

    /// Connects with more headers.
    pub(crate) async fn connect_with(
        address: SocketAddr,
        path: &str,
        headers: &[(&'static str, &str)],
    ) -> Self {
        let (stream, _) = connect_async(handshake(address, path, headers))
            .await
            .unwrap();
        Self {
            stream,
            closed: None,
        }
    }

    pub(crate) async fn try_connect(address: SocketAddr, path: &str) -> Result<Self, Error> {
        let (stream, _) = connect_async(format!("ws://{address}{path}")).await?;
        Ok(Self {
            stream,
            closed: None,
        })
    }

    /// The response to a handshake, whether it is accepted or rejected.
    pub(crate) async fn refused(address: SocketAddr, path: &str) -> Reply {
        Self::refused_with(address, path, &[]).await
    }

    /// The response to a handshake with these headers.
    pub(crate) async fn refused_with(
        address: SocketAddr,
        path: &str,
        headers: &[(&'static str, &str)],
    ) -> Reply {
        match connect_async(handshake(address, path, headers)).await {
            Err(Error::Http(response)) => {
                let (parts, body) = response.into_parts();
                Reply {
                    status: parts.status.as_u16(),
                    headers: parts.headers,
                    body: body.unwrap_or_default(),
                }
            }
            Err(error) => panic!("the handshake got no response: {error}"),
            Ok((_, response)) => Reply {
                status: response.status().as_u16(),
                headers: response.headers().clone(),
                body: Vec::new(),
            },
        }
    }

    pub(crate) async fn send(&mut self, message: &Value) {
        self.send_text(&message.to_string()).await;
    }

    pub(crate) async fn send_text(&mut self, text: &str) {
        self.stream.send(Message::text(text)).await.unwrap();
    }

    /// Sends a request, and returns the messages before its `ack` or `error`, and that.
    pub(crate) async fn request(&mut self, message: &Value) -> (Vec<Value>, Value) {
        self.send(message).await;
        let mut before = Vec::new();
        loop {
            let message = self.next().await.expect("the socket stays open");
            if message["event"] == "ack" || message["event"] == "error" {
                return (before, message);
            }
            before.push(message);
        }
    }

    /// The next message that is not about the feed; `None` after the close.
    pub(crate) async fn next(&mut self) -> Option<Value> {
        loop {
            let message = self.next_or_heartbeat().await?;
            if !["heartbeat", "feed_update"]
                .map(Value::from)
                .contains(&message["event"])
            {
                return Some(message);
            }
        }
    }

    /// The next message; `None` after the close.
    pub(crate) async fn next_or_heartbeat(&mut self) -> Option<Value> {
        let text = self.next_text().await?;
        Some(serde_json::from_str(&text).unwrap())
    }

    /// The text of the next message; `None` after the close.
    pub(crate) async fn next_text(&mut self) -> Option<String> {
        loop {
            let message = timeout(PATIENCE, self.stream.next())
                .await
                .expect("a message in time");
            match message {
                Some(Ok(Message::Text(text))) => return Some(text.as_str().to_owned()),
                // Reading on sends the client's own close frame.
                Some(Ok(Message::Close(frame))) => {
                    self.closed = frame.map(|frame| frame.code.into())
                }
                None => return None,
                Some(Ok(_)) => {}
                Some(Err(_)) if self.closed.is_some() => return None,
                Some(Err(error)) => panic!("the socket failed: {error}"),
            }
        }
    }

    /// All messages until the close, without heartbeats, and the close code.
    pub(crate) async fn until_closed(&mut self) -> (Vec<Value>, Option<u16>) {
        let mut messages = Vec::new();
        while let Some(message) = self.next().await {
            messages.push(message);
        }
        (messages, self.closed)
    }

    /// All messages up to and with the first that matches, without heartbeats.
    pub(crate) async fn until_one(&mut self, is: impl Fn(&Value) -> bool) -> Vec<Value> {
        let mut messages = Vec::new();
        loop {
            let message = self.next().await.expect("the socket stays open");
            let last = is(&message);
            messages.push(message);
            if last {
                return messages;
            }
        }
    }

    /// All messages up to and with the first of an event, without heartbeats.
    pub(crate) async fn until(&mut self, event: &str) -> Vec<Value> {
        self.until_one(|message| message["event"] == event).await
    }
}
