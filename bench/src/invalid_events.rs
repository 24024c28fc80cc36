//! A feeder that publishes invalid events as fast as it can.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use anyhow::Context;
use async_nats::jetstream;
use bytes::Bytes;
use serde_json::{Value, json};

/// Messages in flight: enough to keep the server busy.
const WINDOW: usize = 1024;
/// With every write synced, a slow disk needs seconds for a window.
const ACK_TIMEOUT: Duration = Duration::from_secs(60);

/// Messages that are rejected, each for another reason.
fn invalid_events(bytes: usize) -> Vec<(&'static str, Bytes)> {
    let event = |kind: &str, data: Value| {
        let event = json!({
            "specversion": "1.0", "id": "01", "source": "garbage", "type": kind, "time": "2026-11-21T06:03:12Z", "data": data,
            "noise": "x".repeat(bytes),
        });
        Bytes::from(event.to_string())
    };
    let quote = |race: u64, win: &Value| {
        let runners = json!([{ "horse_no": "H1", "win": win }]);
        let data =
            json!({ "date": "2026-11-21", "venue": "ST", "race_number": race, "runners": runners });
        event("racing.odds.quoted.v1", data)
    };
    vec![
        ("racing.odds.2026-11-21.ST.3", "x".repeat(bytes).into()),
        (
            "racing.odds.2026-11-21.ST.3",
            event("racing.odds.guessed.v9", json!({})),
        ),
        ("racing.odds.2026-11-21.ST.3", quote(3, &"much".into())),
        ("racing.odds.2026-11-21.ST.4", quote(3, &2.5.into())),
        ("racing.nonsense", quote(3, &2.5.into())),
    ]
}

/// Publishes invalid events with `bytes` of noise for `seconds`, at most `count` messages.
pub(crate) async fn publish(
    nats: &str,
    bytes: usize,
    seconds: f64,
    count: u64,
) -> anyhow::Result<Value> {
    let events = invalid_events(bytes);
    let jetstream = jetstream::context::ContextBuilder::new()
        .ack_timeout(ACK_TIMEOUT)
        .build(async_nats::connect(nats).await?);
    let begun = Instant::now();
    let length = Duration::from_secs_f64(seconds);
    let mut in_flight = VecDeque::with_capacity(WINDOW);
    let mut published = 0_u64;
    for (subject, payload) in events.iter().cycle().take(count as usize) {
        if begun.elapsed() >= length {
            break;
        }
        if in_flight.len() == WINDOW {
            in_flight.pop_front().context("the window is full")?.await?;
        }
        in_flight.push_back(jetstream.publish(*subject, payload.clone()).await?);
        published += 1;
    }
    for ack in in_flight {
        ack.await?;
    }
    Ok(json!({ "events": published, "seconds": begun.elapsed().as_secs_f64() }))
}
