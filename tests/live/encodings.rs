//! Compressed WebSockets and Server-Sent Events: the messages of a plain WebSocket, in other encodings.

use std::net::SocketAddr;

use events::Text;
use railbird::accounts::{KeyId, KeyRevoked};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;
use tokio::time::timeout;

use crate::support::*;

/// A client of `/sse/live/odds`, written from the standard of HTML (9.2.6).
struct EventStream {
    read: BufReader<TcpStream>,
    last_id: Option<String>,
    comments: usize,
}

impl EventStream {
    async fn open(address: SocketAddr, key: &str, last_id: Option<&str>) -> Self {
        let mut stream = TcpStream::connect(address).await.unwrap();
        let last = last_id.map(|id| format!("Last-Event-ID: {id}\r\n"));
        // A body that ends with the connection needs no decoding of chunks.
        let request = format!(
            "GET /sse/live/odds HTTP/1.0\r\nHost: railbird\r\nX-API-Key: {key}\r\nAccept-Encoding: gzip\r\n{}\r\n",
            last.unwrap_or_default()
        );
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut events = Self {
            read: BufReader::new(stream),
            last_id: last_id.map(str::to_owned),
            comments: 0,
        };
        let head = events.block().await.unwrap().join("\n").to_lowercase();
        assert!(head.contains(" 200 "), "{head}");
        assert!(head.contains("content-type: text/event-stream"), "{head}");
        assert!(!head.contains("content-encoding"), "{head}");
        events
    }

    /// Lines up to an empty one; `None` at the end.
    async fn block(&mut self) -> Option<Vec<String>> {
        let mut lines = Vec::new();
        loop {
            let mut line = String::new();
            let read = timeout(PATIENCE, self.read.read_line(&mut line));
            if read.await.expect("a line in time").unwrap() == 0 {
                return None;
            }
            match line.trim_end() {
                "" => return Some(lines),
                line => lines.push(line.to_owned()),
            }
        }
    }

    /// The next message; `None` at the end.
    async fn message(&mut self) -> Option<String> {
        loop {
            let mut data = None;
            for line in self.block().await? {
                match line.split_once(':').unwrap() {
                    ("", _) => self.comments += 1,
                    ("id", id) => self.last_id = Some(id.trim_start().to_owned()),
                    ("data", text) => data = Some(text.trim_start().to_owned()),
                    (field, _) => panic!("{field}"),
                }
            }
            if data.is_some() {
                return data;
            }
        }
    }
}

/// Messages up to the one with this sequence and event, without what differs between two connections.
async fn until(seq: u64, event: &str, mut next: impl AsyncFnMut() -> String) -> Vec<Value> {
    let mut messages = Vec::new();
    loop {
        let mut message: Value = serde_json::from_str(&next().await).unwrap();
        message.as_object_mut().unwrap().remove("server_time");
        let is_last = message["seq"] == seq && message["event"] == event;
        let is_of_connection = ["welcome", "heartbeat"].map(Value::from);
        if !is_of_connection.contains(&message["event"]) {
            messages.push(message);
        }
        if is_last {
            return messages;
        }
    }
}

fn events() -> Vec<Value> {
    let prices = [2.5, 3.0, 4.8, 7.1, 9.9, 12.0, 15.0, 21.0, 34.0, 51.0];
    let mut events = vec![card(DAY, "ST", 1, 10), status("ST", 1, &second(1), "open")];
    events.extend((2_u8..20).map(|n| {
        let mut prices = prices;
        prices[usize::from(n) % 10] += f64::from(n);
        odds("ST", 1, &second(n.into()), &prices)
    }));
    events.push(withdrawn("ST", 1, &second(20), "H3"));
    events
}

#[tokio::test]
async fn compressed_frames_and_events_are_the_messages_of_a_plain_socket() {
    let (nats, railbird) = super::with_odds(&[("ST", 1), ("HV", 2)]).await;
    let (http, key) = (railbird.http, &railbird.key);
    let mut plain = Socket::open(http, key).await;
    let mut deflated = Raw::open_deflated(http, key).await;
    let mut stream = EventStream::open(http, key, None).await;
    let last = nats.publish(events()).await;
    let expected = until(last, "odds_update", async || {
        plain.next_text().await.unwrap()
    })
    .await;
    let received = until(last, "odds_update", async || deflated.read.message().await).await;
    assert_eq!(received, expected);
    assert!(deflated.read.deflated > 15, "{}", deflated.read.deflated);
    let received = until(last, "odds_update", async || {
        stream.message().await.unwrap()
    })
    .await;
    assert_eq!(received, expected);
    // Requests may be compressed, in fragments as well, or not.
    let compressed = |id| frame(FIN | COMPRESSED | TEXT, deflate(&ping(id)));
    for (id, request) in [
        ("1", compressed("1")),
        ("2", text(ping("2"))),
        ("3", fragmented(&deflate(&ping("3")))),
    ] {
        deflated.write.write_all(&request).await.unwrap();
        let mut got = deflated.read.next().await;
        if matches!(got, Got::Pong(_)) {
            got = deflated.read.next().await;
        }
        assert_eq!(got, ack(id));
    }
    let bomb = frame(FIN | COMPRESSED | TEXT, deflate(&" ".repeat(1 << 20)));
    let got = deflated.send(&bomb).await;
    assert_eq!(got, [Got::Closing(1009), Got::Close(Some(1009)), Got::End]);
}

/// A compressed message in two fragments, with a ping between them.
fn fragmented(payload: &[u8]) -> Vec<u8> {
    let (head, tail) = payload.split_at(payload.len() / 2);
    let frames = [
        frame(COMPRESSED | TEXT, head),
        frame(FIN | PING, b""),
        frame(FIN | CONTINUATION, tail),
    ];
    frames.concat()
}

#[tokio::test]
async fn an_event_stream_continues_after_the_last_event_id() {
    let (nats, railbird) = super::with_odds(&[("ST", 1)]).await;
    let (http, key) = (railbird.http, &railbird.key);
    let mut first = EventStream::open(http, key, None).await;
    let seq = nats.publish([odds("ST", 1, &second(1), &[3.0])]).await;
    until(seq, "odds_update", async || first.message().await.unwrap()).await;
    let id = first.last_id.take().expect("an id");
    drop(first);
    let missed = nats.publish([odds("ST", 1, &second(2), &[4.0])]).await;
    railbird.until_published(missed).await;
    let mut second = EventStream::open(http, key, Some(&id)).await;
    let welcome: Value = serde_json::from_str(&second.message().await.unwrap()).unwrap();
    assert_eq!(welcome["recovered"], true, "{welcome}");
    let received = until(missed, "odds_update", async || {
        second.message().await.unwrap()
    })
    .await;
    assert_eq!(received.len(), 1, "{received:?}");
    // An id that proves nothing is that of no event.
    let mut unproven = EventStream::open(http, key, Some("1 never")).await;
    let welcome: Value = serde_json::from_str(&unproven.message().await.unwrap()).unwrap();
    assert_eq!(
        (&welcome["recovered"], &welcome["reason"]),
        (&json!(false), &json!("unproven"))
    );
}

#[tokio::test]
async fn an_event_stream_ends_with_its_reason_when_its_key_is_revoked_or_the_service_stops() {
    let (nats, railbird) = super::with_odds(&[("ST", 1)]).await;
    let key = issue_key(&nats).await;
    until_valid(railbird.http, &key).await;
    let mut revoked = EventStream::open(railbird.http, &key, None).await;
    let mut stopped = EventStream::open(railbird.http, &railbird.key, None).await;
    let key_id = KeyId::of_key(&key).unwrap();
    let reason = Text::default();
    append_account_event(&nats, KeyRevoked { key_id, reason }).await;
    assert_eq!(closing_code(&mut revoked).await, 4401);
    let closing = tokio::spawn(async move { closing_code(&mut stopped).await });
    railbird.stop().await;
    assert_eq!(closing.await.unwrap(), 1001);
}

/// The code of the last message, after which the stream ends.
async fn closing_code(stream: &mut EventStream) -> u64 {
    let mut last = Value::Null;
    while let Some(message) = stream.message().await {
        last = serde_json::from_str(&message).unwrap();
    }
    assert_eq!(last["event"], "closing");
    last["code"].as_u64().unwrap()
}

#[tokio::test]
async fn a_key_in_the_address_opens_a_web_socket_and_no_event_stream() {
    let nats = Nats::start();
    let railbird = Railbird::start(&nats).await;
    let query = format!("?api_key={}", railbird.key);
    let refused = railbird.get_open(&format!("/sse/live/odds{query}")).await;
    assert_eq!(refused.status, 401);
    let socket = railbird.get_open(&format!("/ws/live/odds{query}")).await;
    assert_eq!(socket.status, 426, "a handshake would succeed");
}
