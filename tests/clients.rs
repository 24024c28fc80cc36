//! The clients in `clients/`, against real services: each test runs for both languages.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::{Arc, Mutex};

use serde_json::{Value, json};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;

use crate::support::*;

const DRIVERS: [&str; 2] = ["driver.mjs", "driver.py"];

/// A way to the service that can be moved to another address, cut, or made to pass nothing on.
struct Gateway {
    address: SocketAddr,
    target: Arc<Mutex<SocketAddr>>,
    connections: watch::Sender<Treatment>,
}

/// What happens to the connections that are open.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Treatment {
    Pass,
    Cut,
    /// Nothing passes, and no side notices an end.
    Freeze,
}

impl Gateway {
    async fn start(target: SocketAddr) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let target = Arc::new(Mutex::new(target));
        let (connections, treatment) = watch::channel(Treatment::Pass);
        let to = Arc::clone(&target);
        tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                let target = *to.lock().unwrap();
                let mut treatment = treatment.clone();
                treatment.mark_unchanged();
                tokio::spawn(async move {
                    let Ok(server) = TcpStream::connect(target).await else {
                        return;
                    };
                    pass(client, server, treatment).await;
                });
            }
        });
        Self {
            address,
            target,
            connections,
        }
    }

    fn url(&self) -> String {
        format!("ws://{}/ws/live/odds", self.address)
    }

    /// Ends the open connections; new ones lead to this address.
    fn cut_to(&self, target: SocketAddr) {
        *self.target.lock().unwrap() = target;
        self.connections.send_replace(Treatment::Cut);
    }

    /// Passes nothing on, in either direction, on the connections that are open.
    fn freeze(&self) {
        self.connections.send_replace(Treatment::Freeze);
    }
}

async fn pass(
    mut client: TcpStream,
    mut server: TcpStream,
    mut treatment: watch::Receiver<Treatment>,
) {
    let changed = tokio::select! {
        _ = tokio::io::copy_bidirectional(&mut client, &mut server) => return,
        changed = treatment.changed() => changed,
    };
    if changed.is_ok() && *treatment.borrow() == Treatment::Freeze {
        // Until the test ends, both sides have an open connection.
        let _ = treatment.wait_for(|now| *now == Treatment::Pass).await;
    }
}

impl Example {
    /// Waits until the client reports this phase, and returns the state.
    async fn until_phase(&mut self, phase: &str) -> Value {
        let is_phase = |state: &Value| state["phase"] == phase;
        self.until_message("state", is_phase).await;
        serde_json::from_str(&self.lines[self.lines.len() - 1]).unwrap()
    }

    /// Waits until everything up to an event is received.
    async fn until_received(&mut self, seq: u64) {
        let reached = |message: &Value| message["seq"].as_u64() >= Some(seq);
        self.until_message("heartbeat", reached).await;
    }

    /// The sequences of the updates of a race.
    fn updates(&self, event: &str, race: u16) -> Vec<u64> {
        let all = self.messages(event).into_iter();
        let of_race = all.filter(|m| m["race_number"] == race && m.get("snapshot").is_none());
        of_race.map(|m| m["seq"].as_u64().unwrap()).collect()
    }

    fn states(&self, name: &str) -> Vec<Value> {
        let states = self.messages("state").into_iter();
        states.map(|state| state[name].clone()).collect()
    }
}

async fn quote(nats: &Nats, race: u16, n: u64) -> u64 {
    nats.publish([odds("ST", race, &second(n), &[1.5 + n as f64, 1.4])])
        .await
}

#[tokio::test]
async fn a_cut_client_resumes_on_another_replica_without_a_loss() {
    for driver in DRIVERS {
        let nats = Nats::start();
        let (one, other) = (Railbird::start(&nats).await, Railbird::start(&nats).await);
        quote(&nats, 1, 0).await;
        let gateway = Gateway::start(one.http).await;
        let mut client = Example::drive(driver, &gateway.url(), &one.key);
        client.until_phase("live").await;

        let mut published = Vec::new();
        for n in 1..60 {
            if n % 20 == 0 {
                gateway.cut_to(if n == 20 { other.http } else { one.http });
            }
            published.push(quote(&nats, 1, n).await);
        }
        client.until_received(published[published.len() - 1]).await;
        let live = client.until_phase_or_now("live").await;
        assert_eq!(
            (&live["recovered"], &live["gaps"]),
            (&json!(true), &json!(0)),
            "{driver}"
        );
        assert_eq!(client.updates("odds_update", 1), published, "{driver}");
        assert!(
            client
                .states("recovered")
                .iter()
                .all(|recovered| *recovered != false)
        );
    }
}

impl Example {
    /// The last state, after waiting for this phase if it is another.
    async fn until_phase_or_now(&mut self, phase: &str) -> Value {
        let states = self.messages("state");
        match states.last() {
            Some(state) if state["phase"] == phase => state.clone(),
            _ => self.until_phase(phase).await,
        }
    }
}

#[tokio::test]
async fn a_connection_that_is_open_but_dead_is_replaced() {
    for driver in DRIVERS {
        let nats = Nats::start();
        let railbird = Railbird::start(&nats).await;
        let gateway = Gateway::start(railbird.http).await;
        let mut client = Example::drive(driver, &gateway.url(), &railbird.key);
        client.until_phase("live").await;
        gateway.freeze();
        let seq = quote(&nats, 1, 1).await;
        let waiting = client.until_phase("waiting").await;
        assert_eq!(waiting["reason"], "no heartbeat", "{driver}");
        let live = client.until_phase("live").await;
        assert_eq!(
            (&live["recovered"], &live["gaps"]),
            (&json!(true), &json!(0)),
            "{driver}"
        );
        assert_eq!(client.updates("odds_update", 1), [seq], "{driver}");
    }
}

#[tokio::test]
async fn a_revoked_key_ends_a_client_and_another_key_resumes() {
    for driver in DRIVERS {
        let nats = Nats::start();
        let railbird = Railbird::start(&nats).await;
        let (key, next) = (railbird.issue_key(&nats).await, railbird.key.clone());
        let gateway = Gateway::start(railbird.http).await;
        let mut client = Example::drive(driver, &gateway.url(), &key);
        client.until_phase("live").await;
        let mut revoke = command();
        revoke.args(["keys", "--nats", &nats.url_of("keys"), "revoke", &key]);
        let output = tokio::task::spawn_blocking(move || revoke.output()).await;
        assert!(output.unwrap().unwrap().status.success());
        let closed = client.until_phase("closed").await;
        assert_eq!(
            (&closed["code"], &closed["reason"]),
            (&json!(4401), &json!("the key is no longer valid")),
            "{driver}"
        );

        let seq = quote(&nats, 1, 1).await;
        client.command(&json!({ "connect": "rb_wrong" }));
        let closed = client.until_phase("closed").await;
        assert_eq!(
            (&closed["code"], &closed["reason"]),
            (&json!(401), &json!("Invalid or missing API key")),
            "{driver}"
        );
        client.command(&json!({ "connect": next }));
        client.until_received(seq).await;
        let live = client.until_phase_or_now("live").await;
        assert_eq!(
            (&live["recovered"], &live["gaps"]),
            (&json!(true), &json!(0)),
            "{driver}"
        );
        assert_eq!(client.updates("odds_update", 1), [seq], "{driver}");
        for line in &client.lines {
            assert!(
                !line.contains(&key) && !line.contains(&next),
                "{driver}: {line}"
            );
        }
    }
}

#[tokio::test]
async fn a_client_that_comes_to_another_log_takes_fresh_snapshots() {
    for driver in DRIVERS {
        let (nats, other) = (Nats::start(), Nats::start());
        let railbird = Railbird::start(&nats).await;
        let elsewhere = Railbird::start(&other).await;
        for n in 0..5 {
            quote(&nats, 1, n).await;
        }
        let seq = quote(&other, 1, 9).await;
        elsewhere.until_published(seq).await;
        let gateway = Gateway::start(railbird.http).await;
        let mut client = Example::drive(driver, &gateway.url(), &railbird.key);
        client.until_phase("live").await;
        gateway.cut_to(elsewhere.http);
        client.until_phase("closed").await;
        client.command(&json!({ "connect": elsewhere.key }));
        client.until_phase("live").await;
        let welcome = client.messages("welcome").pop().unwrap();
        assert_eq!(
            (&welcome["recovered"], &welcome["reason"]),
            (&json!(false), &json!("other_epoch")),
            "{driver}"
        );
        let next = quote(&other, 1, 10).await;
        client.until_received(next).await;
        let snapshot = client
            .messages("odds_update")
            .into_iter()
            .rev()
            .nth(1)
            .unwrap();
        assert_eq!(
            (&snapshot["snapshot"], &snapshot["seq"]),
            (&json!(true), &json!(seq)),
            "{driver}"
        );
        assert!(
            client.states("gaps").iter().all(|gaps| *gaps == 0),
            "{driver}"
        );
        assert_eq!(
            client.states("recovered").last(),
            Some(&json!(false)),
            "{driver}"
        );
    }
}

#[tokio::test]
async fn filters_change_on_an_open_connection_and_survive_a_cut() {
    for driver in DRIVERS {
        let nats = Nats::start();
        let railbird = Railbird::start(&nats).await;
        for race in 1..=3 {
            nats.publish([card(DAY, "ST", race, 2)]).await;
            quote(&nats, race, 0).await;
        }
        let gateway = Gateway::start(railbird.http).await;
        let mut client =
            Example::drive(driver, &format!("{}?race=1", gateway.url()), &railbird.key);
        client.until_phase("live").await;
        let first = quote(&nats, 1, 1).await;
        client.until_received(first).await;

        let other = json!({ "races": [{ "date": DAY, "venue": "st", "race_number": 2 }, 3] });
        client.command(&json!({ "subscribe": other }));
        let complete = |m: &Value| m["id"] == "1";
        client.until_message("snapshot_complete", complete).await;
        let unseen = quote(&nats, 1, 2).await;
        let second = quote(&nats, 2, 2).await;
        client.until_received(second).await;
        gateway.cut_to(railbird.http);
        let third = quote(&nats, 3, 3).await;
        client.until_received(third).await;
        client.command(&json!({ "unsubscribe": { "races": [3] } }));
        client
            .until_message("ack", |m| m["op"] == "unsubscribe")
            .await;
        client.command(&json!({ "subscribe": {} }));
        client
            .until_message("snapshot_complete", |m| m["id"] == "3")
            .await;
        let last = quote(&nats, 1, 4).await;
        client.until_received(last).await;

        // Race 1 changed while it was not followed: that is no gap.
        assert_eq!(
            client.updates("odds_update", 1),
            [first, last],
            "{driver}: not {unseen}"
        );
        assert_eq!(client.updates("odds_update", 2), [second], "{driver}");
        assert_eq!(client.updates("odds_update", 3), [third], "{driver}");
        assert!(
            client.states("gaps").iter().all(|gaps| *gaps == 0),
            "{driver}"
        );
        let welcome = client.messages("welcome").pop().unwrap();
        assert_eq!(
            (&welcome["recovered"], &welcome["filter"]["races"]),
            (
                &json!(true),
                &json!([{ "date": DAY, "venue": "st", "race_number": 2 }, { "race_number": 3 }])
            ),
            "{driver}"
        );
    }
}

#[tokio::test]
async fn a_request_that_a_cut_interrupts_is_sent_again() {
    for driver in DRIVERS {
        let nats = Nats::start();
        let railbird = Railbird::start(&nats).await;
        for race in 1..=2 {
            quote(&nats, race, 0).await;
        }
        let gateway = Gateway::start(railbird.http).await;
        let mut client =
            Example::drive(driver, &format!("{}?race=1", gateway.url()), &railbird.key);
        client.until_phase("live").await;
        gateway.freeze();
        client.command(&json!({ "subscribe": { "races": [2] } }));
        let missed = quote(&nats, 1, 1).await;
        client
            .until_message("snapshot_complete", |m| m["id"] == "1")
            .await;
        let seq = quote(&nats, 2, 1).await;
        client.until_received(seq).await;
        assert_eq!(
            client.updates("odds_update", 1),
            [missed],
            "{driver}: it was still followed"
        );
        assert_eq!(client.updates("odds_update", 2), [seq], "{driver}");
        let snapshots = client.messages("odds_update").into_iter();
        let snapshots = snapshots.filter(|m| m["snapshot"] == true && m["race_number"] == 2);
        assert_eq!(snapshots.count(), 1, "{driver}");
    }
}

#[tokio::test]
async fn a_client_that_was_busy_finds_no_gap() {
    for driver in DRIVERS {
        let nats = Nats::start();
        let railbird = Railbird::start(&nats).await;
        quote(&nats, 1, 0).await;
        let mut client = Example::drive(
            driver,
            &format!("ws://{}/ws/live/odds", railbird.http),
            &railbird.key,
        );
        client.until_phase("live").await;
        client.command(&json!({ "block": 5_000 }));
        let quotes = (1..6_000).map(|n| odds("ST", 1, &second(n), &[1.5 + (n % 50) as f64, 1.4]));
        let last = nats.publish(quotes).await;
        client.until_received(last).await;
        let received = client.messages("odds_update");
        assert_eq!(received[received.len() - 1]["seq"], last, "{driver}");
        assert!(
            client.states("gaps").iter().all(|gaps| *gaps == 0),
            "{driver}"
        );
    }
}

#[tokio::test]
async fn the_client_on_the_page_by_hand_resumes_without_a_loss() {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/live-odds-by-hand.md");
    let page = std::fs::read_to_string(page).unwrap();
    let program = page.split_once("```js\n").unwrap().1;
    let program = program.split_once("\n```").unwrap().0;
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("client.mjs");
    std::fs::write(&file, program).unwrap();

    let nats = Nats::start();
    let railbird = Railbird::start(&nats).await;
    quote(&nats, 1, 0).await;
    let gateway = Gateway::start(railbird.http).await;
    let url = gateway.url();
    let variables = [
        ("RAILBIRD_URL", url.as_str()),
        ("RAILBIRD_API_KEY", &railbird.key),
    ];
    let mut client = Example::run(file.to_str().unwrap(), &[], &variables);
    client.until_message("snapshot_complete", |_| true).await;
    let mut published = Vec::new();
    for n in 1..40 {
        if n == 20 {
            gateway.cut_to(railbird.http);
        }
        published.push(quote(&nats, 1, n).await);
    }
    client.until_received(published[published.len() - 1]).await;
    assert_eq!(client.updates("odds_update", 1), published);
    let welcomes = client.messages("welcome");
    assert_eq!(
        (welcomes.len(), &welcomes[1]["recovered"]),
        (2, &json!(true))
    );
    assert!(client.lines.iter().all(|line| !line.starts_with("GAP")));
}
