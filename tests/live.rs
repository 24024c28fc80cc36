//! The live odds channel: the image of every open race, then every change, in order, with proof.

use serde_json::{Value, json};

use crate::support::*;

fn seqs(messages: &[Value], race_number: u16) -> Vec<(u64, u64)> {
    let of_race = messages
        .iter()
        .filter(|m| m["event"] == "odds_update" && m["race_number"] == race_number);
    of_race
        .map(|m| (m["prev_seq"].as_u64().unwrap(), m["seq"].as_u64().unwrap()))
        .collect()
}

#[tokio::test]
async fn a_socket_gets_the_open_races_and_then_every_update_in_order() {
    let nats = Nats::start();
    let railbird = Railbird::start(&nats).await;
    let status = |status: &str| {
        event(
            "race.status_changed",
            &second(5),
            of_race(DAY, "ST", 3, json!({ "status": status })),
        )
    };
    nats.publish([
        card(DAY, "ST", 1, 2),
        card(DAY, "ST", 2, 2),
        card(DAY, "ST", 3, 2),
    ])
    .await;
    let seq = nats
        .publish([
            odds("ST", 1, &second(0), &[3.5, 1.4]),
            odds("ST", 2, &second(1), &[2.0, 2.0]),
            odds("ST", 1, &second(2), &[3.6, 1.4]),
            odds("ST", 3, &second(3), &[9.0, 1.1]),
            status("finished"),
        ])
        .await;
    railbird.until_seq(seq).await;

    let mut socket = Socket::open(railbird.http, &railbird.key).await;
    let opening = socket.until("snapshot_complete").await;
    assert_eq!(opening[0]["event"], "welcome");
    assert_eq!(opening.last().unwrap()["races"], 2, "race 3 is over");
    assert!(opening[1..3].iter().all(|m| m["snapshot"] == true));
    assert_eq!(
        (seqs(&opening, 1), seqs(&opening, 2), seqs(&opening, 3)),
        (vec![(4, 6)], vec![(0, 5)], vec![])
    );
    let image = &opening[1];
    assert_eq!(
        (&image["date"], &image["venue"], &image["venue_code"]),
        (&json!(DAY), &json!("Sha Tin"), &json!("ST"))
    );
    assert_eq!(image["runners"][0]["horse_no"], "H1");
    assert_eq!(
        (&image["runners"][0]["win"], &image["runners"][0]["number"]),
        (&json!(3.6), &json!(1))
    );

    let withdrawn = event(
        "runner.withdrawn",
        &second(6),
        of_race(DAY, "ST", 2, json!({ "horse_no": "H2" })),
    );
    nats.publish([
        odds("ST", 1, &second(7), &[3.7]),
        withdrawn,
        odds("ST", 1, &second(8), &[3.8]),
        odds("ST", 1, &second(1), &[99.0]),
    ])
    .await;
    let last = nats.publish([odds("ST", 2, &second(9), &[2.5])]).await;
    let mut updates = Vec::new();
    while updates.last().is_none_or(|m: &Value| m["seq"] != last) {
        updates.push(socket.next().await.unwrap());
    }
    let told: Vec<&str> = updates
        .iter()
        .map(|m| m["event"].as_str().unwrap())
        .collect();
    let image = "odds_update";
    assert_eq!(told, [image, "runner_update", image, image, image]);
    assert_eq!(
        seqs(&updates, 1),
        [(6, 9), (9, 11)],
        "the stale quote is no update"
    );
    assert_eq!(seqs(&updates, 2), [(5, 10), (10, 13)]);
    let runners = |m: &Value| m["runners"].as_array().unwrap().len();
    assert!(
        updates
            .iter()
            .filter(|m| m["event"] == image)
            .all(|m| runners(m) == 2),
        "any message heals any loss"
    );
    let scratched = &updates.iter().rfind(|m| m["seq"] == 10).unwrap()["runners"][1];
    assert_eq!(
        (&scratched["win"], &scratched["state"]),
        (&Value::Null, &json!("scratched"))
    );
    let board = railbird.get(&format!("/api/v1/odds/{DAY}/2")).await.json();
    assert_eq!(
        board["seq"], last,
        "what a socket has said, a GET already knows"
    );
    assert_eq!(board["runners"], updates.last().unwrap()["runners"]);
}

#[tokio::test]
async fn sockets_that_join_while_odds_move_miss_nothing() {
    const UPDATES: u64 = 400;
    let nats = Nats::start();
    let railbird = Railbird::start(&nats).await;
    let feeding = {
        let log = nats.log().await;
        tokio::spawn(async move {
            let mut appender = log.appender(8);
            for n in 0..UPDATES {
                #[expect(clippy::cast_precision_loss, reason = "small")]
                let prices = [2.0 + n as f64 / 10.0, 3.0];
                appender
                    .append(outgoing(&odds(
                        "ST",
                        u16::try_from(n % 2).unwrap() + 1,
                        &second(n),
                        &prices,
                    )))
                    .await
                    .unwrap();
            }
            appender.finish().await.unwrap();
        })
    };
    let mut listeners = Vec::new();
    for _ in 0..8 {
        let (http, key) = (railbird.http, railbird.key.clone());
        listeners.push(tokio::spawn(async move {
            let mut socket = Socket::open(http, &key).await;
            let mut last = [0_u64; 3];
            while last.iter().max() != Some(&UPDATES) {
                let message = socket.next().await.unwrap();
                if message["event"] != "odds_update" {
                    continue;
                }
                let race = usize::try_from(message["race_number"].as_u64().unwrap()).unwrap();
                if message["snapshot"] != true {
                    assert_eq!(
                        message["prev_seq"], last[race],
                        "nothing missing, nothing twice"
                    );
                }
                last[race] = message["seq"].as_u64().unwrap();
            }
        }));
        railbird
            .until_seq(railbird.app.views.current().seq() + 20)
            .await;
    }
    feeding.await.unwrap();
    for listener in listeners {
        listener.await.unwrap();
    }
}

#[tokio::test]
async fn a_service_that_stops_says_goodbye() {
    let nats = Nats::start();
    let railbird = Railbird::start(&nats).await;
    let mut socket = Socket::open(railbird.http, &railbird.key).await;
    socket.until("snapshot_complete").await;
    let stopping = tokio::spawn(railbird.stop());
    assert_eq!(socket.next().await.unwrap()["event"], "closing");
    assert!(socket.next().await.is_none());
    stopping.await.unwrap();
}

#[tokio::test]
async fn the_header_is_taken_too_and_no_upgrade_is_no_crash() {
    let nats = Nats::start();
    let railbird = Railbird::start(&nats).await;
    assert_eq!(
        railbird.get("/ws/live/odds").await.status,
        426,
        "a valid key, but no WebSocket handshake"
    );
    assert_eq!(railbird.get_open("/ws/live/odds").await.status, 401);
}

/// Twelve runners with a new price each, so that a few thousand images overflow what the system buffers for a socket.
fn full_field(n: u64) -> Value {
    #[expect(clippy::cast_precision_loss, reason = "small")]
    let prices: Vec<f64> = (0..12)
        .map(|r| 2.0 + ((n + r) % 500) as f64 / 10.0)
        .collect();
    odds("ST", 1, &second(n), &prices)
}

#[tokio::test]
async fn a_socket_that_does_not_read_is_moved_on_and_told_so() {
    const UPDATES: u64 = 12_000;
    let nats = Nats::start();
    let railbird = Railbird::start(&nats).await;
    let mut slow = Socket::open(railbird.http, &railbird.key).await;
    slow.until("snapshot_complete").await;
    let last = nats.publish((0..UPDATES).map(full_field)).await;
    railbird.until_seq(last).await;

    let mut prev = 0;
    let (mut sent, mut merged) = (0, 0);
    while prev < last {
        let message = slow.next().await.unwrap();
        assert_eq!(message["event"], "odds_update");
        assert_eq!(message["prev_seq"], prev, "never a hole without a word");
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
        "it is said how many each message stands for"
    );
}
