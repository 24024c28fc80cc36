//! The example clients: run against the real service through restarts, and against a scripted server that sends what
//! the real service never does.

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use tokio::time::interval;

use crate::support::scripted::{
    ScriptedServer, complete, heartbeat, quote, recorded_at, snapshot, status, welcome,
    welcome_back,
};
use crate::support::*;

const RACES: [u16; 3] = [1, 2, 3];

#[tokio::test]
async fn the_python_board_stays_correct_through_restarts() {
    check_board_through_restarts("live_odds.py").await;
}

#[tokio::test]
async fn the_node_board_stays_correct_through_restarts() {
    check_board_through_restarts("live_odds.mjs").await;
}

async fn check_board_through_restarts(file: &str) {
    let nats = Nats::start();
    let key = issue_key(&nats).await;
    nats.publish(RACES.map(|race| card(DAY, "ST", race, 2)))
        .await;
    let folder = tempfile::tempdir().unwrap();
    let mut service = Serving::start(&nats, folder.path());
    let url = format!("ws://{}/ws/live/odds?heartbeat_ms=1000", service.http);
    let mut example = Example::start(file, &url, &key);
    example.until_message("snapshot_complete", |_| true).await;

    let feeder = Feeder::start(&nats).await;
    for kill in [true, false] {
        example.until_quotes(100).await;
        let http = service.http;
        if kill {
            service.kill();
        } else {
            service.stop().await;
        }
        example
            .until("the loss", |line| line.starts_with("waiting: "))
            .await;
        feeder.until_more(50).await;
        service = Serving::start_at(http, &nats, folder.path());
        example.until_message("snapshot_complete", |_| true).await;
    }
    example.until_quotes(100).await;
    let mut quotes = feeder.stop().await;

    let withdrawn = of_race(DAY, "ST", 1, json!({ "horse_no": "H2" }));
    let status = |status| of_race(DAY, "ST", 2, json!({ "status": status }));
    let changed = nats
        .publish([
            event("runner.withdrawn", &second(0), withdrawn),
            event("race.status_changed", &second(0), status("closed")),
        ])
        .await;
    let prices = odds("ST", 2, &second(1_000_000), &[2.5, 3.5]);
    let last = nats.publish([prices]).await;
    quotes.extend([(1, changed - 1), (2, last)]);
    let after_last = |m: &Value| m["seq"].as_u64() >= Some(last);
    example.until_message("heartbeat", after_last).await;

    for race in RACES {
        let path = format!("/api/v1/odds/{DAY}/{race}");
        let reply = request(service.http, "GET", &path, &[("x-api-key", &key)]).await;
        assert_eq!(example.board(race), board_line(&reply.json()));
    }
    example.check_states();

    let welcomes = example.messages("welcome");
    assert_eq!(welcomes.len(), 3);
    assert!(welcomes[1..].iter().all(|m| m["recovered"] == true));
    for race in RACES {
        let of_race = quotes.iter().filter(|(quoted, _)| *quoted == race);
        let published: Vec<u64> = of_race.map(|(_, seq)| *seq).collect();
        assert_eq!(example.quotes(race), published, "of race {race}");
    }
    let closed = format!("{changed} status_update | {DAY} ST 2 closed | ");
    let closings = example
        .lines
        .iter()
        .filter(|line| line.starts_with(&closed));
    assert_eq!(closings.count(), 1);
}

/// The line that an example prints for a board of the HTTP API.
fn board_line(board: &Value) -> String {
    let runners = board["runners"].as_array().unwrap().iter().map(|r| {
        let price = r["win"].as_f64().map(|win| win.to_string());
        let price = price.unwrap_or_else(|| r["state"].as_str().unwrap().to_owned());
        format!(
            "{} {} {price}",
            r["number"],
            r["horse_name"].as_str().unwrap()
        )
    });
    let runners: Vec<String> = runners.collect();
    format!(
        "{} | {}",
        board["status"].as_str().unwrap(),
        runners.join(", ")
    )
}

impl Example {
    async fn until_quotes(&mut self, mut n: u32) {
        self.until("quotes", |line| {
            n -= u32::from(line.contains(" odds_update | "));
            n == 0
        })
        .await;
    }

    /// Checks that it found no gap, lost no board, and was live at the end.
    fn check_states(&self) {
        assert!(self.lines.iter().all(|line| !line.contains("no board")));
        let states = self.lines.iter().filter(|line| line.ends_with(" gaps"));
        let states: Vec<&String> = states.collect();
        assert!(
            states.iter().all(|line| line.ends_with(" 0 gaps")),
            "{states:?}"
        );
        assert!(states[states.len() - 1].starts_with("live: "), "{states:?}");
    }

    /// The sequences of the quotes of a race that were printed.
    fn quotes(&self, race: u16) -> Vec<u64> {
        let update = format!(" odds_update | {DAY} ST {race} ");
        let of_race = self.lines.iter().filter(|line| line.contains(&update));
        of_race
            .map(|line| line.split(' ').next().unwrap().parse().unwrap())
            .collect()
    }

    /// The board of a race as it was printed last.
    fn board(&self, race: u16) -> &str {
        let of_race = format!(" | {DAY} ST {race} ");
        let boards = self.lines.iter().rev();
        let last = boards
            .filter_map(|line| line.split_once(&of_race))
            .find(|(_, board)| board.contains(" | "));
        last.expect("a board of each race").1
    }
}

/// Quotes each race in turn, also while the service is down.
struct Feeder {
    quotes: Arc<Mutex<Vec<(u16, u64)>>>,
    stop: oneshot::Sender<()>,
    feeding: JoinHandle<()>,
}

impl Feeder {
    async fn start(nats: &Nats) -> Self {
        let (stop, mut stopped) = oneshot::channel();
        let quotes = Arc::<Mutex<Vec<_>>>::default();
        let (log, published) = (nats.log().await, Arc::clone(&quotes));
        let feeding = tokio::spawn(async move {
            // A rate that the examples can read.
            let mut pace = interval(Duration::from_millis(2));
            for n in 0_u16.. {
                let (race, price) = (RACES[usize::from(n) % RACES.len()], f64::from(n) + 1.5);
                let quote = odds("ST", race, &second(n.into()), &[price, 1.4]);
                let seq = log.append(outgoing(&quote)).await.unwrap().seq;
                published.lock().unwrap().push((race, seq));
                tokio::select! {
                    _ = &mut stopped => break,
                    _ = pace.tick() => {}
                }
            }
        });
        Self {
            quotes,
            stop,
            feeding,
        }
    }

    async fn until_more(&self, more: usize) {
        let before = self.quotes.lock().unwrap().len();
        eventually("more is published", || async {
            self.quotes.lock().unwrap().len() >= before + more
        })
        .await;
    }

    /// Stops, and returns the race and the log sequence of each quote.
    async fn stop(self) -> Vec<(u16, u64)> {
        self.stop.send(()).unwrap();
        self.feeding.await.unwrap();
        std::mem::take(&mut self.quotes.lock().unwrap())
    }
}

#[tokio::test]
async fn the_python_board_handles_every_case_of_the_protocol() {
    let lines = check_every_case("live_odds.py").await;
    assert!(
        lines[lines.len() - 1].contains("LiveOddsClosed"),
        "{lines:?}"
    );
}

#[tokio::test]
async fn the_node_board_handles_every_case_of_the_protocol() {
    check_every_case("live_odds.mjs").await;
}

/// Runs a client through every case of docs/live-odds.md, and returns the lines that it printed.
async fn check_every_case(file: &str) -> Vec<String> {
    let server = ScriptedServer::start().await;
    let mut example = Example::start(file, &server.url, "k");
    break_off_twice(&server).await;
    change_the_log(&server).await;
    stop_and_revoke(&server).await;
    assert_ne!(example.ended().await, Some(0));

    // The gap between 6 and 9 is noticed before the message is taken.
    let gap = example
        .lines
        .iter()
        .position(|line| line == "live: , 1 gaps");
    assert!(example.lines[gap.unwrap() + 1].starts_with("9 odds_update"));
    let closed = "closed: the key is no longer valid, 1 gaps";
    assert!(example.lines.iter().any(|line| line == closed));
    let updates = example.lines.iter();
    let updates = updates.filter(|line| line.starts_with(|c: char| c.is_ascii_digit()));
    let updates: Vec<&str> = updates.map(String::as_str).collect();
    assert_eq!(
        updates,
        [
            "5 odds_update | 2026-10-03 ST 1 open | 1 HORSE 1 2.5, 2 HORSE 2 scratched",
            "6 odds_update | 2026-10-03 ST 1 open | 1 HORSE 1 2.6, 2 HORSE 2 scratched",
            "9 odds_update | 2026-10-03 ST 1 open | 1 HORSE 1 2.9, 2 HORSE 2 scratched",
            "10 status_update | 2026-10-03 ST 1 closed | 1 HORSE 1 2.9, 2 HORSE 2 scratched",
            "13 odds_update | 2026-10-03 ST 1 open | 1 HORSE 1 3.3, 2 HORSE 2 scratched",
            "3 odds_update | 2026-10-03 ST 2 open | 1 HORSE 1 4.5, 2 HORSE 2 scratched",
            "5 status_update | 2026-10-03 ST 1 off | ",
            "6 status_update | 2026-10-03 ST 2 off | 1 HORSE 1 4.5, 2 HORSE 2 scratched",
            "1 status_update | 2026-10-03 ST 2 closed | ",
        ]
    );
    example.lines.clone()
}

/// Two connections break off: after a heartbeat, and in the middle of a resume.
async fn break_off_twice(server: &ScriptedServer) {
    let first = server.accept().await;
    assert_eq!(first.resume, "");
    first
        .send_all([
            welcome("a"),
            snapshot(1, 5, 2.5),
            complete(5),
            quote(1, 6, 5, 2.6),
            quote(1, 6, 5, 2.6),
            json!({ "event": "news_of_next_year", "seq": 7 }),
            quote(1, 9, 8, 2.9),
            status(1, 10, 3, "closed"),
            heartbeat(12),
        ])
        .await;

    let second = server.accept().await;
    assert_eq!(
        second.resume,
        format!("since=12&recorded_at={}&epoch=a", recorded_at(12))
    );
    second
        .send_all([welcome_back("a", true), quote(1, 13, 9, 3.3)])
        .await;
}

/// The client comes back to another log, whose views are then rebuilt: each time it drops its boards.
async fn change_the_log(server: &ScriptedServer) {
    // The `seq` of `welcome` is not a position to resume from: the resume broke off at 13.
    let third = server.accept().await;
    assert_eq!(
        third.resume,
        format!("since=13&recorded_at={}&epoch=a", recorded_at(13))
    );
    third
        .send_all([
            welcome_back("b", false),
            snapshot(2, 3, 4.5),
            complete(4),
            status(1, 5, 0, "off"),
            status(2, 6, 0, "off"),
            json!({ "event": "resync", "seq": 2, "epoch": "c", "reason": "the views were begun anew" }),
            status(2, 1, 0, "closed"),
        ])
        .await;
}

/// The service stops and asks for a pause, then sends nothing on an open connection, then rejects the key.
async fn stop_and_revoke(server: &ScriptedServer) {
    // The connection before broke off in the middle of a resync.
    let fourth = server.accept().await;
    assert_eq!(fourth.resume, "");
    fourth
        .send_all([
            welcome("c"),
            complete(0),
            json!({ "event": "closing", "code": 1001, "retry_after_ms": 1500 }),
        ])
        .await;
    let closed = Instant::now();

    let mut silent = server.accept().await;
    assert!(closed.elapsed() >= Duration::from_millis(1500));
    assert_eq!(silent.resume, "since=0&recorded_at=&epoch=c");
    let mut short = welcome_back("c", true);
    short["heartbeat_ms"] = 300.into();
    silent.send(&short).await;

    let last = server.accept().await;
    last.send_all([
        welcome("c"),
        json!({ "event": "closing", "code": 4401, "reason": "the key is no longer valid", "retry_after_ms": 0 }),
    ])
    .await;
}
