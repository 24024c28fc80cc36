//! The handshake and the end of connections.

use std::collections::BTreeSet;

use futures::future::join_all;
use railbird::http::Origins;
use railbird::log::ACCOUNTS;
use serde_json::{Value, json};

use super::events;
use crate::support::*;

/// Checks the close code of a connection. Returns `retry_after_ms`.
fn closed(end: &(Vec<Value>, Option<u16>), code: u16) -> u64 {
    let (messages, closed) = end;
    let last = messages.last().expect("a closing message");
    assert_eq!(
        (&last["event"], &last["code"], closed),
        (&json!("closing"), &json!(code), &Some(code))
    );
    assert!(
        last["reason"]
            .as_str()
            .is_some_and(|reason| !reason.is_empty())
    );
    last["retry_after_ms"].as_u64().unwrap()
}

#[tokio::test]
async fn a_stopping_service_sends_closing_with_a_random_retry_time() {
    let nats = Nats::start();
    let railbird = Railbird::start(&nats).await;
    let mut sockets = Vec::new();
    for _ in 0..20 {
        sockets.push(railbird.live("").await.0);
    }
    let stopping = tokio::spawn(railbird.stop());
    let mut times = BTreeSet::new();
    for socket in &mut sockets {
        let end = socket.until_closed().await;
        assert_eq!(events(&end.0), ["closing"]);
        let retry_after_ms = closed(&end, 1001);
        assert!((500..5000).contains(&retry_after_ms), "{retry_after_ms}");
        times.insert(retry_after_ms);
    }
    assert!(times.len() > 10, "the times differ: {times:?}");
    stopping.await.unwrap();
}

#[tokio::test]
async fn the_key_header_is_accepted_and_a_request_without_upgrade_is_426() {
    let nats = Nats::start();
    let railbird = Railbird::start(&nats).await;
    let reply = railbird.get("/ws/live/odds").await;
    assert_eq!(
        (reply.status, reply.json()["error"].as_str()),
        (426, Some("upgrade_required")),
        "a valid key, but no WebSocket handshake"
    );
    assert_eq!(reply.header("upgrade"), "websocket");
    assert_eq!(railbird.get_open("/ws/live/odds").await.status, 401);
    for path in ["/ws/live/odds", "/ws/live/odds/1"] {
        for query in ["", "?api_key=", "?api_key=rb_nonsense", "?date=nonsense"] {
            let reply = Socket::refused(railbird.http, &format!("{path}{query}")).await;
            assert_eq!(
                (reply.status, reply.text().as_str()),
                (401, railbird::http::UNAUTHORIZED_BODY)
            );
        }
    }
    let header = [("x-api-key", railbird.key.as_str())];
    assert_eq!(
        Socket::refused_with(railbird.http, "/ws/live/odds", &header)
            .await
            .status,
        101
    );
}

#[tokio::test]
async fn other_origins_are_rejected() {
    let nats = Nats::start();
    let change = |config: &mut railbird::app::Config| {
        config.origins = Origins::new(vec!["https://racing.example".to_owned()]);
    };
    let railbird = Railbird::start_with(&nats, change).await;
    let path = format!("/ws/live/odds?api_key={}", railbird.key);
    let own = format!("http://{}", railbird.http);
    let behind_tls = format!("https://{}", railbird.http);
    for (origin, status) in [
        ("https://racing.example", 101),
        ("HTTPS://Racing.Example", 101),
        (&own, 101),
        (&behind_tls, 101),
        ("http://racing.example", 403),
        ("https://racing.example.evil", 403),
        ("null", 403),
    ] {
        let reply = Socket::refused_with(railbird.http, &path, &[("origin", origin)]).await;
        assert_eq!(reply.status, status, "{origin}");
        if status == 403 {
            assert_eq!(reply.json()["error"], "origin_not_allowed");
        }
    }
    assert_eq!(
        Socket::refused(railbird.http, &path).await.status,
        101,
        "a request without an origin is not from a web page"
    );
    let origin = [("origin", "https://other.example")];
    let keyless = Socket::refused_with(railbird.http, "/ws/live/odds", &origin).await;
    assert_eq!(keyless.status, 401);
    let statuses = [Origins::default(), Origins::new(vec!["*".to_owned()])].map(async |origins| {
        let railbird = Railbird::start_with(&nats, |config| config.origins = origins).await;
        let path = format!("/ws/live/odds?api_key={}", railbird.key);
        let reply = Socket::refused_with(railbird.http, &path, &origin).await;
        reply.status
    });
    assert_eq!(join_all(statuses).await, [403, 101]);
}

/// A mistyped filter must not select everything.
#[tokio::test]
async fn a_mistyped_parameter_is_an_error_with_the_known_ones() {
    let nats = Nats::start();
    let railbird = Railbird::start(&nats).await;
    for (path, query, message) in [
        (
            "",
            "venues=ST",
            "there is no \"venues\"; there are date, venue, race, horse, api_key,",
        ),
        ("", "Race=3", "there is no \"Race\"; there are date,"),
        (
            "/1",
            "race=3",
            "there is no \"race\"; there are venue, api_key,",
        ),
    ] {
        let path = format!("/ws/live/odds{path}?api_key={}&{query}", railbird.key);
        let reply = Socket::refused(railbird.http, &path).await;
        assert_eq!(
            (reply.status, &reply.json()["error"]),
            (400, &json!("invalid_parameter"))
        );
        let text = reply.text().replace("\\\"", "\"");
        assert!(text.contains(message), "{text}");
    }
}

#[tokio::test]
async fn connections_per_key_are_limited_and_freed_again() {
    let nats = Nats::start();
    let railbird = Railbird::start_with(&nats, |config| {
        config.plans = plan_with("live_odds = true\nconnections = 2")
    })
    .await;
    let (first, _) = railbird.live("").await;
    let (mut second, _) = railbird.live("").await;
    let end = railbird.connect("").await.until_closed().await;
    assert_eq!(events(&end.0), ["closing"], "and nothing else");
    closed(&end, 4429);
    second.request(&json!({ "op": "ping" })).await;
    // Another key has connections of its own.
    let other = railbird.issue_key(&nats).await;
    Socket::open(railbird.http, &other)
        .await
        .until("snapshot_complete")
        .await;
    drop(first);
    eventually("the connection is free again", || async {
        let mut socket = railbird.connect("").await;
        socket.next().await.unwrap()["event"] == "welcome"
    })
    .await;
}

#[tokio::test]
async fn the_handshake_is_503_when_all_connections_are_taken() {
    let nats = Nats::start();
    let railbird = Railbird::start_with(&nats, |config| config.connections_max = 3).await;
    let mut sockets = Vec::new();
    for _ in 0..3 {
        sockets.push(railbird.live("").await.0);
    }
    let path = format!("/ws/live/odds?api_key={}", railbird.key);
    let reply = Socket::refused(railbird.http, &path).await;
    assert_eq!(
        (reply.status, reply.json()["error"].as_str()),
        (503, Some("not_ready")),
        "{}",
        reply.text()
    );
    assert!(!reply.header("retry-after").is_empty());
    sockets.pop();
    eventually("the connection is free again", || async {
        Socket::refused(railbird.http, &path).await.status == 101
    })
    .await;
}

#[tokio::test]
async fn clients_of_an_invalid_key_are_closed_and_others_stay() {
    let mut nats = Nats::start();
    let railbird = Railbird::start(&nats).await;
    let mut stays = railbird.live("").await.0;
    nats.kill();
    let backup = nats.back_up(ACCOUNTS.name);
    nats.start_again();
    railbird.until_ready().await;
    let lost = railbird.issue_key(&nats).await;
    let mut goes = Socket::open(railbird.http, &lost).await;
    goes.until("snapshot_complete").await;

    // The keys are restored from a backup that is older than one of them.
    nats.kill();
    nats.put_back(ACCOUNTS.name, &backup);
    nats.start_again();
    railbird.accept_log(ACCOUNTS).await;
    let end = goes.until_closed().await;
    assert_eq!(closed(&end, 4401), 0, "the same key would fail again");
    let path = format!("/ws/live/odds?api_key={lost}");
    assert_eq!(Socket::refused(railbird.http, &path).await.status, 401);
    let seq = nats.publish([odds("ST", 1, &second(0), &[2.0])]).await;
    assert_eq!(stays.next().await.unwrap()["seq"], seq);
}
