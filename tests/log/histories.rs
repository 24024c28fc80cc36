//! A log that has lost its last events and has others under their numbers: the two histories are never mixed.

use railbird::log::RACING;
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::time::timeout;

use crate::support::*;

/// The events that both histories have.
const COMMON: u64 = 5;
/// The price in the events that were lost, and in those that took their numbers.
const LOST: f64 = 7.0;
const KEPT: f64 = 3.0;

fn quotes(race: u16, seconds: std::ops::Range<u64>, price: f64) -> impl Iterator<Item = Value> {
    seconds.map(move |n| odds("ST", race, &second(n), &[price]))
}

/// A server with the common events, and a copy of its log. Services are connected again after it was made.
async fn server_and_copy(nats: &mut Nats) -> TempDir {
    assert_eq!(nats.publish(quotes(1, 0..COMMON, 2.0)).await, COMMON);
    nats.kill();
    let copy = nats.back_up(RACING.name);
    nats.start_again();
    copy
}

/// Where a client resumes after a message.
fn position(message: &Value, epoch: &Value) -> Value {
    json!({ "since": message["seq"], "epoch": epoch, "recorded_at": message["recorded_at"] })
}

fn query(position: &Value) -> String {
    let fields = position.as_object().unwrap().iter();
    let fields = fields.filter(|(_, value)| !value.is_null());
    let fields = fields.map(|(name, value)| match value.as_str() {
        Some(text) => format!("{name}={text}"),
        None => format!("{name}={value}"),
    });
    fields.collect::<Vec<_>>().join("&")
}

/// What a client is sent that resumes by its URL, and one that resumes by a message: from the outcome on.
async fn resume(railbird: &Railbird, position: &Value) -> [Vec<Value>; 2] {
    let (_, by_url) = railbird.live(&query(position)).await;
    let (mut socket, _) = railbird.live("").await;
    let mut request = position.clone();
    request["op"] = "subscribe".into();
    let (before, ack) = socket.request(&request).await;
    assert_eq!(before.len(), 0);
    let rest = socket.until("snapshot_complete").await;
    [by_url, [vec![ack], rest].concat()]
}

/// Positions of a client that received everything up to the end of a history that is lost afterwards, by messages of
/// each kind.
async fn positions_in_a_lost_history(nats: &Nats) -> Vec<Value> {
    let railbird = Railbird::start(nats).await;
    railbird.until_published(COMMON).await;
    let (mut socket, opening) = railbird.live("heartbeat_ms=1000").await;
    let epoch = &opening[0]["epoch"];
    let lost = [
        odds("ST", 1, &second(10), &[LOST]),
        card(DAY, "ST", 1, 2),
        withdrawn("ST", 1, &second(11), "H2"),
        status("ST", 1, &second(12), "closed"),
        result(DAY, "ST", 1, 2, 1),
        // One that makes no message: the position is that of a heartbeat.
        registered("H9", "HORSE 9"),
    ];
    let last = nats.publish(lost).await;
    let heartbeat = |m: &Value| m["event"] == "heartbeat" && m["seq"] == last;
    let mut received = Vec::new();
    while !received.last().is_some_and(heartbeat) {
        received.push(socket.next_or_heartbeat().await.unwrap());
    }
    received.retain(|message| message["seq"].as_u64() > Some(COMMON));
    let (_, opening) = railbird.live("").await;
    received.push(opening.last().unwrap().clone());
    let mut events: Vec<&str> = received
        .iter()
        .map(|m| m["event"].as_str().unwrap())
        .collect();
    events.sort_unstable();
    events.dedup();
    let expected = [
        "card_update",
        "heartbeat",
        "odds_update",
        "result_update",
        "runner_update",
        "snapshot_complete",
        "status_update",
    ];
    assert_eq!(events, expected);
    let positions = received.iter().map(|message| position(message, epoch));
    let positions = positions.collect();
    railbird.stop().await;
    positions
}

/// What a client receives that resumes in a history that the log does not have.
fn check_not_resumed(received: &[Value], reason: &str, last: u64) {
    let [outcome, image, complete] = received else {
        panic!("{received:?}")
    };
    assert_eq!(
        (&outcome["recovered"], &outcome["reason"]),
        (&json!(false), &json!(reason)),
        "{outcome}"
    );
    assert_eq!(
        (
            &image["snapshot"],
            &image["seq"],
            &image["runners"][0]["win"]
        ),
        (&json!(true), &json!(last), &json!(KEPT))
    );
    assert_eq!(complete["races"], 1);
}

#[tokio::test]
async fn a_position_in_a_lost_history_is_resumed_on_no_replica() {
    let mut nats = Nats::start();
    let copy = server_and_copy(&mut nats).await;
    let behind = tempfile::tempdir().unwrap();
    let railbird = Railbird::start_in(&nats, behind.path()).await;
    railbird.until_published(COMMON).await;
    let (_, opening) = railbird.live("").await;
    let common = position(&opening[1], &opening[0]["epoch"]);
    railbird.stop().await;
    let lost = positions_in_a_lost_history(&nats).await;

    nats.kill();
    let last = nats.rewrite_after(&copy, quotes(1, 20..40, KEPT)).await;
    nats.start_again();
    let replicas = [
        (
            "that never saw the lost events",
            Railbird::start_in(&nats, behind.path()).await,
        ),
        ("with new views", Railbird::start(&nats).await),
    ];
    for (name, railbird) in &replicas {
        railbird.until_published(last).await;
        for position in &lost {
            for received in resume(railbird, position).await {
                println!("a replica {name}, {position}");
                check_not_resumed(&received, "other_history", last);
            }
            let mut unproven = position.clone();
            unproven["recorded_at"] = Value::Null;
            for received in resume(railbird, &unproven).await {
                check_not_resumed(&received, "unproven", last);
            }
        }
        let nothing = json!({ "since": 0, "epoch": common["epoch"] });
        for (position, received_before) in [(&common, COMMON), (&nothing, 0)] {
            for received in resume(railbird, position).await {
                assert_eq!(received[0]["recovered"], true, "{name}, {position}");
                let seqs: Vec<u64> = received[1..received.len() - 1]
                    .iter()
                    .map(|message| message["seq"].as_u64().unwrap())
                    .collect();
                assert_eq!(seqs, (received_before + 1..=last).collect::<Vec<_>>());
            }
        }
    }
}

/// The win price of the first runner on a board; `None` if it is not served.
async fn price(railbird: &Railbird, race: u16) -> Option<f64> {
    let reply = railbird.get(&format!("/api/v1/odds/{DAY}/{race}")).await;
    assert!([200, 404, 503].contains(&reply.status), "{}", reply.text());
    let board = (reply.status == 200).then(|| reply.json())?;
    board["runners"][0]["win"].as_f64()
}

#[tokio::test]
async fn sockets_start_over_when_the_end_of_the_log_was_replaced_under_steady_traffic() {
    let mut nats = Nats::start();
    let copy = server_and_copy(&mut nats).await;
    let railbird = Railbird::start(&nats).await;
    railbird.until_published(COMMON).await;
    let (mut socket, _) = railbird.live("heartbeat_ms=1000").await;
    let seq = nats.publish(quotes(1, 10..15, LOST)).await;
    let seq = nats.publish(quotes(2, 10..15, LOST)).await.max(seq);
    socket.until_one(|message| message["seq"] == seq).await;
    assert_eq!(price(&railbird, 2).await, Some(LOST));

    nats.kill();
    let last = nats.rewrite_after(&copy, quotes(1, 20..40, KEPT)).await;
    nats.start_again();
    let traffic = async {
        for n in 40.. {
            nats.publish(quotes(1, n..n + 1, KEPT)).await;
        }
    };
    let client = async {
        railbird.accept_log(RACING).await;
        let resync = loop {
            let message = socket.next_or_heartbeat().await.unwrap();
            if message["event"] != "heartbeat" {
                break message;
            }
            assert_eq!(message["seq"], seq, "no other event was sent: {message}");
        };
        assert_eq!(resync["event"], "resync", "{resync}");
        let image = socket.next().await.unwrap();
        let key = |m: &Value| (m["race_number"].clone(), m["runners"][0]["win"].clone());
        assert_eq!(key(&image), (json!(1), json!(KEPT)));
        let mut prev_seq = image["seq"].as_u64().unwrap();
        assert!(prev_seq >= last);
        assert_eq!(socket.next().await.unwrap()["races"], 1);
        for _ in 0..50 {
            let update = socket.next().await.unwrap();
            assert_eq!(update["prev_seq"], prev_seq);
            assert_eq!(key(&update), key(&image));
            prev_seq = update["seq"].as_u64().unwrap();
        }
    };
    tokio::select! {
        () = traffic => unreachable!(),
        () = client => {}
    }
    assert_eq!(price(&railbird, 1).await, Some(KEPT));
    assert_eq!(price(&railbird, 2).await, None);
}

/// Reads what a service serves that starts on views of a lost history, up to its first live answer.
async fn check_start(railbird: &Railbird) {
    let is_live = |reply: &Reply| reply.status == 200 && reply.header("railbird-feed") == "live";
    loop {
        let board = async |race: u16| railbird.get(&format!("/api/v1/odds/{DAY}/{race}")).await;
        let (lost, kept) = (board(2).await, board(1).await);
        assert!(!is_live(&lost), "{}", lost.text());
        if is_live(&kept) {
            assert_eq!(kept.json()["runners"][0]["win"], KEPT, "{}", kept.text());
            return;
        }
    }
}

#[tokio::test]
async fn a_restart_serves_nothing_of_a_lost_history() {
    // The log has grown as far as it was, or farther.
    for grown_by in [5, 20] {
        let mut nats = Nats::start();
        let copy = server_and_copy(&mut nats).await;
        let data = tempfile::tempdir().unwrap();
        let railbird = Railbird::start_in(&nats, data.path()).await;
        let seq = nats.publish(quotes(2, 10..15, LOST)).await;
        railbird.until_published(seq).await;
        assert_eq!(price(&railbird, 2).await, Some(LOST));
        let key = railbird.key.clone();
        railbird.stop().await;

        nats.kill();
        let kept = quotes(1, 20..20 + grown_by, KEPT);
        let last = nats.rewrite_after(&copy, kept).await;
        nats.start_again();
        let mut railbird = Railbird::start_unready(&nats.url(), data.path()).await;
        railbird.key = key;
        let accept = railbird.accept_log(RACING);
        let (checked, ()) = tokio::join!(timeout(PATIENCE, check_start(&railbird)), accept);
        checked.unwrap();
        railbird.until_published(last).await;
        assert_eq!(price(&railbird, 2).await, None);
    }
}
