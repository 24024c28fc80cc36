//! Load for `bench/run`, and the peers that railbird is held against: the bare pull of a log, and the bare publish into it.

mod asking;
mod check;
#[path = "../../tests/conformance/mod.rs"]
mod conformance;
mod fanout;
mod feed;
mod garbage;
mod histogram;
mod pain;
mod season;
mod strangers;
mod usage;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

use anyhow::Context;
use clap::{Parser, Subcommand};
use events::Envelope;
use projections::{BATCH_MESSAGES_MAX, Projection, Store};
use railbird::log::{Log, LogMessage, Outgoing, RACING, ReadPosition};
use serde_json::{Value, json};

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Messages under way at a time while the log is filled.
const WINDOW: usize = 4096;

#[derive(Debug, Parser)]
struct Cli {
    /// The address of a NATS that is there for nothing else; `pain` has its own.
    #[arg(long, default_value = "")]
    nats: String,
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
    /// Publish a season: a meeting for every 10,000 events.
    Season {
        /// How many events.
        #[arg(long)]
        events: u64,
    },
    /// Read the log from its first message to its last, as the service does, and do nothing with it.
    Pull,
    /// Read the whole log into memory, then decode it, then fold it, and say how long each takes alone.
    Stages {
        /// An empty folder for the store.
        #[arg(long)]
        data: PathBuf,
    },
    /// Write quotes as a file, a line each.
    Quotes {
        /// How many.
        #[arg(long)]
        count: u64,
        /// Where to.
        #[arg(long)]
        file: PathBuf,
    },
    /// Publish the lines of a file with the client library alone.
    Raw {
        /// What `quotes` wrote.
        #[arg(long)]
        file: PathBuf,
        /// Messages under way at a time.
        #[arg(long)]
        window: usize,
    },
    /// Count what of a file stands in the log.
    Distinct {
        /// What `quotes` wrote.
        #[arg(long)]
        file: PathBuf,
    },
    /// Publish garbage at full speed.
    Garbage {
        /// Bytes of noise in each message.
        #[arg(long)]
        bytes: usize,
        /// For so long at most.
        #[arg(long, default_value_t = 3600.0)]
        seconds: f64,
        /// So many at most.
        #[arg(long, default_value_t = u64::MAX)]
        count: u64,
    },
    /// Ask for answers over HTTP at a fixed rate.
    Asking(asking::Asking),
    /// Look at a key and count a request, often, in this process.
    Check {
        /// How often.
        #[arg(long)]
        count: u32,
    },
    /// Ask with keys that were never issued, each from a network address of its own.
    Strangers(strangers::Strangers),
    /// Publish to many WebSocket clients, and measure what the server does for them.
    Fanout(fanout::Fanout),
    /// Cut off clients, let some be slow, restart what they hang on, and judge what each of them heard.
    Pain(pain::Pain),
}

/// Prints what was done as one line of JSON.
#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let cli = Cli::parse();
    let connect = Log::connect(&cli.nats, "railbird-bench");
    let done = match cli.command {
        Command::Horses { count } => publish(&connect.await?, season::horses(count)).await?,
        Command::Season { events } => publish(&connect.await?, season::season(events)).await?,
        Command::Pull => pull(&connect.await?).await?,
        Command::Stages { data } => stages(&connect.await?, &data).await?,
        Command::Quotes { count, file } => feed::write(&file, count)?,
        Command::Raw { file, window } => {
            feed::raw(&connect.await?, &cli.nats, &file, window).await?
        }
        Command::Distinct { file } => feed::distinct(&connect.await?, &file).await?,
        Command::Garbage {
            bytes,
            seconds,
            count,
        } => garbage::publish(&cli.nats, bytes, seconds, count).await?,
        Command::Asking(asking) => asking.run().await?,
        Command::Check { count } => check::run(count)?,
        Command::Strangers(strangers) => strangers.run().await?,
        Command::Fanout(fanout) => fanout.run(&cli.nats)?,
        Command::Pain(pain) => pain::run(&pain).await?,
    };
    println!("{done}");
    Ok(())
}

async fn publish(log: &Log, envelopes: impl Iterator<Item = Envelope>) -> anyhow::Result<Value> {
    log.ensure(RACING).await?;
    let begun = Instant::now();
    let mut appender = log.appender(WINDOW);
    let (mut published, mut bytes) = (0_u64, 0);
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
    let (mut seq, mut events, mut bytes, mut batches) = (0, 0_u64, 0, 0_u64);
    while seq < state.last_seq {
        let batch = reader.next().await?;
        seq = batch.messages.last().context("the log has more")?.seq;
        events += batch.messages.len() as u64;
        bytes += batch
            .messages
            .iter()
            .map(|m| m.payload.len())
            .sum::<usize>();
        batches += 1;
    }
    Ok(json!({
        "events": events,
        "bytes": bytes,
        "batches": batches,
        "seconds": begun.elapsed().as_secs_f64(),
    }))
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
