//! Leases: of several replicas one has a role.

use std::time::{Duration, Instant};

use railbird::log::{Lease, Log, Role};
use tokio::task::AbortHandle;

use crate::support::*;

/// The term of the bucket in these tests.
const TERM: Duration = Duration::from_secs(3);

/// A replica that wants to be the announcer.
struct Replica {
    lease: Lease,
    keeper: AbortHandle,
    log: Log,
}

impl Replica {
    async fn start(nats: &Nats, holder: &str) -> Self {
        let log = Log::connect(&nats.url(), holder).await.unwrap();
        let (lease, keeper) = log.lease(Role::Announcer, holder);
        let keeper = tokio::spawn(keeper).abort_handle();
        Self { lease, keeper, log }
    }

    fn epoch(&self) -> Option<u64> {
        self.lease.held().map(|term| term.epoch)
    }

    /// Ends it at once.
    async fn kill(self) {
        self.keeper.abort();
        self.log.close().await;
    }
}

/// A server with a bucket whose entries end soon.
async fn nats_with_short_leases() -> Nats {
    let nats = Nats::start();
    nats.create_leases(TERM).await;
    nats
}

async fn three(nats: &Nats) -> Vec<Replica> {
    let mut replicas = Vec::new();
    for holder in ["a", "b", "c"] {
        replicas.push(Replica::start(nats, holder).await);
    }
    replicas
}

/// Waits for a holder among the replicas, and checks that it is the only one. Returns its index and its epoch.
async fn the_holder(replicas: &[Replica]) -> (usize, u64) {
    let held = || replicas.iter().map(Replica::epoch).collect::<Vec<_>>();
    eventually("a replica holds the lease", async || {
        held().iter().any(Option::is_some)
    })
    .await;
    let held = held();
    let mut holders = held
        .iter()
        .enumerate()
        .filter_map(|(n, of)| Some((n, (*of)?)));
    let holder = holders.next().unwrap();
    assert_eq!(holders.next(), None, "{held:?}");
    holder
}

async fn until_nobody_holds(replicas: &[Replica]) {
    eventually("nobody holds the lease", async || {
        replicas.iter().all(|replica| replica.epoch().is_none())
    })
    .await;
}

/// Checks for some time that the replica and no other holds the lease.
async fn stays_with(replicas: &[Replica], (holder, epoch): (usize, u64), time: Duration) {
    let until = Instant::now() + time;
    while Instant::now() < until {
        for (n, replica) in replicas.iter().enumerate() {
            let expected = (n == holder).then_some(epoch);
            assert_eq!(replica.epoch(), expected, "replica {n}");
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

#[tokio::test]
async fn of_three_replicas_one_holds_a_lease_and_a_killed_one_is_replaced() {
    let nats = nats_with_short_leases().await;
    let mut replicas = three(&nats).await;
    let mut last_epoch = 0;
    while replicas.len() > 1 {
        let (holder, epoch) = the_holder(&replicas).await;
        assert!(epoch > last_epoch, "{epoch} after {last_epoch}");
        last_epoch = epoch;
        // Longer than a term: it is renewed.
        stays_with(&replicas, (holder, epoch), TERM * 2).await;
        replicas.remove(holder).kill().await;
    }
    let (_, epoch) = the_holder(&replicas).await;
    assert!(epoch > last_epoch, "{epoch} after {last_epoch}");
}

#[tokio::test]
async fn a_holder_that_renews_no_more_gives_the_lease_up_before_another_takes_it() {
    let nats = nats_with_short_leases().await;
    let replicas = three(&nats).await;
    let (paused, epoch) = the_holder(&replicas).await;
    // As in a process that is stopped: its clock goes on, and it does nothing.
    replicas[paused].keeper.abort();
    eventually("the replica gives the lease up", async || {
        let others = replicas.iter().enumerate().filter(|(n, _)| *n != paused);
        let others: Vec<u64> = others.filter_map(|(_, of)| of.epoch()).collect();
        // Looked at after the others: what it holds now it held then.
        let held = replicas[paused].epoch();
        assert!(held.is_none() || others.is_empty(), "{others:?}");
        held.is_none()
    })
    .await;
    let (next, next_epoch) = the_holder(&replicas).await;
    assert!(next != paused && next_epoch > epoch);
}

#[tokio::test]
async fn a_lease_that_is_given_up_is_taken_at_the_next_look_and_its_note_is_known() {
    let nats = Nats::start();
    let replicas = three(&nats).await;
    let (first, epoch) = the_holder(&replicas).await;
    replicas[first].lease.set_note("as far as 7".to_owned());
    replicas[first].lease.resign();
    eventually("another one holds it", async || {
        let others = replicas.iter().enumerate().filter(|(n, _)| *n != first);
        others.filter_map(|(_, of)| of.epoch()).any(|of| of > epoch)
    })
    .await;
    let (next, _) = the_holder(&replicas).await;
    assert_eq!(replicas[next].lease.note(), "as far as 7");
}

#[tokio::test]
async fn nobody_holds_a_lease_while_nats_is_away_for_a_term() {
    let mut nats = nats_with_short_leases().await;
    let replicas = three(&nats).await;
    let (_, epoch) = the_holder(&replicas).await;
    nats.freeze();
    until_nobody_holds(&replicas).await;
    nats.thaw();
    let (_, next) = the_holder(&replicas).await;
    assert!(next > epoch, "{next} after {epoch}");
    nats.kill();
    until_nobody_holds(&replicas).await;
    nats.start_again();
    let (_, last) = the_holder(&replicas).await;
    assert!(last > next, "{last} after {next}");
}

/// A configuration of NATS from before the bucket.
#[tokio::test]
async fn a_replica_without_the_right_to_the_bucket_knows_it_and_takes_leases_once_it_has_it() {
    let nats = Nats::start_with(without_leases);
    let replica = Replica::start(&nats, "a").await;
    eventually("it is denied", async || replica.lease.is_denied()).await;
    assert_eq!(replica.epoch(), None);
    let whole = Nats::start();
    let conf = std::fs::read_to_string(whole.folder().join("nats.conf")).unwrap();
    let mut nats = nats;
    nats.kill();
    nats.change_file(|_| conf);
    nats.start_again();
    the_holder(std::slice::from_ref(&replica)).await;
    assert!(!replica.lease.is_denied());
}
