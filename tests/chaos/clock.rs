//! The clocks of the service, of nats-server and of a feeder are moved, alone and together, by minutes and hours, over
//! midnight and back, under traffic.

use std::path::Path;
use std::time::Duration;

use jiff::Timestamp;
use serde_json::{Value, json};
use tokio::time::sleep;

use super::budget::Budget;
use super::moved_clock::MovedClock;
use super::replica::Replica;
use super::traffic::{Load, Traffic};
use crate::conformance::rng::Rng;
use crate::conformance::scenario::DATE;
use crate::support::*;

const LOAD: Load = Load {
    events_per_second: 50,
    // The oracle does not know the rules for wrong clocks: no socket follows the races of the feeder that has one.
    sockets: 1..20,
    gets_per_second: 10,
};
const SHORT_MOVES: u64 = 2;
const LONG_MOVES: u64 = 6;
const BETWEEN_MOVES: Duration = Duration::from_millis(1_500);
const MINUTE: i64 = 60;
const HOUR: i64 = 60 * MINUTE;
const DAY_SECONDS: i64 = 24 * HOUR;
/// Midnight of the service's zone, Hong Kong, in UTC.
const MIDNIGHT: i64 = 16 * HOUR;

#[derive(Debug)]
struct World {
    service: MovedClock,
    server: MovedClock,
    feeder: MovedClock,
}

impl World {
    fn move_some(&self, budget: &mut Budget, rng: &mut Rng) {
        let all = [
            ("service", &self.service),
            ("server", &self.server),
            ("feeder", &self.feeder),
        ];
        let seconds = seconds(rng);
        // At least one, all of them often.
        let (one, is_together) = (rng.of(&all).0, rng.happens(30));
        for (name, clock) in all {
            if is_together || name == one || rng.happens(20) {
                budget.step(format!(
                    "the clock of the {name} is {seconds} s from what is right"
                ));
                clock.move_by(seconds);
            }
        }
    }

    fn correct(&self) {
        for clock in [&self.service, &self.server, &self.feeder] {
            clock.move_by(0);
        }
    }
}

/// A distance by which clocks are wrong.
fn seconds(rng: &mut Rng) -> i64 {
    let until_midnight = (MIDNIGHT - Timestamp::now().as_second()).rem_euclid(DAY_SECONDS);
    let distances = [
        0,
        2 * MINUTE,
        3 * HOUR,
        DAY_SECONDS,
        until_midnight - 1,
        until_midnight + 1,
    ];
    let distance = *rng.of(&distances);
    if rng.happens(50) { distance } else { -distance }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_clock_loses_an_event_or_freezes_a_board() {
    if !MovedClock::is_permitted() {
        return;
    }
    let mut budget = Budget::of("clock", 1);
    while let Some(rng) = budget.next_round() {
        round(&mut budget, rng).await;
    }
    budget.end();
}

async fn round(budget: &mut Budget, mut rng: Rng) {
    let world = World {
        service: MovedClock::new(),
        server: MovedClock::new(),
        feeder: MovedClock::new(),
    };
    let server = |_: &Path| {
        let server = nats_server();
        world.server.command(Path::new(server.get_program()))
    };
    let nats = Nats::start_by(server, |conf| conf);
    let service = world
        .service
        .command(Path::new(env!("CARGO_BIN_EXE_railbird")));
    let (replica, key) = (
        Replica::start_by(service, &nats.url()),
        issue_key(&nats).await,
    );
    let (http, feeder) = (replica.http, async || nats.client_of("feeder").await);
    let log = nats.log().await;
    let traffic = Traffic::start(feeder, log, http, &key, &LOAD, rng.next()).await;
    let mut price = 2.0;
    let moves = if budget.is_long() {
        LONG_MOVES
    } else {
        SHORT_MOVES
    };
    for n in 0..moves {
        if n > 0 && !budget.has_time() {
            break;
        }
        world.move_some(budget, &mut rng);
        for _ in 0..3 {
            price += 0.5;
            nats.publish([quote(&world.feeder, price), status(&world.feeder, "open")])
                .await;
            sleep(BETWEEN_MOVES / 3).await;
        }
        check(&nats, &replica).await;
        budget.count("moves", 1);
    }
    world.correct();
    let seq = nats
        .publish([quote(&world.feeder, 99.0), status(&world.feeder, "off")])
        .await;
    replica.until_served(seq).await;
    let path = format!("/api/v1/odds/{DATE}/1?venue=MV");
    let board = request(http, "GET", &path, &[("x-api-key", &key)])
        .await
        .json();
    assert_eq!(
        (&board["runners"][0]["win"], &board["status"]),
        (&json!(99.0), &json!("off")),
        "the board is frozen: {board}"
    );
    check(&nats, &replica).await;
    let admin = async || nats.client_of("admin").await;
    let until_served = async |last| replica.until_served(last).await;
    let outcome = traffic.check(budget, admin, http, until_served).await;
    outcome.gets.assert_answered(budget);
    let tally = outcome.sockets;
    assert_eq!((tally.not_recovered, tally.resyncs), (0, 0), "{tally:?}");
}

fn quote(clock: &MovedClock, price: f64) -> Value {
    odds_on(DATE, "MV", 1, &clock.now().to_string(), &[price])
}

fn status(clock: &MovedClock, status: &str) -> Value {
    let status = of_race(DATE, "MV", 1, json!({ "status": status }));
    event("race.status_changed", &clock.now().to_string(), status)
}

/// All that the log has is served, as live, and its views are those of a fold from the start.
async fn check(nats: &Nats, replica: &Replica) {
    replica.until_ready().await;
    replica.until_served(nats.last_seq().await).await;
    eventually("the views are live", async || {
        replica.status().await["feed"]["state"] == "live"
    })
    .await;
    replica.verify(nats).await;
}
