//! One server of three is left: nothing can be written, and all that was read is served.

use std::num::NonZeroU32;
use std::path::Path;

use async_nats::{HeaderMap, Request};
use railbird::log::{NatsConfig, Replicas};
use railbird::mail::{Mailing, Sender, Transport};
use serde_json::Value;
use tokio::time::timeout;

use crate::support::*;

/// Publishes an event as a feeder does, once.
async fn publish(client: &async_nats::Client, event: &Value) -> Result<u64, String> {
    let outgoing = outgoing(event);
    let mut headers = HeaderMap::new();
    headers.insert("Nats-Msg-Id", outgoing.id);
    let request = Request::new()
        .headers(headers)
        .payload(outgoing.payload.into());
    let reply = client.send_request(outgoing.subject, request).await;
    let reply = reply.map_err(|error| error.to_string())?;
    let ack: Value = serde_json::from_slice(&reply.payload).unwrap();
    ack["seq"].as_u64().ok_or_else(|| ack.to_string())
}

/// Sends the form with which someone subscribes.
async fn subscribe(service: &Railbird, email: &str) -> Reply {
    let fields = [("email", email), ("plan", "free"), ("website", "")];
    post(service.http, "/pricing", &fields).await
}

/// Waits until a subscription is refused, with the time after which to try again.
async fn until_refused(service: &Railbird) {
    eventually("a subscription is refused", || async {
        let refused = subscribe(service, "a@racing.example").await;
        refused.status == 503 && {
            assert_eq!(refused.header("retry-after"), "5");
            assert!(refused.text().contains("Try again"), "{}", refused.text());
            true
        }
    })
    .await;
}

/// Whether a mail was written to an address.
fn has_mail(mails: &Path, email: &str) -> bool {
    let files = std::fs::read_dir(mails.join("mail"));
    let files = files.into_iter().flatten().map(|file| file.unwrap().path());
    let mut whole = files.filter(|path| path.extension().is_some_and(|end| end == "eml"));
    let to = format!("To: {email}\r\n");
    whole.any(|path| std::fs::read_to_string(path).unwrap().contains(&to))
}

/// A service on all servers, which writes its mails to a folder.
async fn serve(cluster: &Cluster, mails: &Path) -> Railbird {
    let transport = Transport::Folder(mails.join("mail"));
    Railbird::start_with(cluster.server(0), |config| {
        config.nats = NatsConfig {
            replicas: Replicas::parse("3").unwrap(),
            ..NatsConfig::from(cluster.url())
        };
        // The test signs up until it is refused.
        let unlimited = NonZeroU32::MAX;
        config.sign_ups_per_network = unlimited;
        config.sign_ups_per_email = unlimited;
        config.sign_ups_per_hour = unlimited;
        config.mailing = Some(Mailing {
            transport,
            from: Sender::parse("Railbird <keys@racing.example>").unwrap(),
            key_env: "test",
        });
    })
    .await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn with_one_server_of_three_reads_go_on_and_writes_are_refused_until_the_others_are_back() {
    let (mut cluster, mails) = (Cluster::start(), tempfile::tempdir().unwrap());
    let service = serve(&cluster, mails.path()).await;
    let feeder = cluster.client_of("feeder").await;
    let first = publish(&feeder, &odds("ST", 1, &second(1), &[2.5]))
        .await
        .unwrap();
    service.until_seq(first).await;
    let path = format!("/api/v1/odds/{DAY}/1");
    let board = service.get(&path).await;
    assert_eq!((board.status, board.header("railbird-feed")), (200, "live"));

    let left = cluster.stream_leader("ACCOUNTS").await;
    let gone = [(left + 1) % 3, (left + 2) % 3];
    for server in gone {
        cluster.kill(server);
    }
    // The leader of the accounts does not miss its followers yet.
    let early = subscribe(&service, "early@racing.example").await.status;
    assert!([200, 503].contains(&early), "{early}");
    eventually("the answers say that they may be old", || async {
        let reply = service.get(&path).await;
        assert_eq!((reply.status, &reply.body), (200, &board.body));
        reply.header("railbird-feed") != "live"
    })
    .await;
    let ready = service.get_open("/readyz").await;
    assert_eq!(ready.status, 200, "{}", ready.text());
    assert_ne!(ready.json()["feed"]["state"], "live");
    eventually(
        "it is not ready for those who want fresh answers",
        || async { service.get_open("/readyz?fresh=10s").await.status == 503 },
    )
    .await;

    until_refused(&service).await;
    let quote = odds("ST", 1, &second(2), &[3.5]);
    publish(&feeder, &quote).await.unwrap_err();
    let keys = cluster.url_of("keys");
    let issue = railbird(["keys", "issue", "--plan", "free", "--nats", &keys]);
    let issue = timeout(PATIENCE, issue).await.expect("it ends in time");
    let no_leader = "no server of the NATS cluster answers as the leader";
    assert!(issue.all.contains(no_leader), "{}", issue.all);
    assert_eq!(issue.code, 69, "{}", issue.all);

    for server in gone {
        cluster.restart(server);
    }
    eventually("a feeder's event is accepted", || async {
        publish(&feeder, &quote).await.is_ok()
    })
    .await;
    eventually("the answers have it, and are fresh", || async {
        let reply = service.get(&path).await;
        assert_eq!(reply.status, 200);
        reply.body != board.body && reply.header("railbird-feed") == "live"
    })
    .await;
    eventually("a subscription is accepted", || async {
        subscribe(&service, "b@racing.example").await.status == 200
    })
    .await;
    if early == 200 {
        eventually("the early subscription is carried out", || async {
            has_mail(mails.path(), "early@racing.example")
        })
        .await;
    }
    assert_eq!(service.get_open("/readyz?fresh=10s").await.status, 200);
}
