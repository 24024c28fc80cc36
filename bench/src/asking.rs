//! Asks for answers over HTTP at a fixed rate, whatever becomes of them, and says how long each took.

use std::net::SocketAddr;
use std::time::Duration;

use anyhow::{Context, ensure};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep_until};

use crate::histogram::Histogram;

/// What is asked for, and how often.
#[derive(Debug, clap::Args)]
pub(crate) struct Asking {
    #[arg(long)]
    http: SocketAddr,
    #[arg(long)]
    key: String,
    /// Asked for in turn.
    #[arg(long, required = true)]
    path: Vec<String>,
    /// Requests a second, over all connections.
    #[arg(long, default_value_t = 500)]
    rate: u32,
    #[arg(long, default_value_t = 32)]
    connections: u32,
    #[arg(long, default_value_t = 10)]
    seconds: u32,
}

impl Asking {
    pub(crate) async fn run(self) -> anyhow::Result<Value> {
        let mut asking = JoinSet::new();
        let begun = Instant::now();
        // Each connection asks in its turn.
        let every = Duration::from_secs(1) * self.connections / self.rate;
        for n in 0..self.connections {
            let mut connection = Connection::open(self.http, &self.key, &self.path).await?;
            let (first, asked) = (
                begun + every * n / self.connections,
                self.seconds * self.rate,
            );
            let asked = asked / self.connections;
            asking.spawn(async move {
                let mut took = Vec::new();
                for round in 0..asked {
                    let due = first + every * round;
                    sleep_until(due).await;
                    connection.ask(round).await?;
                    // From when it was due: who waits for the answer before it waits, too.
                    took.push(due.elapsed());
                }
                anyhow::Ok(took)
            });
        }
        let mut histogram = Histogram::default();
        while let Some(took) = asking.join_next().await {
            for took in took?? {
                histogram.add(took.as_micros() as u64);
            }
        }
        let ms = |share| json!(histogram.quantile(share) as f64 / 1e3);
        Ok(
            json!({ "p50_ms": ms(0.5), "p99_ms": ms(0.99), "p999_ms": ms(0.999), "max_ms": ms(1.0) }),
        )
    }
}

struct Connection {
    stream: BufReader<TcpStream>,
    requests: Vec<String>,
    body: Vec<u8>,
}

impl Connection {
    async fn open(http: SocketAddr, key: &str, paths: &[String]) -> anyhow::Result<Self> {
        let stream = TcpStream::connect(http).await?;
        stream.set_nodelay(true)?;
        let request =
            |path| format!("GET {path} HTTP/1.1\r\nHost: bench\r\nX-API-Key: {key}\r\n\r\n");
        Ok(Self {
            stream: BufReader::new(stream),
            requests: paths.iter().map(request).collect(),
            body: Vec::new(),
        })
    }

    async fn ask(&mut self, n: u32) -> anyhow::Result<()> {
        let request = &self.requests[n as usize % self.requests.len()];
        self.stream.write_all(request.as_bytes()).await?;
        let (mut length, mut line) = (None, String::new());
        let mut first = true;
        loop {
            line.clear();
            self.stream.read_line(&mut line).await?;
            if std::mem::take(&mut first) {
                ensure!(line.starts_with("HTTP/1.1 200 "), "{request}{line}");
            }
            if let Some(value) = line.to_ascii_lowercase().strip_prefix("content-length:") {
                length = Some(value.trim().parse::<usize>()?);
            }
            if line == "\r\n" {
                break;
            }
        }
        self.body
            .resize(length.context("an answer has a length")?, 0);
        self.stream.read_exact(&mut self.body).await?;
        Ok(())
    }
}
