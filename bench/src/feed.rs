//! A million quotes as a file, a baseline that publishes them with the bare client library, and a count of those in the
//! log.

use std::collections::{HashMap, VecDeque};
use std::fs::File;
use std::io::{BufRead, BufReader, BufWriter, Write};
use std::path::Path;
use std::process;
use std::time::Instant;

use anyhow::{Context, ensure};
use async_nats::jetstream;
use async_nats::jetstream::context::PublishAckFuture;
use async_nats::{HeaderMap, ServerAddr};
use bytes::Bytes;
use events::{Envelope, Event};
use railbird::log::{Log, Outgoing, RACING, ReadPosition};
use serde_json::{Value, json};

use crate::histogram::Histogram;
use crate::season::season;
use crate::usage;

/// The events of a season per 100 quotes.
const EVENTS_PER_100_QUOTES: u64 = 102;

/// Writes the quotes of a season in their order, one per line.
pub(crate) fn write(file: &Path, count: u64) -> anyhow::Result<Value> {
    let mut out = BufWriter::new(File::create(file)?);
    let mut written = 0;
    let mut bytes = 0;
    let events = count * EVENTS_PER_100_QUOTES / 100 + 10_000;
    let quotes =
        season(events, 10_000).filter(|envelope| matches!(envelope.event, Event::OddsQuoted(_)));
    for envelope in quotes.take(count as usize) {
        let line = envelope.encode();
        bytes += line.len();
        written += 1;
        out.write_all(&line)?;
        out.write_all(b"\n")?;
    }
    out.flush()?;
    ensure!(written == count, "the season has only {written} quotes");
    Ok(json!({ "events": written, "bytes": bytes }))
}

fn lines(file: &Path) -> anyhow::Result<impl Iterator<Item = anyhow::Result<Outgoing>>> {
    let lines = BufReader::new(File::open(file)?).split(b'\n');
    Ok(lines.map(|line| {
        let payload = line?;
        let envelope = Envelope::from_json(&payload)?;
        Ok(Outgoing::new(&envelope, payload))
    }))
}

/// Publishes the lines of a file with the bare client library. They are loaded before the clock starts, and nothing is
/// retried. The time of an acknowledgement begins with its message and includes those before it.
pub(crate) async fn raw(
    log: &Log,
    nats: &str,
    file: &Path,
    window: usize,
) -> anyhow::Result<Value> {
    log.ensure(RACING).await?;
    let messages: Vec<(String, String, Bytes)> = lines(file)?
        .map(|line| line.map(|line| (line.subject, line.id, line.payload.into())))
        .collect::<Result<_, _>>()?;
    let servers: Result<Vec<ServerAddr>, _> = nats.split(',').map(str::parse).collect();
    let jetstream = jetstream::new(async_nats::connect(servers?).await?);
    let events = messages.len();
    let cpu_seconds = usage::cpu_seconds(process::id())?;
    let begun = Instant::now();
    let mut in_flight = VecDeque::with_capacity(window);
    let mut acks = Histogram::default();
    let mut acknowledged = |begun: Instant| acks.add(begun.elapsed().as_micros() as u64);
    for (subject, id, payload) in messages {
        if in_flight.len() == window {
            let (begun, ack): (Instant, PublishAckFuture) =
                in_flight.pop_front().context("the window is full")?;
            ack.await?;
            acknowledged(begun);
        }
        let mut headers = HeaderMap::new();
        headers.insert("Nats-Msg-Id", id);
        let begun = Instant::now();
        let sent = jetstream.publish_with_headers(subject, headers, payload);
        in_flight.push_back((begun, sent.await?));
    }
    for (begun, ack) in in_flight {
        ack.await?;
        acknowledged(begun);
    }
    let seconds = begun.elapsed().as_secs_f64();
    let cpu_seconds = usage::cpu_seconds(process::id())? - cpu_seconds;
    let [p50, p99] = [0.5, 0.99].map(|share| acks.quantile(share) as f64 / 1e3);
    Ok(json!({
        "events": events, "seconds": seconds, "cpu_seconds": cpu_seconds, "ack_p50_ms": p50, "ack_p99_ms": p99,
    }))
}

/// Counts the events of a file that are in the log, by their ids.
pub(crate) async fn distinct(log: &Log, file: &Path) -> anyhow::Result<Value> {
    let mut times: HashMap<String, u64> = lines(file)?
        .map(|line| line.map(|line| (line.id, 0)))
        .collect::<Result<_, _>>()?;
    let state = log.state(RACING).await?;
    let last_seq = state.last_seq;
    let from = ReadPosition {
        log: state.identity,
        seq: 0,
        recorded_at: None,
    };
    let mut reader = log.reader(RACING, from);
    let mut seq = 0;
    let mut messages = 0_u64;
    let mut unknown = 0_u64;
    while seq < last_seq {
        for message in reader.next().await?.messages {
            seq = message.seq;
            messages += 1;
            let envelope = Envelope::decode(message.subject(), &message.payload)?;
            match times.get_mut(&envelope.message_id().to_string()) {
                Some(times) => *times += 1,
                None => unknown += 1,
            }
        }
    }
    Ok(json!({
        "messages": messages,
        "distinct": times.values().filter(|times| **times > 0).count(),
        "missing": times.values().filter(|times| **times == 0).count(),
        "unknown": unknown,
    }))
}
