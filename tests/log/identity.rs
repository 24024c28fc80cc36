//! The identity of the log: a service serves no other history than the one that it has seen, unless an operator accepts
//! it.

use std::path::Path;
use std::time::{Duration, Instant};

use async_nats::jetstream::stream::Config;
use railbird::log::{ACCOUNTS, Log, LogError, RACING, StreamName};
use railbird::projector::Phase;
use serde_json::Value;
use tokio::time::timeout;

use crate::support::*;

/// Ten quotes of one race.
fn quotes(from: u64) -> impl Iterator<Item = Value> {
    (from..from + 10).map(|n| odds("ST", 1, &second(n), &[2.0, 3.0]))
}

async fn exists(nats: &Nats, stream: StreamName) -> bool {
    let log = Log::connect(&nats.url(), "test").await.unwrap();
    match log.state(stream).await {
        Ok(_) => true,
        Err(LogError::NoStream(_)) => false,
        Err(error) => panic!("{error}"),
    }
}

/// Waits until the service reports another history, and returns its status.
async fn until_diverged(railbird: &Railbird) -> Value {
    eventually("the service reports another history", || async {
        let ready = railbird.get_open("/readyz").await;
        ready.status == 503 && ready.json()["log"]["diverged"]["RACING"].is_object()
    })
    .await;
    railbird.get_open("/readyz").await.json()
}

fn reason(status: &Value) -> &str {
    status["reason"].as_str().unwrap()
}

async fn accept(railbird: &Railbird) -> Output {
    let admin = railbird.admin.to_string();
    crate::support::railbird(["log", "accept", "--admin", &admin]).await
}

async fn board(railbird: &Railbird) -> Reply {
    railbird.get(&format!("/api/v1/odds/{DAY}/1")).await
}

#[tokio::test]
async fn a_log_that_comes_up_empty_is_not_accepted_and_the_old_log_is_continued() {
    let mut nats = Nats::start();
    let seq = nats.publish(quotes(0)).await;
    let data = tempfile::tempdir().unwrap();
    let railbird = Railbird::start_in(&nats, data.path()).await;
    railbird.until_seq(seq).await;
    let (old, digest) = (board(&railbird).await.json(), railbird.digest());
    let mut socket = railbird.live("").await.0;

    nats.kill();
    let backup = nats.back_up(RACING.name);
    nats.lose(RACING.name);
    nats.start_again();
    let status = until_diverged(&railbird).await;
    assert!(reason(&status).contains("RACING is missing"), "{status}");
    let reply = board(&railbird).await;
    assert_eq!((reply.status, reply.json()), (200, old.clone()));
    assert_ne!(reply.header("railbird-feed"), "live");
    assert_eq!(reply.header("railbird-seq"), seq.to_string());
    let heartbeat = loop {
        let message = socket.next_or_heartbeat().await.expect("the socket stays");
        if message["feed"]["state"] != "live" {
            break message;
        }
    };
    assert_eq!(heartbeat["event"], "heartbeat");
    assert!(
        railbird
            .get_admin("/metrics")
            .await
            .text()
            .contains("railbird_log_diverged{stream=\"RACING\"} 1")
    );
    let mut railbird = restart(railbird, &nats, data.path()).await;
    let status = until_diverged(&railbird).await;
    assert!(reason(&status).contains("RACING is missing"), "{status}");
    assert_eq!(board(&railbird).await.json(), old);
    assert!(
        !exists(&nats, RACING).await,
        "the service has created no stream"
    );

    nats.kill();
    nats.put_back(RACING.name, &backup);
    nats.start_again();
    railbird.until_ready().await;
    assert_eq!(railbird.digest(), digest);
    assert!(
        railbird
            .get_admin("/metrics")
            .await
            .text()
            .contains("railbird_log_diverged{stream=\"RACING\"} 0")
    );
    railbird.key = railbird.issue_key(&nats).await;
    let next = nats.publish([odds("ST", 1, &second(99), &[5.0])]).await;
    railbird.until_seq(next).await;
}

/// Stops a service and starts it on the same folder and address. The key stays.
async fn restart(railbird: Railbird, nats: &Nats, data: &Path) -> Railbird {
    let key = railbird.key.clone();
    railbird.stop().await;
    let mut railbird = Railbird::start_unready(&nats.url(), data).await;
    railbird.key = key;
    eventually("the keys are read", || async {
        railbird.app.keys.is_complete()
    })
    .await;
    railbird
}

#[tokio::test]
async fn without_the_accounts_no_request_is_unauthorized_until_an_operator_accepts_it() {
    let mut nats = Nats::start();
    nats.publish(quotes(0)).await;
    let data = tempfile::tempdir().unwrap();
    let railbird = Railbird::start_in(&nats, data.path()).await;
    nats.kill();
    nats.lose(ACCOUNTS.name);
    nats.start_again();
    eventually("the service is unready", || async {
        let ready = railbird.get_open("/readyz").await;
        ready.status == 503 && reason(&ready.json()).contains("ACCOUNTS is missing")
    })
    .await;
    assert_eq!(
        board(&railbird).await.status,
        200,
        "the keys known so far are valid"
    );

    let key = railbird.key.clone();
    railbird.stop().await;
    let mut railbird = Railbird::start_unready(&nats.url(), data.path()).await;
    railbird.key = key;
    eventually("the service names the missing stream", || async {
        reason(&railbird.get_open("/readyz").await.json()).contains("ACCOUNTS is missing")
    })
    .await;
    assert_eq!(board(&railbird).await.status, 503);
    assert!(!exists(&nats, ACCOUNTS).await);

    let accepted = accept(&railbird).await;
    assert_eq!(accepted.code, 0, "{}", accepted.all);
    assert!(accepted.all.contains("ACCOUNTS"), "{}", accepted.all);
    railbird.until_ready().await;
    assert_eq!(board(&railbird).await.status, 401);
    railbird.key = railbird.issue_key(&nats).await;
    assert_eq!(board(&railbird).await.status, 200);
}

#[tokio::test]
async fn a_log_that_lost_its_end_is_served_only_after_an_operator_accepted_it() {
    let mut nats = Nats::start();
    let kept = nats.publish(quotes(0)).await;
    let data = tempfile::tempdir().unwrap();
    let railbird = Railbird::start_in(&nats, data.path()).await;
    nats.kill();
    let backup = nats.back_up(RACING.name);
    nats.start_again();
    let seq = nats.publish(quotes(10)).await;
    railbird.until_published(seq).await;
    let old = board(&railbird).await.json();
    let mut socket = railbird.live("").await.0;
    let conflict = accept(&railbird).await;
    assert_eq!(
        conflict.code, 1,
        "there is nothing to accept: {}",
        conflict.all
    );

    nats.kill();
    nats.put_back(RACING.name, &backup);
    nats.start_again();
    let status = until_diverged(&railbird).await;
    assert!(
        reason(&status).contains("it ends at event 10, and 20 was read"),
        "{status}"
    );
    let railbird = restart(railbird, &nats, data.path()).await;
    let status = until_diverged(&railbird).await;
    assert!(
        reason(&status).contains("it ends at event 10, and 20 was read"),
        "{status}"
    );
    assert_eq!(board(&railbird).await.json(), old);
    // Sockets of the new process are served the old views, too.
    let (mut again, opening) = railbird.live("").await;
    assert_eq!(opening.last().unwrap()["seq"], seq);

    let accepted = accept(&railbird).await;
    assert_eq!(accepted.code, 0, "{}", accepted.all);
    assert!(
        accepted.all.contains("Events given up: 10"),
        "{}",
        accepted.all
    );
    again.until("resync").await;
    railbird.until_ready().await;
    assert_eq!(railbird.app.views.current().unwrap().seq(), kept);
    assert_ne!(board(&railbird).await.json(), old);
    socket.until_closed().await;
    let fresh = Railbird::start(&nats).await;
    assert_eq!(railbird.digest(), fresh.digest());
    // What was accepted is remembered.
    let railbird = restart(railbird, &nats, data.path()).await;
    railbird.until_ready().await;
}

#[tokio::test]
async fn the_loss_of_events_that_were_just_read_waits_for_the_operator_too() {
    let mut nats = Nats::start();
    let seq = nats.publish(quotes(0)).await;
    let railbird = Railbird::start(&nats).await;
    railbird.until_published(seq).await;
    nats.kill();
    let backup = nats.back_up(RACING.name);
    nats.start_again();
    // The position in the data folder is a few seconds old, except just after it was noted.
    for n in 10.. {
        let seq = nats.publish([odds("ST", 1, &second(n), &[2.0, 3.0])]).await;
        railbird.until_published(seq).await;
        let noted = railbird
            .app
            .health
            .continuity
            .read_position(RACING)
            .unwrap();
        if noted.seq < seq {
            break;
        }
    }
    nats.kill();
    nats.put_back(RACING.name, &backup);
    nats.start_again();
    until_diverged(&railbird).await;
    let mut status = railbird.app.projector.status.clone();
    let goes_on = status.wait_for(|status| status.phase != Phase::Diverged);
    let waits = timeout(Duration::from_secs(3), goes_on).await;
    assert!(waits.is_err(), "{waits:?}");
    assert_eq!(accept(&railbird).await.code, 0);
    railbird.until_ready().await;
}

#[tokio::test]
async fn a_hole_in_the_log_changes_the_history_of_the_views() {
    let nats = Nats::start();
    nats.create_log(Config {
        duplicate_window: Duration::from_secs(120),
        deny_purge: true,
        ..Config::default()
    })
    .await;
    let seq = nats.publish(quotes(0)).await;
    let before = Railbird::start(&nats).await;
    before.until_seq(seq).await;
    nats.delete_event(4).await;
    let after = Railbird::start(&nats).await;
    after.until_seq(seq).await;
    let [old, new] = [
        before.get_admin("/digest").await.json(),
        after.get_admin("/digest").await.json(),
    ];
    assert_eq!(old["log"], new["log"], "it is the same stream");
    assert_ne!(
        old["history"], new["history"],
        "they folded different events"
    );
    assert_eq!((&old["missing"], &new["missing"]), (&0.into(), &1.into()));
    let metrics = after.get_admin("/metrics").await.text();
    let counted = "railbird_log_holes_total{stream=\"RACING\",cause=\"deleted\"}";
    assert!(metrics.contains(counted), "{metrics}");
    let verified = async |railbird: &Railbird| {
        let admin = railbird.admin.to_string();
        let args = ["verify", "--nats", &nats.url(), "--admin", &admin];
        crate::support::railbird(args.map(str::to_owned)).await
    };
    let equal = verified(&after).await;
    assert_eq!(equal.code, 0, "{}", equal.all);
    let result = verified(&before).await;
    assert!(
        result.all.contains("the log has other events"),
        "{}",
        result.all
    );
}

#[tokio::test]
async fn deleted_messages_at_the_end_of_the_log_leave_the_service_fresh() {
    let nats = Nats::start();
    nats.create_log(Config::default()).await;
    let seq = nats.publish(quotes(0)).await;
    for deleted in [1, 2, seq] {
        nats.delete_event(deleted).await;
    }
    let railbird = Railbird::start(&nats).await;
    railbird.until_published(seq - 1).await;
    let started = Instant::now();
    eventually("the service proves that it is at the end", || async {
        let ready = railbird.get_open("/readyz").await.json();
        let proved = ready["feed"]["age_ms"].as_u64().unwrap();
        u128::from(proved) + 1_000 < started.elapsed().as_millis()
    })
    .await;
    let ready = railbird.get_open("/readyz").await.json();
    assert_eq!(ready["log"]["missing"], 2, "before the last event: {ready}");
    let next = nats.publish([odds("ST", 1, &second(99), &[5.0])]).await;
    railbird.until_seq(next).await;
    let ready = railbird.get_open("/readyz").await.json();
    assert_eq!(ready["log"]["missing"], 3, "{ready}");
}

#[tokio::test]
async fn settings_of_a_stream_that_can_lose_events_are_reported() {
    let nats = Nats::start();
    nats.create_log(Config {
        max_messages: 1_000,
        max_message_size: 1_000,
        ..Config::default()
    })
    .await;
    let railbird = Railbird::start(&nats).await;
    eventually("the drift is reported", || async {
        let status = railbird.get_open("/readyz").await.json();
        let drift = status["log"]["drift"].to_string();
        drift.contains("max_messages is 1000, not unlimited")
            && drift.contains("deny_delete is false")
            && drift.contains("max_message_size is 1000, not unlimited")
    })
    .await;
    let metrics = railbird.get_admin("/metrics").await.text();
    assert!(
        metrics.contains("railbird_log_settings_drift{stream=\"RACING\"} "),
        "{metrics}"
    );
    assert!(
        metrics.contains("railbird_log_settings_drift{stream=\"ACCOUNTS\"} 0"),
        "{metrics}"
    );
    assert_eq!(railbird.get_open("/readyz").await.status, 200);
}

/// A service as a process, with `--production`.
fn production(nats: &Nats, data: &Path) -> Serving {
    let url = nats.url_of("railbird");
    let flags = ["--production", "--http", "127.0.0.1:0", "--nats", &url];
    Serving::start_with(&flags, data)
}

#[tokio::test]
async fn production_refuses_a_stream_that_can_lose_events() {
    let nats = Nats::start();
    nats.create_log_of(1_000).await;
    let data = tempfile::tempdir().unwrap();
    let (code, log) = production(&nats, data.path()).until_ended().await;
    assert_eq!(code, Some(78), "{log}");
    let reason = "the stream RACING can lose events: its deny_delete is false";
    assert!(log.contains(reason), "{log}");
}

#[tokio::test]
async fn production_refuses_a_server_whose_settings_it_cannot_see() {
    let hidden = |conf: String| {
        let permission = "              \"$SYS.REQ.SERVER.PING.VARZ\"\n";
        assert!(conf.contains(permission));
        conf.replace(permission, "")
    };
    let nats = Nats::start_with(hidden);
    let data = tempfile::tempdir().unwrap();
    let (code, log) = production(&nats, data.path()).until_ended().await;
    assert_eq!(code, Some(78), "{log}");
    assert!(log.contains("does not show this user whether"), "{log}");
}

#[tokio::test]
async fn production_goes_on_with_a_risk_that_appears_after_the_start() {
    let mut nats = Nats::start();
    let data = tempfile::tempdir().unwrap();
    let serving = production(&nats, data.path());
    serving.until_ready().await;
    let reports = async |risks: &str| {
        let metrics = request(serving.admin, "GET", "/metrics", &[]).await;
        let line = format!("railbird_log_risks {risks}");
        metrics.text().lines().any(|found| found == line)
    };
    eventually("the log has no risk", || reports("0")).await;
    nats.kill();
    nats.change_file(without_sync);
    nats.start_again();
    eventually("the risk is reported", || reports("1")).await;
    serving.until_ready().await;
    let log = serving.stop().await.join("\n");
    assert!(log.contains("acknowledged events can be lost"), "{log}");
    let (code, log) = production(&nats, data.path()).until_ended().await;
    assert_eq!(code, Some(78), "{log}");
    assert!(log.contains("before they are on disk"), "{log}");
}

#[tokio::test]
async fn every_server_of_a_cluster_is_asked_whether_it_syncs() {
    let listeners = [(), ()].map(|()| std::net::TcpListener::bind("127.0.0.1:0").unwrap());
    let [one, other] = listeners.each_ref().map(|l| l.local_addr().unwrap());
    drop(listeners);
    let member = |conf, name, listen, route| {
        let cluster = format!("name: test, listen: \"{listen}\", routes: [\"nats://{route}\"]");
        format!("{conf}\nserver_name: {name}\ncluster {{ {cluster} }}\n")
    };
    let first = Nats::start_with(|conf| member(conf, "first", one, other));
    let second = Nats::start_with(|conf| member(without_sync(conf), "second", other, one));
    for nats in [&first, &second] {
        let log = Log::connect(&nats.url_of("railbird"), "test")
            .await
            .unwrap();
        eventually("both servers answer", || async {
            let Ok(servers) = log.servers().await else {
                return false;
            };
            let servers: Vec<_> = servers
                .answering
                .iter()
                .map(|(name, server)| (&**name, server.syncs_always))
                .collect();
            servers == [("first", true), ("second", false)]
        })
        .await;
    }
}
