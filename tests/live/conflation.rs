//! Odds at most so often.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::{Proof, event_of, events, seq_of};
use crate::support::*;

/// How many updates messages of odds stand for.
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
async fn what_is_held_back_stands_for_all_of_it_and_comes_before_what_is_not() {
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
    let told = socket.until("status_update").await;
    assert_eq!(
        events(&told),
        ["odds_update", "odds_update", "status_update"]
    );
    let (alone, many) = (&told[0], &told[1]);
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
    assert_eq!((seq_of(&told[2]), &told[2]["prev_seq"]), (seq, &json!(0)));

    // And the image that comes with a runner's withdrawal comes at once, too.
    let seq = nats
        .publish([
            odds("ST", 1, &second(20), &[3.0, 4.0]),
            withdrawn("ST", 1, &second(21), "H2"),
        ])
        .await;
    let told = socket
        .until_one(|m| event_of(m) == "odds_update" && seq_of(m) == seq)
        .await;
    assert!(events(&told).contains(&"runner_update"), "{told:?}");
    assert_eq!(stand_for(&told), 2);
}

#[tokio::test]
async fn odds_come_at_most_so_often_and_say_how_many_they_are() {
    const CONFLATE_MS: u64 = 200;
    let (nats, railbird) = with_races().await;
    let (mut socket, opening) = railbird
        .live(&format!("conflate_ms={CONFLATE_MS}&heartbeat_ms=1000"))
        .await;
    let mut proof = Proof::default();
    proof.take_all(&opening);
    let began = Instant::now();
    let log = nats.log().await;
    let feeding = tokio::spawn(async move {
        let mut appender = log.appender(8);
        let (mut n, until) = (0, Instant::now() + Duration::from_millis(1500));
        while Instant::now() < until {
            n += 1;
            appender
                .append(outgoing(&odds("ST", 1, &second(n), &[2.0])))
                .await
                .unwrap();
        }
        appender.finish().await.unwrap();
        n
    });
    let mut told: Vec<Value> = Vec::new();
    let mut through = 0;
    let updates = loop {
        let message = socket.next_or_heartbeat().await.unwrap();
        if event_of(&message) == "heartbeat" {
            assert!(seq_of(&message) >= through, "never behind what was sent");
            // Nothing at or below it comes after it.
            through = seq_of(&message);
            continue;
        }
        assert!(
            seq_of(&message) > through,
            "a heartbeat was ahead of what was sent: {message}"
        );
        through = through.max(seq_of(&message) - 1);
        proof.take(&message);
        told.push(message);
        if feeding.is_finished() && railbird.app.feed.position().seq == seq_of(told.last().unwrap())
        {
            break feeding.await.unwrap();
        }
    };
    let took = u64::try_from(began.elapsed().as_millis()).unwrap();
    assert_eq!(stand_for(&told), updates);
    let at_most = took / CONFLATE_MS + 1;
    let came = told.len() as u64;
    assert!(came > 2 && came <= at_most, "{came} messages in {took} ms");
    assert!(told.iter().any(|m| m["conflated_by"] == "client"));
}

#[tokio::test]
async fn conflation_is_changed_on_the_fly() {
    let (nats, railbird) = with_races().await;
    let (mut socket, opening) = railbird.live("").await;
    let mut proof = Proof::default();
    proof.take_all(&opening);
    let quotes = |from: u64| (from..from + 5).map(|n| odds("ST", 1, &second(n), &[2.0]));
    let mut told = Vec::new();
    for (round, conflate_ms) in [60_000, 0, 59_999, 60_000, 0].into_iter().enumerate() {
        let (before, ack) = socket
            .request(&json!({ "op": "subscribe", "conflate_ms": conflate_ms }))
            .await;
        assert_eq!(ack["conflate_ms"], conflate_ms);
        told.extend(before);
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
            told.extend(came);
        }
    }
    proof.take_all(&told);
    assert_eq!(stand_for(&told), 25);
    let conflated: Vec<_> = told
        .iter()
        .filter_map(|m| m["conflated"].as_u64())
        .collect();
    assert_eq!(conflated, [5, 5, 5]);

    // Leaving what is held back unfollowed leaves it unsaid; resync says it as an image.
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
