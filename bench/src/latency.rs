//! The time from the publication of a quote until a bare consumer of the log has it, a client of a bare relay, a
//! WebSocket client of the service, and a GET: of the same quotes, in one process.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use anyhow::{Context, anyhow};
use async_nats::jetstream;
use async_nats::jetstream::consumer::DeliverPolicy;
use async_nats::jetstream::consumer::push::OrderedConfig;
use events::{Envelope, Event};
use futures::StreamExt;
use railbird::log::{Outgoing, RACING};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::process::{Child, Command};
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep_until, timeout};
use tokio_tungstenite::client_async;

use crate::histogram::Histogram;
use crate::http_load::Connection;
use crate::season::season;

/// One quote in so many is read by a GET.
const GET_EVERY: u64 = 10;
/// The time for the last quote to arrive.
const PATIENCE: Duration = Duration::from_secs(10);

#[derive(Debug, clap::Args)]
pub(crate) struct Latency {
    #[arg(long)]
    http: SocketAddr,
    #[arg(long)]
    key: String,
    /// Quotes a second.
    #[arg(long, default_value_t = 500)]
    rate: u32,
    #[arg(long, default_value_t = 10)]
    seconds: u32,
}

/// Writes the sequence of each new message of the log to a client, and nothing else: the least that a process between
/// the log and its clients takes.
#[derive(Debug, clap::Args)]
pub(crate) struct Relay {
    #[arg(long)]
    client: SocketAddr,
}

impl Relay {
    pub(crate) async fn run(self, nats: &str) -> anyhow::Result<Value> {
        let mut socket = TcpStream::connect(self.client).await?;
        socket.set_nodelay(true)?;
        let client = async_nats::connect(nats).await?;
        let stream = jetstream::new(client.clone())
            .get_stream(RACING.name)
            .await?;
        let mut messages = new_messages(&client, &stream).await?;
        // The consumer is there.
        socket.write_u64(0).await?;
        while let Some(message) = messages.next().await {
            let message = message?;
            let info = message.info().map_err(anyhow::Error::msg)?;
            socket.write_u64(info.stream_sequence).await?;
        }
        Ok(json!({}))
    }
}

/// The messages of a stream from now on.
async fn new_messages(
    client: &async_nats::Client,
    stream: &jetstream::stream::Stream,
) -> anyhow::Result<jetstream::consumer::push::Ordered> {
    let deliver = OrderedConfig {
        deliver_subject: client.new_inbox(),
        deliver_policy: DeliverPolicy::New,
        ..OrderedConfig::default()
    };
    Ok(stream.create_consumer(deliver).await?.messages().await?)
}

/// When each quote was published, from the sequence `base + 1` on.
#[derive(Debug, Clone)]
struct Published {
    base: u64,
    count: u64,
    at: Arc<Mutex<Vec<Instant>>>,
}

impl Published {
    fn note(&self) {
        let mut at = self.at.lock().unwrap_or_else(PoisonError::into_inner);
        at.push(Instant::now());
    }

    /// The time from the publication of the quote with this sequence to an instant; `None` for another message.
    fn age(&self, seq: u64, arrived: Instant) -> Option<Duration> {
        let at = self.at.lock().unwrap_or_else(PoisonError::into_inner);
        let index = seq.checked_sub(self.base + 1)?;
        at.get(usize::try_from(index).ok()?)
            .map(|published| arrived - *published)
    }

    fn last(&self) -> u64 {
        self.base + self.count
    }
}

impl Latency {
    pub(crate) async fn run(self, nats: &str) -> anyhow::Result<Value> {
        let client = async_nats::connect(nats).await?;
        let context = jetstream::new(client.clone());
        let stream = context.get_stream(RACING.name).await?;
        let count = u64::from(self.rate) * u64::from(self.seconds);
        let published = Published {
            base: stream.cached_info().state.last_sequence,
            count,
            at: Arc::default(),
        };
        let consumed = new_messages(&client, &stream).await?;
        let consumed = tokio::spawn(consume(consumed, published.clone()));
        let (_relay, relay) = start_relay(nats).await?;
        let relayed = tokio::spawn(read_relay(relay, published.clone()));
        let followed = self.follow(published.clone()).await?;

        let quotes: Vec<Envelope> = season(2 * count + 10_000, 10_000)
            .filter(|envelope| matches!(envelope.event, Event::OddsQuoted(_)))
            .take(count as usize)
            .collect();
        let mut gets = Vec::new();
        let begun = Instant::now();
        for (quote, n) in quotes.iter().zip(1..) {
            let Outgoing {
                subject,
                id,
                payload,
            } = Outgoing::from(quote);
            let mut headers = async_nats::HeaderMap::new();
            headers.insert("Nats-Msg-Id", id);
            sleep_until(begun + Duration::from_secs(1) * n as u32 / self.rate).await;
            published.note();
            let sent = client.publish_with_headers(subject, headers, payload.into());
            sent.await?;
            if n % GET_EVERY == 0 {
                let request = self.get(quote, published.base + n)?;
                gets.push(tokio::spawn(get(
                    self.http,
                    request,
                    published.base + n,
                    published.clone(),
                )));
            }
        }
        let got = async {
            let mut histogram = Histogram::default();
            for get in gets {
                histogram.add(get.await??.as_micros() as u64);
            }
            anyhow::Ok(histogram)
        };
        let mut figures = json!({});
        let of_each = [
            ("consumer", ended(consumed).await?),
            ("relay", ended(relayed).await?),
            ("socket", ended(followed).await?),
            ("get", got.await?),
        ];
        for (name, histogram) in of_each {
            for (quantile, share) in [("p50", 0.5), ("p99", 0.99)] {
                figures[format!("{name}_{quantile}_ms")] =
                    json!(histogram.quantile(share) as f64 / 1e3);
            }
        }
        Ok(figures)
    }

    /// A WebSocket client that has received all snapshots.
    async fn follow(
        &self,
        published: Published,
    ) -> anyhow::Result<JoinHandle<anyhow::Result<Histogram>>> {
        let stream = TcpStream::connect(self.http).await?;
        stream.set_nodelay(true)?;
        let url = format!("ws://{}/ws/live/odds?api_key={}", self.http, self.key);
        let (mut socket, _) = client_async(url, stream).await?;
        loop {
            let message = socket.next().await.context("the socket was closed")??;
            if message.to_text()?.contains("snapshot_complete") {
                break;
            }
        }
        Ok(tokio::spawn(async move {
            let mut histogram = Histogram::default();
            loop {
                let message = socket.next().await.context("the socket was closed")??;
                let arrived = Instant::now();
                let received: Value = serde_json::from_str(message.to_text()?)?;
                if received["event"] != "odds_update" {
                    continue;
                }
                let seq = received["seq"].as_u64().context("an update has a seq")?;
                let age = published
                    .age(seq, arrived)
                    .context("an update of a quote")?;
                histogram.add(age.as_micros() as u64);
                if seq == published.last() {
                    return Ok(histogram);
                }
            }
        }))
    }

    /// A GET of the board of a quote that waits until that is in the views.
    fn get(&self, quote: &Envelope, seq: u64) -> anyhow::Result<String> {
        let race = quote.event.race().context("a quote is of a race")?;
        let (date, number, venue, key) = (race.date, race.race_number, race.venue, &self.key);
        Ok(format!(
            "GET /api/v1/odds/{date}/{number}?venue={venue} HTTP/1.1\r\nHost: bench\r\nX-API-Key: {key}\r\n\
             Railbird-Min-Seq: {seq}\r\n\r\n"
        ))
    }
}

async fn get(
    http: SocketAddr,
    request: String,
    seq: u64,
    published: Published,
) -> anyhow::Result<Duration> {
    let mut connection = Connection::open(http).await?;
    let status = connection.request(&request).await?;
    let arrived = Instant::now();
    match status {
        200 => published.age(seq, arrived).context("a published quote"),
        status => Err(anyhow!("{status} for {request}")),
    }
}

/// What a program without railbird would do.
async fn consume(
    mut messages: jetstream::consumer::push::Ordered,
    published: Published,
) -> anyhow::Result<Histogram> {
    let mut histogram = Histogram::default();
    loop {
        let message = messages.next().await.context("the consumer has ended")??;
        let arrived = Instant::now();
        let seq = message.info().map_err(anyhow::Error::msg)?.stream_sequence;
        let age = published
            .age(seq, arrived)
            .context("a message of a quote")?;
        histogram.add(age.as_micros() as u64);
        if seq == published.last() {
            return Ok(histogram);
        }
    }
}

/// Starts a relay, which ends when it is dropped, and waits until it has a consumer.
async fn start_relay(nats: &str) -> anyhow::Result<(Child, TcpStream)> {
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let process = Command::new(std::env::current_exe()?)
        .args(["--nats", nats, "relay", "--client"])
        .arg(listener.local_addr()?.to_string())
        .kill_on_drop(true)
        .spawn()?;
    let (mut relay, _) = timeout(PATIENCE, listener.accept()).await??;
    let ready = relay.read_u64().await;
    ready.context("the relay has no consumer")?;
    Ok((process, relay))
}

async fn read_relay(mut relay: TcpStream, published: Published) -> anyhow::Result<Histogram> {
    let mut histogram = Histogram::default();
    loop {
        let seq = relay.read_u64().await.context("the relay has ended")?;
        let age = published.age(seq, Instant::now());
        histogram.add(age.context("a message of a quote")?.as_micros() as u64);
        if seq == published.last() {
            return Ok(histogram);
        }
    }
}

async fn ended(reader: JoinHandle<anyhow::Result<Histogram>>) -> anyhow::Result<Histogram> {
    timeout(PATIENCE, reader)
        .await
        .context("the last quote did not arrive")??
}
