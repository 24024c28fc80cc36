//! [`ScriptedNats`]: a server of a NATS cluster that answers what a test scripts.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;

/// An answer to a request.
pub(crate) enum Answer {
    Json(Value),
    /// Nobody has subscribed to the subject.
    NoResponders,
    Nothing,
}

type Script = Arc<Mutex<dyn FnMut(&str, &Value) -> Answer + Send>>;

/// A server that speaks as much of the protocol as the client library needs for requests.
pub(crate) struct ScriptedNats {
    address: SocketAddr,
    accepting: JoinHandle<()>,
}

impl ScriptedNats {
    /// Starts a server. The script gets the subject and the body of each request: null if that is no JSON.
    pub(crate) async fn start(script: impl FnMut(&str, &Value) -> Answer + Send + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let script: Script = Arc::new(Mutex::new(script));
        let accepting = tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                tokio::spawn(serve(client, Arc::clone(&script)));
            }
        });
        Self { address, accepting }
    }

    pub(crate) fn url(&self) -> String {
        format!("nats://{}", self.address)
    }
}

impl Drop for ScriptedNats {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

async fn serve(client: TcpStream, script: Script) {
    let (from, mut to) = client.into_split();
    let mut from = BufReader::new(from);
    let info = json!({
        "server_id": "scripted", "server_name": "scripted", "version": "2.15.1", "cluster": "railbird",
        "host": "127.0.0.1", "port": 4222, "proto": 1, "headers": true, "max_payload": 1_048_576, "jetstream": true,
    });
    to.write_all(format!("INFO {info}\r\n").as_bytes())
        .await
        .unwrap();
    // The subscriptions: the subject without the wildcard at its end, and the id.
    let (mut subscriptions, mut line) = (Vec::<(String, String)>::new(), String::new());
    while let Ok(1..) = from.read_line(&mut line).await {
        let parts: Vec<&str> = line.split_whitespace().collect();
        let answer = match parts[..] {
            ["PING"] => "PONG\r\n".to_owned(),
            ["SUB", subject, .., id] => {
                let subject = subject.trim_end_matches('*').to_owned();
                subscriptions.push((subject, id.to_owned()));
                String::new()
            }
            ["PUB" | "HPUB", subject, reply, .., bytes] => {
                let headers = if parts.len() == 5 { parts[3] } else { "0" };
                let mut message = vec![0; bytes.parse::<usize>().unwrap() + 2];
                from.read_exact(&mut message).await.unwrap();
                let body = &message[headers.parse().unwrap()..message.len() - 2];
                let body = serde_json::from_slice(body).unwrap_or_default();
                let answer = (script.lock().unwrap())(subject, &body);
                let found = subscriptions.iter().find(|(of, _)| reply.starts_with(of));
                found.map_or_else(String::new, |(_, id)| encode(reply, id, answer))
            }
            _ => String::new(),
        };
        line.clear();
        if to.write_all(answer.as_bytes()).await.is_err() {
            return;
        }
    }
}

fn encode(reply: &str, id: &str, answer: Answer) -> String {
    match answer {
        Answer::Nothing => String::new(),
        Answer::Json(body) => {
            let body = body.to_string();
            format!("MSG {reply} {id} {}\r\n{body}\r\n", body.len())
        }
        Answer::NoResponders => {
            let headers = "NATS/1.0 503\r\n\r\n";
            format!("HMSG {reply} {id} {0} {0}\r\n{headers}\r\n", headers.len())
        }
    }
}
