//! A region of its own: a nats-server that is a leaf node of the one with the log, with mirrors of the streams, and a
//! replica. The configuration is that of docs/scaling.md.

use std::net::TcpListener;
use std::process::Command;

use async_nats::jetstream;
use railbird::log::{ACCOUNTS, KEY_USE, RACING};

use crate::support::*;

const GUIDE: &str = include_str!("../../docs/scaling.md");
const HORSE: &str = "/api/v1/horses/H1";

/// The block of the guide that begins with a text.
fn block(first: &str) -> &'static str {
    let section = GUIDE.split_once("\n## More regions\n").unwrap().1;
    let begins = |block: &&str| {
        block
            .trim_start_matches(char::is_alphabetic)
            .trim_start()
            .starts_with(first)
    };
    let found = section.split("```").find(begins);
    let found = found.unwrap_or_else(|| panic!("the guide has no block {first}"));
    found.split_once('\n').unwrap().1
}

/// The configuration that a command of the guide makes of nats.conf, with the passwords of the tests and an address.
fn configured(command: &str, conf: &str, leaf: &str) -> String {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("nats.conf"), conf).unwrap();
    let mut shell = Command::new("bash");
    shell.args(["-euc", block(command)]).current_dir(&folder);
    assert!(shell.status().unwrap().success());
    let made = ["hub.conf", "region.conf"].map(|name| folder.path().join(name));
    let made = made.iter().find(|path| path.exists()).unwrap();
    let text = std::fs::read_to_string(made).unwrap();
    let hub = format!("\"nats-leaf://leaf:p-leaf@{leaf}\"");
    text.replace("$RAILBIRD_NATS_HUB", &hub)
        .replace("0.0.0.0:7422", leaf)
        .replace("$RAILBIRD_NATS_LEAF_PASSWORD", "p-leaf")
}

/// A server with the log, and one in another region.
fn start() -> (Nats, Nats) {
    let leaf = TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap()
        .to_string();
    let hub = Nats::start_with(|conf| configured("sed 's/sync_interval", &conf, &leaf));
    let region = Nats::start_with(|conf| configured("sed -E", &conf, &leaf));
    (hub, region)
}

/// Creates the mirror of a stream as the guide does. `created` is what the service of the hub calls its creation time.
async fn mirror(region: &Nats, stream: &str, created: &str) {
    let config = block("{")
        .replace("RACING", stream)
        .replace("2026-11-22T23:31:55.754306Z", created);
    let config: jetstream::stream::Config = serde_json::from_str(&config).unwrap();
    let jetstream = jetstream::new(region.client_of("admin").await);
    jetstream.create_stream(config).await.unwrap();
}

/// Both regions with a replica each, and some events in the log.
async fn start_replicas(hub: &Nats, region: &Nats) -> (Railbird, Railbird) {
    let here = Railbird::start(hub).await;
    let seq = hub
        .publish([
            registered("H1", "HORSE 1"),
            card(DAY, "ST", 1, 3),
            odds("ST", 1, &second(0), &[2.0]),
        ])
        .await;
    here.until_seq(seq).await;
    for stream in [RACING, ACCOUNTS] {
        let state = hub.log().await.state(stream).await.unwrap();
        mirror(region, stream.name, &state.identity.created).await;
    }
    let there = Railbird::start(region).await;
    there.until_seq(seq).await;
    (here, there)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_replica_on_mirrors_is_equal_and_clients_move_between_regions() {
    let (hub, region) = start();
    let (here, there) = start_replicas(&hub, &region).await;
    // Identity, history and views are the same, and nothing is amiss.
    let digest = here.get_admin("/digest").await.json();
    assert_eq!(digest, there.get_admin("/digest").await.json());
    let drift = |reply: Reply| reply.json()["log"]["drift"]["settings"].clone();
    eventually("the settings are known", async || {
        !drift(there.get_open("/readyz").await).is_null()
    })
    .await;
    assert_eq!(
        drift(there.get_open("/readyz").await),
        serde_json::json!([])
    );

    // A key that either region issued is valid in both, until it is revoked.
    eventually("the key of the region is valid at the hub", || async {
        here.app.keys.check(&there.key).is_ok()
    })
    .await;
    assert_eq!(
        request(there.http, "GET", HORSE, &[("x-api-key", &here.key)])
            .await
            .status,
        200
    );

    // A client goes on in the other region where it was.
    let (_, opening) = here.live("").await;
    let complete = opening.last().unwrap();
    let since = format!(
        "since={}&recorded_at={}&epoch={}",
        complete["seq"],
        complete["recorded_at"].as_str().unwrap(),
        opening[0]["epoch"].as_str().unwrap()
    );
    let last = hub.publish([odds("ST", 1, &second(1), &[3.0])]).await;
    there.until_published(last).await;
    let (_, resumed) = there.live(&since).await;
    assert_eq!(resumed[0]["recovered"], true, "{resumed:?}");
    assert_eq!(
        (&resumed[1]["seq"], &resumed[2]["replayed"]),
        (&last.into(), &1.into())
    );
    // Facts that a feeder publishes in the region are in the one log.
    let next = region.publish([odds("ST", 1, &second(2), &[4.0])]).await;
    assert_eq!(next, last + 1);
    here.until_seq(next).await;

    // Secrets that are erased at the hub have no copy.
    let streams = jetstream::new(region.client_of("admin").await);
    for name in ["ADDRESSES", KEY_USE.name] {
        assert!(streams.get_stream(name).await.is_err(), "{name}");
        assert!(hub.log().await.state(KEY_USE).await.is_ok());
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_region_without_its_hub_serves_what_it_has_and_calls_it_stale() {
    let (mut hub, region) = start();
    let (here, there) = start_replicas(&hub, &region).await;
    let feed = async || there.get(HORSE).await.header("railbird-feed").to_owned();
    assert_eq!(feed().await, "live");
    hub.kill();
    eventually("the feed is stale", async || feed().await == "stale").await;
    let reply = there.get(HORSE).await;
    assert_eq!(reply.status, 200, "{}", reply.text());
    assert_eq!(there.get_open("/readyz").await.status, 200);
    hub.start_again();
    let last = hub.publish([odds("ST", 1, &second(3), &[5.0])]).await;
    there.until_seq(last).await;
    eventually("the feed is live", async || feed().await == "live").await;
    here.until_seq(last).await;
    assert_eq!(there.digest(), here.digest());
}
