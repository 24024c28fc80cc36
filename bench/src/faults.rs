//! The live channel under faults: clients that are cut off, slow clients, restarts. A checker that knows every event
//! checks what each client received; the tests do the same with fewer clients.

use std::net::{SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use clap::Args;
use events::Text;
use railbird::accounts::{AccountEvent, Actor, ApiKey, KeyIssued};
use railbird::log::{ACCOUNTS, Log, Outgoing, RACING};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::{interval, sleep, timeout};

use crate::conformance::client::{Cut, Follow, Observation, Plan, Stage};
use crate::conformance::clients::{ClientGroup, Verdict};
use crate::conformance::oracle::ODDS;
use crate::conformance::publisher::Publisher;
use crate::conformance::scenario::{RACES, Scenario};

const RUNNERS: u16 = 12;
const PATIENCE: Duration = Duration::from_secs(120);

/// The programs to measure, and how.
#[derive(Debug, Args)]
pub(crate) struct Faults {
    /// The service's binary.
    #[arg(long)]
    railbird: PathBuf,
    #[arg(long)]
    nats_server: PathBuf,
    /// An empty folder.
    #[arg(long)]
    folder: PathBuf,
    /// How often the slow clients are measured.
    #[arg(long, default_value_t = 3)]
    runs: u32,
    /// Measures with a tenth of the clients and of the time.
    #[arg(long)]
    small: bool,
}

struct Size {
    cut: usize,
    cut_for: Duration,
    away_ms: std::ops::Range<u64>,
    clients: usize,
    slow: usize,
    slow_for: Duration,
    events_per_second: u64,
}

pub(crate) async fn run(faults: &Faults) -> anyhow::Result<Value> {
    let size = if faults.small {
        Size {
            cut: 100,
            cut_for: Duration::from_secs(10),
            away_ms: 100..3_000,
            clients: 200,
            slow: 20,
            slow_for: Duration::from_secs(5),
            events_per_second: 20,
        }
    } else {
        Size {
            cut: 1_000,
            cut_for: Duration::from_secs(120),
            away_ms: 100..60_000,
            clients: 2_000,
            slow: 200,
            slow_for: Duration::from_secs(20),
            events_per_second: 20,
        }
    };
    let mut violations = Vec::new();
    let cut = cuts(faults, &size, &mut violations).await?;
    let mut slow = Vec::new();
    for run in 0..faults.runs {
        let without = slow_clients(faults, &size, 0, run, &mut violations).await?;
        let with = slow_clients(faults, &size, size.slow, run, &mut violations).await?;
        slow.push(json!({ "without": without, "with": with }));
    }
    let restart = restarts(faults, &size, &mut violations).await?;
    let nats = nats_restart(faults, &size, &mut violations).await?;
    Ok(
        json!({ "cuts": cut, "slow": slow, "restart": restart, "nats": nats, "objections": violations }),
    )
}

/// A nats-server, a service, and a publisher.
struct TestBed {
    nats: Process,
    service: Process,
    http: SocketAddr,
    key: String,
    stop: watch::Sender<bool>,
    publishing: JoinHandle<Publisher>,
}

impl TestBed {
    async fn open(faults: &Faults, name: &str, events_per_second: u64) -> anyhow::Result<Self> {
        let folder = faults.folder.join(name);
        std::fs::create_dir_all(&folder)?;
        let nats_at = free_address()?;
        let http = free_address()?;
        let conf = format!(
            "listen: \"{nats_at}\"\nmax_payload: 1MB\njetstream {{ sync_interval: \"2m\" }}\n"
        );
        std::fs::write(folder.join("nats.conf"), conf)?;
        let mut nats = Command::new(&faults.nats_server);
        nats.arg("-c")
            .arg(folder.join("nats.conf"))
            .arg("-sd")
            .arg(folder.join("log"));
        let nats = Process::start(nats)?;
        let url = format!("nats://{nats_at}");
        let log = loop {
            match Log::connect(&url, "railbird-bench").await {
                Ok(log) => break log,
                Err(_) => sleep(Duration::from_millis(20)).await,
            }
        };
        log.ensure(RACING).await?;
        log.ensure(ACCOUNTS).await?;
        let key = ApiKey::generate("bench")?;
        let issued = KeyIssued::new(&key, Text::parse("default")?, None);
        let issued = AccountEvent::new(Actor::Service, issued, jiff::Timestamp::now().into());
        log.append(Outgoing::from(&issued)).await?;
        let plans = folder.join("plans.toml");
        std::fs::write(&plans, include_str!("../plans.toml"))?;
        let mut service = Command::new(&faults.railbird);
        service.args([
            "serve",
            "--nats",
            &url,
            "--http",
            &http.to_string(),
            "--admin",
            "127.0.0.1:0",
        ]);
        service
            .args(["--data".as_ref(), folder.join("data").as_os_str()])
            .args(["--plans".as_ref(), plans.as_os_str()]);
        let service = Process::start(service)?;
        ready(http).await?;
        let (stop, stopped) = watch::channel(false);
        let publishing = tokio::spawn(feed(log, events_per_second, stopped));
        Ok(Self {
            nats,
            service,
            http,
            key: key.reveal().to_owned(),
            stop,
            publishing,
        })
    }

    fn clients(&self, stage: Stage) -> ClientGroup {
        ClientGroup::new(&[self.http], &self.key, stage)
    }

    /// Waits until all clients have received the last event, and checks them.
    async fn end(
        self,
        clients: ClientGroup,
        name: &str,
        violations: &mut Vec<String>,
    ) -> anyhow::Result<(Verdict, Publisher)> {
        self.stop.send_replace(true);
        let publisher = self.publishing.await?;
        let verdict = clients
            .check(publisher.oracle(), publisher.last(), PATIENCE)
            .await;
        violations.extend(
            verdict
                .violations
                .iter()
                .map(|received| format!("{name}: {received}")),
        );
        Ok((verdict, publisher))
    }
}

/// Publishes events at a rate until it is stopped, and a quote at the end.
async fn feed(log: Log, events_per_second: u64, stopped: watch::Receiver<bool>) -> Publisher {
    let mut publisher = Publisher::new(log, 0);
    let mut scenario = Scenario::new(7, &RACES, RUNNERS);
    publisher.publish_all(scenario.opening()).await;
    let mut tick = interval(Duration::from_micros(1_000_000 / events_per_second));
    while !*stopped.borrow() {
        tick.tick().await;
        publisher.publish(scenario.next()).await;
    }
    loop {
        publisher.publish(scenario.next()).await;
        let oracle = publisher.oracle();
        let last = oracle.messages.last().expect("something was received");
        if (last.seq, last.kind, last.nth) == (publisher.last(), ODDS, 0) {
            return publisher;
        }
    }
}

/// A filter for the `n`th client.
fn plan(n: usize) -> Plan {
    let small = |n: usize| u16::try_from(n).expect("few");
    let follow = match n % 5 {
        0 | 1 => Follow::All,
        2 => Follow::Venue(["ST", "HV"][n / 5 % 2]),
        3 => Follow::Race("ST", 1 + small(n / 5 % 5)),
        _ => Follow::Horse(Scenario::horse("HV", 1 + small(n / 5 % 3), 2)),
    };
    Plan {
        follow,
        heartbeat_ms: 5_000,
        ..Plan::default()
    }
}

async fn cuts(faults: &Faults, size: &Size, violations: &mut Vec<String>) -> anyhow::Result<Value> {
    let bed = TestBed::open(faults, "cuts", size.events_per_second).await?;
    let mut clients = bed.clients(Stage::Faults);
    for n in 0..size.cut {
        clients.join(Plan {
            cuts: Cut::ALL,
            stay_ms: 100..20_000,
            away_ms: size.away_ms.clone(),
            ..plan(n)
        });
    }
    sleep(size.cut_for).await;
    clients.stage(Stage::Calm);
    // Clients that were just cut off stay away for as long as planned.
    sleep(Duration::from_millis(size.away_ms.end)).await;
    let (verdict, publisher) = bed.end(clients, "cuts", violations).await?;
    let tally = verdict.tally;
    Ok(json!({
        "clients": tally.clients, "events": publisher.last(), "messages": tally.messages, "connections": tally.connections,
        "resumed": tally.resumed, "not_recovered": tally.not_recovered, "repeated": tally.repeated, "objections": verdict.violations.len(),
    }))
}

async fn slow_clients(
    faults: &Faults,
    size: &Size,
    slow: usize,
    run: u32,
    violations: &mut Vec<String>,
) -> anyhow::Result<Value> {
    let name = format!("slow-{slow}-{run}");
    let bed = TestBed::open(faults, &name, size.events_per_second).await?;
    let mut clients = bed.clients(Stage::Calm);
    for n in 0..size.clients {
        // The slow clients follow everything.
        let plan = if n < slow {
            Plan {
                stalls: true,
                heartbeat_ms: 5_000,
                ..Plan::default()
            }
        } else {
            plan(n)
        };
        clients.join(plan);
    }
    if !clients
        .reconnected_since(&vec![0; size.clients], PATIENCE)
        .await
    {
        bail!("{name}: the clients did not connect");
    }
    let before = resident_kib(bed.service.id())?;
    let slow_from = Instant::now();
    clients.stage(Stage::Faults);
    sleep(size.slow_for).await;
    let after = resident_kib(bed.service.id())?;
    let ended = Instant::now();
    clients.stage(Stage::Calm);
    let started = clients.shared.started;
    let (verdict, publisher) = bed.end(clients, &name, violations).await?;
    let mut latencies = Vec::new();
    for record in verdict.records.iter().filter(|record| !record.plan.stalls) {
        for (at, what) in &record.entries {
            let Observation::Message(number) = what else {
                continue;
            };
            let Some(expected) = verdict.checker.expected(*number) else {
                continue;
            };
            let Some(sent) = publisher.sent_at.get(&expected.seq) else {
                continue;
            };
            let arrived = started + Duration::from_micros(*at);
            // A snapshot shows earlier events.
            if *sent >= slow_from && arrived <= ended {
                latencies.push(arrived.saturating_duration_since(*sent).as_micros());
            }
        }
    }
    latencies.sort_unstable();
    let at = |percent: usize| {
        latencies
            .get((latencies.len() * percent / 100).min(latencies.len().saturating_sub(1)))
            .copied()
            .unwrap_or(0)
    };
    Ok(json!({
        "slow": slow, "clients": size.clients, "messages": latencies.len(), "p50_us": at(50), "p99_us": at(99),
        "resident_before_kib": before, "resident_after_kib": after, "conflated": verdict.tally.conflated,
        "objections": verdict.violations.len(),
    }))
}

async fn restarts(
    faults: &Faults,
    size: &Size,
    violations: &mut Vec<String>,
) -> anyhow::Result<Value> {
    let mut bed = TestBed::open(faults, "restart", size.events_per_second).await?;
    let mut clients = bed.clients(Stage::Calm);
    for n in 0..size.clients {
        clients.join(plan(n));
    }
    if !clients
        .reconnected_since(&vec![0; size.clients], PATIENCE)
        .await
    {
        bail!("restart: the clients did not connect");
    }
    let mut seconds = serde_json::Map::new();
    for (name, orderly) in [("stopped", true), ("killed", false)] {
        let before = clients.connections();
        let started = Instant::now();
        bed.service.end(orderly)?;
        bed.service.start_again()?;
        ready(bed.http).await?;
        let ready = started.elapsed();
        if !clients.reconnected_since(&before, PATIENCE).await {
            violations.push(format!("restart: not all were back, {name}"));
        }
        seconds.insert(format!("{name}_ready_s"), json!(ready.as_secs_f64()));
        seconds.insert(
            format!("{name}_all_back_s"),
            json!(started.elapsed().as_secs_f64()),
        );
    }
    let (verdict, _) = bed.end(clients, "restart", violations).await?;
    let tally = verdict.tally;
    seconds.extend(json!({ "clients": tally.clients, "resumed": tally.resumed, "not_recovered": tally.not_recovered,
        "messages": tally.messages, "objections": verdict.violations.len() }).as_object().cloned().unwrap_or_default());
    Ok(Value::Object(seconds))
}

async fn nats_restart(
    faults: &Faults,
    size: &Size,
    violations: &mut Vec<String>,
) -> anyhow::Result<Value> {
    let mut bed = TestBed::open(faults, "nats", size.events_per_second).await?;
    let mut clients = bed.clients(Stage::Calm);
    for n in 0..size.clients {
        clients.join(plan(n));
    }
    if !clients
        .reconnected_since(&vec![0; size.clients], PATIENCE)
        .await
    {
        bail!("nats: the clients did not connect");
    }
    // Then every thread of the service has checked the feed.
    clients
        .wait_for_all(PATIENCE, |client| {
            client.heartbeats.load(std::sync::atomic::Ordering::Relaxed) > 0
        })
        .await;
    let changed = |state_changes: u64| {
        move |client: &crate::conformance::client::Progress| {
            client
                .state_changes
                .load(std::sync::atomic::Ordering::Relaxed)
                >= state_changes
        }
    };
    let started = Instant::now();
    bed.nats.end(false)?;
    let saw_stale = clients.wait_for_all(PATIENCE, changed(1)).await;
    let stale = started.elapsed();
    let started = Instant::now();
    bed.nats.start_again()?;
    let saw_live = clients.wait_for_all(PATIENCE, changed(2)).await;
    let live = started.elapsed();
    if !saw_stale || !saw_live {
        violations.push("nats: not all clients received the change".to_owned());
    }
    let (verdict, _) = bed.end(clients, "nats", violations).await?;
    let tally = verdict.tally;
    Ok(
        json!({ "clients": tally.clients, "stale_told_s": stale.as_secs_f64(), "live_told_s": live.as_secs_f64(),
        "connections": tally.connections, "messages": tally.messages, "objections": verdict.violations.len() }),
    )
}

fn free_address() -> anyhow::Result<SocketAddr> {
    Ok(TcpListener::bind("127.0.0.1:0")?.local_addr()?)
}

async fn ready(http: SocketAddr) -> anyhow::Result<()> {
    let until = Instant::now() + PATIENCE;
    while Instant::now() < until {
        if timeout(Duration::from_secs(1), is_ready(http))
            .await
            .is_ok_and(|ready| ready.unwrap_or(false))
        {
            return Ok(());
        }
        sleep(Duration::from_millis(10)).await;
    }
    bail!("the service was not ready in time")
}

async fn is_ready(http: SocketAddr) -> std::io::Result<bool> {
    let mut stream = TcpStream::connect(http).await?;
    stream
        .write_all(b"GET /readyz HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
        .await?;
    let mut head = [0; 12];
    stream.read_exact(&mut head).await?;
    Ok(head.ends_with(b" 200"))
}

fn resident_kib(pid: u32) -> anyhow::Result<u64> {
    let status = std::fs::read_to_string(Path::new("/proc").join(pid.to_string()).join("status"))?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    Ok(line
        .context("VmRSS")?
        .trim()
        .trim_end_matches(" kB")
        .parse()?)
}

/// A process that ends with this one.
#[derive(Debug)]
struct Process {
    command: Command,
    child: Child,
}

impl Process {
    fn start(mut command: Command) -> anyhow::Result<Self> {
        command
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        let child = command.spawn().with_context(|| format!("{command:?}"))?;
        Ok(Self { command, child })
    }

    fn id(&self) -> u32 {
        self.child.id()
    }

    /// SIGTERM, or kill -9.
    fn end(&mut self, orderly: bool) -> anyhow::Result<()> {
        if orderly {
            Command::new("kill").arg(self.id().to_string()).status()?;
        } else {
            self.child.kill()?;
        }
        self.child.wait()?;
        Ok(())
    }

    fn start_again(&mut self) -> anyhow::Result<()> {
        self.child = self.command.spawn()?;
        Ok(())
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // An error means that it has ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
