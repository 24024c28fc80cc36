//! Three nats-servers, three replicas and a load balancer under traffic, while servers and replicas are killed, frozen
//! and cut off: wholly, in one direction, and again and again.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::ops::Range;
use std::time::{Duration, Instant};

use async_nats::jetstream;
use futures::FutureExt;
use futures::future::join_all;
use serde_json::Value;
use tokio::time::{sleep, sleep_until};

use super::balancer::Balancer;
use super::budget::Budget;
use super::replica::Replica;
use super::traffic::{Load, Traffic};
use crate::conformance::rng::Rng;
use crate::support::*;
use railbird::log::Log;

/// How long a fault lasts in the short form, and in the long one. An election takes 4 to 9 seconds.
const SHORT_FAULT: Duration = Duration::from_secs(5);
const LONG_FAULT_SECONDS: Range<u64> = 2..26;
/// The time after it.
const PAUSE: Duration = Duration::from_secs(5);
/// How long a connection that flaps is open, and how long it is cut.
const FLAP_MS: Range<u64> = 50..1_000;

const SHORT_LOAD: Load = Load {
    events_per_second: 200,
    sockets: 0..60,
    gets_per_second: 50,
};
const SHORT_FAULTS: usize = 2;
/// Three services, three servers, the load balancer and all clients share the machine: at twice as much, a replica that
/// catches up has a third of a core.
const LONG_LOAD: Load = Load {
    events_per_second: 250,
    sockets: 0..300,
    gets_per_second: 100,
};
const LONG_FAULTS: usize = 24;

/// Bounds that a machine with other work can exceed: they count in the long form.
///
/// Of a thousand GETs, so many may be 503.
const UNAVAILABLE_PER_MILLE: usize = 1;
/// Within this time after a fault, and the elections that may follow it, the replicas have what the log had then.
const CAUGHT_UP_MAX: Duration = Duration::from_secs(5);
/// Within this time a replica that is cut off no longer says that its views are live.
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

    /// Cuts a target off and back again until a moment.
    async fn flap(&self, target: Target, until: Instant, rng: &mut Rng) {
        while Instant::now() < until {
            self.lose(target, Loss::All);
            sleep(Duration::from_millis(rng.within(&FLAP_MS))).await;
            self.lose(target, Loss::Nothing);
            sleep(Duration::from_millis(rng.within(&FLAP_MS))).await;
        }
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

    /// Waits until no replica serves old views as live: each says that they may be old, or it has events from after the
    /// fault. Returns the longest time for which it could have known better.
    async fn until_noticed(&self, kind: Kind, target: Target) -> Duration {
        let begun = Instant::now();
        match (kind, target) {
            (Kind::Kill | Kind::Flap, _) | (Kind::Freeze, Target::Replica(_)) => Duration::ZERO,
            (_, Target::Replica(n)) => {
                self.replicas[n].0.until_old_or_after(u64::MAX).await;
                begun.elapsed()
            }
            (_, Target::Server(_)) => {
                let last = self.last_seq().await;
                let leaderless = begun.elapsed();
                for (replica, _) in &self.replicas {
                    replica.until_old_or_after(last).await;
                }
                begun.elapsed() - leaderless
            }
        }
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

    /// Waits until all replicas were seen with equal views of an event, this one or a later one.
    async fn until_equal(&self, last: u64) {
        let seen: RefCell<BTreeMap<u64, [Option<Value>; 3]>> = RefCell::default();
        eventually("all replicas have equal views", async || {
            let digests = self.replicas.iter().map(|(replica, _)| replica.digest());
            let digests = join_all(digests).await;
            let mut seen = seen.borrow_mut();
            for (n, digest) in digests.into_iter().enumerate() {
                if let Some(seq) = digest["seq"].as_u64().filter(|seq| *seq >= last) {
                    seen.entry(seq).or_default()[n] = Some(digest);
                }
            }
            let all = seen
                .values()
                .find(|of_all| of_all.iter().all(Option::is_some));
            if let Some([a, b, c]) = all {
                assert!(a == b && b == c, "{a:?}, {b:?} and {c:?}");
            }
            all.is_some()
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
        // While events are published, it is chance when all are seen at the same one.
        traffic.pause(true);
        world.until_equal(world.last_seq().await).await;
        traffic.pause(false);
        budget.count("faults", 1);
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
            gets.unavailable.len() <= unavailable_max,
            "{} GETs were 503: {:#?}",
            gets.unavailable.len(),
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
    let lasting = match budget.is_long() {
        true => Duration::from_secs(rng.within(&LONG_FAULT_SECONDS)),
        false => SHORT_FAULT,
    };
    budget.step(format!("{kind:?} {target:?} for {lasting:?}"));
    let until = Instant::now() + lasting;
    if kind == Kind::Flap {
        world.flap(target, until, rng).await;
    } else {
        world.begin(kind, target);
        if !budget.is_long() || lasting >= NOTICED_MAX {
            let noticed = world.until_noticed(kind, target).await;
            limit(budget, "ms until noticed", noticed, NOTICED_MAX);
        }
        sleep_until(until.into()).await;
    }
    world.end(kind, target);
    let last = world.last_seq().await;
    let answered = Instant::now();
    let replicas = world.replicas.iter();
    let served = join_all(replicas.map(|(replica, _)| replica.until_served(last)));
    // A server that is back may call further elections.
    let leaderless = world.cluster.leaderless_until("RACING", served.map(drop));
    let led_since = leaderless.await.unwrap_or(answered);
    let elections = led_since - answered;
    budget.step(format!("{elections:.1?} of elections"));
    let caught_up = led_since.elapsed();
    limit(budget, "ms until caught up", caught_up, CAUGHT_UP_MAX);
}

/// Records how many milliseconds something took at most, and limits that in the long form.
fn limit(budget: &mut Budget, column: &'static str, took: Duration, max: Duration) {
    let millis = took.as_millis();
    budget.step(format!("{millis} {column}"));
    budget.count_max(column, took);
    assert!(took <= max || !budget.is_long(), "{millis} {column}");
}
