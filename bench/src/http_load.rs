//! Sends HTTP requests at a fixed rate, independent of the responses, and measures the latency of each.

use std::net::SocketAddr;
use std::time::Duration;

use anyhow::{Context, bail, ensure};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep_until};

use crate::histogram::Histogram;

/// The requests, and their rate.
#[derive(Debug, clap::Args)]
pub(crate) struct HttpLoad {
    #[arg(long)]
    http: SocketAddr,
    /// Without one, requests have none.
    #[arg(long)]
    key: Option<String>,
    /// Requested in turn.
    #[arg(long, required = true)]
    path: Vec<String>,
    /// Requests a second, over all connections.
    #[arg(long, default_value_t = 500)]
    rate: u32,
    #[arg(long, default_value_t = 32)]
    connections: u32,
    #[arg(long, default_value_t = 10)]
    seconds: u32,
    /// Accept 429, too.
    #[arg(long)]
    or_refused: bool,
}

impl HttpLoad {
    pub(crate) async fn run(self) -> anyhow::Result<Value> {
        let mut connections = JoinSet::new();
        let begun = Instant::now();
        // The connections take turns.
        let interval = Duration::from_secs(1) * self.connections / self.rate;
        let requests_each = self.seconds * self.rate / self.connections;
        for n in 0..self.connections {
            let mut connection = Connection::open(self.http).await?;
            let requests = self.requests();
            let first = begun + interval * n / self.connections;
            connections.spawn(async move {
                let mut latencies = Vec::new();
                let mut refused = 0_u32;
                for (round, request) in (0..requests_each).zip(requests.iter().cycle()) {
                    let due = first + interval * round;
                    sleep_until(due).await;
                    match connection.request(request).await? {
                        200 => {}
                        429 if self.or_refused => refused += 1,
                        status => bail!("{status} for {request}"),
                    }
                    // From when it was due, so that waiting for the previous response counts.
                    latencies.push(due.elapsed());
                }
                Ok((latencies, refused))
            });
        }
        let mut histogram = Histogram::default();
        let mut refused = 0;
        while let Some(ended) = connections.join_next().await {
            let (latencies, refused_here) = ended??;
            refused += refused_here;
            for latency in latencies {
                histogram.add(latency.as_micros() as u64);
            }
        }
        let ms = |share| json!(histogram.quantile(share) as f64 / 1e3);
        Ok(
            json!({ "p50_ms": ms(0.5), "p99_ms": ms(0.99), "p999_ms": ms(0.999), "max_ms": ms(1.0), "refused": refused }),
        )
    }

    fn requests(&self) -> Vec<String> {
        let key =
            (self.key.as_ref()).map_or_else(String::new, |key| format!("X-API-Key: {key}\r\n"));
        let request = |path| format!("GET {path} HTTP/1.1\r\nHost: bench\r\n{key}\r\n");
        self.path.iter().map(request).collect()
    }
}

/// A connection that sends one request after the other.
pub(crate) struct Connection {
    stream: BufReader<TcpStream>,
    body: Vec<u8>,
}

impl Connection {
    pub(crate) async fn open(http: SocketAddr) -> anyhow::Result<Self> {
        let stream = TcpStream::connect(http).await?;
        stream.set_nodelay(true)?;
        Ok(Self {
            stream: BufReader::new(stream),
            body: Vec::new(),
        })
    }

    /// Sends a request, reads the whole response, and returns its status.
    pub(crate) async fn request(&mut self, request: &str) -> anyhow::Result<u16> {
        self.stream.write_all(request.as_bytes()).await?;
        let mut length = None;
        let mut status = None;
        let mut line = String::new();
        while line != "\r\n" {
            line.clear();
            self.stream.read_line(&mut line).await?;
            if let Some(first) = line.strip_prefix("HTTP/1.1 ") {
                status = first.get(..3).and_then(|status| status.parse().ok());
            }
            if let Some(value) = line.to_ascii_lowercase().strip_prefix("content-length:") {
                length = Some(value.trim().parse::<usize>()?);
            }
            ensure!(!line.is_empty(), "the service closed the connection");
        }
        self.body
            .resize(length.context("the response has no Content-Length")?, 0);
        self.stream.read_exact(&mut self.body).await?;
        status.context("the response has no status")
    }
}
