//! `/ws/replay/odds`: a past day has the messages that a live client received.

use std::pin::pin;

use serde_json::{Value, json};
use simulator::{RaceDay, script};

use crate::support::*;

const DATE: &str = "2026-11-21";

/// The events of a simulated day of some races.
fn events(races: u16) -> Vec<Value> {
    let day = RaceDay::new(events::RacingDate::parse(DATE).unwrap(), races, 29);
    let midnight = "2026-11-20T16:00:00Z".parse().unwrap();
    let script = script(&day, &day.as_in_life(midnight));
    let events = script.iter().map(events::Envelope::encode);
    events
        .map(|event| serde_json::from_slice(&event).unwrap())
        .collect()
}

/// The messages about races up to the event with a sequence.
async fn until_seq(socket: &mut Socket, last: u64) -> Vec<Value> {
    let mut messages = Vec::new();
    loop {
        let message = socket
            .next_or_heartbeat()
            .await
            .expect("the socket stays open");
        let seq = message["seq"].as_u64().unwrap_or_default();
        match message["event"].as_str().unwrap() {
            "heartbeat" if seq >= last => return messages,
            "heartbeat" | "welcome" | "snapshot_complete" | "feed_update" => {}
            _ => messages.push(message),
        }
    }
}

async fn replay(railbird: &Railbird, query: &str) -> Socket {
    let path = format!(
        "/ws/replay/odds?heartbeat_ms=1000&api_key={}&{query}",
        railbird.key
    );
    Socket::connect(railbird.http, &path).await
}

/// The messages that a live client receives while events are published.
async fn received_live<T>(
    nats: &Nats,
    railbird: &Railbird,
    publishing: impl Future<Output = T>,
) -> (T, Vec<Value>) {
    let (mut socket, _) = railbird.live("heartbeat_ms=1000").await;
    let mut publishing = pin!(publishing);
    let mut live = Vec::new();
    let published = loop {
        tokio::select! {
            published = &mut publishing => break published,
            message = socket.next() => live.extend(message),
        }
    };
    live.extend(until_seq(&mut socket, nats.last_seq().await).await);
    live.retain(|message| message["event"] != "heartbeat");
    (published, live)
}

#[tokio::test]
async fn a_replay_has_the_messages_that_a_live_client_received() {
    let nats = Nats::start();
    let railbird = Railbird::start(&nats).await;
    let (last, live) = received_live(&nats, &railbird, nats.publish(events(2))).await;
    let mut socket = replay(&railbird, &format!("date={DATE}&speed=1000")).await;
    assert_eq!(until_seq(&mut socket, last).await, live);

    // Of one race, from the middle on, as a live client that resumes there.
    let of_race: Vec<&Value> = live
        .iter()
        .filter(|message| message["race_number"] == 2)
        .collect();
    let (before, after) = of_race.split_at(of_race.len() / 2);
    let point = before.last().unwrap();
    let query = format!(
        "date={DATE}&race=2&speed=1000&since={}&recorded_at={}",
        point["seq"],
        nats.recorded_at(point["seq"].as_u64().unwrap()).await
    );
    let mut socket = replay(&railbird, &query).await;
    let welcome = socket.next().await.unwrap();
    assert_eq!(welcome["recovered"], true, "{welcome}");
    let last_of_race = after.last().unwrap()["seq"].as_u64().unwrap();
    let replayed = until_seq(&mut socket, last_of_race).await;
    assert_eq!(replayed.iter().collect::<Vec<_>>(), after);
}

#[tokio::test]
async fn a_real_market_at_100_times_the_speed_has_the_messages_of_then() {
    let Some(data) = real_data() else { return };
    let nats = Nats::start();
    let service = Railbird::start(&nats).await;
    let file = data.join("odds_betfair/BASIC-1.132153978");
    let (file, url) = (file.display().to_string(), nats.url_of("feeder"));
    let importing = railbird(["import", "betfair-stream", &file, "--nats", &url]);
    let (output, live) = received_live(&nats, &service, importing).await;
    assert_eq!(output.code, 0, "{}", output.all);
    assert!(live.len() > 480, "{} messages", live.len());
    let mut socket = replay(&service, "date=2017-06-14&speed=100").await;
    assert_eq!(until_seq(&mut socket, nats.last_seq().await).await, live);
}

#[tokio::test]
async fn a_replay_stands_still_goes_on_and_moves_to_another_place() {
    let nats = Nats::start();
    let railbird = Railbird::start(&nats).await;
    let last = nats.publish(events(1)).await;
    railbird.until_seq(last).await;
    let mut socket = replay(&railbird, &format!("date={DATE}&speed=0.1")).await;
    let welcome = socket.next().await.unwrap();
    let is_of_race = |event: &Value| event["data"]["race_number"].is_number();
    let first = events(1).iter().position(is_of_race).unwrap() as u64 + 1;
    let span = json!({
        "first_at": nats.recorded_at(first).await, "last_at": nats.recorded_at(last).await, "last_seq": last,
    });
    assert_eq!(welcome["replay"], span);
    let (_, paused) = socket
        .request(&json!({ "op": "play", "id": 1, "paused": true }))
        .await;
    assert_eq!(
        (&paused["event"], &paused["op"]),
        (&json!("ack"), &json!("play"))
    );
    // Past all events, and then to the first one.
    for (seek, seq) in [("2100-01-01T00:00:00Z", last), ("2026-01-01T00:00:00Z", 0)] {
        let request = json!({ "op": "play", "seek": seek });
        socket.request(&request).await;
        loop {
            let message = socket.next_or_heartbeat().await.unwrap();
            if message["event"] == "heartbeat" && message["seq"] == seq {
                break;
            }
        }
    }
    socket
        .request(&json!({ "op": "play", "paused": false, "speed": 1000 }))
        .await;
    assert!(!until_seq(&mut socket, last).await.is_empty());
    for wrong in [
        json!({ "speed": 0 }),
        json!({ "seek": "then" }),
        json!({ "races": [] }),
    ] {
        let mut request = json!({ "op": "play" });
        request
            .as_object_mut()
            .unwrap()
            .extend(wrong.as_object().unwrap().clone());
        let (_, error) = socket.request(&request).await;
        assert_eq!(error["error"], "invalid_parameter", "{wrong}");
    }
    let (mut live, _) = railbird.live("").await;
    let (_, error) = live.request(&json!({ "op": "play", "speed": 2 })).await;
    assert_eq!(error["error"], "not_replay");
}

#[tokio::test]
async fn what_cannot_be_played_is_refused_before_the_handshake() {
    let nats = Nats::start();
    let railbird = Railbird::start(&nats).await;
    let last = nats.publish(events(1)).await;
    railbird.until_seq(last).await;
    for query in [
        "",
        "date=2026-11-21,2026-11-22",
        "date=2026-11-21&speed=0",
        "date=2026-11-21&from=then",
        "date=2026-11-21&spede=2",
    ] {
        let path = format!("/ws/replay/odds?{query}&api_key={}", railbird.key);
        let reply = Socket::refused(railbird.http, &path).await;
        assert_eq!(reply.status, 400, "{query}: {}", reply.text());
    }
    let reply = railbird.get(&format!("/ws/replay/odds?date={DATE}")).await;
    assert_eq!(reply.status, 426, "{}", reply.text());
}
