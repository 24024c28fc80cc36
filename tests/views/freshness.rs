//! How a service says how fresh its answers are, and what it does when it cannot know.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use futures::future::join_all;
use railbird::health::STALE_AFTER;
use serde_json::Value;

use crate::support::*;

const HORSE: &str = "/api/v1/horses/H1";

async fn readiness(railbird: &Railbird, path: &str) -> (u16, Value) {
    let reply = railbird.get_open(path).await;
    (reply.status, reply.json())
}

/// The state in the next heartbeat that has another one than `before`.
async fn next_state(socket: &mut Socket, before: &str) -> String {
    loop {
        let message = socket
            .next_or_heartbeat()
            .await
            .expect("the socket is open");
        if message["event"] == "heartbeat" && message["feed"]["state"] != before {
            return message["feed"]["state"].as_str().unwrap().to_owned();
        }
    }
}

#[tokio::test]
async fn a_frozen_log_is_noticed_by_sockets_probes_and_answers_while_reads_go_on() {
    let nats = Nats::start();
    let seq = nats.publish([registered("H1", "HORSE 1")]).await;
    let railbird = Railbird::start(&nats).await;
    railbird.until_seq(seq).await;
    let mut socket = Socket::open(railbird.http, &railbird.key).await;
    socket.until("snapshot_complete").await;
    assert_eq!(railbird.get(HORSE).await.header("railbird-feed"), "live");
    assert_eq!(readiness(&railbird, "/readyz?fresh=10s").await.0, 200);

    nats.freeze();
    assert_eq!(next_state(&mut socket, "live").await, "stale");
    eventually("the views are too old for a probe that asks", || async {
        readiness(&railbird, "/readyz?fresh=10s").await.0 == 503
    })
    .await;
    let (status, body) = readiness(&railbird, "/readyz").await;
    assert_eq!(
        (status, &body["feed"]["state"]),
        (200, &"stale".into()),
        "reads are right, though old"
    );
    assert!(body["feed"]["age_ms"].as_u64().unwrap() >= 9_000, "{body}");
    let reply = railbird.get(HORSE).await;
    assert_eq!(
        (
            reply.status,
            reply.header("railbird-feed"),
            reply.header("railbird-seq")
        ),
        (200, "stale", "1")
    );
    assert_eq!(next_state(&mut socket, "stale").await, "down");
    assert_eq!(railbird.get(HORSE).await.header("railbird-feed"), "down");

    nats.thaw();
    assert_eq!(next_state(&mut socket, "down").await, "live");
    assert_eq!(readiness(&railbird, "/readyz?fresh=10s").await.0, 200);
}

#[tokio::test]
async fn the_first_answer_of_a_process_that_was_paused_is_not_live() {
    let nats = Nats::start();
    let data = tempfile::tempdir().unwrap();
    let replica = Serving::start(&nats, data.path());
    replica.until_ready().await;
    let state = async || {
        let reply = request(replica.http, "GET", "/readyz", &[]).await;
        reply.json()["feed"]["state"].as_str().unwrap().to_owned()
    };
    assert_eq!(state().await, "live");
    replica.pause();
    nats.publish((0..500).map(|n| odds("ST", 1, &second(n), &[2.0])))
        .await;
    tokio::time::sleep(STALE_AFTER + Duration::from_secs(1)).await;
    // It waits for the process.
    let first = std::pin::pin!(state());
    let first = futures::future::join(first, async { replica.resume() });
    assert_ne!(first.await.0, "live");
    eventually("it has caught up", async || state().await == "live").await;
}

#[tokio::test]
async fn keys_are_accepted_on_old_knowledge_for_a_bounded_time_only() {
    let nats = Nats::start();
    nats.publish([registered("H1", "HORSE 1")]).await;
    let stale_max = Duration::from_secs(10);
    let railbird = Railbird::start_with(&nats, |config| config.keys_stale_max = stale_max).await;
    railbird.until_seq(1).await;
    let mut socket = Socket::open(railbird.http, &railbird.key).await;
    socket.until("snapshot_complete").await;
    let opened = Instant::now();
    eventually("the keys were proven to be complete since", async || {
        opened.elapsed() > stale_max && railbird.app.keys.age() < stale_max / 2
    })
    .await;
    assert_eq!(railbird.get(HORSE).await.status, 200, "the log answers");

    nats.freeze();
    let (messages, code) = socket.until_closed().await;
    assert_eq!(
        (&messages.last().unwrap()["event"], code),
        (&"closing".into(), Some(1013))
    );
    let reply = railbird.get(HORSE).await;
    assert_eq!(
        (
            reply.status,
            reply.json()["error"].as_str(),
            reply.header("retry-after")
        ),
        (503, Some("not_ready"), "2"),
        "it is not 401: the key may be valid"
    );
    let (status, body) = readiness(&railbird, "/readyz").await;
    assert_eq!(status, 503, "{body}");

    nats.thaw();
    eventually("keys are accepted again", || async {
        railbird.get(HORSE).await.status == 200
    })
    .await;
}

#[tokio::test]
async fn every_answer_says_which_seq_it_reflects() {
    let nats = Nats::start();
    let seq = nats.publish([registered("H1", "HORSE 1")]).await;
    let railbird = Railbird::start(&nats).await;
    railbird.until_seq(seq).await;
    for (path, status) in [
        (HORSE, 200),
        ("/api/v1/horses/H2", 404),
        ("/api/v1/horses/H.1", 400),
        ("/api/v1/results/2026-02-30", 400),
        ("/api/v1/none", 404),
    ] {
        let reply = railbird.get(path).await;
        assert_eq!(
            (reply.status, reply.header("railbird-seq")),
            (status, "1"),
            "{path}"
        );
    }
    let reply = railbird.get_open(HORSE).await;
    assert_eq!((reply.status, reply.header("railbird-seq")), (401, "1"));
}

#[tokio::test]
async fn an_answer_is_never_older_than_the_seq_that_the_request_names() {
    let nats = Nats::start();
    let railbird = Railbird::start(&nats).await;
    for n in 1..=50 {
        let (horse, name) = (format!("H{n}"), format!("HORSE {n}"));
        let seq = nats.publish([registered(&horse, &name)]).await;
        let path = format!("/api/v1/horses/{horse}");
        let seq = seq.to_string();
        let reply = railbird
            .get_with(&path, &[("railbird-min-seq", &seq)])
            .await;
        assert_eq!(reply.status, 200, "{}", reply.text());
        assert!(reply.header("railbird-seq").parse::<u64>().unwrap() >= n);
    }
    let reply = railbird
        .get_with(HORSE, &[("railbird-min-seq", "51")])
        .await;
    assert_eq!((reply.status, reply.header("retry-after")), (503, "2"));
    let reply = railbird.get_with(HORSE, &[("railbird-min-seq", "x")]).await;
    assert_eq!(
        (reply.status, reply.json()["error"].as_str()),
        (400, Some("invalid_parameter"))
    );
}

#[tokio::test]
async fn a_replica_that_starts_while_nats_is_away_serves_nobody_and_is_right_once_nats_is_back() {
    let mut nats = Nats::start();
    let seq = nats.publish([registered("H1", "HORSE 1")]).await;
    let data = tempfile::tempdir().unwrap();
    let railbird = Railbird::start_in(&nats, data.path()).await;
    railbird.until_seq(seq).await;
    let key = railbird.key.clone();
    railbird.stop().await;
    nats.kill();

    // The views are whole, but only the log knows which keys are valid.
    let mut again = Railbird::start_unready(&nats.url(), data.path()).await;
    again.key = key;
    eventually("the views are open", || async {
        readiness(&again, "/readyz").await.1["phase"] == "waiting_for_log"
    })
    .await;
    for path in ["/readyz", "/readyz?fresh=1h"] {
        let (status, body) = readiness(&again, path).await;
        assert_eq!(
            (status, &body["reason"], &body["phase"]),
            (
                503,
                &"the log cannot be reached".into(),
                &"waiting_for_log".into()
            )
        );
    }
    let reply = again.get(HORSE).await;
    assert_eq!(
        (
            reply.status,
            reply.json()["error"].as_str(),
            reply.header("retry-after")
        ),
        (503, Some("not_ready"), "2"),
        "it is not 401: the key may be valid"
    );
    nats.start_again();
    again.until_ready().await;
    assert_eq!(again.get(HORSE).await.status, 200);
}

#[tokio::test]
async fn a_replica_that_is_cut_off_leaves_the_resume_of_what_it_has_not_read_to_others() {
    let nats = Nats::start();
    let railbird = Railbird::start(&nats).await;
    let seq = nats
        .publish([
            odds("ST", 1, &second(1), &[2.5]),
            odds("ST", 1, &second(2), &[3.5]),
        ])
        .await;
    railbird.until_published(seq).await;
    let resume_from = |since: u64| format!("/ws/live/odds?api_key={}&since={since}", railbird.key);

    nats.freeze();
    let refused = Socket::refused(railbird.http, &resume_from(seq + 1)).await;
    assert_eq!(refused.status, 503);
    assert!(refused.header("retry-after").parse::<u64>().is_ok());
    assert!(refused.text().contains("`since`"), "{}", refused.text());
    let mut socket = Socket::connect(railbird.http, &resume_from(0)).await;
    assert_eq!(
        socket.next().await.unwrap()["recovered"],
        true,
        "what it has read"
    );

    nats.thaw();
    eventually("the log is known to end before it", || async {
        let reply = Socket::refused(railbird.http, &resume_from(seq + 1)).await;
        reply.status == 101
    })
    .await;
    let mut socket = Socket::connect(railbird.http, &resume_from(seq + 1)).await;
    assert_eq!(socket.next().await.unwrap()["reason"], "ahead");
}

/// A read that held the progress of the views while it asked for it again waited for the projector, and the projector
/// for that read.
#[tokio::test(flavor = "multi_thread")]
async fn reads_and_events_never_wait_for_each_other() {
    const CLIENTS: u16 = 4;
    const READS: usize = 2_000;
    let nats = Nats::start();
    let data = tempfile::tempdir().unwrap();
    let serving = Serving::start_with(
        &["--http", "127.0.0.1:0", "--nats", &nats.url()],
        data.path(),
    );
    let key = issue_key(&nats).await;
    until_valid(serving.http, &key).await;
    let is_over = Arc::new(AtomicBool::new(false));
    let feeders = (1..=CLIENTS).map(|race| {
        let is_over = Arc::clone(&is_over);
        let log = nats.log();
        async move {
            let log = log.await;
            for n in 0.. {
                log.append(outgoing(&odds("ST", race, &second(n), &[2.5])))
                    .await
                    .unwrap();
                if is_over.load(Ordering::Relaxed) {
                    break;
                }
            }
        }
    });
    let readers = (0..CLIENTS).map(|_| {
        let (address, key) = (serving.http, key.clone());
        tokio::spawn(async move {
            for _ in 0..READS {
                let reply = request(address, "GET", HORSE, &[("x-api-key", &key)]).await;
                assert_eq!(reply.header("railbird-feed"), "live");
            }
        })
    });
    let all_read = async {
        for reader in readers.collect::<Vec<_>>() {
            reader.await.unwrap();
        }
        is_over.store(true, Ordering::Relaxed);
    };
    tokio::join!(join_all(feeders), all_read);
}
