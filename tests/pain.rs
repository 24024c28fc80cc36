//! The live channel under pain: whatever is cut, killed or stopped, each client hears everything once, or is told that it does not.
//!
//! Each client notes what it hears, and a judge who knows every event of the log goes through its notes; see `tests/conformance`.

use std::sync::atomic::Ordering;
use std::time::Duration;

use serde_json::Value;
use tokio::sync::watch;
use tokio::task::JoinHandle;

use crate::conformance::afternoon::{Afternoon, RACES};
use crate::conformance::client::{Cut, Follow, Plan, Progress, Stage, What};
use crate::conformance::feeder::Feeder;
use crate::conformance::oracle::ODDS;
use crate::conformance::pack::{Pack, Verdict};
use crate::support::*;

const RUNNERS: u16 = 8;
const CLIENTS: usize = 100;

/// A filter for the `n`th client: all sorts of them.
fn plan(n: usize) -> Plan {
    let follow = match n % 6 {
        0 | 1 => Follow::All,
        2 => Follow::Venue(["ST", "HV"][n / 6 % 2]),
        3 => Follow::Race("ST", 1 + u16::try_from(n / 6 % 5).unwrap()),
        4 => Follow::Numbers(vec![1, 3]),
        _ => Follow::Horse(Afternoon::horse(
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
        fidget_ms: (n % 10 == 8).then_some(300),
        ..Plan::default()
    }
}

/// Odds and all else, one after the other, until told to stop; then the last race but one is decided, and a last quote ends it.
struct Feeding {
    stop: watch::Sender<bool>,
    task: JoinHandle<Feeder>,
}

impl Feeding {
    async fn start(nats: &Nats) -> Self {
        let mut feeder = Feeder::new(nats.log().await);
        let mut afternoon = Afternoon::new(7, &RACES, RUNNERS);
        feeder.say_all(afternoon.opening()).await;
        let (stop, stopped) = watch::channel(false);
        let task = tokio::spawn(async move {
            let mut said = 0_u32;
            // As fast as a hundred clients read in a debug build.
            let mut pace = tokio::time::interval(Duration::from_millis(5));
            while !*stopped.borrow() {
                pace.tick().await;
                feeder.say(afternoon.next()).await;
                said += 1;
                if said.is_multiple_of(150) && said / 150 <= 4 {
                    let race = usize::try_from(said / 150).unwrap();
                    feeder.say_all(afternoon.finish(race)).await;
                }
            }
            while feeder.oracle().messages.last().unwrap().seq != feeder.last()
                || feeder.oracle().messages.last().unwrap().kind != ODDS
                || feeder.oracle().messages.last().unwrap().nth != 0
            {
                feeder.say(afternoon.next()).await;
            }
            feeder
        });
        Self { stop, task }
    }

    async fn end(self) -> Feeder {
        self.stop.send_replace(true);
        self.task.await.unwrap()
    }
}

/// Ends it all: everyone hears the last event, and is judged.
async fn judge(pack: Pack, feeding: Feeding) -> Verdict {
    pack.stage(Stage::Calm);
    let feeder = feeding.end().await;
    let verdict = pack.judge(feeder.oracle(), feeder.last(), PATIENCE).await;
    assert!(
        verdict.objections.is_empty(),
        "{}\n{:?}",
        verdict.summary(),
        verdict.tally
    );
    eprintln!("{} events: {:?}", feeder.last(), verdict.tally);
    verdict
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn clients_that_are_cut_off_at_random_miss_nothing() {
    let nats = Nats::start();
    let railbird = Railbird::start(&nats).await;
    let feeding = Feeding::start(&nats).await;
    let mut pack = Pack::new(&[railbird.http], &railbird.key, Stage::Pain);
    for n in 0..CLIENTS {
        pack.join(Plan {
            cuts: Cut::ALL,
            ..plan(n)
        });
    }
    assert!(
        pack.most(CLIENTS * 9 / 10, PATIENCE, |client| client
            .connections
            .load(Ordering::Relaxed)
            >= 5)
            .await
    );
    let Verdict { tally, .. } = judge(pack, feeding).await;
    assert_eq!((tally.not_recovered, tally.resyncs), (0, 0), "{tally:?}");
    assert!(tally.resumed > 300, "{tally:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn clients_of_a_service_that_stops_come_back_to_it_and_to_another_and_miss_nothing() {
    let nats = Nats::start();
    let data = tempfile::tempdir().unwrap();
    let first = Railbird::start_in(&nats, data.path()).await;
    let (http, key) = (first.http, first.key.clone());
    let feeding = Feeding::start(&nats).await;
    let mut pack = Pack::new(&[http], &key, Stage::Calm);
    for n in 0..CLIENTS {
        pack.join(plan(n));
    }
    assert!(pack.back_since(&vec![0; CLIENTS], PATIENCE).await);

    let before = pack.connections();
    first.stop().await;
    let second = Railbird::start_on(&nats, data.path(), http).await;
    assert!(pack.back_since(&before, PATIENCE).await);

    // Another replica, with a store of its own, which has folded nothing before.
    let elsewhere = tempfile::tempdir().unwrap();
    let anywhere = "127.0.0.1:0".parse().unwrap();
    let replica = Railbird::start_on(&nats, elsewhere.path(), anywhere).await;
    let before = pack.connections();
    pack.move_to(&[replica.http]);
    second.stop().await;
    assert!(pack.back_since(&before, PATIENCE).await);
    let Verdict { tally, .. } = judge(pack, feeding).await;
    assert_eq!((tally.not_recovered, tally.resyncs), (0, 0), "{tally:?}");
    assert_eq!(tally.resumed, 2 * CLIENTS as u64);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn clients_of_a_service_that_is_killed_come_back_and_miss_nothing() {
    let nats = Nats::start();
    let data = tempfile::tempdir().unwrap();
    let key = issue_key(&nats).await;
    let mut serving = Serving::start(&nats, data.path());
    let http = serving.http;
    let feeding = Feeding::start(&nats).await;
    let mut pack = Pack::new(&[http], &key, Stage::Calm);
    for n in 0..CLIENTS {
        pack.join(plan(n));
    }
    assert!(pack.back_since(&vec![0; CLIENTS], PATIENCE).await);
    for _ in 0..2 {
        let before = pack.connections();
        serving.kill();
        serving = Serving::start_at(http, &nats, data.path());
        assert!(pack.back_since(&before, PATIENCE).await);
    }
    let Verdict { tally, .. } = judge(pack, feeding).await;
    assert_eq!((tally.not_recovered, tally.resyncs), (0, 0), "{tally:?}");
    assert!(tally.resumed >= 2 * CLIENTS as u64, "{tally:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_restart_of_nats_is_told_at_once_and_nobody_misses_anything() {
    let mut nats = Nats::start();
    let railbird = Railbird::start(&nats).await;
    let feeding = Feeding::start(&nats).await;
    let mut pack = Pack::new(&[railbird.http], &railbird.key, Stage::Calm);
    for n in 0..CLIENTS {
        // Of these, half get no heartbeat in this test but those that tell of a change.
        let heartbeat_ms = if n % 2 == 0 { 60_000 } else { 1_000 };
        let follow = if n % 2 == 0 {
            Follow::All
        } else {
            plan(n).follow
        };
        pack.join(Plan {
            follow,
            heartbeat_ms,
            ..Plan::default()
        });
    }
    assert!(pack.back_since(&vec![0; CLIENTS], PATIENCE).await);
    for round in 1..=2 {
        // Half of them have heard some heartbeats: by then every thread has seen that the feed is live, and odds move.
        let heard = |client: &Progress| client.heartbeats.load(Ordering::Relaxed) >= 5 * round;
        assert!(pack.most(CLIENTS / 2, PATIENCE, heard).await);
        nats.kill();
        let turned =
            |turns: u64| move |client: &Progress| client.turns.load(Ordering::Relaxed) >= turns;
        assert!(
            pack.all(PATIENCE, turned(2 * round - 1)).await,
            "all are told that it is stale"
        );
        nats.start_again();
        assert!(
            pack.all(PATIENCE, turned(2 * round)).await,
            "all are told that it is live again"
        );
    }
    let verdict = judge(pack, feeding).await;
    let Verdict { tally, records, .. } = verdict;
    assert_eq!(
        (tally.connections, tally.resyncs),
        (CLIENTS as u64, 0),
        "nobody was cut off"
    );
    for record in records {
        let mut states: Vec<bool> = record
            .entries
            .iter()
            .filter_map(|(_, what)| match what {
                What::Heartbeat { live, .. } => Some(*live),
                _ => None,
            })
            .collect();
        // Who came before the threads had first looked around, or stayed for half a minute, is told once more that it is live.
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

/// What a client hears that comes back with this, up to `snapshot_complete`.
async fn come_back(railbird: &Railbird, since: u64, epoch: &str) -> Vec<Value> {
    let query = format!("&since={since}&epoch={epoch}");
    let mut socket = Socket::open(railbird.http, &format!("{}{query}", railbird.key)).await;
    socket.until("snapshot_complete").await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_cannot_go_on_is_told_why_and_begins_anew() {
    const TOO_MANY: u64 = 33_500;
    let nats = Nats::start();
    let quote = |n: u64| odds("ST", 1, &second(n % 7), &[2.0]);
    nats.publish([card(DAY, "ST", 1, 2), odds("HV", 2, &second(0), &[3.0])])
        .await;
    // Most of it is there before the service, which says the latest of it again; the rest it sees come.
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
    let welcome = come_back(&railbird, last, "").await.swap_remove(0);
    assert_eq!(welcome["reason"], "other_epoch");
    let epoch = welcome["epoch"].as_str().unwrap().to_owned();

    for (since, epoch, reason) in [
        (last - 5, "0123456789abcdef", "other_epoch"),
        (last + 1_000, epoch.as_str(), "ahead"),
        (1, epoch.as_str(), "too_far_behind"),
        (last - 32_768 - 2, epoch.as_str(), "too_far_behind"),
    ] {
        let said = come_back(&railbird, since, epoch).await;
        assert_eq!(
            (&said[0]["recovered"], &said[0]["reason"]),
            (&false.into(), &reason.into()),
            "{since}"
        );
        let images: Vec<_> = said[1..said.len() - 1]
            .iter()
            .map(|image| (&image["snapshot"], image["seq"].as_u64()))
            .collect();
        assert_eq!(
            images,
            [(&true.into(), Some(2)), (&true.into(), Some(last))]
        );
        assert_eq!(
            (&said[3]["races"], &said[3]["replayed"]),
            (&2.into(), &0.into())
        );
    }
    for missed in [0, 1, 500, 32_000] {
        let said = come_back(&railbird, last - missed, &epoch).await;
        assert_eq!(said[0]["recovered"], true, "{missed}");
        let (told, complete) = said[1..].split_at(said.len() - 2);
        let seqs: Vec<u64> = told
            .iter()
            .map(|update| update["seq"].as_u64().unwrap())
            .collect();
        assert_eq!(seqs, (last - missed + 1..=last).collect::<Vec<u64>>());
        assert!(
            told.iter()
                .all(|update| update["prev_seq"].as_u64()
                    == Some(update["seq"].as_u64().unwrap() - 1))
        );
        assert_eq!(complete[0]["replayed"], missed);
    }
}
