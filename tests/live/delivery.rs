//! The live channel under faults: whatever is cut, killed or stopped, each client receives everything once, or is told
//! that it does not.
//!
//! Each client records what it receives, and a checker that knows every event of the log compares; see
//! `tests/conformance`.

use std::sync::atomic::Ordering;
use std::time::Duration;

use serde_json::Value;
use tokio::sync::watch;
use tokio::task::JoinHandle;

use crate::conformance::client::{Cut, Follow, Observation, Plan, Progress, Stage};
use crate::conformance::clients::{ClientGroup, Verdict};
use crate::conformance::oracle::ODDS;
use crate::conformance::publisher::Publisher;
use crate::conformance::scenario::{RACES, Scenario};
use crate::support::*;

const RUNNERS: u16 = 8;
const CLIENTS: usize = 100;

/// The plan of the `n`th client, with one of several filters.
fn plan(n: usize) -> Plan {
    let follow = match n % 6 {
        0 | 1 => Follow::All,
        2 => Follow::Venue(["ST", "HV"][n / 6 % 2]),
        3 => Follow::Race("ST", 1 + u16::try_from(n / 6 % 5).unwrap()),
        4 => Follow::Numbers(vec![1, 3]),
        _ => Follow::Horse(Scenario::horse(
            "HV",
            1 + u16::try_from(n / 6 % 3).unwrap(),
            2,
        )),
    };
    let kinds = match n % 7 {
        4 => vec![ODDS],
        5 => vec![1, 2, 3],
        6 => vec![ODDS, 1],
        _ => Vec::new(),
    };
    Plan {
        follow,
        kinds,
        conflate_ms: if n % 10 == 7 { 100 } else { 0 },
        request_interval_ms: (n % 10 == 8).then_some(300),
        ..Plan::default()
    }
}

/// Publishes a scenario until it is stopped, and a quote at the end. Four races finish on the way.
pub(crate) struct Publishing {
    stop: watch::Sender<bool>,
    task: JoinHandle<Publisher>,
}

impl Publishing {
    /// At the rate that a hundred clients keep up with in a debug build.
    async fn start(nats: &Nats) -> Self {
        Self::start_at(nats, 200).await
    }

    pub(crate) async fn start_at(nats: &Nats, events_per_second: u32) -> Self {
        let mut publisher = Publisher::new(nats.log().await, nats.last_seq().await);
        let mut scenario = Scenario::new(7, &RACES, RUNNERS);
        publisher.publish_all(scenario.opening()).await;
        let (stop, stopped) = watch::channel(false);
        let task = tokio::spawn(async move {
            let mut published = 0_u32;
            let mut pace = tokio::time::interval(Duration::from_secs(1) / events_per_second);
            while !*stopped.borrow() {
                pace.tick().await;
                publisher.publish(scenario.next()).await;
                published += 1;
                if published.is_multiple_of(150) && published / 150 <= 4 {
                    let race = usize::try_from(published / 150).unwrap();
                    publisher.publish_all(scenario.finish(race)).await;
                }
            }
            while publisher.oracle().messages.last().unwrap().seq != publisher.last()
                || publisher.oracle().messages.last().unwrap().kind != ODDS
                || publisher.oracle().messages.last().unwrap().nth != 0
            {
                publisher.publish(scenario.next()).await;
            }
            publisher
        });
        Self { stop, task }
    }

    pub(crate) async fn end(self) -> Publisher {
        self.stop.send_replace(true);
        self.task.await.unwrap()
    }
}

/// Stops publishing, waits until all clients have received everything, and checks them.
async fn check(clients: ClientGroup, publishing: Publishing) -> Verdict {
    clients.stage(Stage::Calm);
    let publisher = publishing.end().await;
    let verdict = clients
        .check(publisher.oracle(), publisher.last(), PATIENCE)
        .await;
    assert!(
        verdict.violations.is_empty(),
        "{}\n{:?}",
        verdict.summary(),
        verdict.tally
    );
    eprintln!("{} events: {:?}", publisher.last(), verdict.tally);
    verdict
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn clients_that_are_cut_off_at_random_miss_nothing() {
    let nats = Nats::start();
    let railbird = Railbird::start(&nats).await;
    let publishing = Publishing::start(&nats).await;
    let mut clients = ClientGroup::new(&[railbird.http], &railbird.key, Stage::Faults);
    for n in 0..CLIENTS {
        clients.join(Plan {
            cuts: Cut::ALL,
            ..plan(n)
        });
    }
    assert!(
        clients
            .wait_for_some(CLIENTS * 9 / 10, PATIENCE, |client| client
                .connections
                .load(Ordering::Relaxed)
                >= 5)
            .await
    );
    let Verdict { tally, .. } = check(clients, publishing).await;
    assert_eq!((tally.not_recovered, tally.resyncs), (0, 0), "{tally:?}");
    assert!(tally.resumed > 300, "{tally:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn clients_resume_on_the_restarted_service_and_on_another_replica_and_miss_nothing() {
    let nats = Nats::start();
    let data = tempfile::tempdir().unwrap();
    let first = Railbird::start_in(&nats, data.path()).await;
    let (http, key) = (first.http, first.key.clone());
    let publishing = Publishing::start(&nats).await;
    let mut clients = ClientGroup::new(&[http], &key, Stage::Calm);
    for n in 0..CLIENTS {
        clients.join(plan(n));
    }
    assert!(clients.reconnected_since(&vec![0; CLIENTS], PATIENCE).await);

    let before = clients.connections();
    first.stop().await;
    let second = Railbird::start_on(&nats, data.path(), http).await;
    assert!(clients.reconnected_since(&before, PATIENCE).await);

    // Another replica, with an empty store of its own.
    let elsewhere = tempfile::tempdir().unwrap();
    let anywhere = "127.0.0.1:0".parse().unwrap();
    let replica = Railbird::start_on(&nats, elsewhere.path(), anywhere).await;
    let before = clients.connections();
    clients.move_to(&[replica.http]);
    second.stop().await;
    assert!(clients.reconnected_since(&before, PATIENCE).await);
    let Verdict { tally, .. } = check(clients, publishing).await;
    assert_eq!((tally.not_recovered, tally.resyncs), (0, 0), "{tally:?}");
    assert_eq!(tally.resumed, 2 * CLIENTS as u64);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn clients_resume_after_the_service_is_killed_and_miss_nothing() {
    let nats = Nats::start();
    let data = tempfile::tempdir().unwrap();
    let key = issue_key(&nats).await;
    let mut serving = Serving::start(&nats, data.path());
    let http = serving.http;
    let publishing = Publishing::start(&nats).await;
    let mut clients = ClientGroup::new(&[http], &key, Stage::Calm);
    for n in 0..CLIENTS {
        clients.join(plan(n));
    }
    assert!(clients.reconnected_since(&vec![0; CLIENTS], PATIENCE).await);
    for _ in 0..2 {
        let before = clients.connections();
        serving.kill();
        serving = Serving::start_at(http, &nats, data.path());
        assert!(clients.reconnected_since(&before, PATIENCE).await);
    }
    let Verdict { tally, .. } = check(clients, publishing).await;
    assert_eq!((tally.not_recovered, tally.resyncs), (0, 0), "{tally:?}");
    assert!(tally.resumed >= 2 * CLIENTS as u64, "{tally:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn clients_are_told_at_once_of_a_nats_restart_and_miss_nothing() {
    let mut nats = Nats::start();
    let railbird = Railbird::start(&nats).await;
    let publishing = Publishing::start(&nats).await;
    let mut clients = ClientGroup::new(&[railbird.http], &railbird.key, Stage::Calm);
    for n in 0..CLIENTS {
        // Half of the clients get no heartbeat in this test but those for a change.
        let heartbeat_ms = if n % 2 == 0 { 60_000 } else { 1_000 };
        let follow = if n % 2 == 0 {
            Follow::All
        } else {
            plan(n).follow
        };
        clients.join(Plan {
            follow,
            heartbeat_ms,
            ..Plan::default()
        });
    }
    assert!(clients.reconnected_since(&vec![0; CLIENTS], PATIENCE).await);
    for round in 1..=2 {
        // After some heartbeats, every thread has seen that the feed is live.
        let received = |client: &Progress| client.heartbeats.load(Ordering::Relaxed) >= 5 * round;
        assert!(clients.wait_for_some(CLIENTS / 2, PATIENCE, received).await);
        nats.kill();
        let changed = |state_changes: u64| {
            move |client: &Progress| client.state_changes.load(Ordering::Relaxed) >= state_changes
        };
        assert!(
            clients.wait_for_all(PATIENCE, changed(2 * round - 1)).await,
            "all receive that the feed is stale"
        );
        nats.start_again();
        assert!(
            clients.wait_for_all(PATIENCE, changed(2 * round)).await,
            "all receive that the feed is live again"
        );
    }
    let verdict = check(clients, publishing).await;
    let Verdict { tally, records, .. } = verdict;
    assert_eq!(
        (tally.connections, tally.resyncs),
        (CLIENTS as u64, 0),
        "no client was disconnected"
    );
    for record in records {
        let mut states: Vec<bool> = record
            .entries
            .iter()
            .filter_map(|(_, what)| match what {
                Observation::Heartbeat { live, .. } => Some(*live),
                _ => None,
            })
            .collect();
        // A client that connected before the first check of its thread, or stayed for half a minute, gets one more
        // heartbeat.
        if states.len() == 5 && record.plan.heartbeat_ms == 60_000 {
            let extra = states.windows(2).position(|pair| pair == [true, true]);
            states.remove(extra.unwrap_or(0));
        }
        if record.plan.heartbeat_ms == 60_000 {
            assert_eq!(states, [false, true, false, true], "one for each change");
        }
        states.dedup();
        assert!(states.ends_with(&[false, true, false, true]));
    }
}

/// What a client that resumes receives, up to `snapshot_complete`.
async fn resume(nats: &Nats, railbird: &Railbird, since: u64, epoch: &str) -> Vec<Value> {
    let mut query = format!("&since={since}&epoch={epoch}");
    if since <= railbird.app.health.feed.position().seq {
        query = format!("{query}&recorded_at={}", nats.recorded_at(since).await);
    }
    let mut socket = Socket::open(railbird.http, &format!("{}{query}", railbird.key)).await;
    socket.until("snapshot_complete").await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_that_cannot_resume_gets_the_reason_and_snapshots() {
    const TOO_MANY: u64 = 33_500;
    let nats = Nats::start();
    let quote = |n: u64| odds("ST", 1, &second(n % 7), &[2.0]);
    nats.publish([card(DAY, "ST", 1, 2), odds("HV", 2, &second(0), &[3.0])])
        .await;
    // Most events are in the log before the service starts, which replays the latest; the others arrive later.
    nats.publish(
        (0..TOO_MANY / 7)
            .flat_map(|n| (0..7).map(move |at| n * 7 + at))
            .map(|n| {
                let mut event = quote(n);
                event["time"] = second(n).into();
                event
            }),
    )
    .await;
    let railbird = Railbird::start(&nats).await;
    let last = nats
        .publish([odds("ST", 1, &second(TOO_MANY), &[9.0])])
        .await;
    railbird.until_seq(last).await;
    let welcome = resume(&nats, &railbird, last, "").await.swap_remove(0);
    assert_eq!(welcome["reason"], "other_epoch");
    let epoch = welcome["epoch"].as_str().unwrap().to_owned();

    for (since, epoch, reason) in [
        (last - 5, "0123456789abcdef", "other_epoch"),
        (last + 1_000, epoch.as_str(), "ahead"),
        (1, epoch.as_str(), "too_far_behind"),
        (last - 32_768 - 2, epoch.as_str(), "too_far_behind"),
    ] {
        let received = resume(&nats, &railbird, since, epoch).await;
        assert_eq!(
            (&received[0]["recovered"], &received[0]["reason"]),
            (&false.into(), &reason.into()),
            "{since}"
        );
        let images: Vec<_> = received[1..received.len() - 1]
            .iter()
            .map(|image| (&image["snapshot"], image["seq"].as_u64()))
            .collect();
        assert_eq!(
            images,
            [(&true.into(), Some(2)), (&true.into(), Some(last))]
        );
        assert_eq!(
            (&received[3]["races"], &received[3]["replayed"]),
            (&2.into(), &0.into())
        );
    }
    for missed in [0, 1, 500, 32_000] {
        let received = resume(&nats, &railbird, last - missed, &epoch).await;
        assert_eq!(received[0]["recovered"], true, "{missed}");
        let (replayed, complete) = received[1..].split_at(received.len() - 2);
        let seqs: Vec<u64> = replayed
            .iter()
            .map(|update| update["seq"].as_u64().unwrap())
            .collect();
        assert_eq!(seqs, (last - missed + 1..=last).collect::<Vec<u64>>());
        assert!(
            replayed
                .iter()
                .all(|update| update["prev_seq"].as_u64()
                    == Some(update["seq"].as_u64().unwrap() - 1))
        );
        assert_eq!(complete[0]["replayed"], missed);
    }
}
