//! The clients in `clients/`, against real services: each test runs for both languages.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use railbird::http::Origins;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;

use crate::support::scripted::{
    self, ScriptedServer, complete, heartbeat, recorded_at, welcome_back,
};
use crate::support::*;

const DRIVERS: [&str; 2] = ["driver.mjs", "driver.py"];

/// A way to the service that can be moved to another address, cut, or made to pass nothing on.
pub(super) struct Gateway {
    address: SocketAddr,
    target: Arc<Mutex<SocketAddr>>,
    connections: watch::Sender<Treatment>,
    /// How long a new connection waits until it leads on.
    delay: Arc<Mutex<Duration>>,
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
    pub(super) async fn start(target: SocketAddr) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let target = Arc::new(Mutex::new(target));
        let (connections, treatment) = watch::channel(Treatment::Pass);
        let to = Arc::clone(&target);
        let delay = Arc::new(Mutex::new(Duration::ZERO));
        let delay_of_new = Arc::clone(&delay);
        tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                let target = *to.lock().unwrap();
                let delay = *delay_of_new.lock().unwrap();
                let mut treatment = treatment.clone();
                treatment.mark_unchanged();
                tokio::spawn(async move {
                    tokio::time::sleep(delay).await;
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
            delay,
        }
    }

    pub(super) fn url(&self) -> String {
        format!("ws://{}/ws/live/odds", self.address)
    }

    /// Ends the open connections; new ones lead to this address.
    pub(super) fn cut_to(&self, target: SocketAddr) {
        *self.target.lock().unwrap() = target;
        self.connections.send_replace(Treatment::Cut);
    }

    /// Passes nothing on, in either direction, on the connections that are open.
    pub(super) fn freeze(&self) {
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

    fn assert_no_gaps(&self, driver: &str) {
        let gaps = self.states("gaps");
        assert!(gaps.iter().all(|gaps| *gaps == 0), "{driver}: {gaps:?}");
    }
}

pub(super) async fn quote(nats: &Nats, race: u16, n: u64) -> u64 {
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

#[tokio::test]
async fn a_client_of_a_replica_that_stops_resumes_on_another_without_a_loss() {
    for driver in DRIVERS {
        let nats = Nats::start();
        let (one, other) = (Railbird::start(&nats).await, Railbird::start(&nats).await);
        quote(&nats, 1, 0).await;
        let gateway = Gateway::start(one.http).await;
        let mut client = Example::drive(driver, &gateway.url(), &one.key);
        client.until_phase("live").await;

        // As a balancer that has seen the probe: new connections lead to the other replica, open ones stay.
        one.app.health.draining.cancel();
        *gateway.target.lock().unwrap() = other.http;
        let mut published = vec![quote(&nats, 1, 1).await];
        client.until_received(published[0]).await;
        let stopping = tokio::spawn(one.stop());
        for n in 2..30 {
            published.push(quote(&nats, 1, n).await);
        }
        client.until_received(published[published.len() - 1]).await;
        client.assert_no_gaps(driver);
        assert_eq!(client.updates("odds_update", 1), published, "{driver}");
        stopping.await.unwrap();
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
        client.assert_no_gaps(driver);
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
        client.assert_no_gaps(driver);
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
        client.assert_no_gaps(driver);
    }
}

#[tokio::test]
async fn a_client_that_connects_to_a_stale_feed_is_never_live_before_it() {
    let mut nats = Nats::start();
    let railbird = Railbird::start(&nats).await;
    nats.kill();
    eventually("the feed is stale", || async {
        railbird.get_open("/readyz").await.json()["feed"]["state"] != "live"
    })
    .await;
    let url = format!("ws://{}/ws/live/odds", railbird.http);
    let mut clients = DRIVERS.map(|driver| Example::drive(driver, &url, &railbird.key));
    for client in &mut clients {
        client.until_message("heartbeat", |_| true).await;
        let phases = client.states("phase");
        assert_eq!(phases[0], "connecting");
        let after = ["stale", "down"];
        let is_late = |phase: &Value| after.contains(&phase.as_str().unwrap());
        assert!(
            phases.len() > 1 && phases[1..].iter().all(is_late),
            "{phases:?}"
        );
    }
    nats.start_again();
    for client in &mut clients {
        client.until_phase("live").await;
    }
}

#[tokio::test]
async fn a_client_of_one_race_of_today_resumes_and_changes_its_filter() {
    for driver in DRIVERS {
        let nats = Nats::start();
        let railbird = Railbird::start(&nats).await;
        let today = railbird.app.clock.today().to_string();
        let quote_today = |race, n| {
            let quote = odds_on(&today, "ST", race, &second(n), &[1.5 + n as f64, 1.4]);
            nats.publish([quote])
        };
        nats.publish([card(&today, "ST", 1, 2), card(&today, "ST", 2, 2)])
            .await;
        let seq = quote_today(1, 0).await;
        railbird.until_published(seq).await;
        let gateway = Gateway::start(railbird.http).await;
        let mut client = Example::drive(driver, &format!("{}/1", gateway.url()), &railbird.key);
        client.until_phase("live").await;
        gateway.cut_to(railbird.http);
        client.until_phase("waiting").await;
        let (first, unseen) = (quote_today(1, 1).await, quote_today(2, 1).await);
        client.until_received(unseen).await;
        client.command(&json!({ "subscribe": { "races": [2] } }));
        let complete = |m: &Value| m["id"] == "1";
        client.until_message("snapshot_complete", complete).await;
        gateway.cut_to(railbird.http);
        client.until_phase("waiting").await;
        let second = quote_today(2, 2).await;
        client.until_received(second).await;
        let received = [1, 2].map(|race| client.updates("odds_update", race));
        assert_eq!(received, [[first], [second]], "{driver}");
        assert_eq!(
            client.states("recovered").pop(),
            Some(json!(true)),
            "{driver}"
        );
    }
}

#[tokio::test]
async fn a_client_that_is_closed_leaves_nothing_behind() {
    let nats = Nats::start();
    let railbird = Railbird::start(&nats).await;
    for race in 1..=20 {
        quote(&nats, race, 0).await;
    }
    let url = format!("ws://{}/ws/live/odds", railbird.http);
    for program in ["closing.mjs", "closing.py"] {
        let mut program = Example::drive(program, &url, &railbird.key);
        assert_eq!(program.ended().await, Some(0), "{:#?}", program.lines);
        assert!(
            program.lines.is_empty(),
            "nothing is reported: {:#?}",
            program.lines
        );
    }
}

#[tokio::test]
async fn a_listener_may_close_a_client_that_has_a_request_to_send() {
    let (nats, other) = (Nats::start(), Nats::start());
    let railbird = Railbird::start(&nats).await;
    let elsewhere = Railbird::start(&other).await;
    quote(&nats, 1, 0).await;
    quote(&other, 1, 0).await;
    let gateway = Gateway::start(railbird.http).await;
    let mut client = Example::drive("driver.mjs", &gateway.url(), &railbird.key);
    client.until_phase("live").await;
    gateway.cut_to(elsewhere.http);
    client.until_phase("closed").await;
    client.command(&json!({ "closeOn": "other_epoch" }));
    client.command(&json!({ "resync": null }));
    client.command(&json!({ "connect": elsewhere.key }));
    let closed = client.until_phase("closed").await;
    assert_eq!(closed["reason"], "closed by this client");
    client.command(&json!({ "connect": elsewhere.key }));
    client.until_phase("live").await;
    client
        .until_message("snapshot_complete", |m| m["id"] == "1")
        .await;
}

#[tokio::test]
async fn an_iteration_that_is_cancelled_or_has_a_faulty_callback_loses_no_message() {
    let nats = Nats::start();
    let railbird = Railbird::start(&nats).await;
    quote(&nats, 1, 0).await;
    let url = format!("ws://{}/ws/live/odds", railbird.http);
    let mut client = Example::drive("interrupted.py", &url, &railbird.key);
    client.until_phase("live").await;
    let mut published = Vec::new();
    for n in 1..50 {
        published.push(quote(&nats, 1, n).await);
    }
    client.until_received(published[published.len() - 1]).await;
    assert_eq!(client.updates("odds_update", 1), published);
    client.assert_no_gaps("interrupted.py");
    for event in ["welcome", "snapshot_complete"] {
        assert_eq!(client.messages(event).len(), 1, "{event}");
    }
    let reported = |line: &String| line.starts_with("ValueError: this is reported");
    assert!(client.lines.iter().any(reported));
}

#[tokio::test]
async fn a_dead_connection_is_replaced_although_the_iteration_is_cancelled_again_and_again() {
    let nats = Nats::start();
    let railbird = Railbird::start(&nats).await;
    let gateway = Gateway::start(railbird.http).await;
    let mut client = Example::drive("interrupted.py", &gateway.url(), &railbird.key);
    client.until_phase("live").await;
    // Longer than the client waits before it cancels the iteration.
    *gateway.delay.lock().unwrap() = Duration::from_millis(50);
    gateway.freeze();
    let waiting = client.until_phase("waiting").await;
    assert_eq!(waiting["reason"], "no heartbeat");
    client.until_phase("live").await;
}

/// The pause before the next attempt, in a state of either client.
fn retry_in_ms(state: &Value) -> u64 {
    let pause = [&state["retryInMs"], &state["retry_in_ms"]];
    pause.into_iter().find_map(Value::as_u64).unwrap()
}

#[tokio::test]
async fn pauses_double_until_everything_is_received_again() {
    // A port at which nothing listens any more.
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let nowhere = listener.local_addr().unwrap();
    drop(listener);
    for driver in DRIVERS {
        let nats = Nats::start();
        let railbird = Railbird::start(&nats).await;
        let gateway = Gateway::start(railbird.http).await;
        let mut client = Example::drive(driver, &gateway.url(), &railbird.key);
        client.until_phase("live").await;
        // The random part of each pause is a hundredth of its bound.
        client.command(&json!({ "random": 0.01 }));
        client.command(&json!({ "resync": null }));
        client
            .until_message("snapshot_complete", |m| m["id"] == "1")
            .await;
        for _ in 0..2 {
            gateway.cut_to(nowhere);
            for expected in [10, 20, 40, 80, 160, 300, 300] {
                let waiting = client.until_phase("waiting").await;
                assert_eq!(retry_in_ms(&waiting), expected, "{driver}");
            }
            gateway.cut_to(railbird.http);
            client.until_phase("live").await;
        }
    }
}

/// Answers every request to the address that is returned with this.
async fn reply_to_all(head: &str, body: &str) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("ws://{}/ws/live/odds", listener.local_addr().unwrap());
    let length = body.len();
    let reply =
        format!("HTTP/1.1 {head}\r\nConnection: close\r\nContent-Length: {length}\r\n\r\n{body}");
    tokio::spawn(async move {
        while let Ok((mut client, _)) = listener.accept().await {
            let mut request = Vec::new();
            while !request.ends_with(b"\r\n\r\n") {
                request.push(client.read_u8().await.unwrap());
            }
            client.write_all(reply.as_bytes()).await.unwrap();
        }
    });
    url
}

#[tokio::test]
async fn a_client_brings_its_key_to_no_other_address() {
    let other = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = other.local_addr().unwrap();
    let head = format!("302 Found\r\nLocation: ws://{address}/ws/live/odds");
    let url = reply_to_all(&head, "").await;
    for driver in DRIVERS {
        let mut client = Example::drive(driver, &url, "rb_any");
        tokio::select! {
            _ = other.accept() => panic!("{driver} followed to {address}"),
            _ = client.until_phase("waiting") => {}
        }
    }
}

#[tokio::test]
async fn a_handshake_that_is_not_passed_on_is_no_connection() {
    let head = "426 Upgrade Required";
    let url = reply_to_all(head, r#"{"message":"This path is a WebSocket"}"#).await;
    let mut client = Example::drive("driver.mjs", &url, "rb_any");
    let waiting = client.until_phase("waiting").await;
    assert_eq!(
        (&waiting["code"], &waiting["reason"]),
        (&Value::Null, &json!("no connection"))
    );
}

#[tokio::test]
async fn a_rejected_handshake_names_its_reason_and_its_pause() {
    let body = r#"{"error":"not_ready","message":"the views are not up to date"}"#;
    let url = reply_to_all("503 Service Unavailable\r\nRetry-After: 20", body).await;
    for driver in DRIVERS {
        let mut client = Example::drive(driver, &url, "rb_any");
        let waiting = client.until_phase("waiting").await;
        assert_eq!(
            (&waiting["code"], &waiting["reason"]),
            (&json!(503), &json!("the views are not up to date")),
            "{driver}"
        );
        let pause = retry_in_ms(&waiting);
        assert!((20_000..=21_000).contains(&pause), "{driver}: {pause}");
    }
}

#[tokio::test]
async fn only_messages_that_count_move_the_position_to_resume_from() {
    for driver in DRIVERS {
        let server = ScriptedServer::start().await;
        let mut client = Example::drive(driver, &server.url, "k");
        check_positions(&server, &mut client, driver).await;
        check_positions_after_a_request(&server, &mut client).await;
        client.until_phase("closed").await;
        let updates = client.updates("odds_update", 1);
        assert_eq!(updates, [6, 7, 10, 12, 21], "{driver}");
        let received = client.messages("odds_update").len();
        assert_eq!(received, updates.len() + 2, "{driver}: two snapshots");
        // Race 1 was not followed until 8, but from then on.
        let gaps = client.states("gaps");
        assert_eq!(gaps.last(), Some(&json!(2)), "{driver}: {gaps:?}");
    }
}

#[tokio::test]
async fn the_heartbeats_of_the_service_set_how_long_a_client_waits() {
    for driver in DRIVERS {
        let server = ScriptedServer::start().await;
        let mut client = Example::drive(driver, &server.url, "k");
        let mut connection = server.accept().await;
        connection.send(&scripted::welcome("a")).await;
        connection.send(&complete(5)).await;
        client.until_phase("live").await;
        // The client requested heartbeats every second, and was given one every 5 seconds.
        tokio::select! {
            _ = server.accept() => panic!("{driver} has not waited"),
            () = tokio::time::sleep(Duration::from_secs(3)) => {}
        }
        connection.send(&heartbeat(6)).await;
        client.until_message("heartbeat", |_| true).await;
    }
}

fn resume_at(seq: u64) -> String {
    format!("since={seq}&recorded_at={}&epoch=a", recorded_at(seq))
}

async fn check_positions(server: &ScriptedServer, client: &mut Example, driver: &str) {
    let mut held_back = scripted::quote(1, 6, 5, 2.6);
    held_back["more"] = true.into();
    let first = server.accept().await;
    let key = Some("k".to_owned());
    let keys = match driver {
        "driver.py" => [key, None],
        _ => [None, key],
    };
    assert_eq!(first.keys, keys, "only browsers cannot set a header");
    let snapshot = scripted::snapshot(1, 5, 2.5);
    first
        .send_all([scripted::welcome("a"), snapshot, complete(5), held_back])
        .await;

    let mut second = server.accept().await;
    assert_eq!(second.resume, resume_at(5), "more messages belong to 6");
    second.send(&welcome_back("a", true)).await;
    second.send(&heartbeat(5)).await;
    client.until_message("heartbeat", |_| true).await;
    let phase = client.states("phase").pop();
    assert_eq!(phase, Some("connecting".into()), "missed messages follow");
    second.send(&complete(6)).await;
    client
        .until_message("snapshot_complete", |m| m["seq"] == 6)
        .await;
    client.command(&json!({ "subscribe": { "races": [1] } }));
    second.request().await;
    second
        .send_all([scripted::quote(1, 7, 6, 2.7), heartbeat(8)])
        .await;
}

/// The connections after the one that was lost before the answer to a request.
async fn check_positions_after_a_request(server: &ScriptedServer, client: &mut Example) {
    let welcome = welcome_back("a", true);
    let mut third = server.accept().await;
    assert_eq!(third.resume, resume_at(6), "its request is not complete");
    third.send(&welcome).await;
    let request = third.request().await;
    assert_eq!(request["op"], "subscribe", "it is sent again");
    let mut ack = scripted::welcome("a");
    (ack["event"], ack["op"]) = ("ack".into(), "subscribe".into());
    (ack["id"], ack["seq"]) = (request["id"].clone(), 8.into());
    let mut completed = complete(9);
    completed["id"] = request["id"].clone();
    for message in [&ack, &completed] {
        third.send(message).await;
    }
    client
        .until_message("snapshot_complete", |m| m["seq"] == 9)
        .await;
    client.command(&json!({ "subscribe": { "races": [0] } }));
    let rejected = third.request().await;
    third
        .send_all([
            json!({ "event": "error", "error": "invalid_parameter", "id": rejected["id"], "message": "not 0" }),
            scripted::quote(1, 10, 8, 3.0),
            scripted::quote(1, 12, 11, 3.2),
            heartbeat(13),
        ])
        .await;

    let mut fourth = server.accept().await;
    assert_eq!(fourth.resume, resume_at(13));
    fourth.send(&welcome).await;
    client.until_message("welcome", |_| true).await;
    client.command(&json!({ "resync": null }));
    let next = fourth.request().await;
    assert_eq!(
        next["op"], "resync",
        "the rejected request is not sent again"
    );
    // A snapshot is taken also if nothing has changed, and a resync excuses no gap.
    let mut ack = scripted::welcome("a");
    (ack["event"], ack["op"]) = ("ack".into(), "resync".into());
    (ack["id"], ack["seq"]) = (next["id"].clone(), 20.into());
    let mut completed = complete(20);
    completed["id"] = next["id"].clone();
    let snapshot = scripted::snapshot(1, 12, 3.2);
    for message in [ack, snapshot, completed, scripted::quote(1, 21, 19, 3.3)] {
        fourth.send(&message).await;
    }
    // A code that this version does not know.
    let closing =
        json!({ "event": "closing", "code": 4499, "reason": "never again", "retry_after_ms": 0 });
    fourth.send_all([closing]).await;
}

#[tokio::test]
async fn a_page_of_another_origin_is_told_why_it_cannot_connect() {
    let nats = Nats::start();
    for (origins, phase) in [
        (Origins::default(), "closed"),
        (Origins::default().and_loopback(), "live"),
    ] {
        let railbird = Railbird::start_with(&nats, |config| config.origins = origins).await;
        let mut browser = BrowserScript::start("live_odds.mjs", railbird.http, &[&railbird.key]);
        let reported = browser.done().await;
        browser.finished().await;
        let (state, answer) = (&reported["state"], &reported["answer"]);
        assert_eq!(state["phase"], phase, "{reported}");
        if phase == "closed" {
            assert_eq!(
                (&state["code"], &answer["status"]),
                (&json!(403), &json!(403))
            );
            assert_eq!(state["reason"], answer["message"]);
            let reason = state["reason"].as_str().unwrap();
            let origin = reported["origin"].as_str().unwrap();
            assert!(
                reason.contains(origin) && reason.contains("--origins"),
                "{reason}"
            );
        } else {
            assert_eq!(answer["status"], 200);
        }
    }
}

#[tokio::test]
async fn the_address_of_the_service_is_enough() {
    let nats = Nats::start();
    let railbird = Railbird::start(&nats).await;
    for driver in DRIVERS {
        let http = railbird.http;
        for url in [
            format!("http://{http}"),
            format!("ws://{http}/ws/live/odds/"),
        ] {
            Example::drive(driver, &url, &railbird.key)
                .until_phase("live")
                .await;
        }
    }
}
