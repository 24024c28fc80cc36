//! [`Gets`]: GETs of odds boards at a steady rate, of one service or through a balancer. No client reads older views
//! than before, and what was served once is served again as of its event.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use jiff::Timestamp;
use serde_json::{Value, json};
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::MissedTickBehavior;

use super::budget::Budget;
use super::feeders::{RACES, VENUES, share};
use crate::conformance::oracle::{MadeAt, ODDS, Oracle};
use crate::conformance::rng::Rng;
use crate::conformance::scenario::DATE;
use crate::support::*;

const CLIENTS: u32 = 20;
/// The share of GETs that ask for an earlier answer again.
const AGAIN_PERCENT: u64 = 10;

#[derive(Debug)]
pub(super) struct Gets {
    stop: watch::Sender<bool>,
    clients: Vec<JoinHandle<Outcome>>,
}

/// A board, and the `Railbird-Seq` of its answer.
#[derive(Debug)]
struct Board {
    seq: u64,
    body: Vec<u8>,
}

/// An answer that a race has no board, as of its `Railbird-Seq`.
#[derive(Debug)]
struct NoBoard {
    seq: u64,
    venue: &'static str,
    number: u64,
}

#[derive(Debug, Default)]
pub(super) struct Outcome {
    pub(super) sent: usize,
    /// Answers of 503 with a `Retry-After`.
    pub(super) unavailable: Vec<String>,
    boards: Vec<Board>,
    no_boards: Vec<NoBoard>,
    latencies: Vec<Duration>,
    /// Why there was no answer.
    without_answer: Vec<String>,
    /// Other answers than these, and those that are older than the client's last one.
    pub(super) violations: Vec<String>,
}

impl Gets {
    pub(super) fn start(address: SocketAddr, key: &str, per_second: u32) -> Self {
        let (stop, stopped) = watch::channel(false);
        let client = |n: u32| {
            let client = Client {
                address,
                key: key.to_owned(),
                rng: Rng::new(u64::from(n)),
                seen: 0,
                outcome: Outcome::default(),
            };
            tokio::spawn(client.run(
                Duration::from_secs(1) * CLIENTS / per_second,
                stopped.clone(),
            ))
        };
        let clients = (0..CLIENTS).map(client).collect();
        Self { stop, clients }
    }

    pub(super) async fn end(self) -> Outcome {
        self.stop.send_replace(true);
        let mut all = Outcome::default();
        for client in self.clients {
            let outcome = client.await.unwrap();
            all.sent += outcome.sent;
            all.unavailable.extend(outcome.unavailable);
            all.boards.extend(outcome.boards);
            all.no_boards.extend(outcome.no_boards);
            all.latencies.extend(outcome.latencies);
            all.without_answer.extend(outcome.without_answer);
            all.violations.extend(outcome.violations);
        }
        all.latencies.sort_unstable();
        all
    }
}

struct Client {
    address: SocketAddr,
    key: String,
    rng: Rng,
    /// The `Railbird-Seq` of its last answer.
    seen: u64,
    outcome: Outcome,
}

impl Client {
    async fn run(mut self, interval: Duration, stopped: watch::Receiver<bool>) -> Outcome {
        let mut pace = tokio::time::interval(interval);
        pace.set_missed_tick_behavior(MissedTickBehavior::Delay);
        while !*stopped.borrow() {
            pace.tick().await;
            let begun = Instant::now();
            match self.earlier_board() {
                Some(earlier) => self.get_again(earlier).await,
                None => self.get().await,
            }
            self.outcome.sent += 1;
            self.outcome.latencies.push(begun.elapsed());
        }
        self.outcome
    }

    /// The index of a board that is asked for again.
    fn earlier_board(&mut self) -> Option<usize> {
        let count = self.outcome.boards.len() as u64;
        let again = count > 0 && self.rng.happens(AGAIN_PERCENT);
        again.then(|| usize::try_from(self.rng.below(count)).unwrap())
    }

    async fn get_again(&mut self, index: usize) {
        let Board { seq, body } = &self.outcome.boards[index];
        let board: Value = serde_json::from_slice(body).unwrap();
        let [number, venue] = [&board["race_number"], &board["venue_code"]];
        let venue = venue.as_str().unwrap();
        let path = format!("/api/v1/odds/{DATE}/{number}?venue={venue}&as_of={seq}");
        let min_seq = self.seen.to_string();
        let headers = [("x-api-key", &*self.key), ("railbird-min-seq", &min_seq)];
        match try_send(self.address, "GET", &path, &headers, String::new()).await {
            Ok(reply) if reply.status == 200 && reply.body == *body => {}
            // It needs a server of the log, which may be away.
            Ok(reply) if reply.status == 503 && !reply.header("retry-after").is_empty() => {}
            Ok(reply) => {
                let text = reply.text();
                let violation = format!("{path}: {} instead of {board}: {text}", reply.status);
                self.outcome.violations.push(violation);
            }
            Err(error) => (self.outcome.without_answer).push(format!("{path}: {error}")),
        }
    }

    async fn get(&mut self) {
        let (venue, number) = (
            *self.rng.of(&VENUES),
            self.rng.within(&(1..u64::from(RACES) + 1)),
        );
        let path = format!("/api/v1/odds/{DATE}/{number}?venue={venue}");
        let min_seq = self.seen.to_string();
        let headers = [("x-api-key", &*self.key), ("railbird-min-seq", &min_seq)];
        let sent = try_send(self.address, "GET", &path, &headers, String::new());
        let reply = match sent.await {
            Ok(reply) => reply,
            Err(error) => {
                return self.outcome.without_answer.push(format!("{path}: {error}"));
            }
        };
        let seq = reply.header("railbird-seq").parse().ok();
        match (reply.status, seq) {
            (200, Some(seq)) if seq >= self.seen => {
                self.seen = seq;
                let body = reply.body;
                self.outcome.boards.push(Board { seq, body });
            }
            (404, Some(seq)) if seq >= self.seen => {
                self.seen = seq;
                self.outcome.no_boards.push(NoBoard { seq, venue, number });
            }
            (503, _) if !reply.header("retry-after").is_empty() => {
                let (at, text) = (Timestamp::now(), reply.text());
                let unavailable = format!("{at} {path} after {}: {text:.200}", self.seen);
                self.outcome.unavailable.push(unavailable);
            }
            (status, seq) => {
                let text = reply.text();
                let violation =
                    format!("{path} after {}: {status} {seq:?}: {text:.200}", self.seen);
                self.outcome.violations.push(violation);
            }
        }
    }
}

impl Outcome {
    /// Compares all boards with those of the events.
    pub(super) fn check(&self, oracle: &Oracle) -> Vec<String> {
        let wrong = self.boards.iter().filter_map(|board| {
            let body: Value = serde_json::from_slice(&board.body).unwrap();
            let wrong = wrong_board(oracle, board.seq, &body)?;
            Some(format!("a board at {}: {wrong}: {body}", board.seq))
        });
        let hidden = self.no_boards.iter().filter_map(|answer| {
            let race = json!({ "venue_code": answer.venue, "race_number": answer.number });
            let seq = oracle.board_seq(oracle.race(&race)?, answer.seq)?;
            Some(format!("no board, but there is that of {seq}: {answer:?}"))
        });
        wrong.chain(hidden).collect()
    }

    /// All were answered. A connection can fail on a machine with other work.
    pub(super) fn assert_answered(&self, budget: &Budget) {
        let without_answer = &self.without_answer;
        assert!(
            without_answer.is_empty() || !budget.is_long(),
            "without an answer: {without_answer:?}"
        );
    }

    pub(super) fn summary(&self) -> String {
        let [p50, p99, p999, max] = [500, 990, 999, 1_000].map(|part| share(&self.latencies, part));
        format!(
            "{} GETs, {} unavailable, {} without an answer, p50 {p50:.1?}, p99 {p99:.1?}, p99.9 {p999:.1?}, max {max:.1?}",
            self.sent,
            self.unavailable.len(),
            self.without_answer.len()
        )
    }
}

/// What is wrong with a board that includes everything up to a sequence, and possibly later events.
fn wrong_board(oracle: &Oracle, at: u64, body: &Value) -> Option<String> {
    let Some(race) = oracle.race(body) else {
        return Some("no such race".to_owned());
    };
    let seq = body["seq"].as_u64().unwrap();
    let expected = oracle.board_seq(race, at);
    // A race with a card alone.
    if seq == 0 && expected.is_none() {
        return (body["runners"] != json!([])).then(|| "no quote made it".to_owned());
    }
    if expected.is_none_or(|expected| seq < expected) {
        return Some(format!("it should be that of {expected:?}"));
    }
    let Some(index) = oracle.find(race, ODDS, seq) else {
        return Some("no event made it".to_owned());
    };
    if body["prev_seq"].as_u64() != Some(oracle.messages[index].prev_seq) {
        return Some(format!(
            "the one before is {}",
            oracle.messages[index].prev_seq
        ));
    }
    oracle.compare(index, body, MadeAt::Later)
}

#[test]
fn an_old_board_a_wrong_price_and_a_wrong_predecessor_are_noticed() {
    let quotes = [2.5, 3.5].map(|price| odds("ST", 1, &second(1), &[price]));
    let horse = &quotes[0]["data"]["runners"][0]["horse_no"];
    let board = |seq: u64, win: f64, previous: Value| {
        json!({
            "date": DAY, "venue_code": "ST", "race_number": 1, "status": "scheduled", "source": "test", "seq": seq,
            "prev_seq": seq - 1,
            "runners": [{
                "horse_no": horse, "horse_name": "", "number": 0, "win": win, "place": null, "opening": 2.5,
                "previous": previous,
            }],
        })
    };
    let oracle = Oracle::of(&(1..).zip(quotes.clone()).collect());
    let (old, new) = (board(1, 2.5, Value::Null), board(2, 3.5, json!(2.5)));
    assert_eq!(wrong_board(&oracle, 1, &old), None);
    assert_eq!(
        wrong_board(&oracle, 1, &new),
        None,
        "it may have later events"
    );
    assert_eq!(wrong_board(&oracle, 2, &new), None);
    assert!(wrong_board(&oracle, 2, &old).is_some());
    assert!(wrong_board(&oracle, 2, &board(2, 3.6, json!(2.5))).is_some());
    assert!(wrong_board(&oracle, 2, &board(3, 3.5, json!(2.5))).is_some());
    let mut predecessor = new;
    predecessor["prev_seq"] = 0.into();
    assert!(wrong_board(&oracle, 2, &predecessor).is_some());
}
