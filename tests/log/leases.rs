//! Leases: of several replicas one has a role.

use std::time::{Duration, Instant};

use railbird::log::{LEASES, Lease, Log, Role};
use serde_json::Value;
use tempfile::TempDir;
use tokio::task::AbortHandle;

use crate::log::rejections::Feeder;
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

    fn term(&self) -> Option<u64> {
        self.lease.held().map(|term| term.number)
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

/// Waits for a holder among the replicas, and checks that it is the only one. Returns its index and its term.
async fn the_holder(replicas: &[Replica]) -> (usize, u64) {
    let held = || replicas.iter().map(Replica::term).collect::<Vec<_>>();
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
        replicas.iter().all(|replica| replica.term().is_none())
    })
    .await;
}

/// Checks for some time that the replica and no other holds the lease.
async fn stays_with(replicas: &[Replica], (holder, term): (usize, u64), time: Duration) {
    let until = Instant::now() + time;
    while Instant::now() < until {
        for (n, replica) in replicas.iter().enumerate() {
            let expected = (n == holder).then_some(term);
            assert_eq!(replica.term(), expected, "replica {n}");
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

#[tokio::test]
async fn of_three_replicas_one_holds_a_lease_and_a_killed_one_is_replaced() {
    let nats = nats_with_short_leases().await;
    let mut replicas = three(&nats).await;
    let mut last_term = 0;
    while replicas.len() > 1 {
        let (holder, term) = the_holder(&replicas).await;
        assert!(term > last_term, "{term} after {last_term}");
        last_term = term;
        // Longer than a term: it is renewed.
        stays_with(&replicas, (holder, term), TERM * 2).await;
        replicas.remove(holder).kill().await;
    }
    let (_, term) = the_holder(&replicas).await;
    assert!(term > last_term, "{term} after {last_term}");
}

#[tokio::test]
async fn a_holder_that_renews_no_more_gives_the_lease_up_before_another_takes_it() {
    let nats = nats_with_short_leases().await;
    let replicas = three(&nats).await;
    let (paused, term) = the_holder(&replicas).await;
    // As in a process that is stopped: its clock goes on, and it does nothing.
    replicas[paused].keeper.abort();
    eventually("the replica gives the lease up", async || {
        let others = replicas.iter().enumerate().filter(|(n, _)| *n != paused);
        let others: Vec<u64> = others.filter_map(|(_, of)| of.term()).collect();
        // Looked at after the others: what it holds now it held then.
        let held = replicas[paused].term();
        assert!(held.is_none() || others.is_empty(), "{others:?}");
        held.is_none()
    })
    .await;
    let (next, next_term) = the_holder(&replicas).await;
    assert!(next != paused && next_term > term);
}

#[tokio::test]
async fn a_lease_of_a_killed_holder_ends_also_where_the_clock_of_the_server_was_set_back() {
    let nats = nats_with_short_leases().await;
    let mut replicas = three(&nats).await;
    let (holder, term) = the_holder(&replicas).await;
    nats.keep_leases().await;
    stays_with(&replicas, (holder, term), TERM * 2).await;
    replicas.remove(holder).kill().await;
    let (_, next) = the_holder(&replicas).await;
    assert!(next > term, "{next} after {term}");
}

#[tokio::test]
async fn a_lease_that_is_given_up_is_taken_at_the_next_look_and_its_note_is_known() {
    let nats = Nats::start();
    nats.log().await.ensure(LEASES).await.unwrap();
    let replicas = three(&nats).await;
    let (first, term) = the_holder(&replicas).await;
    replicas[first].lease.set_note("as far as 7".to_owned());
    replicas[first].lease.resign();
    eventually("another one holds it", async || {
        let others = replicas.iter().enumerate().filter(|(n, _)| *n != first);
        others.filter_map(|(_, of)| of.term()).any(|of| of > term)
    })
    .await;
    let (next, _) = the_holder(&replicas).await;
    assert_eq!(replicas[next].lease.note(), "as far as 7");
}

#[tokio::test]
async fn nobody_holds_a_lease_while_nats_is_away_for_a_term() {
    let mut nats = nats_with_short_leases().await;
    let replicas = three(&nats).await;
    let (_, term) = the_holder(&replicas).await;
    nats.freeze();
    until_nobody_holds(&replicas).await;
    nats.thaw();
    let (_, next) = the_holder(&replicas).await;
    assert!(next > term, "{next} after {term}");
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
    nats.create_leases(TERM).await;
    let replica = Replica::start(&nats, "a").await;
    eventually("it is denied", async || replica.lease.is_denied()).await;
    assert_eq!(replica.term(), None);
    let whole = Nats::start();
    let conf = std::fs::read_to_string(whole.folder().join("nats.conf")).unwrap();
    let mut nats = nats;
    nats.kill();
    nats.change_file(|_| conf);
    nats.start_again();
    the_holder(std::slice::from_ref(&replica)).await;
    assert!(!replica.lease.is_denied());
}

/// Replicas as processes, of which the first holds the lease.
struct Processes {
    _nats: Nats,
    feeder: Feeder,
    replicas: Vec<Serving>,
    _folders: Vec<TempDir>,
}

impl Processes {
    async fn start() -> Self {
        let nats = nats_with_short_leases().await;
        let mut feeder = Feeder::subscribe(&nats, "rejected.>").await;
        let (mut replicas, mut folders) = (Vec::new(), Vec::new());
        for _ in 0..3 {
            let folder = tempfile::tempdir().unwrap();
            let replica = Serving::start(&nats, folder.path());
            replica.until_ready().await;
            replicas.push(replica);
            folders.push(folder);
            // The first one takes the lease before the next one is there.
            let seq = feeder.publish("racing.x", "garbage").await;
            assert_eq!(feeder.until(seq).await, [seq]);
        }
        Self {
            _nats: nats,
            feeder,
            replicas,
            _folders: folders,
        }
    }

    /// Publishes messages that are rejected, and returns their sequences.
    async fn reject(&self, count: usize) -> Vec<u64> {
        let mut seqs = Vec::new();
        for n in 0..count {
            seqs.push(self.feeder.publish("racing.x", format!("{n}")).await);
        }
        seqs
    }

    async fn until_at(&self, replica: usize, seq: u64) {
        let admin = self.replicas[replica].admin;
        eventually("the replica has folded the event", async || {
            let status = request(admin, "GET", "/status", &[]).await.json();
            status["log"]["seq"].as_u64().unwrap() >= seq
        })
        .await;
    }
}

#[tokio::test]
async fn one_replica_announces_rejections_and_a_paused_one_repeats_none_when_it_wakes_up() {
    let mut all = Processes::start().await;
    let announced = all.reject(20).await;
    assert_eq!(all.feeder.until(announced[19]).await, announced);
    all.replicas[0].pause();
    let meanwhile = all.reject(20).await;
    let mut by_another = all.feeder.until(meanwhile[19]).await;
    // What was announced in the seconds before is announced again.
    by_another.retain(|seq| *seq >= meanwhile[0]);
    by_another.sort_unstable();
    by_another.dedup();
    assert_eq!(by_another, meanwhile);
    all.replicas[0].resume();
    all.until_at(0, meanwhile[19]).await;
    let after = all.reject(20).await;
    all.until_at(0, after[19]).await;
    let last = all.reject(1).await;
    let announced = all.feeder.until(last[0]).await;
    assert_eq!(announced, [after, last].concat());
}

#[tokio::test]
async fn the_replicas_that_are_left_announce_all_that_a_killed_one_did_not() {
    let mut all = Processes::start().await;
    for killed in [0, 1] {
        let before = all.reject(10).await;
        all.replicas[killed].kill();
        let after = all.reject(10).await;
        let expected = [before, after].concat();
        let mut announced = all.feeder.until(expected[19]).await;
        // What was announced in the seconds before is announced again.
        announced.retain(|seq| *seq >= expected[0]);
        announced.sort_unstable();
        announced.dedup();
        assert_eq!(announced, expected, "replica {killed} is killed");
    }
    let log = all.replicas.remove(2).stop().await;
    assert!(log.iter().any(|line| line.contains("holds the lease")));
}

#[tokio::test]
async fn a_stopping_replica_gives_the_lease_to_another_one_at_once() {
    let nats = Nats::start();
    let mut feeder = Feeder::subscribe(&nats, "rejected.>").await;
    let folder = tempfile::tempdir().unwrap();
    let first = Serving::start(&nats, folder.path());
    first.until_ready().await;
    let seq = feeder.publish("racing.x", "garbage").await;
    assert_eq!(feeder.until(seq).await, [seq]);
    let log = nats.log().await;
    let entry = async || {
        let entry = log.last_message(LEASES, "$KV.LEASES.announcer").await;
        let entry = entry.unwrap().expect("the term has not ended");
        serde_json::from_slice::<Value>(&entry.payload).unwrap()
    };
    let holder = entry().await["holder"].clone();
    assert!(holder.is_string());
    first.stop().await;
    let released = entry().await;
    assert!(released["holder"].is_null(), "{released}");
    let note: Value = serde_json::from_str(released["note"].as_str().unwrap()).unwrap();
    assert_eq!(note[0]["seq"], seq);
    let second = Railbird::start(&nats).await;
    eventually("another replica has the role", async || {
        let now = entry().await["holder"].clone();
        now.is_string() && now != holder
    })
    .await;
    // It folds all of the log, and announces nothing that was announced.
    let marker = feeder.publish("racing.x", "more garbage").await;
    assert_eq!(feeder.until(marker).await, [marker]);
    drop(second);
}

#[tokio::test]
async fn without_the_right_to_leases_each_replica_says_so_once() {
    let nats = Nats::start_with(without_leases);
    let folder = tempfile::tempdir().unwrap();
    let mut feeder = Feeder::subscribe(&nats, "rejected.>").await;
    let replica = Serving::start(&nats, folder.path());
    replica.until_ready().await;
    for _ in 0..3 {
        let seq = feeder.publish("racing.x", "garbage").await;
        assert_eq!(feeder.until(seq).await, [seq]);
    }
    let log = replica.stop().await;
    let said = log.iter().filter(|line| line.contains("cannot agree on"));
    assert_eq!(said.count(), 1, "{log:#?}");
}
