//! The load generator of `bench/run`, and the peers that railbird is compared with: the bare pull of a log, and the
//! bare publish into it.

mod check;
#[path = "../../tests/conformance/mod.rs"]
mod conformance;
mod constant;
mod fanout;
mod faults;
mod feed;
mod histogram;
mod http_load;
mod invalid_events;
mod latency;
mod season;
mod storm;
mod unauthenticated;
mod usage;
mod write_loop;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

use anyhow::Context;
use async_nats::jetstream;
use clap::{Parser, Subcommand};
use events::Envelope;
use futures::StreamExt;
use projections::{BATCH_MESSAGES_MAX, Projection, Store};
use railbird::log::{Log, LogMessage, NatsConfig, Outgoing, RACING, ReadPosition, Replicas};
use serde_json::{Value, json};

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

#[derive(Debug, Parser)]
struct Cli {
    /// The address of a NATS that nothing else uses; `faults` starts its own.
    #[arg(long, default_value = "")]
    nats: String,
    /// The number of replicas of the streams that are created.
    #[arg(long, default_value_t = Replicas::default(), value_parser = Replicas::parse)]
    replicas: Replicas,
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Publish registered horses.
    Horses {
        /// How many.
        #[arg(long)]
        count: u64,
    },
    /// Publish a season.
    Season {
        /// How many events.
        #[arg(long)]
        events: u64,
        /// Events of each meeting.
        #[arg(long, default_value_t = 10_000)]
        of_meeting: u64,
    },
    /// Read the log from its first message to its last, as the service does, and discard the messages.
    Pull {
        /// Read with the client library alone.
        #[arg(long)]
        bare: bool,
    },
    /// Read the whole log into memory, then decode it, then fold it, and measure decoding and folding.
    Stages {
        /// An empty folder for the store.
        #[arg(long)]
        data: PathBuf,
    },
    /// Write quotes to a file, one per line.
    Quotes {
        /// How many.
        #[arg(long)]
        count: u64,
        /// The file to write.
        #[arg(long)]
        file: PathBuf,
    },
    /// Publish the lines of a file with the client library alone.
    Raw {
        /// A file of `quotes`.
        #[arg(long)]
        file: PathBuf,
        /// Messages in flight.
        #[arg(long)]
        window: usize,
    },
    /// Count the messages of a file that the log has.
    Distinct {
        /// A file of `quotes`.
        #[arg(long)]
        file: PathBuf,
    },
    /// Publish invalid events at full speed.
    InvalidEvents {
        /// Bytes of noise in each message.
        #[arg(long)]
        bytes: usize,
        /// The longest time.
        #[arg(long, default_value_t = 3600.0)]
        seconds: f64,
        /// The largest number of messages.
        #[arg(long, default_value_t = u64::MAX)]
        count: u64,
    },
    /// Send HTTP requests at a fixed rate, and measure their latency.
    HttpLoad(http_load::HttpLoad),
    /// Measure the time from the publication of a quote to a consumer, a WebSocket client and a GET.
    Latency(latency::Latency),
    /// Pass the log on to a client of `latency`.
    Relay(latency::Relay),
    /// Check a key and count a request to its plan, in a loop in this process.
    Check {
        /// The number of calls.
        #[arg(long)]
        count: u32,
    },
    /// Send requests with keys that were never issued, each from a network address of its own.
    Unauthenticated(unauthenticated::Unauthenticated),
    /// Answer each request with the same bytes, with hyper alone.
    Constant(constant::Constant),
    /// Write messages of NATS to WebSocket clients in a loop.
    WriteLoop(write_loop::WriteLoop),
    /// Publish to many WebSocket clients, and measure the server.
    Fanout(fanout::Fanout),
    /// Cut off clients, slow some down, restart their servers, and check what each of them received.
    Faults(faults::Faults),
    /// Clients that all connect again at once, real and simulated.
    #[command(subcommand)]
    Storm(storm::StormCommand),
}

/// Prints the figures as one line of JSON.
#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let cli = Cli::parse();
    let nats = NatsConfig {
        replicas: cli.replicas,
        ..NatsConfig::from(&cli.nats)
    };
    let connect = Log::connect(nats, "railbird-bench");
    let figures = match cli.command {
        Command::Horses { count } => publish(&connect.await?, season::horses(count)).await?,
        Command::Season { events, of_meeting } => {
            publish(&connect.await?, season::season(events, of_meeting)).await?
        }
        Command::Pull { bare: false } => pull(&connect.await?).await?,
        Command::Pull { bare: true } => pull_bare(&cli.nats).await?,
        Command::Stages { data } => stages(&connect.await?, &data).await?,
        Command::Quotes { count, file } => feed::write(&file, count)?,
        Command::Raw { file, window } => {
            feed::raw(&connect.await?, &cli.nats, &file, window).await?
        }
        Command::Distinct { file } => feed::distinct(&connect.await?, &file).await?,
        Command::InvalidEvents {
            bytes,
            seconds,
            count,
        } => invalid_events::publish(&cli.nats, bytes, seconds, count).await?,
        Command::HttpLoad(load) => load.run().await?,
        Command::Latency(latency) => latency.run(&cli.nats).await?,
        Command::Relay(relay) => relay.run(&cli.nats).await?,
        Command::Check { count } => check::run(count)?,
        Command::Unauthenticated(load) => load.run().await?,
        Command::Constant(constant) => constant.run().await?,
        Command::WriteLoop(write_loop) => write_loop.run(&cli.nats)?,
        Command::Fanout(fanout) => fanout.run(&cli.nats)?,
        Command::Faults(faults) => faults::run(&faults).await?,
        Command::Storm(storm) => storm.run().await?,
    };
    println!("{figures}");
    Ok(())
}

async fn publish(log: &Log, envelopes: impl Iterator<Item = Envelope>) -> anyhow::Result<Value> {
    log.ensure(RACING).await?;
    let begun = Instant::now();
    let mut appender = log.appender();
    let mut published = 0_u64;
    let mut bytes = 0;
    for envelope in envelopes {
        let outgoing = Outgoing::from(&envelope);
        bytes += outgoing.payload.len();
        appender.append(outgoing).await?;
        published += appender.take_done().len() as u64;
    }
    published += appender.finish().await?.len() as u64;
    Ok(json!({ "events": published, "bytes": bytes, "seconds": begun.elapsed().as_secs_f64() }))
}

async fn pull(log: &Log) -> anyhow::Result<Value> {
    let state = log.state(RACING).await?;
    let begun = Instant::now();
    let from = ReadPosition {
        log: state.identity,
        seq: 0,
        recorded_at: None,
    };
    let mut reader = log.reader(RACING, from);
    let mut seq = 0;
    let mut events = 0_u64;
    let mut bytes = 0;
    let mut batches = 0_u64;
    while seq < state.last_seq {
        let batch = reader.next().await?;
        seq = batch.messages.last().map_or(seq, |last| last.seq);
        events += batch.messages.len() as u64;
        bytes += batch
            .messages
            .iter()
            .map(|m| m.payload.len())
            .sum::<usize>();
        batches += u64::from(!batch.messages.is_empty());
    }
    Ok(json!({
        "events": events,
        "bytes": bytes,
        "batches": batches,
        "seconds": begun.elapsed().as_secs_f64(),
    }))
}

/// As [`pull`], with the client library alone.
async fn pull_bare(nats: &str) -> anyhow::Result<Value> {
    let stream = jetstream::new(async_nats::connect(nats).await?)
        .get_stream(RACING.name)
        .await?;
    let last_seq = stream.cached_info().state.last_sequence;
    let unacknowledged = jetstream::consumer::pull::Config {
        ack_policy: jetstream::consumer::AckPolicy::None,
        ..Default::default()
    };
    let consumer = stream.create_consumer(unacknowledged).await?;
    let mut messages = consumer
        .stream()
        .max_messages_per_batch(BATCH_MESSAGES_MAX)
        .messages()
        .await?;
    let begun = Instant::now();
    let (mut events, mut bytes, mut seq) = (0_u64, 0, 0);
    while seq < last_seq {
        let message = messages.next().await.context("the consumer ended")??;
        seq = message.info().map_err(anyhow::Error::msg)?.stream_sequence;
        bytes += message.payload.len();
        events += 1;
    }
    Ok(json!({ "events": events, "bytes": bytes, "seconds": begun.elapsed().as_secs_f64() }))
}

async fn stages(log: &Log, data: &Path) -> anyhow::Result<Value> {
    let state = log.state(RACING).await?;
    let from = ReadPosition {
        log: state.identity.clone(),
        seq: 0,
        recorded_at: None,
    };
    let mut reader = log.reader(RACING, from);
    let mut messages: Vec<LogMessage> = Vec::new();
    while messages.last().map_or(0, |last| last.seq) < state.last_seq {
        messages.extend(reader.next().await?.messages);
    }
    let begun = Instant::now();
    let refused = messages
        .iter()
        .filter(|message| Envelope::decode(message.subject(), &message.payload).is_err())
        .count();
    let decode = begun.elapsed();
    let store = Arc::new(Store::open(data)?);
    let mut projection = Projection::new(Arc::clone(&store), state.identity);
    let begun = Instant::now();
    for batch in messages.chunks(BATCH_MESSAGES_MAX) {
        projection.step(batch.iter().map(LogMessage::as_message), false)?;
    }
    let fold = begun.elapsed();
    Ok(json!({
        "events": messages.len(),
        "refused": refused,
        "decode_seconds": decode.as_secs_f64(),
        "fold_seconds": fold.as_secs_f64(),
        "store_bytes": store.size_on_disk()?,
        "digest": projection.checkpoint().digest.to_string(),
    }))
}
