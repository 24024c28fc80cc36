//! The examples, each run against the real service that is killed and stopped under it, and against a script of all that
//! the real service never does.

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use futures::SinkExt;
use serde_json::{Value, json};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use tokio::time::{interval, timeout};
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::handshake::server::{Request, Response};
use tokio_tungstenite::{WebSocketStream, accept_hdr_async};

use crate::support::*;

const RACES: [u16; 3] = [1, 2, 3];

#[tokio::test]
async fn the_board_in_python_stays_right_through_restarts() {
    stays_right_through_restarts("live_odds.py").await;
}

#[tokio::test]
async fn the_board_in_node_stays_right_through_restarts() {
    stays_right_through_restarts("live_odds.mjs").await;
}

async fn stays_right_through_restarts(file: &str) {
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
            .until("the loss", |line| line.starts_with("lost: "))
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
    let all_is_sent = |m: &Value| m["seq"].as_u64() >= Some(last);
    example.until_message("heartbeat", all_is_sent).await;

    for race in RACES {
        let path = format!("/api/v1/odds/{DAY}/{race}");
        let reply = request(service.http, "GET", &path, &[("x-api-key", &key)]).await;
        assert_eq!(example.board(race), line_of(&reply.json()));
    }
    for odd in ["GAP", "came again", "no board"] {
        let found = example.lines.iter().find(|line| line.contains(odd));
        assert_eq!(found, None);
    }

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

/// What an example should show for what HTTP says.
fn line_of(board: &Value) -> String {
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

    /// The places of the quotes of a race that were shown.
    fn quotes(&self, race: u16) -> Vec<u64> {
        let about = format!(" odds_update | {DAY} ST {race} ");
        let of_race = self.lines.iter().filter(|line| line.contains(&about));
        of_race
            .map(|line| line.split(' ').next().unwrap().parse().unwrap())
            .collect()
    }

    /// The board of a race as it was shown last.
    fn board(&self, race: u16) -> &str {
        let about = format!(" | {DAY} ST {race} ");
        let boards = self.lines.iter().rev();
        let last = boards
            .filter_map(|line| line.split_once(&about))
            .find(|(_, board)| board.contains(" | "));
        last.expect("a board of each race").1
    }
}

/// Quotes each race in turn, and goes on while the service is down.
struct Feeder {
    quotes: Arc<Mutex<Vec<(u16, u64)>>>,
    enough: oneshot::Sender<()>,
    feeding: JoinHandle<()>,
}

impl Feeder {
    async fn start(nats: &Nats) -> Self {
        let (enough, mut stop) = oneshot::channel();
        let quotes = Arc::<Mutex<Vec<_>>>::default();
        let (log, known) = (nats.log().await, Arc::clone(&quotes));
        let feeding = tokio::spawn(async move {
            // No faster than the examples can be expected to read.
            let mut pace = interval(Duration::from_millis(2));
            for n in 0_u16.. {
                let (race, price) = (RACES[usize::from(n) % RACES.len()], f64::from(n) + 1.5);
                let quote = odds("ST", race, &second(n.into()), &[price, 1.4]);
                let seq = log.append(outgoing(&quote)).await.unwrap().seq;
                known.lock().unwrap().push((race, seq));
                tokio::select! {
                    _ = &mut stop => break,
                    _ = pace.tick() => {}
                }
            }
        });
        Self {
            quotes,
            enough,
            feeding,
        }
    }

    async fn until_more(&self, more: usize) {
        let had = self.quotes.lock().unwrap().len();
        eventually("more is published", || async {
            self.quotes.lock().unwrap().len() >= had + more
        })
        .await;
    }

    /// Ends, and says which race was quoted at which place in the log.
    async fn stop(self) -> Vec<(u16, u64)> {
        self.enough.send(()).unwrap();
        self.feeding.await.unwrap();
        std::mem::take(&mut self.quotes.lock().unwrap())
    }
}

#[tokio::test]
async fn the_board_in_python_takes_whatever_comes() {
    let ended = takes_whatever_comes("live_odds.py").await;
    assert!(ended.iter().any(|line| line.contains("no longer valid")));
}

#[tokio::test]
async fn the_board_in_node_takes_whatever_comes() {
    takes_whatever_comes("live_odds.mjs").await;
}

/// Everything in docs/live-odds.md that a client has to mind.
async fn takes_whatever_comes(file: &str) -> Vec<String> {
    let stage = Stage::open().await;
    let mut example = Example::start(file, &stage.url, "k");
    let welcome = |epoch: &str| json!({ "event": "welcome", "seq": 1000, "epoch": epoch, "heartbeat_ms": 5000 });
    let recovered = |mut welcome: Value, recovered: bool| {
        welcome["recovered"] = recovered.into();
        welcome
    };
    let complete = |seq: u64| json!({ "event": "snapshot_complete", "seq": seq });

    // The first connection is cut behind a heartbeat.
    let first = stage.next().await;
    assert_eq!(first.query, "");
    first
        .play([
            welcome("a"),
            snapshot(1, 5, 2.5),
            complete(5),
            quote(1, 6, 5, 2.6),
            quote(1, 6, 5, 2.6),
            json!({ "event": "news_of_next_year", "seq": 7 }),
            quote(1, 9, 8, 2.9),
            status(1, 10, 3, "closed"),
            json!({ "event": "heartbeat", "seq": 12 }),
        ])
        .await;

    // A resume is cut in the middle: what `welcome` has said is no place to come back to.
    let second = stage.next().await;
    assert_eq!(second.query, "since=12&epoch=a");
    second
        .play([recovered(welcome("a"), true), quote(1, 13, 9, 3.3)])
        .await;

    // Another log. Of what was before, nothing is left, neither when the views of that are begun anew.
    let third = stage.next().await;
    assert_eq!(third.query, "since=13&epoch=a");
    third
        .play([
            recovered(welcome("b"), false),
            snapshot(2, 3, 4.5),
            complete(4),
            status(1, 5, 0, "off"),
            status(2, 6, 0, "off"),
            json!({ "event": "resync", "seq": 2, "epoch": "c", "reason": "the views were begun anew" }),
            status(2, 1, 0, "closed"),
        ])
        .await;

    // The resync was cut before its end. Then the service stops and asks for time.
    let fourth = stage.next().await;
    assert_eq!(fourth.query, "");
    fourth
        .play([
            welcome("c"),
            complete(0),
            json!({ "event": "closing", "code": 1001, "retry_after_ms": 1500 }),
        ])
        .await;
    let closed = Instant::now();

    // It falls silent, and the connection stays.
    let mut silent = stage.next().await;
    assert!(closed.elapsed() >= Duration::from_millis(1500));
    assert_eq!(silent.query, "since=0&epoch=c");
    let mut short = recovered(welcome("c"), true);
    short["heartbeat_ms"] = 300.into();
    silent.say(&short).await;

    // Coming back would be of no use.
    let last = stage.next().await;
    last.play([
        welcome("c"),
        json!({ "event": "closing", "code": 4401, "reason": "the key is no longer valid", "retry_after_ms": 0 }),
    ])
    .await;
    assert_ne!(example.ended().await, Some(0));

    let shown = example.lines.iter();
    let shown = shown.filter(|line| line.starts_with(|c: char| c.is_ascii_digit()));
    let shown: Vec<&str> = shown.map(String::as_str).collect();
    assert_eq!(
        shown,
        [
            "5 odds_update | 2026-10-03 ST 1 open | 1 HORSE 1 2.5, 2 HORSE 2 scratched",
            "6 odds_update | 2026-10-03 ST 1 open | 1 HORSE 1 2.6, 2 HORSE 2 scratched",
            "6 odds_update | 2026-10-03 ST 1 came again",
            "9 odds_update | 2026-10-03 ST 1 open | 1 HORSE 1 2.9, 2 HORSE 2 scratched | GAP after 6",
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

fn about(event: &str, race: u16, seq: u64, more: Value) -> Value {
    let mut message = of_race(DAY, "Sha Tin", race, more);
    message["venue_code"] = "ST".into();
    message["event"] = event.into();
    message["seq"] = seq.into();
    message
}

fn quote(race: u16, seq: u64, prev_seq: u64, win: f64) -> Value {
    let runners = json!([
        { "number": 1, "horse_name": "HORSE 1", "win": win },
        { "number": 2, "horse_name": "HORSE 2", "win": null, "state": "scratched" },
    ]);
    let more = json!({ "status": "open", "prev_seq": prev_seq, "runners": runners });
    about("odds_update", race, seq, more)
}

fn snapshot(race: u16, seq: u64, win: f64) -> Value {
    let mut quote = quote(race, seq, 1, win);
    quote["snapshot"] = true.into();
    quote
}

fn status(race: u16, seq: u64, prev_seq: u64, status: &str) -> Value {
    let more = json!({ "status": status, "prev_seq": prev_seq });
    about("status_update", race, seq, more)
}

/// A server that says what a test tells it to.
struct Stage {
    listener: TcpListener,
    url: String,
}

/// A connection, and what its client asked for.
struct Scene {
    socket: WebSocketStream<TcpStream>,
    query: String,
}

impl Stage {
    async fn open() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("ws://{}/ws/live/odds", listener.local_addr().unwrap());
        Self { listener, url }
    }

    async fn next(&self) -> Scene {
        let (stream, _) = timeout(PATIENCE, self.listener.accept())
            .await
            .expect("a client")
            .unwrap();
        let mut query = String::new();
        #[expect(clippy::result_large_err, reason = "the type of the callback")]
        let look = |request: &Request, response: Response| {
            let asked = request.uri().query().unwrap_or_default().split('&');
            let asked: Vec<&str> = asked.filter(|pair| !pair.starts_with("api_key=")).collect();
            query = asked.join("&");
            Ok(response)
        };
        let socket = accept_hdr_async(stream, look).await.unwrap();
        Scene { socket, query }
    }
}

impl Scene {
    async fn say(&mut self, message: &Value) {
        let text = Message::text(message.to_string());
        self.socket.send(text).await.unwrap();
    }

    /// Says all of it, and leaves without a goodbye.
    async fn play<const N: usize>(mut self, messages: [Value; N]) {
        for message in messages {
            self.say(&message).await;
        }
    }
}
