//! Answers of every resource at random moments are given again as of these moments, by each replica, after kill -9,
//! restarts and rebuilds.

use serde_json::{Value, json};
use simulator::{RaceDay, script};

use super::budget::Budget;
use super::replica::Replica;
use crate::conformance::rng::Rng;
use crate::past::served::{Day, Served, paths_of_horse, some};
use crate::support::*;

const DATE: &str = "2026-11-21";
const RACES: u16 = 3;
const SHORT_MOMENTS: u64 = 40;
const LONG_MOMENTS: u64 = 1_000;
/// How many answers are recorded at a moment.
const ANSWERS: usize = 6;
const KILL_PERCENT: u64 = 3;

/// A simulated day of two meetings with several sources, withdrawals and changed results. On the way, a third meeting
/// begins, its card loses a horse, the sources are ranked, and it is abandoned.
fn events(seed: u64) -> Vec<Value> {
    let day = RaceDay::new(events::RacingDate::parse(DATE).unwrap(), RACES, seed);
    let midnight = "2026-11-20T16:00:00Z".parse().unwrap();
    let script = script(&day, &day.as_in_life(midnight));
    let events = script.iter().map(events::Envelope::encode);
    let events = events.map(|event| serde_json::from_slice(&event).unwrap());
    let mut events: Vec<Value> = events.collect();
    let (third, apart) = (events.len() / 3, events.len() / 20);
    let void = json!({ "revision": 3, "reason": "Void" });
    let ranking = json!({ "sources": ["simulated-exchange", "simulated-bookmaker"] });
    let extra = [
        card(DATE, "CH", 1, 4),
        card(DATE, "CH", 1, 3),
        result(DATE, "CH", 1, 3, 1),
        event("sources.ranked", &second(2), ranking),
        result(DATE, "CH", 1, 2, 2),
        event("result.voided", &second(3), of_race(DATE, "CH", 1, void)),
        status("CH", 2, &second(4), "abandoned"),
    ];
    for (n, fact) in extra.into_iter().enumerate() {
        events.insert(third + apart * n, fact);
    }
    events
}

fn paths(events: &[Value]) -> Vec<String> {
    let day = Day {
        date: DATE,
        venues: &["ST", "HV", "CH"],
        races: RACES,
    };
    let mut paths = day.paths();
    for event in events {
        if event["type"] == "racing.horse.registered.v1" {
            paths.extend(paths_of_horse(event["data"]["horse_no"].as_str().unwrap()));
        }
    }
    paths
}

async fn restart(replica: &mut Replica, key: &str, rng: &mut Rng, budget: &mut Budget) {
    replica.kill();
    if rng.happens(50) {
        budget.step("a replica is rebuilt");
        budget.count("rebuilds", 1);
        replica.restart_without_data();
    } else {
        budget.step("a replica is restarted");
        budget.count("restarts", 1);
        replica.restart();
    }
    until_valid(replica.http, key).await;
}

async fn round(budget: &mut Budget, rng: &mut Rng) {
    let moments = if budget.is_long() {
        LONG_MOMENTS
    } else {
        SHORT_MOMENTS
    };
    let events = events(rng.next());
    let (paths, count_max) = (paths(&events), 2 * events.len() as u64 / moments);
    let nats = Nats::start();
    let mut replicas = [(); 2].map(|()| Replica::start(&nats.url()));
    let key = issue_key(&nats).await;
    for replica in &replicas {
        until_valid(replica.http, &key).await;
    }
    let mut served = Served::to(&key);
    let (mut events, mut last) = (events.into_iter().peekable(), 0);
    while events.peek().is_some() {
        let count = usize::try_from(1 + rng.below(count_max)).unwrap();
        last = nats.publish(events.by_ref().take(count)).await;
        let replica = &mut replicas[usize::from(rng.happens(50))];
        if rng.happens(KILL_PERCENT) {
            restart(replica, &key, rng, budget).await;
        }
        replica.until_served(last).await;
        let paths = some(&paths, ANSWERS, rng);
        served.record(replica.http, last, &paths).await;
        budget.count("moments", 1);
    }
    budget.count("answers", served.len());
    for replica in &mut replicas {
        replica.until_served(last).await;
        served.check(replica.http).await;
        restart(replica, &key, rng, budget).await;
        replica.until_served(last).await;
        served.check(replica.http).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_answer_is_given_again_as_of_its_moment_whatever_happened_since() {
    let mut budget = Budget::of("past", 1);
    while let Some(mut rng) = budget.next_round() {
        round(&mut budget, &mut rng).await;
    }
    budget.end();
}
