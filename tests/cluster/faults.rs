//! The fault rig: three nats-servers, three replicas and a load balancer under feeders, sockets and GETs, with a fault
//! every ten seconds. `script/cluster-test` does the same for ten minutes under full load.

use std::time::{Duration, Instant};

use super::balancer::Balancer;
use super::feeders::{Feeders, RACES, VENUES};
use super::gets::Gets;
use super::replica::Replica;
use super::stored::StoredLog;
use super::views::wrong_views;
use crate::conformance::client::{Follow, Plan, Stage};
use crate::conformance::clients::ClientGroup;
use crate::conformance::oracle::Oracle;
use crate::conformance::rng::Rng;
use crate::support::*;

/// How long a fault lasts, and the time until the next one. An election takes 4 to 9 seconds.
const FAULT: Duration = Duration::from_secs(5);
const FAULT_INTERVAL: Duration = Duration::from_secs(10);
/// What a release build holds on a machine of its own: a GET waits a bounded time for the sequence that it asks for,
/// which a machine with other work can exceed.
const BOUNDS: Bounds = Bounds {
    unavailable_per_mille: 1,
    calm: Duration::from_secs(5),
};
/// Violations that are shown.
const SHOWN_MAX: usize = 12;

#[derive(Debug)]
struct Bounds {
    /// Of a thousand GETs, so many may be 503.
    unavailable_per_mille: usize,
    /// Within this time after the last event the views of all replicas are equal.
    calm: Duration,
}

#[derive(Debug)]
struct Size {
    events_per_second: u32,
    sockets: usize,
    gets_per_second: u32,
    faults: usize,
    /// None where a debug build shares a busy machine.
    bounds: Option<Bounds>,
}

impl Size {
    fn from_env() -> Self {
        match std::env::var("RAILBIRD_CLUSTER_TEST").as_deref() {
            Ok("full") => Self {
                events_per_second: 500,
                sockets: 1_000,
                gets_per_second: 200,
                faults: 60,
                bounds: Some(BOUNDS),
            },
            _ => Self {
                events_per_second: 200,
                sockets: 200,
                gets_per_second: 100,
                faults: 9,
                bounds: None,
            },
        }
    }
}

#[derive(Debug, Clone, Copy)]
enum Kind {
    Kill,
    Freeze,
    Partition,
}

#[derive(Debug, Clone, Copy)]
enum Target {
    Server(usize),
    Replica(usize),
}

struct Rig {
    cluster: Cluster,
    replicas: Vec<Replica>,
    rng: Rng,
}

impl Rig {
    async fn start() -> Self {
        let cluster = Cluster::start();
        let mut replicas = Vec::new();
        for _ in 0..3 {
            let replica = Replica::start(&cluster);
            replica.until_ready().await;
            replicas.push(replica);
        }
        let rng = Rng::new(16);
        Self {
            cluster,
            replicas,
            rng,
        }
    }

    /// Servers and replicas take turns, and so do the kinds. The first faults of servers are those of the leader.
    async fn fault(&mut self, n: usize) {
        let kind = [Kind::Kill, Kind::Freeze, Kind::Partition][n / 2 % 3];
        let one_of_three = usize::try_from(self.rng.below(3)).unwrap();
        let target = match n % 2 {
            0 if n < 6 => Target::Server(self.cluster.stream_leader("RACING").await),
            0 => Target::Server(one_of_three),
            _ => Target::Replica(one_of_three),
        };
        eprintln!("fault {n}: {kind:?} {target:?}");
        self.begin(kind, target);
        tokio::time::sleep(FAULT).await;
        self.end(kind, target);
    }

    fn begin(&mut self, kind: Kind, target: Target) {
        let Self {
            cluster, replicas, ..
        } = self;
        match (target, kind) {
            (Target::Server(n), Kind::Kill) => cluster.kill(n),
            (Target::Server(n), Kind::Freeze) => cluster.freeze(n),
            (Target::Server(n), Kind::Partition) => cluster.partition(n),
            (Target::Replica(n), Kind::Kill) => replicas[n].kill(),
            (Target::Replica(n), Kind::Freeze) => replicas[n].freeze(),
            (Target::Replica(n), Kind::Partition) => replicas[n].partition(),
        }
    }

    fn end(&mut self, kind: Kind, target: Target) {
        let Self {
            cluster, replicas, ..
        } = self;
        match (target, kind) {
            (Target::Server(n), Kind::Kill) => cluster.restart(n),
            (Target::Server(n), Kind::Freeze) => cluster.thaw(n),
            (Target::Server(n), Kind::Partition) => cluster.heal(n),
            (Target::Replica(n), Kind::Kill) => replicas[n].restart(),
            (Target::Replica(n), Kind::Freeze) => replicas[n].thaw(),
            (Target::Replica(n), Kind::Partition) => replicas[n].heal(),
        }
    }

    /// Waits until all replicas accept a key.
    async fn until_valid(&self, key: &str) {
        for replica in &self.replicas {
            eventually("the key is valid", || async {
                let headers = [("x-api-key", key)];
                let reply = request(replica.http, "GET", "/api/v1/meetings", &headers).await;
                reply.status == 200
            })
            .await;
        }
    }

    /// Waits until the views of all replicas are of the last event and equal. Returns how long that took.
    async fn until_equal(&self, last: u64) -> Duration {
        let begun = Instant::now();
        eventually("all replicas have equal views", || async {
            let mut digests = Vec::new();
            for replica in &self.replicas {
                digests.push(replica.digest().await);
            }
            let equal = digests.iter().all(|digest| *digest == digests[0]);
            equal && digests[0]["seq"].as_u64() >= Some(last)
        })
        .await;
        begun.elapsed()
    }
}

/// The subscription of the `n`th socket: mostly of one race, as all of everything would measure the clients.
fn plan(n: usize) -> Plan {
    let follow = match n % 50 {
        0 => Follow::All,
        1..=4 => Follow::Venue(VENUES[n / 50 % VENUES.len()]),
        _ => {
            let number = u16::try_from(n / VENUES.len() % usize::from(RACES)).unwrap();
            Follow::Race(VENUES[n % VENUES.len()], 1 + number)
        }
    };
    Plan {
        follow,
        heartbeat_ms: 5_000,
        ..Plan::default()
    }
}

fn shown(violations: &[String]) -> String {
    let shown: Vec<&str> = violations
        .iter()
        .take(SHOWN_MAX)
        .map(String::as_str)
        .collect();
    format!("{}:\n{}", violations.len(), shown.join("\n"))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_acknowledged_is_lost_and_nothing_is_sent_twice_through_faults() {
    let (size, mut rig) = (Size::from_env(), Rig::start().await);
    let addresses = [0, 1, 2].map(|n: usize| rig.replicas[n].http);
    let Some(balancer) = Balancer::start(addresses).await else {
        return;
    };
    let key = issue_key(rig.cluster.server(0)).await;
    let feeders = Feeders::start(&rig.cluster, size.events_per_second).await;
    rig.until_valid(&key).await;
    let mut sockets = ClientGroup::new(&[balancer.address], &key, Stage::Calm);
    for n in 0..size.sockets {
        sockets.join(plan(n));
    }
    let none = vec![0; size.sockets];
    assert!(sockets.reconnected_since(&none, PATIENCE).await);
    let gets = Gets::start(balancer.address, &key, size.gets_per_second);

    for n in 0..size.faults {
        let next = tokio::time::Instant::now() + FAULT_INTERVAL;
        rig.fault(n).await;
        tokio::time::sleep_until(next).await;
    }

    let fed = feeders.end().await;
    let last = fed.last_seq();
    let calm = rig.until_equal(last).await;
    let gets = gets.end().await;
    let stored = StoredLog::read(&rig.cluster).await;
    let (lost, repeated) = stored.check(&fed.by_feeder());
    let verdict = sockets
        .check(Oracle::of(&stored.events), last, PATIENCE)
        .await;
    let oracle = verdict.checker.oracle();
    let mut wrong = gets.check(oracle);
    wrong.extend(wrong_views(addresses[0], &key, &stored.events, oracle).await);
    eprintln!(
        "{}; {repeated} twice in the log; views equal after {calm:.1?}",
        fed.summary()
    );
    eprintln!("{}", gets.summary());
    eprintln!(
        "sockets: {} violations, {:?}",
        verdict.violations.len(),
        verdict.tally
    );
    assert!(lost.is_empty(), "the log: {}", shown(&lost));
    assert!(
        verdict.violations.is_empty(),
        "sockets: {}",
        verdict.summary()
    );
    assert!(wrong.is_empty(), "wrong answers: {}", shown(&wrong));
    assert!(
        gets.violations.is_empty(),
        "GETs: {}",
        shown(&gets.violations)
    );
    if let Some(bounds) = size.bounds {
        let unavailable_max = gets.sent * bounds.unavailable_per_mille / 1_000;
        assert!(
            gets.unavailable <= unavailable_max,
            "{} GETs were 503",
            gets.unavailable
        );
        assert!(calm <= bounds.calm, "equal after {calm:.1?}");
    }
    let tally = verdict.tally;
    assert_eq!((tally.not_recovered, tally.resyncs), (0, 0), "{tally:?}");
}
