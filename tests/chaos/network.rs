//! Three nats-servers, three replicas and a load balancer under traffic, while servers and replicas are killed, frozen
//! and cut off: wholly, in one direction, and again and again.

use std::time::{Duration, Instant};

use async_nats::jetstream;
use tokio::time::sleep;

use super::balancer::Balancer;
use super::budget::Budget;
use super::replica::Replica;
use super::traffic::{Load, Traffic};
use crate::conformance::rng::Rng;
use crate::support::*;
use railbird::log::Log;

/// How long a fault lasts at least, and the time after it. An election takes 4 to 9 seconds.
const FAULT: Duration = Duration::from_secs(5);
const PAUSE: Duration = Duration::from_secs(5);
/// How long a connection that flaps is open, and how long it is cut.
const FLAP_MS: std::ops::Range<u64> = 50..1_000;

const SHORT_LOAD: Load = Load {
    events_per_second: 200,
    sockets: 0..60,
    gets_per_second: 50,
};
const SHORT_FAULTS: usize = 2;
const LONG_LOAD: Load = Load {
    events_per_second: 500,
    sockets: 0..1_000,
    gets_per_second: 200,
};
const LONG_FAULTS: usize = 24;

/// Bounds that a machine with other work can exceed: they count in the long form.
///
/// Of a thousand GETs, so many may be 503.
const UNAVAILABLE_PER_MILLE: usize = 1;
/// Within this time after a fault, and the election that may follow it, the replicas have equal views.
const EQUAL_MAX: Duration = Duration::from_secs(5);
/// Within this time a replica no longer says that its views are live.
const NOTICED_MAX: Duration = Duration::from_secs(15);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Kill,
    Freeze,
    Lose(Loss),
    Flap,
}

const KINDS: [Kind; 6] = [
    Kind::Kill,
    Kind::Freeze,
    Kind::Lose(Loss::All),
    Kind::Lose(Loss::Sent),
    Kind::Lose(Loss::Received),
    Kind::Flap,
];

#[derive(Debug, Clone, Copy)]
enum Target {
    Server(usize),
    Replica(usize),
}

struct World {
    cluster: Cluster,
    /// With the routes of each to the servers.
    replicas: Vec<(Replica, ClientRoutes)>,
}

impl World {
    async fn start() -> Self {
        let cluster = Cluster::start();
        let mut replicas = Vec::new();
        for _ in 0..3 {
            let routes = cluster.routes_of_a_client();
            let replica = Replica::start(routes.url());
            replica.until_ready().await;
            replicas.push((replica, routes));
        }
        Self { cluster, replicas }
    }

    /// A server, which is the leader half of the time, or a replica.
    async fn target(&self, is_server: bool, rng: &mut Rng) -> Target {
        let one_of_three = usize::try_from(rng.below(3)).unwrap();
        match (is_server, rng.happens(50)) {
            (true, true) => Target::Server(self.cluster.stream_leader("RACING").await),
            (true, false) => Target::Server(one_of_three),
            (false, _) => Target::Replica(one_of_three),
        }
    }

    async fn fault(&mut self, kind: Kind, target: Target, rng: &mut Rng) {
        let until = Instant::now() + FAULT;
        if kind == Kind::Flap {
            while Instant::now() < until {
                self.lose(target, Loss::All);
                sleep(Duration::from_millis(rng.within(&FLAP_MS))).await;
                self.lose(target, Loss::Nothing);
                sleep(Duration::from_millis(rng.within(&FLAP_MS))).await;
            }
            return;
        }
        self.begin(kind, target);
        sleep(FAULT).await;
    }

    fn begin(&mut self, kind: Kind, target: Target) {
        match (target, kind) {
            (_, Kind::Flap) => {}
            (_, Kind::Lose(loss)) => self.lose(target, loss),
            (Target::Server(n), Kind::Kill) => self.cluster.kill(n),
            (Target::Server(n), Kind::Freeze) => self.cluster.freeze(n),
            (Target::Replica(n), Kind::Kill) => self.replicas[n].0.kill(),
            (Target::Replica(n), Kind::Freeze) => self.replicas[n].0.freeze(),
        }
    }

    fn end(&mut self, kind: Kind, target: Target) {
        match (target, kind) {
            (_, Kind::Flap | Kind::Lose(_)) => self.lose(target, Loss::Nothing),
            (Target::Server(n), Kind::Kill) => self.cluster.restart(n),
            (Target::Server(n), Kind::Freeze) => self.cluster.thaw(n),
            (Target::Replica(n), Kind::Kill) => self.replicas[n].0.restart(),
            (Target::Replica(n), Kind::Freeze) => self.replicas[n].0.thaw(),
        }
    }

    fn lose(&self, target: Target, loss: Loss) {
        match target {
            Target::Server(n) => self.cluster.lose(n, loss),
            Target::Replica(n) => self.replicas[n].1.lose(loss),
        }
    }

    /// Waits until a replica that is cut off from all servers says that its views may be old.
    async fn until_noticed(&self, replica: usize) -> Duration {
        let begun = Instant::now();
        eventually("the replica notices that it is cut off", async || {
            self.replicas[replica].0.status().await["feed"]["state"] != "live"
        })
        .await;
        begun.elapsed()
    }

    /// Waits until all replicas accept a key.
    async fn until_valid(&self, key: &str) {
        for (replica, _) in &self.replicas {
            until_valid(replica.http, key).await;
        }
    }

    /// The last event of the log, once it has a leader.
    async fn last_seq(&self) -> u64 {
        loop {
            self.cluster.stream_leader("RACING").await;
            let context = jetstream::new(self.cluster.client_of("admin").await);
            if let Ok(log) = context.get_stream("RACING").await {
                return log.cached_info().state.last_sequence;
            }
        }
    }

    /// Waits until the views of all replicas include an event. Returns how long that took.
    async fn until_served(&self, seq: u64) -> Duration {
        let begun = Instant::now();
        for (replica, _) in &self.replicas {
            replica.until_served(seq).await;
        }
        begun.elapsed()
    }

    /// Waits until the views of all replicas are of the last event and equal.
    async fn until_equal(&self, last: u64) {
        eventually("all replicas have equal views", async || {
            let mut digests = Vec::new();
            for (replica, _) in &self.replicas {
                digests.push(replica.digest().await);
            }
            let equal = digests.iter().all(|digest| *digest == digests[0]);
            equal && digests[0]["seq"].as_u64() >= Some(last)
        })
        .await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_acknowledged_is_lost_and_nothing_is_sent_twice_through_faults() {
    if program("haproxy").is_none() {
        return;
    }
    let mut budget = Budget::of("network", 1);
    while let Some(rng) = budget.next_round() {
        round(&mut budget, rng).await;
    }
    budget.end();
}

async fn round(budget: &mut Budget, mut rng: Rng) {
    let (load, faults) = match budget.is_long() {
        true => (LONG_LOAD, LONG_FAULTS),
        false => (SHORT_LOAD, SHORT_FAULTS),
    };
    let mut world = World::start().await;
    let addresses = [0, 1, 2].map(|n: usize| world.replicas[n].0.http);
    let balancer = Balancer::start(addresses).await.unwrap();
    let key = issue_key(world.cluster.server(0)).await;
    let appender = world.cluster.url_of("feeder");
    let appender = Log::connect(&appender, "test").await.unwrap();
    let feeder = async || world.cluster.client_of("feeder").await;
    world.until_valid(&key).await;
    let seed = rng.next();
    let traffic = Traffic::start(feeder, appender, balancer.address, &key, &load, seed).await;
    let mut kinds = KINDS.repeat(faults.div_ceil(KINDS.len()));
    rng.shuffle(&mut kinds);
    for (n, kind) in kinds.into_iter().take(faults).enumerate() {
        if n > 0 && !budget.has_time() {
            break;
        }
        let target = world.target(n % 2 == 0, &mut rng).await;
        one_fault(budget, &mut world, kind, target, &mut rng).await;
        sleep(PAUSE).await;
    }
    let admin = async || world.cluster.client_of("admin").await;
    let until_equal = async |last| world.until_equal(last).await;
    let outcome = traffic
        .check(budget, admin, addresses[0], until_equal)
        .await;
    let (gets, tally) = (outcome.gets, outcome.sockets);
    gets.assert_answered(budget);
    if budget.is_long() {
        let unavailable_max = gets.sent * UNAVAILABLE_PER_MILLE / 1_000;
        assert!(
            gets.unavailable <= unavailable_max,
            "{} GETs were 503",
            gets.unavailable
        );
        // On a machine with other work, a restarted replica may not read the last events again in time.
        assert_eq!((tally.not_recovered, tally.resyncs), (0, 0), "{tally:?}");
    }
}

async fn one_fault(
    budget: &mut Budget,
    world: &mut World,
    kind: Kind,
    target: Target,
    rng: &mut Rng,
) {
    budget.step(format!("{kind:?} {target:?}"));
    world.fault(kind, target, rng).await;
    if let (Kind::Lose(_), Target::Replica(replica)) = (kind, target) {
        let noticed = FAULT + world.until_noticed(replica).await;
        budget.count_max("ms until noticed", noticed);
        assert!(
            noticed <= NOTICED_MAX || !budget.is_long(),
            "noticed after {noticed:?}"
        );
    }
    world.end(kind, target);
    let last = world.last_seq().await;
    let equal = world.until_served(last).await;
    budget.step(format!("all replicas reflect {last} after {equal:.1?}"));
    budget.count_max("ms until equal", equal);
    budget.count("faults", 1);
    assert!(
        equal <= EQUAL_MAX || !budget.is_long(),
        "equal after {equal:?}"
    );
}
