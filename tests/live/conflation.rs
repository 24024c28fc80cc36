//! Conflated odds.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use serde_json::{Value, json};

use super::{Proof, event_of, events, seq_of};
use crate::support::*;

/// The number of updates that odds messages stand for.
fn stand_for(messages: &[Value]) -> u64 {
    let odds = messages
        .iter()
        .filter(|m| m["event"] == "odds_update" && m["snapshot"] != true);
    odds.map(|m| m["conflated"].as_u64().unwrap_or(1)).sum()
}

async fn with_races() -> (Nats, Railbird) {
    super::with_odds(&[("ST", 1), ("ST", 2)]).await
}

#[tokio::test]
async fn conflated_odds_are_sent_before_a_message_that_is_not_conflated() {
    let (nats, railbird) = with_races().await;
    let (mut socket, _) = railbird.live("conflate_ms=60000&heartbeat_ms=1000").await;
    let quotes = (1..=10).map(|n| odds("ST", if n == 4 { 2 } else { 1 }, &second(n), &[2.0]));
    let held = nats.publish(quotes).await;
    railbird.until_published(held).await;
    for _ in 0..2 {
        let beat = socket.next_or_heartbeat().await.unwrap();
        assert_eq!(event_of(&beat), "heartbeat", "odds are held back");
        assert_eq!(
            seq_of(&beat),
            2,
            "a heartbeat is not ahead of what was sent"
        );
    }
    let (before, ack) = socket.request(&json!({ "op": "ping" })).await;
    assert_eq!(
        (before.len(), seq_of(&ack)),
        (0, 2),
        "a ping gets nothing out"
    );
    let seq = nats.publish([status("ST", 2, &second(11), "closed")]).await;
    let received = socket.until("status_update").await;
    assert_eq!(
        events(&received),
        ["odds_update", "odds_update", "status_update"]
    );
    let (alone, many) = (&received[0], &received[1]);
    assert_eq!(
        (
            &alone["race_number"],
            seq_of(alone),
            &alone["prev_seq"],
            alone.get("conflated")
        ),
        (&json!(2), 6, &json!(2), None),
        "one that stands for itself is as ever"
    );
    assert_eq!(
        (
            &many["race_number"],
            seq_of(many),
            &many["prev_seq"],
            &many["conflated"],
            &many["conflated_by"]
        ),
        (&json!(1), 12, &json!(1), &json!(9), &json!("client"))
    );
    assert_eq!(
        (seq_of(&received[2]), &received[2]["prev_seq"]),
        (seq, &json!(0))
    );

    // The image after a withdrawal is sent at once, too.
    let seq = nats
        .publish([
            odds("ST", 1, &second(20), &[3.0, 4.0]),
            withdrawn("ST", 1, &second(21), "H2"),
        ])
        .await;
    let received = socket
        .until_one(|m| event_of(m) == "odds_update" && seq_of(m) == seq)
        .await;
    assert!(events(&received).contains(&"runner_update"), "{received:?}");
    assert_eq!(stand_for(&received), 2);
}

#[tokio::test]
async fn odds_are_sent_once_per_interval_with_the_number_of_merged_updates() {
    const CONFLATE_MS: u64 = 200;
    let (nats, railbird) = with_races().await;
    let (mut socket, opening) = railbird
        .live(&format!("conflate_ms={CONFLATE_MS}&heartbeat_ms=1000"))
        .await;
    let mut proof = Proof::default();
    proof.take_all(&opening);
    let started = Instant::now();
    let (log, enough) = (nats.log().await, Arc::<AtomicBool>::default());
    let has_enough = Arc::clone(&enough);
    let mut publishing = tokio::spawn(async move {
        let mut appender = log.appender();
        let mut n = 0;
        while !has_enough.load(Ordering::Relaxed) {
            n += 1;
            appender
                .append(outgoing(&odds("ST", 1, &second(n), &[2.0])))
                .await
                .unwrap();
        }
        let appended = appender.finish().await.unwrap();
        (n, appended.last().unwrap().seq)
    });
    let mut received: Vec<Value> = Vec::new();
    let (mut through, mut published) = (0, None);
    let updates = loop {
        if published.is_none() && publishing.is_finished() {
            published = Some((&mut publishing).await.unwrap());
        }
        if let Some((updates, last)) = published
            && received.last().map(seq_of) == Some(last)
        {
            break updates;
        }
        let message = socket.next_or_heartbeat().await.unwrap();
        if event_of(&message) == "heartbeat" {
            assert!(seq_of(&message) >= through, "never behind what was sent");
            // Nothing at or below it follows.
            through = seq_of(&message);
            continue;
        }
        assert!(
            seq_of(&message) > through,
            "a heartbeat was ahead of what was sent: {message}"
        );
        through = through.max(seq_of(&message) - 1);
        proof.take(&message);
        received.push(message);
        enough.store(received.len() > 6, Ordering::Relaxed);
    };
    let took = u64::try_from(started.elapsed().as_millis()).unwrap();
    assert_eq!(stand_for(&received), updates);
    let at_most = took / CONFLATE_MS + 1;
    let came = received.len() as u64;
    assert!(came <= at_most, "{came} messages in {took} ms");
    assert!(received.iter().any(|m| m["conflated_by"] == "client"));
}

#[tokio::test]
async fn conflation_can_change_during_a_connection() {
    let (nats, railbird) = with_races().await;
    let (mut socket, opening) = railbird.live("").await;
    let mut proof = Proof::default();
    proof.take_all(&opening);
    let quotes = |from: u64| (from..from + 5).map(|n| odds("ST", 1, &second(n), &[2.0]));
    let mut received = Vec::new();
    for (round, conflate_ms) in [60_000, 0, 59_999, 60_000, 0].into_iter().enumerate() {
        let (before, ack) = socket
            .request(&json!({ "op": "subscribe", "conflate_ms": conflate_ms }))
            .await;
        assert_eq!(ack["conflate_ms"], conflate_ms);
        received.extend(before);
        let done = socket.until("snapshot_complete").await;
        assert_eq!(
            done.len(),
            1,
            "what was held back was sent before the answer: {done:?}"
        );
        let seq = nats.publish(quotes(10 * round as u64 + 1)).await;
        railbird.until_published(seq).await;
        if conflate_ms == 0 {
            let came = socket.until_one(|m| seq_of(m) == seq).await;
            assert_eq!(came.len(), 5, "each by itself again: {came:?}");
            received.extend(came);
        }
    }
    proof.take_all(&received);
    assert_eq!(stand_for(&received), 25);
    let conflated: Vec<_> = received
        .iter()
        .filter_map(|m| m["conflated"].as_u64())
        .collect();
    assert_eq!(conflated, [5, 5, 5]);

    // A resync sends what is held back, and then the images.
    socket
        .request(&json!({ "op": "subscribe", "conflate_ms": 60_000 }))
        .await;
    socket.until("snapshot_complete").await;
    let seq = nats.publish(quotes(90)).await;
    railbird.until_published(seq).await;
    let (before, _) = socket.request(&json!({ "op": "resync" })).await;
    assert_eq!(stand_for(&before), 5);
    let images = socket.until("snapshot_complete").await;
    assert_eq!(images.len(), 3);
}
