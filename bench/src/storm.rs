//! Reconnect storms: how fast a server takes handshakes, a real storm, and simulated ones.

mod client;
mod model;

use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

use anyhow::{Context, bail, ensure};
use serde_json::{Value, json};
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::sleep;

use client::{Client, Target, TargetArgs};
use model::{BACKOFF_MAX, BACKOFF_MIN, CONNECT_TIMEOUT, Storm, Waiting};

use crate::conformance::rng::Rng;
use crate::usage;

/// Connections that are opened at a time before a real storm.
const CONNECTING: usize = 32;
/// A real storm that takes longer has failed.
const REAL_STORM_MAX: Duration = Duration::from_secs(120);

#[derive(Debug, clap::Subcommand)]
pub(crate) enum StormCommand {
    /// Connect again and again, and count how often that succeeds.
    Handshakes {
        #[command(flatten)]
        target: TargetArgs,
        /// The server, whose CPU time is measured.
        #[arg(long)]
        pid: u32,
        /// Connections that are being opened at a time.
        #[arg(long, default_value_t = 32)]
        connections: usize,
        #[arg(long, default_value_t = 5.0)]
        seconds: f64,
    },
    /// Connect clients through HAProxy, kill it, start it again, and measure when all are back.
    Real {
        #[command(flatten)]
        target: TargetArgs,
        #[arg(long)]
        clients: usize,
        #[arg(long)]
        haproxy: PathBuf,
        /// Its configuration.
        #[arg(long)]
        config: PathBuf,
        /// How long nothing listens.
        #[arg(long)]
        down_ms: u64,
    },
    /// Simulate a storm.
    Simulate(Simulation),
}

#[derive(Debug, clap::Args)]
pub(crate) struct Simulation {
    #[arg(long)]
    clients: u32,
    #[arg(long)]
    servers: u32,
    /// Of one server.
    #[arg(long)]
    handshakes_per_second: f64,
    /// Connections that wait to be accepted by one server: the backlog of `listen`.
    #[arg(long, default_value_t = 1_024)]
    listen_queue: u32,
    #[arg(long)]
    down_ms: u64,
    #[arg(long)]
    waiting: Waiting,
    /// The lowest and the highest `retry_after_ms` of `closing`.
    #[arg(long, num_args = 2, default_values_t = [500, 5_000])]
    spread_ms: Vec<u64>,
    #[arg(long, default_value_t = 16)]
    seed: u64,
}

impl StormCommand {
    pub(crate) async fn run(self) -> anyhow::Result<Value> {
        match self {
            Self::Handshakes {
                target,
                pid,
                connections,
                seconds,
            } => {
                handshakes(
                    &target.open()?,
                    pid,
                    connections,
                    Duration::from_secs_f64(seconds),
                )
                .await
            }
            Self::Real {
                target,
                clients,
                haproxy,
                config,
                down_ms,
            } => {
                let mut command = Command::new(haproxy);
                command
                    .arg("-f")
                    .arg(config)
                    .stdin(Stdio::null())
                    .stdout(Stdio::null());
                command.stderr(Stdio::null());
                real(
                    target.open()?,
                    clients,
                    command,
                    Duration::from_millis(down_ms),
                )
                .await
            }
            Self::Simulate(simulation) => simulation.run(),
        }
    }
}

impl Simulation {
    fn run(&self) -> anyhow::Result<Value> {
        let [lowest, highest] = self.spread_ms[..] else {
            bail!("--spread-ms has two values");
        };
        ensure!(
            self.clients > 0 && self.servers > 0 && lowest <= highest,
            "a storm has clients and servers, and a spread from its lowest time to its highest"
        );
        let storm = Storm {
            clients: self.clients,
            servers: self.servers,
            handshakes_per_second: self.handshakes_per_second,
            listen_queue: self.listen_queue,
            down: Duration::from_millis(self.down_ms),
            waiting: self.waiting,
            spread: (
                Duration::from_millis(lowest),
                Duration::from_millis(highest),
            ),
            seed: self.seed,
        };
        Ok(storm.run().figures())
    }
}

/// A closed loop of connections that end once they have all snapshots.
async fn handshakes(
    target: &Target,
    pid: u32,
    connections: usize,
    time: Duration,
) -> anyhow::Result<Value> {
    // The first ones find caches empty.
    target.connect(CONNECT_TIMEOUT).await?;
    let cpu = usage::cpu_seconds(pid)?;
    let begun = Instant::now();
    let mut loops = JoinSet::new();
    for _ in 0..connections {
        let target = target.clone();
        loops.spawn(async move {
            let mut count = 0_u64;
            while begun.elapsed() < time {
                drop(target.connect(CONNECT_TIMEOUT).await?);
                count += 1;
            }
            anyhow::Ok(count)
        });
    }
    let mut count = 0;
    while let Some(ended) = loops.join_next().await {
        count += ended??;
    }
    let cpu = usage::cpu_seconds(pid)? - cpu;
    let seconds = begun.elapsed().as_secs_f64();
    Ok(json!({ "per_second": count as f64 / seconds, "cpu_ms": cpu / count as f64 * 1e3 }))
}

/// What the clients of a real storm count.
#[derive(Debug, Default)]
struct Counts {
    attempts: AtomicU64,
    failed: AtomicU64,
}

struct Balancer(Child);

impl Drop for Balancer {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

async fn real(
    target: Target,
    clients: usize,
    mut haproxy: Command,
    down: Duration,
) -> anyhow::Result<Value> {
    let balancer = Balancer(haproxy.spawn().context("haproxy does not start")?);
    let begun = Instant::now();
    while target.connect(CONNECT_TIMEOUT).await.is_err() {
        ensure!(
            begun.elapsed() < REAL_STORM_MAX,
            "nobody can connect through haproxy"
        );
        sleep(Duration::from_millis(50)).await;
    }
    let counts = Arc::new(Counts::default());
    let (came_back, mut back) = mpsc::channel(clients);
    let mut running = JoinSet::new();
    let mut opening = JoinSet::new();
    for n in 0..clients {
        if opening.len() == CONNECTING
            && let Some(opened) = opening.join_next().await
        {
            running.spawn(opened??);
        }
        let target = target.clone();
        let counts = Arc::clone(&counts);
        let came_back = came_back.clone();
        opening.spawn(async move {
            let client = target.connect(CONNECT_TIMEOUT).await?;
            anyhow::Ok(reconnect(
                client,
                target,
                counts,
                Rng::new(n as u64),
                came_back,
            ))
        });
    }
    while let Some(opened) = opening.join_next().await {
        running.spawn(opened??);
    }
    let lost = Instant::now();
    drop(balancer);
    sleep(down.saturating_sub(lost.elapsed())).await;
    let balancer = Balancer(haproxy.spawn()?);
    let mut times = Vec::with_capacity(clients);
    while times.len() < clients {
        let left = REAL_STORM_MAX.saturating_sub(lost.elapsed());
        let at: Option<Instant> = tokio::time::timeout(left, back.recv())
            .await
            .context("the storm does not end")?;
        times.push((at.context("all clients ended")? - lost).as_secs_f64());
    }
    times.sort_by(f64::total_cmp);
    let share = |part: f64| times[((clients as f64 * part).ceil() as usize).max(1) - 1];
    running.abort_all();
    drop(balancer);
    Ok(json!({
        "back_50_s": share(0.5),
        "back_99_s": share(0.99),
        "back_all_s": share(1.0),
        "attempts": counts.attempts.load(Relaxed),
        "failed": counts.failed.load(Relaxed),
    }))
}

/// Waits until the connection is lost, then connects again as the packages in `clients/` do, and stays.
async fn reconnect(
    mut client: Client,
    target: Target,
    counts: Arc<Counts>,
    mut random: Rng,
    came_back: mpsc::Sender<Instant>,
) {
    while client.receive().await.is_ok() {}
    let mut failures = 0;
    let mut client = loop {
        let bound = BACKOFF_MAX.min(BACKOFF_MIN * 2_u32.saturating_pow(failures));
        let bound = u64::try_from(bound.as_micros()).expect("at most minutes");
        sleep(Duration::from_micros(random.below(bound + 1))).await;
        counts.attempts.fetch_add(1, Relaxed);
        match target.connect(CONNECT_TIMEOUT).await {
            Ok(client) => break client,
            Err(_) => failures += 1,
        }
        counts.failed.fetch_add(1, Relaxed);
    };
    let _ = came_back.send(Instant::now()).await;
    while client.receive().await.is_ok() {}
}
