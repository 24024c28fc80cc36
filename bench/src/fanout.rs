//! Measures a server that fans messages out over WebSockets: with many clients, and a publisher of the messages.

mod client;
pub(crate) mod frame;
mod load;
pub(crate) mod nats;
mod publisher;
mod tally;

use std::process;
use std::time::{Duration, Instant};

use anyhow::ensure;
use serde_json::{Map, Value, json};

use client::Server;
use load::Load;

use crate::usage;

/// Messages are about these races in turn. A client may follow one of them.
const RACES: usize = 10;
/// How long messages are published before anything is measured.
const WARM_UP: Duration = Duration::from_secs(2);
/// The name of railbird's threads that only write to clients.
const FAN_OUT: &str = "fan-out-";

/// The races that a client follows.
#[derive(Debug, Clone, Copy)]
enum Following {
    All,
    /// One of the races, from 0.
    Race(usize),
}

/// Race numbers have two digits, so that all messages have the same length.
fn race_number(index: usize) -> u16 {
    11 + index as u16
}

#[derive(Debug, clap::Args)]
pub(crate) struct Fanout {
    /// The server to measure.
    #[arg(long)]
    server: Server,
    /// The address and path of its WebSocket.
    #[arg(long)]
    ws: String,
    /// Number of clients; a multiple of ten.
    #[arg(long)]
    clients: usize,
    /// Each client follows one race of ten, instead of all.
    #[arg(long)]
    one_race: bool,
    /// Clients offer compression.
    #[arg(long)]
    deflate: bool,
    /// Processes whose CPU is measured, as name=pid; of the first one, the WebSocket server, the memory as well.
    #[arg(long, value_parser = parse_process, required = true)]
    process: Vec<(String, u32)>,
    /// A message of railbird, as a sample for the other servers.
    #[arg(long, default_value = r#"{"event":"odds_update","seq":1}"#)]
    text: String,
    /// How long the clients are idle before their memory is measured.
    #[arg(long, default_value_t = 16)]
    idle_seconds: u64,
    /// How long each of the other figures is measured.
    #[arg(long, default_value_t = 8)]
    seconds: u64,
    /// Messages a second for each client, if the rate is fixed.
    #[arg(long, default_value_t = 50)]
    rate: u32,
    /// Messages in flight for each client, if the rate is not fixed. 0 leaves that measurement out.
    #[arg(long, default_value_t = 256)]
    window: u64,
}

fn parse_process(text: &str) -> Result<(String, u32), String> {
    let (name, pid) = text.split_once('=').ok_or("a process is name=pid")?;
    Ok((
        name.to_owned(),
        pid.parse().map_err(|_| "a pid is a number")?,
    ))
}

/// A time, with what was used and delivered until then.
struct Mark {
    at: Instant,
    deliveries: u64,
    cpu_seconds: Vec<f64>,
    fan_out_cpu_seconds: f64,
    own_cpu_seconds: f64,
    machine_cpu_seconds: f64,
}

impl Fanout {
    pub(crate) fn run(&self, nats: &str) -> anyhow::Result<Value> {
        ensure!(
            self.clients > 0 && self.clients.is_multiple_of(RACES),
            "--clients must be a positive multiple of ten"
        );
        let server_pid = self.process[0].1;
        let before_kib = usage::resident_kib(server_pid)?;
        let (clients, one_race) = (self.clients, self.one_race);
        let mut load = Load::connect(self.server, &self.ws, clients, one_race, self.deflate)?;
        load.idle(Duration::from_secs(self.idle_seconds))?;
        let idle_kib = usage::resident_kib(server_pid)? - before_kib;
        load.begin(nats, self.server, &self.text)?;
        let rate = self.at_rate(&mut load)?;
        let saturation = match self.window {
            0 => Value::Null,
            _ => self.saturated(&mut load)?,
        };
        Ok(json!({
            "idle_kib_per_connection": idle_kib / self.clients as f64,
            "rate": rate,
            "saturation": saturation,
            "gaps": load.tally.gaps,
            "conflated": load.tally.conflated,
            "bytes_per_message": load.tally.bytes as f64 / load.tally.deliveries as f64,
            "text": load.sample(),
        }))
    }

    fn at_rate(&self, load: &mut Load) -> anyhow::Result<Value> {
        let per_second = self.rate * self.published_per_delivery() as u32;
        load.at_rate(per_second, WARM_UP)?;
        load.drain()?;
        load.tally.begin_latencies();
        let start = self.mark(load)?;
        load.at_rate(per_second, Duration::from_secs(self.seconds))?;
        let published = Instant::now();
        load.drain()?;
        let behind = published.elapsed();
        let mut figures = self.since(&start, load)?;
        for (name, share) in [("p50_ms", 0.5), ("p99_ms", 0.99)] {
            figures.insert(
                name.to_owned(),
                json!(load.tally.latencies.quantile(share) as f64 / 1e3),
            );
        }
        figures.insert("behind_ms".to_owned(), json!(behind.as_secs_f64() * 1e3));
        Ok(figures.into())
    }

    fn saturated(&self, load: &mut Load) -> anyhow::Result<Value> {
        let window = self.window * self.published_per_delivery();
        load.in_window(window, WARM_UP)?;
        let start = self.mark(load)?;
        load.in_window(window, Duration::from_secs(self.seconds))?;
        let figures = self.since(&start, load)?;
        load.drain()?;
        Ok(figures.into())
    }

    /// How many messages are published for each one that a client receives.
    fn published_per_delivery(&self) -> u64 {
        if self.one_race { RACES as u64 } else { 1 }
    }

    fn mark(&self, load: &Load) -> anyhow::Result<Mark> {
        let cpu_seconds = |(_, pid): &(String, u32)| usage::cpu_seconds(*pid);
        Ok(Mark {
            at: Instant::now(),
            deliveries: load.tally.deliveries,
            cpu_seconds: self
                .process
                .iter()
                .map(cpu_seconds)
                .collect::<Result<_, _>>()?,
            fan_out_cpu_seconds: usage::thread_cpu_seconds(self.process[0].1, FAN_OUT)?,
            own_cpu_seconds: usage::cpu_seconds(process::id())?,
            machine_cpu_seconds: usage::machine_cpu_seconds()?,
        })
    }

    fn since(&self, start: &Mark, load: &Load) -> anyhow::Result<Map<String, Value>> {
        let now = self.mark(load)?;
        let seconds = (now.at - start.at).as_secs_f64();
        let deliveries = (now.deliveries - start.deliveries) as f64;
        let load_cpu = now.own_cpu_seconds - start.own_cpu_seconds;
        let mut others_cpu = now.machine_cpu_seconds - start.machine_cpu_seconds - load_cpu;
        let mut figures = Map::new();
        let used = now.cpu_seconds.iter().zip(&start.cpu_seconds);
        let per_million = |now: f64, start: f64| json!((now - start) / deliveries * 1e6);
        for ((name, _), (&now, &start)) in self.process.iter().zip(used) {
            figures.insert(format!("{name}_cpu_s_per_million"), per_million(now, start));
            others_cpu -= now - start;
        }
        figures.extend([
            (
                "fan_out_threads".to_owned(),
                per_million(now.fan_out_cpu_seconds, start.fan_out_cpu_seconds),
            ),
            (
                "deliveries_per_second".to_owned(),
                json!(deliveries / seconds),
            ),
            ("load_cores".to_owned(), json!(load_cpu / seconds)),
            ("others_cores".to_owned(), json!(others_cpu / seconds)),
        ]);
        Ok(figures)
    }
}
