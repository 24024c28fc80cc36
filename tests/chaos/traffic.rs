//! [`Traffic`]: feeders, an appender, sockets and GETs through the faults of a round, and what must hold for all of
//! them whatever the faults were.

use std::net::SocketAddr;
use std::ops::Range;

use async_nats::Client;
use railbird::log::{Appender, Log};
use serde_json::Value;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::{Duration, Instant, MissedTickBehavior};

use super::budget::Budget;
use super::feeders::{Acknowledged, Feeders, Pace, RACES, VENUES};
use super::gets::{self, Gets};
use super::stored::StoredLog;
use super::views::wrong_views;
use crate::conformance::checker::Tally;
use crate::conformance::client::{Follow, Plan, Stage};
use crate::conformance::clients::ClientGroup;
use crate::conformance::oracle::Oracle;
use crate::conformance::scenario::{SOURCE, Scenario};
use crate::support::*;

/// Violations that are shown.
const SHOWN_MAX: usize = 12;
/// The race of the appender.
const APPENDED_RACE: (&str, u16) = ("TY", 1);
const APPEND_INTERVAL: Duration = Duration::from_millis(20);

#[derive(Debug)]
pub(super) struct Load {
    pub(super) events_per_second: u32,
    /// The numbers of their subscriptions: number 0 is of all races.
    pub(super) sockets: Range<usize>,
    pub(super) gets_per_second: u32,
}

pub(super) struct Traffic {
    feeders: Feeders,
    appending: Appending,
    sockets: ClientGroup,
    gets: Gets,
    key: String,
}

/// What depends on the faults.
#[derive(Debug)]
pub(super) struct Outcome {
    pub(super) gets: gets::Outcome,
    pub(super) sockets: Tally,
}

impl Traffic {
    /// Starts it on a service, or on a balancer. The appender is ours, the feeders use the NATS client alone.
    pub(super) async fn start(
        feeder: impl AsyncFn() -> Client,
        appender: Log,
        http: SocketAddr,
        key: &str,
        load: &Load,
        seed: u64,
    ) -> Self {
        let appending = Appending::start(appender, seed);
        let feeders = Feeders::start(feeder, seed, load.events_per_second).await;
        until_valid(http, key).await;
        let mut sockets = ClientGroup::new(&[http], key, Stage::Calm);
        for n in load.sockets.clone() {
            sockets.join(plan(n));
        }
        let none = vec![0; load.sockets.len()];
        assert!(sockets.reconnected_since(&none, PATIENCE).await);
        let gets = Gets::start(http, key, load.gets_per_second);
        Self {
            feeders,
            appending,
            sockets,
            gets,
            key: key.to_owned(),
        }
    }

    /// Lets the appender append as fast as the log acknowledges, or at its steady rate again.
    pub(super) fn flood(&self, is_flood: bool) {
        let pace = if is_flood { Pace::Flood } else { Pace::Steady };
        self.appending.pace.send_replace(pace);
    }

    /// Lets nobody publish, or all again.
    pub(super) fn pause(&self, is_paused: bool) {
        let pace = if is_paused {
            Pace::Paused
        } else {
            Pace::Steady
        };
        self.appending.pace.send_replace(pace);
        self.feeders.pace.send_replace(pace);
    }

    /// Adds sockets.
    pub(super) fn join(&mut self, sockets: usize) {
        for n in 0..sockets {
            self.sockets.join(plan(n));
        }
    }

    /// Ends the feeders, waits until their last event is served, and compares log, sockets, answers and the views of a
    /// service with the oracle.
    pub(super) async fn check(
        self,
        budget: &mut Budget,
        admin: impl AsyncFnOnce() -> Client,
        views: SocketAddr,
        until_served: impl AsyncFnOnce(u64),
    ) -> Outcome {
        let appended = self.appending.end().await;
        let fed = self.feeders.end().await;
        let last = fed.last_seq();
        until_served(last).await;
        let gets = self.gets.end().await;
        let mut stored = StoredLog::read(admin().await).await;
        // A rig may publish others.
        stored.retain_sources(SOURCE);
        let mut by_feeder = fed.by_feeder();
        by_feeder.push(&appended);
        let (lost, repeated) = stored.check(&by_feeder);
        let oracle = Oracle::of(&stored.events);
        let verdict = self.sockets.check(oracle, last, PATIENCE).await;
        let oracle = verdict.checker.oracle();
        let mut wrong = gets.check(oracle);
        wrong.extend(wrong_views(views, &self.key, &stored.events, oracle).await);
        eprintln!("{}; {repeated} twice in the log", fed.summary());
        eprintln!("{}", gets.summary());
        eprintln!("sockets: {:?}", verdict.tally);
        let acknowledged: usize = by_feeder.iter().map(|events| events.len()).sum();
        budget.count("events acknowledged", acknowledged as u64);
        budget.count("GETs", gets.sent as u64);
        budget.count("resumed sockets", verdict.tally.resumed);
        assert_none("the log", &lost);
        assert_none("sockets", &verdict.violations);
        assert_none("wrong answers", &wrong);
        assert_none("GETs", &gets.violations);
        Outcome {
            gets,
            sockets: verdict.tally,
        }
    }
}

/// Appends events of one race with an appender of ours.
struct Appending {
    pace: watch::Sender<Pace>,
    running: JoinHandle<Vec<Acknowledged>>,
}

impl Appending {
    fn start(log: Log, seed: u64) -> Self {
        let pace = watch::Sender::new(Pace::Steady);
        let scenario = Scenario::new(!seed, &[APPENDED_RACE], 3);
        let running = tokio::spawn(append(log.appender(), scenario, pace.subscribe()));
        Self { pace, running }
    }

    async fn end(self) -> Vec<Acknowledged> {
        self.pace.send_replace(Pace::Ended);
        self.running.await.unwrap()
    }
}

async fn append(
    mut appender: Appender,
    mut scenario: Scenario,
    pace: watch::Receiver<Pace>,
) -> Vec<Acknowledged> {
    let (begun, mut events): (Instant, Vec<Value>) = (Instant::now(), scenario.opening());
    for event in &events {
        appender.append(outgoing(event)).await.unwrap();
    }
    let mut steady = tokio::time::interval(APPEND_INTERVAL);
    steady.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        let pace = *pace.borrow();
        match pace {
            Pace::Ended => break,
            Pace::Flood => {}
            Pace::Steady | Pace::Paused => {
                steady.tick().await;
            }
        }
        if pace == Pace::Paused {
            continue;
        }
        let event = scenario.next();
        appender.append(outgoing(&event)).await.unwrap();
        events.push(event);
    }
    let appended = appender.finish().await.unwrap();
    let acknowledged = appended
        .iter()
        .zip(events)
        .map(|(appended, event)| Acknowledged {
            seq: appended.seq,
            event,
            after: begun.elapsed(),
        });
    acknowledged.collect()
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

fn assert_none(of: &str, violations: &[String]) {
    let shown = violations.iter().take(SHOWN_MAX);
    let shown: Vec<&str> = shown.map(String::as_str).collect();
    assert!(
        violations.is_empty(),
        "{of}: {} violations:\n{}",
        violations.len(),
        shown.join("\n")
    );
}
