//! One server of three is away, or has other settings: nobody ends, and operators see it.

use serde_json::Value;

use crate::support::*;

/// A service with `--production`, and what it says of itself.
struct Replica(Serving);

impl Replica {
    fn start(cluster: &Cluster, data: &std::path::Path) -> Self {
        let url = cluster.url();
        let flags = [
            "--http",
            "127.0.0.1:0",
            "--nats",
            &url,
            "--replicas",
            "3",
            "--production",
        ];
        Self(Serving::start_with(&flags, data))
    }

    /// What is wrong with the settings and servers of the log.
    async fn drift(&self) -> Value {
        let status = request(self.0.admin, "GET", "/status", &[]).await.json();
        status["log"]["drift"].clone()
    }

    /// The state of what feeders use, as everybody sees it.
    async fn feeders(&self) -> String {
        let status = request(self.0.http, "GET", "/status.json", &[])
            .await
            .json();
        let components = status["components"].as_array().unwrap();
        let feeders = components.iter().find(|part| part["name"] == "feeders");
        feeders.unwrap()["state"].as_str().unwrap().to_owned()
    }

    /// Waits for these risks and servers that are away, and a state of the status page that fits.
    async fn until(&self, what: &str, risks: &str, away: &[&str]) {
        eventually(what, async || {
            let drift = self.drift().await;
            let lists = |list: &str, part: &str| drift[list].to_string().contains(part);
            let is_whole = drift["away"].as_array().is_some_and(Vec::is_empty);
            let is_safe = drift["risks"].as_array().is_some_and(Vec::is_empty);
            let state = if is_whole && is_safe {
                "operational"
            } else {
                "degraded"
            };
            is_whole == away.is_empty()
                && is_safe == risks.is_empty()
                && lists("risks", risks)
                && away.iter().all(|part| lists("away", part))
                && self.feeders().await == state
        })
        .await;
    }
}

async fn log_status(cluster: &Cluster, more: &[&str]) -> Output {
    let nats = cluster.url_of("admin");
    railbird([&["log", "status", "--nats", &nats], more].concat()).await
}

/// The followers of RACING in the answer of `railbird log status --json`.
fn followers(status: &Value) -> Vec<(&str, bool)> {
    let streams = status["streams"].as_array().unwrap();
    let racing = streams.iter().find(|stream| stream["name"] == "RACING");
    let followers = racing.unwrap()["followers"].as_array().unwrap().iter();
    followers
        .map(|it| (it["name"].as_str().unwrap(), it["follows"] == true))
        .collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_is_away_or_does_not_sync_is_reported_and_ends_no_replica() {
    let (mut cluster, data) = (Cluster::start(), tempfile::tempdir().unwrap());
    let replica = Replica::start(&cluster, data.path());
    replica.0.until_ready().await;
    replica.until("the cluster is whole", "", &[]).await;
    let away = (cluster.stream_leader("RACING").await + 1) % 3;
    let name = format!("node{}", away + 1);

    cluster.kill(away);
    let follower = format!("nats-server {name} is away or behind in the stream RACING");
    let parts = ["2 of 3 nats-servers answer", &follower];
    replica.until("a server is away", "", &parts).await;
    let metric = async |name: &str| replica.0.metric(name).await;
    assert_eq!(metric("railbird_nats_servers_expected").await, 3);
    assert_eq!(metric("railbird_nats_servers_answering").await, 2);
    let ready = request(replica.0.http, "GET", "/readyz", &[]).await;
    assert_eq!(
        (ready.status, &ready.json()["feed"]["state"]),
        (200, &"live".into())
    );
    // Other streams may elect a leader yet.
    eventually("`log status` shows the server that is away", async || {
        let shown = log_status(&cluster, &[]).await;
        let parts = [
            "2 of 3 nats-servers answer",
            &format!("{name} (silent for "),
        ];
        shown.code == 0 && parts.iter().all(|part| shown.all.contains(part))
    })
    .await;

    cluster.server(away).change_file(without_sync);
    cluster.restart(away);
    let risk = format!("in the configuration of {name}");
    replica
        .until("the server is back, with a risk", &risk, &[])
        .await;
    assert_eq!(metric("railbird_log_risks").await, 1);
    assert_eq!(metric("railbird_nats_servers_answering").await, 3);
    let shown = log_status(&cluster, &["--json"]).await;
    let status: Value = serde_json::from_str(&shown.all).unwrap();
    assert_eq!(status["servers"][&name]["syncs_always"], false, "{status}");
    let followers = followers(&status);
    assert!(
        followers.len() == 2 && followers.iter().all(|(_, follows)| *follows),
        "{status}"
    );

    let log = replica.0.stop().await.join("\n");
    for line in [
        "the NATS cluster is not whole",
        "the NATS cluster is whole again",
    ] {
        assert!(log.contains(line), "{log}");
    }
    let (code, log) = Replica::start(&cluster, data.path()).0.until_ended().await;
    assert_eq!(code, Some(78), "{log}");
}
