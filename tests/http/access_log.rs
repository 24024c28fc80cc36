//! The request id of each response, and the access log.

use serde_json::Value;

use crate::support::*;

fn request_id(reply: &Reply) -> &str {
    reply.header("x-request-id")
}

/// Whether the service has made a request id: 16 hexadecimal digits.
fn is_made(request_id: &str) -> bool {
    request_id.len() == 16 && request_id.chars().all(|c| c.is_ascii_hexdigit())
}

#[tokio::test]
async fn every_response_has_a_request_id() {
    let nats = Nats::start();
    let railbird = Railbird::start(&nats).await;
    let live = format!("/ws/live/odds?api_key={}", railbird.key);
    let replies = [
        railbird.get("/api/v1/meetings").await,
        railbird.get("/api/v1/horses/NOBODY").await,
        railbird.get("/api/v1/results/2026-13-01").await,
        railbird.get(&format!("/api/v1/{}", "x".repeat(4000))).await,
        railbird.get_open("/api/v1/meetings").await,
        railbird.get_open("/healthz").await,
        railbird.get_open("/pricing").await,
        railbird.get_admin("/metrics").await,
        request(railbird.http, "POST", "/healthz", &[]).await,
        Socket::refused(railbird.http, "/ws/live/odds").await,
        Socket::refused(railbird.http, &live).await,
    ];
    let statuses = replies.each_ref().map(|reply| reply.status);
    assert_eq!(
        statuses,
        [200, 404, 400, 414, 401, 200, 200, 200, 405, 401, 101]
    );
    let mut ids: Vec<&str> = replies.iter().map(request_id).collect();
    for id in &ids {
        assert!(is_made(id), "{id:?}");
    }
    ids.sort_unstable();
    ids.dedup();
    assert_eq!(ids.len(), replies.len(), "each has its own");
}

#[tokio::test]
async fn a_valid_request_id_is_returned_and_another_one_is_replaced() {
    let nats = Nats::start();
    let railbird = Railbird::start(&nats).await;
    let longest = "x".repeat(64);
    for valid in [
        "1",
        "0199b3f6-7a51-7cc0-9d5c-1f0e3a2b4c5d",
        "A.b_c-9",
        &longest,
    ] {
        for path in ["/api/v1/meetings", "/healthz"] {
            let headers = [("x-request-id", valid)];
            let admitted = railbird.get_with(path, &headers).await;
            let open = request(railbird.http, "GET", path, &headers).await;
            assert_eq!([&admitted, &open].map(request_id), [valid; 2], "{path}");
        }
    }
    let too_long = "x".repeat(65);
    let key = &railbird.key;
    for invalid in ["", " ", "a b", "a/b", "a:b", "a\tb", "a\"b", &too_long, key] {
        let headers = [("x-request-id", invalid)];
        let reply = railbird.get_with("/api/v1/meetings", &headers).await;
        assert!(is_made(request_id(&reply)), "{invalid:?}");
    }
}

/// A service as a process with a key, the replies to some requests, and what it logged.
async fn logged(flags: &[&str]) -> (String, Vec<Reply>, Vec<String>) {
    let nats = Nats::start();
    let data = tempfile::tempdir().unwrap();
    let url = nats.url();
    let flags = [&["--http", "127.0.0.1:0", "--nats", &url], flags].concat();
    let serving = Serving::start_with(&flags, data.path());
    let key = issue_key(&nats).await;
    let unknown = format!("{key}x");
    until_valid(serving.http, &key).await;
    let mut replies = Vec::new();
    for (path, key) in [
        ("/api/v1/meetings?from=2026-01-01".to_owned(), key.as_str()),
        (format!("/api/v1/horses/NOBODY?api_key={key}"), &key),
        ("/api/v1/meetings".to_owned(), &unknown),
        (format!("/ws/live/odds?api_key={key}"), ""),
        (format!("/account?token={key}"), ""),
        (format!("/api/v1/horses/{key}/form"), &key),
    ] {
        let headers = [("x-api-key", key), ("x-request-id", "of-this-test")];
        replies.push(request(serving.http, "GET", &path, &headers).await);
    }
    let mut socket = Socket::open(serving.http, &key).await;
    socket.next().await.unwrap();
    drop(socket);
    (key, replies, serving.stop().await)
}

/// The entries of the access log of the requests with the id of the test.
fn entries(log: &[String]) -> Vec<Value> {
    log.iter()
        .map(|line| serde_json::from_str::<Value>(line).unwrap())
        .filter(|entry| entry["span"]["request_id"] == "of-this-test")
        .collect()
}

#[tokio::test]
async fn the_access_log_has_a_line_per_response_and_never_a_key() {
    for (flags, level) in [
        (&["--access-log"][..], "INFO"),
        (&["--log", "railbird=debug"], "DEBUG"),
    ] {
        let (key, replies, log) = logged(flags).await;
        assert!(!log.iter().any(|line| line.contains(&key)));
        let entries = entries(&log);
        let expected = [
            ("/api/v1/meetings", 200, true),
            ("/api/v1/horses/NOBODY", 400, true),
            ("/api/v1/meetings", 401, false),
            ("/ws/live/odds", 426, true),
            ("/account", 404, false),
            ("/api/v1/horses/*/form", 400, true),
        ];
        assert_eq!(entries.len(), expected.len(), "{entries:?}");
        let key_id = key.split('_').nth(2).unwrap();
        for ((entry, reply), (path, status, has_key)) in entries.iter().zip(&replies).zip(expected)
        {
            let span = &entry["span"];
            assert_eq!(
                (entry["level"].as_str(), reply.status),
                (Some(level), status)
            );
            assert_eq!(
                (span["method"].as_str(), span["path"].as_str()),
                (Some("GET"), Some(path))
            );
            assert_eq!(span["status"], status);
            assert!(span["latency_ms"].as_f64().is_some_and(|ms| ms > 0.0));
            assert_eq!(span["key_id"].as_str(), has_key.then_some(key_id), "{path}");
        }
    }
}

#[tokio::test]
async fn a_method_or_a_request_id_that_may_be_a_secret_is_not_logged() {
    let nats = Nats::start();
    let data = tempfile::tempdir().unwrap();
    let url = nats.url();
    let flags = ["--http", "127.0.0.1:0", "--nats", &url, "--access-log"];
    let serving = Serving::start_with(&flags, data.path());
    let key = issue_key(&nats).await;
    let secret = key.split('_').nth(3).unwrap();
    let token = railbird::accounts::random_secret().unwrap();
    let trace = "0af7651916cd43dd8448eb211c80319c";
    for (method, request_id) in [
        (&*key, "of-this-test"),
        ("GET", secret),
        ("GET", &token),
        ("GET", trace),
        ("GET", "0199B3F6-7a51-7cc0-9d5c-1f0e3a2b4c5d"),
    ] {
        let headers = [("x-request-id", request_id)];
        let reply = request(serving.http, method, "/healthz", &headers).await;
        assert_eq!(reply.header("x-request-id"), request_id);
    }
    let log = serving.stop().await;
    for hidden in [&key, secret, &token] {
        let line = log.iter().find(|line| line.contains(hidden));
        assert_eq!(line, None, "{hidden}");
    }
    let logged = log.join("\n");
    assert!(logged.contains("\"method\":\"other\""), "{logged}");
    for shown in [
        "of-this-test",
        trace,
        "0199B3F6-7a51-7cc0-9d5c-1f0e3a2b4c5d",
    ] {
        assert!(logged.contains(shown), "{shown}: {logged}");
    }
}

#[tokio::test]
async fn the_access_log_is_off_by_default() {
    let (key, _, log) = logged(&[]).await;
    assert!(!log.iter().any(|line| line.contains(&key)));
    assert!(entries(&log).is_empty(), "{log:?}");
}
