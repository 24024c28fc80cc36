//! Clients that do not read.

use serde_json::Value;

use super::Proof;
use crate::support::*;

/// Twelve runners with a new price each: a few thousand images overflow the system's buffer of a socket.
fn full_field(n: u64) -> Value {
    #[expect(clippy::cast_precision_loss, reason = "small")]
    let prices: Vec<f64> = (0..12)
        .map(|r| 2.0 + ((n + r) % 500) as f64 / 10.0)
        .collect();
    odds("ST", 1, &second(n), &prices)
}

#[tokio::test]
async fn a_slow_client_is_moved_on_with_conflated_messages() {
    let nats = Nats::start();
    check_slow_client(&nats, Railbird::start(&nats).await).await;
}

#[tokio::test]
async fn a_slow_client_with_tls_is_moved_on_as_well() {
    let nats = Nats::start();
    check_slow_client(&nats, Railbird::start_with_tls(&nats).await).await;
}

async fn check_slow_client(nats: &Nats, railbird: Railbird) {
    const UPDATES: u64 = 12_000;
    let mut slow = Socket::open(railbird.http, &railbird.key).await;
    slow.until("snapshot_complete").await;
    let last = nats.publish((0..UPDATES).map(full_field)).await;
    railbird.until_seq(last).await;

    let mut prev = 0;
    let (mut sent, mut merged) = (0, 0);
    while prev < last {
        let message = slow.next().await.unwrap();
        assert_eq!(message["event"], "odds_update");
        assert_eq!(message["prev_seq"], prev, "no gap without conflation");
        prev = message["seq"].as_u64().unwrap();
        if let Some(conflated) = message["conflated"].as_u64() {
            assert_eq!(message["conflated_by"], "backpressure");
            merged += conflated;
        } else {
            sent += 1;
        }
    }
    assert!(merged > 0 && sent > 0);
    assert_eq!(
        sent + merged,
        UPDATES,
        "the number of merged updates is sent"
    );
}

#[tokio::test]
async fn a_conflating_client_that_reads_nothing_slows_no_other() {
    const RACES: u64 = 90;
    const UPDATES: u64 = 4_000;
    let nats = Nats::start();
    let railbird = Railbird::start(&nats).await;
    // Each shard gets a client that does not read and one that does.
    let shards = std::thread::available_parallelism().map_or(1, |n| n.get().min(16));
    let (mut slow, mut listening) = (Vec::new(), Vec::new());
    for _ in 0..shards {
        slow.push(railbird.live("conflate_ms=50").await.0);
    }
    for _ in 0..shards {
        listening.push(railbird.live("race=99").await.0);
    }
    let quotes = (0..UPDATES).map(|n| {
        let mut quote = full_field(n);
        quote["data"]["race_number"] = (n % RACES + 1).into();
        quote
    });
    let seq = nats.publish(quotes).await;
    railbird.until_published(seq).await;
    let last = nats
        .publish([odds("ST", 99, &second(UPDATES), &[2.0])])
        .await;
    for socket in &mut listening {
        assert_eq!(socket.next().await.unwrap()["seq"], last);
    }
    for socket in &mut slow {
        let (mut proof, mut sum) = (Proof::default(), 0);
        while sum <= UPDATES {
            let message = socket.next().await.unwrap();
            proof.take(&message);
            sum += message["conflated"].as_u64().unwrap_or(1);
        }
        assert_eq!(sum, UPDATES + 1, "the number of merged updates is sent");
    }
}
