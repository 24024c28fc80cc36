//! [`ScriptedServer`]: a server of the live channel that sends what a test scripts, and its messages.

use futures::{SinkExt, StreamExt};
use serde_json::{Value, json};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::timeout;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::handshake::server::{Request, Response};
use tokio_tungstenite::{WebSocketStream, accept_hdr_async};

use super::{DAY, PATIENCE, of_race};

pub(crate) fn welcome(epoch: &str) -> Value {
    json!({
        "event": "welcome", "seq": 1000, "epoch": epoch, "follows": "all", "filter": {},
        "events": ["odds_update", "status_update", "runner_update", "result_update", "dividends_update", "card_update"],
        "conflate_ms": 0, "heartbeat_ms": 5000,
    })
}

/// The `welcome` of a client that resumes.
pub(crate) fn welcome_back(epoch: &str, recovered: bool) -> Value {
    let mut welcome = welcome(epoch);
    welcome["recovered"] = recovered.into();
    welcome
}

/// When the log recorded the event at `seq`; empty before the first.
pub(crate) fn recorded_at(seq: u64) -> String {
    match seq {
        0 => String::new(),
        _ => format!("2026-10-03T04:00:{seq:02}.123456Z"),
    }
}

pub(crate) fn complete(seq: u64) -> Value {
    json!({ "event": "snapshot_complete", "seq": seq, "recorded_at": recorded_at(seq) })
}

pub(crate) fn heartbeat(seq: u64) -> Value {
    let recorded_at = recorded_at(seq);
    json!({ "event": "heartbeat", "seq": seq, "recorded_at": recorded_at, "feed": { "state": "live" } })
}

pub(crate) fn message(event: &str, race: u16, seq: u64, more: Value) -> Value {
    let mut message = of_race(DAY, "Sha Tin", race, more);
    message["venue_code"] = "ST".into();
    message["event"] = event.into();
    message["seq"] = seq.into();
    message["recorded_at"] = recorded_at(seq).into();
    message
}

pub(crate) fn quote(race: u16, seq: u64, prev_seq: u64, win: f64) -> Value {
    let runners = json!([
        { "number": 1, "horse_name": "HORSE 1", "win": win },
        { "number": 2, "horse_name": "HORSE 2", "win": null, "state": "scratched" },
    ]);
    let more = json!({ "status": "open", "prev_seq": prev_seq, "runners": runners });
    message("odds_update", race, seq, more)
}

pub(crate) fn snapshot(race: u16, seq: u64, win: f64) -> Value {
    let mut quote = quote(race, seq, 1, win);
    quote["snapshot"] = true.into();
    quote
}

pub(crate) fn status(race: u16, seq: u64, prev_seq: u64, status: &str) -> Value {
    let more = json!({ "status": status, "prev_seq": prev_seq });
    message("status_update", race, seq, more)
}

/// A server of the live channel that sends what a test scripts.
pub(crate) struct ScriptedServer {
    listener: TcpListener,
    pub(crate) url: String,
}

/// A connection of a client.
pub(crate) struct ScriptedConnection {
    /// The key in the header of its request, and the one in the query.
    pub(crate) keys: [Option<String>; 2],
    /// The parameters of its request that resume.
    pub(crate) socket: WebSocketStream<TcpStream>,
    pub(crate) resume: String,
}

impl ScriptedServer {
    pub(crate) async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("ws://{}/ws/live/odds", listener.local_addr().unwrap());
        Self { listener, url }
    }

    pub(crate) async fn accept(&self) -> ScriptedConnection {
        let (stream, _) = timeout(PATIENCE, self.listener.accept())
            .await
            .expect("a client")
            .unwrap();
        let (mut resume, mut keys) = (String::new(), [None, None]);
        #[expect(clippy::result_large_err, reason = "the type of the callback")]
        let read_query = |request: &Request, response: Response| {
            let query = request.uri().query().unwrap_or_default();
            let pairs = url::form_urlencoded::parse(query.as_bytes());
            let header = request.headers().get("x-api-key");
            keys[0] = header.map(|key| key.to_str().unwrap().to_owned());
            let mut keys_of_query = pairs.filter(|(name, _)| name == "api_key");
            keys[1] = keys_of_query.next().map(|(_, key)| key.into_owned());
            let pairs = pairs
                .filter(|(name, _)| ["since", "recorded_at", "epoch"].contains(&name.as_ref()));
            let pairs: Vec<String> = pairs
                .map(|(name, value)| format!("{name}={value}"))
                .collect();
            resume = pairs.join("&");
            Ok(response)
        };
        let socket = accept_hdr_async(stream, read_query).await.unwrap();
        ScriptedConnection {
            keys,
            resume,
            socket,
        }
    }
}

impl ScriptedConnection {
    pub(crate) async fn send(&mut self, message: &Value) {
        let text = Message::text(message.to_string());
        self.socket.send(text).await.unwrap();
    }

    /// The next request of the client.
    pub(crate) async fn request(&mut self) -> Value {
        let next = timeout(PATIENCE, self.socket.next()).await;
        let text = next.expect("a request").unwrap().unwrap();
        serde_json::from_str(text.to_text().unwrap()).unwrap()
    }

    /// Sends all messages, and drops the connection without a close frame.
    pub(crate) async fn send_all<const N: usize>(mut self, messages: [Value; N]) {
        for message in messages {
            self.send(&message).await;
        }
    }
}
