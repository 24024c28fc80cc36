//! A plain HTTP client, and a WebSocket client that reads JSON.

use std::net::SocketAddr;

use bytes::Bytes;
use futures::StreamExt;
use http_body_util::{BodyExt, Empty};
use hyper::{HeaderMap, Request};
use hyper_util::rt::TokioIo;
use serde_json::Value;
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_tungstenite::tungstenite::{Error, Message};
use tokio_tungstenite::{MaybeTlsStream, WebSocketStream, connect_async};

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
    let stream = TcpStream::connect(address).await.unwrap();
    let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream))
        .await
        .unwrap();
    tokio::spawn(connection);
    let mut request = Request::builder()
        .method(method)
        .uri(path)
        .header("host", address.to_string());
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    let response = sender
        .send_request(request.body(Empty::<Bytes>::new()).unwrap())
        .await
        .unwrap();
    let (parts, body) = response.into_parts();
    let body = body.collect().await.unwrap().to_bytes().to_vec();
    Reply {
        status: parts.status.as_u16(),
        headers: parts.headers,
        body,
    }
}

pub(crate) struct Socket(WebSocketStream<MaybeTlsStream<TcpStream>>);

impl Socket {
    pub(crate) async fn open(address: SocketAddr, key: &str) -> Self {
        let (socket, _) = connect_async(format!("ws://{address}/ws/live/odds?api_key={key}"))
            .await
            .unwrap();
        Self(socket)
    }

    /// The answer to a handshake that is refused.
    pub(crate) async fn refused(address: SocketAddr, path: &str) -> Reply {
        match connect_async(format!("ws://{address}{path}")).await {
            Err(Error::Http(response)) => {
                let (parts, body) = response.into_parts();
                Reply {
                    status: parts.status.as_u16(),
                    headers: parts.headers,
                    body: body.unwrap_or_default(),
                }
            }
            Err(error) => panic!("not refused, but failed: {error}"),
            Ok(_) => panic!("{path} was upgraded"),
        }
    }

    /// The next message that is no heartbeat; `None` when the server closed.
    pub(crate) async fn next(&mut self) -> Option<Value> {
        loop {
            let message = timeout(PATIENCE, self.0.next())
                .await
                .expect("a message in time");
            match message {
                Some(Ok(Message::Text(text))) => {
                    let json: Value = serde_json::from_str(&text).unwrap();
                    if json["event"] != "heartbeat" {
                        return Some(json);
                    }
                }
                Some(Ok(Message::Close(_))) | None => return None,
                Some(Ok(_)) => {}
                Some(Err(error)) => panic!("the socket failed: {error}"),
            }
        }
    }

    /// All messages up to and with one of an event.
    pub(crate) async fn until(&mut self, event: &str) -> Vec<Value> {
        let mut messages = Vec::new();
        loop {
            let message = self.next().await.expect("the socket stays open");
            let last = message["event"] == event;
            messages.push(message);
            if last {
                return messages;
            }
        }
    }
}
