//! Two replicas behind each proxy, under GETs and sockets: a rolling restart, the end of a replica by kill -9
//! and an outage of NATS fail no GET, and no socket misses a message. `script/rolling-restart` does the same under full
//! load.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use tempfile::TempDir;

use super::load::{Get, Load};
use super::proxy::{Proxy, ProxyKind, client, free_address};
use crate::conformance::client::{Follow, Plan, Stage};
use crate::conformance::clients::ClientGroup;
use crate::live::delivery::Publishing;
use crate::support::*;

/// Of another day than the events that are published meanwhile.
const CARD: &str = "/api/v1/racecards/2026-11-21";

/// The load, and how long NATS is away.
#[derive(Debug)]
struct Size {
    connections: u32,
    gets_per_second: u32,
    sockets: usize,
    events_per_second: u32,
    outage: Duration,
}

impl Size {
    /// What a debug build keeps up with on a busy machine, or the full load.
    fn from_env() -> Self {
        match std::env::var("RAILBIRD_ROLLING_RESTART").as_deref() {
            Ok("full") => Self {
                connections: 64,
                gets_per_second: 2_000,
                sockets: 200,
                events_per_second: 20,
                outage: Duration::from_secs(30),
            },
            _ => Self {
                connections: 8,
                gets_per_second: 200,
                sockets: 20,
                events_per_second: 50,
                // Health checks would notice a replica that is not ready within 3 seconds.
                outage: Duration::from_secs(4),
            },
        }
    }
}

/// A replica, its address and its folder.
pub(super) struct Replica {
    pub(super) http: SocketAddr,
    data: TempDir,
    pub(super) serving: Serving,
    /// The binary that it runs.
    program: PathBuf,
}

impl Replica {
    pub(super) async fn start(nats: &Nats, program: &Path) -> Self {
        let (http, data) = (free_address(), tempfile::tempdir().unwrap());
        let serving = serve(nats, program, http, data.path());
        let replica = Self {
            http,
            data,
            serving,
            program: program.to_owned(),
        };
        replica.until_ready().await;
        replica
    }

    /// Restarts it as an operator does: SIGTERM, a new process when that has ended, and a wait until it is ready.
    async fn restart(self, nats: &Nats) -> Self {
        let program = self.program.clone();
        self.restart_as(nats, &program).await
    }

    /// The same with another version.
    pub(super) async fn restart_as(self, nats: &Nats, program: &Path) -> Self {
        self.serving.stop().await;
        let serving = serve(nats, program, self.http, self.data.path());
        let replica = Self {
            serving,
            program: program.to_owned(),
            ..self
        };
        replica.until_ready().await;
        replica
    }

    /// The same with kill -9.
    async fn kill(&mut self, nats: &Nats) {
        self.serving.kill();
        self.serving = serve(nats, &self.program, self.http, self.data.path());
        self.until_ready().await;
    }

    async fn until_ready(&self) {
        self.serving.until_ready().await;
    }
}

/// The binary of this version.
pub(super) fn this_version() -> &'static Path {
    Path::new(env!("CARGO_BIN_EXE_railbird"))
}

fn serve(nats: &Nats, program: &Path, http: SocketAddr, data: &Path) -> Serving {
    let unlimited = Path::new(env!("CARGO_MANIFEST_DIR")).join("bench/plans.toml");
    let (http, nats) = (http.to_string(), nats.url());
    let flags = [
        "--http",
        &http,
        "--nats",
        &nats,
        "--trusted-proxies",
        "127.0.0.1",
    ];
    let plans = ["--plans", unlimited.to_str().unwrap()];
    Serving::start_as(command_of(program), &[&flags[..], &plans].concat(), data)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn behind_nginx_restarts_and_an_outage_of_nats_lose_nothing() {
    loses_nothing(ProxyKind::Nginx).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn behind_haproxy_restarts_and_an_outage_of_nats_lose_nothing() {
    loses_nothing(ProxyKind::Haproxy).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn behind_caddy_restarts_and_an_outage_of_nats_lose_nothing() {
    loses_nothing(ProxyKind::Caddy).await;
}

async fn loses_nothing(kind: ProxyKind) {
    let (size, mut nats) = (Size::from_env(), Nats::start());
    let (folder, authority) = (tempfile::tempdir().unwrap(), Authority::new());
    let key = issue_key(&nats).await;
    nats.publish([card("2026-11-21", "ST", 1, 3)]).await;
    let publishing = Publishing::start_at(&nats, size.events_per_second).await;
    let (a, b) = (
        Replica::start(&nats, this_version()).await,
        Replica::start(&nats, this_version()).await,
    );
    let replicas = [a.http, b.http];
    let Some(proxy) = Proxy::start(kind, folder.path(), &authority, replicas).await else {
        return;
    };
    let reply = request(a.http, "GET", CARD, &[("x-api-key", &key)]).await;
    assert_eq!(reply.status, 200, "{}", reply.text());
    let get = Get {
        path: CARD,
        key: key.clone(),
        bodies: vec![reply.body],
    };
    let tunnel = proxy.tunnel(&authority).await;
    let mut sockets = ClientGroup::new(&[tunnel.address], &key, Stage::Calm);
    for n in 0..size.sockets {
        let follow = [Follow::All, Follow::Venue("ST"), Follow::Race("HV", 1)];
        sockets.join(Plan {
            follow: follow[n % 3].clone(),
            ..Plan::default()
        });
    }
    let none = vec![0; size.sockets];
    assert!(sockets.reconnected_since(&none, PATIENCE).await);
    let load = Load::start(
        proxy.address,
        &client(&authority),
        &get,
        size.connections,
        size.gets_per_second,
    );

    let before = sockets.connections();
    let (a, mut b) = (a.restart(&nats).await, b.restart(&nats).await);
    // Each was on one of the two.
    assert!(sockets.reconnected_since(&before, PATIENCE).await);
    b.kill(&nats).await;

    take_away(&mut nats, size.outage).await;

    let gets = load.stop().await;
    let publisher = publishing.end().await;
    let checked = sockets.check(publisher.oracle(), publisher.last(), PATIENCE);
    let verdict = checked.await;
    let [p50, p99, p999, max] = [500, 990, 999, 1_000].map(|part| gets.latency(part));
    eprintln!(
        "{}: {} GETs, {} failed, p50 {p50:.1?}, p99 {p99:.1?}, p99.9 {p999:.1?}, max {max:.1?}; {} events, {} violations, \
         {:?}",
        kind.name(),
        gets.gets(),
        gets.failures.len(),
        publisher.last(),
        verdict.violations.len(),
        verdict.tally
    );
    assert!(gets.failures.is_empty(), "{}", gets.summary());
    assert!(verdict.violations.is_empty(), "{}", verdict.summary());
    let tally = verdict.tally;
    assert_eq!((tally.not_recovered, tally.resyncs), (0, 0), "{tally:?}");
    drop(a);
}

/// Takes NATS away for this time, frozen and then killed.
async fn take_away(nats: &mut Nats, outage: Duration) {
    nats.freeze();
    tokio::time::sleep(outage).await;
    nats.thaw();
    // Feeders give up after a minute: they publish again before the next outage.
    nats.until_logged(nats.last_seq().await + 1).await;
    nats.kill();
    tokio::time::sleep(outage).await;
    nats.start_again();
}
