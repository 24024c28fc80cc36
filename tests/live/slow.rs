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

/// What a slow client has received.
#[derive(Default)]
struct Received {
    seq: u64,
    sent: u64,
    merged: u64,
}

impl Received {
    fn take(&mut self, message: &Value) {
        assert_eq!(message["event"], "odds_update", "{message}");
        assert_eq!(message["prev_seq"], self.seq, "no gap without conflation");
        self.seq = message["seq"].as_u64().unwrap();
        if let Some(conflated) = message["conflated"].as_u64() {
            assert_eq!(message["conflated_by"], "backpressure");
            self.merged += conflated;
        } else {
            self.sent += 1;
        }
    }
}

/// The client reads one message while four are published. So it falls behind however long that takes, and is not taken
/// for one that reads nothing.
async fn check_slow_client(nats: &Nats, railbird: Railbird) {
    const ROUNDS: u64 = 24;
    const UPDATES: u64 = 500;
    let mut slow = Socket::open_with_small_buffer(railbird.http, &railbird.key).await;
    slow.until("snapshot_complete").await;
    let (mut received, mut last) = (Received::default(), 0);
    for round in 0..ROUNDS {
        let updates = round * UPDATES..(round + 1) * UPDATES;
        last = nats.publish(updates.map(full_field)).await;
        railbird.until_published(last).await;
        for _ in 0..UPDATES / 4 {
            if received.seq < last {
                received.take(&slow.next().await.unwrap());
            }
        }
    }
    while received.seq < last {
        received.take(&slow.next().await.unwrap());
    }
    let Received { sent, merged, .. } = received;
    assert!(merged > 0 && sent > 0, "{merged} and {sent}");
    assert_eq!(
        sent + merged,
        ROUNDS * UPDATES,
        "the number of merged updates is sent"
    );
}

#[tokio::test]
async fn a_conflating_client_that_reads_nothing_slows_no_other() {
    const ROUNDS: u64 = 4;
    const RACES: u64 = 90;
    const UPDATES: u64 = 1_000;
    let nats = Nats::start();
    let railbird = Railbird::start(&nats).await;
    // Each shard gets a client that does not read and one that does.
    let shards = std::thread::available_parallelism().map_or(1, |n| n.get().min(16));
    let (mut slow, mut listening) = (Vec::new(), Vec::new());
    for _ in 0..shards {
        slow.push((railbird.live("conflate_ms=50").await.0, Proof::default()));
    }
    for _ in 0..shards {
        listening.push(railbird.live("race=99").await.0);
    }
    for round in 0..ROUNDS {
        let quotes = (0..UPDATES).map(|n| {
            let mut quote = full_field(round * UPDATES + n);
            quote["data"]["race_number"] = (n % RACES + 1).into();
            quote
        });
        let seq = nats.publish(quotes).await;
        railbird.until_published(seq).await;
        let last = odds("ST", 99, &second((round + 1) * UPDATES), &[2.0]);
        let last = nats.publish([last]).await;
        for socket in &mut listening {
            assert_eq!(socket.next().await.unwrap()["seq"], last);
        }
        // One that read nothing for 30 seconds would be closed.
        for (socket, proof) in &mut slow {
            let mut sum = 0;
            while sum <= UPDATES {
                let message = socket.next().await.unwrap();
                proof.take(&message);
                sum += message["conflated"].as_u64().unwrap_or(1);
            }
            assert_eq!(sum, UPDATES + 1, "the number of merged updates is sent");
        }
    }
}
