//! A revoked key is rejected by all replicas, whatever happens to servers and replicas meanwhile.

use futures::future::join_all;
use serde_json::json;
use tempfile::TempDir;
use tokio::time::{Instant, sleep, timeout};

use crate::support::*;

/// Three replicas on a cluster.
struct Replicas {
    cluster: Cluster,
    services: Vec<Serving>,
    _folders: Vec<TempDir>,
}

impl Replicas {
    async fn start() -> Self {
        let cluster = Cluster::start();
        let (mut services, mut folders) = (Vec::new(), Vec::new());
        for _ in 0..3 {
            let (folder, url) = (tempfile::tempdir().unwrap(), cluster.url());
            let flags = ["--http", "127.0.0.1:0", "--nats", &url, "--replicas", "3"];
            services.push(Serving::start_with(&flags, folder.path()));
            folders.push(folder);
        }
        let replicas = Self {
            cluster,
            services,
            _folders: folders,
        };
        for service in &replicas.services {
            let http = service.http;
            eventually("the service is ready", async || {
                request(http, "GET", "/readyz", &[]).await.status == 200
            })
            .await;
        }
        replicas
    }

    /// Runs `railbird keys`, and returns the key that it prints.
    async fn keys(&self, args: &[&str]) -> String {
        let url = self.cluster.url_of("keys");
        let flags = ["keys", "--nats", &url, "--log", "error", "--replicas", "3"];
        let done = railbird(flags.iter().chain(args)).await;
        assert_eq!(done.code, 0, "{}", done.all);
        let key = done.all.lines().find(|line| line.starts_with("rb_"));
        key.unwrap_or_default().to_owned()
    }

    /// A key that all replicas accept.
    async fn issue(&self) -> String {
        let key = self.keys(&["issue", "--plan", "default"]).await;
        self.until_answered(&key, 200).await;
        key
    }

    async fn revoke(&self, key: &str) {
        let id = key.split('_').nth(2).unwrap();
        self.keys(&["revoke", id]).await;
    }

    async fn sockets(&self, key: &str) -> Vec<Socket> {
        join_all(self.services.iter().map(|service| opened(service, key))).await
    }

    /// Waits until all replicas answer requests with a key with a status.
    async fn until_answered(&self, key: &str, status: u16) {
        until_answered(&self.services, key, status).await;
    }

    /// Waits until a key is rejected and its sockets are closed by all replicas.
    async fn until_rejected(&self, key: &str, sockets: Vec<Socket>) {
        let begun = Instant::now();
        self.until_answered(key, 401).await;
        eprintln!("rejected by all replicas after {:?}", begun.elapsed());
        for mut socket in sockets {
            let (messages, code) = socket.until_closed().await;
            // A replica that was paused may first notice that another one is fresh.
            assert!(matches!(code, Some(4401 | 1013)), "{code:?}");
            let closing = messages.last().unwrap();
            assert_eq!(closing["event"], json!("closing"));
        }
        eprintln!("and its sockets are closed after {:?}", begun.elapsed());
    }
}

/// A socket that has received its snapshots. A replica that lags after an election, while another one does not, closes
/// its sockets.
async fn opened(service: &Serving, key: &str) -> Socket {
    let path = format!("/ws/live/odds?api_key={key}");
    let opening = async {
        loop {
            let Ok(mut socket) = Socket::try_connect(service.http, &path).await else {
                sleep(RETRY_PAUSE).await;
                continue;
            };
            while let Some(message) = socket.next().await {
                if message["event"] == "snapshot_complete" {
                    return socket;
                }
            }
        }
    };
    timeout(PATIENCE, opening)
        .await
        .expect("a socket stays open")
}

/// Waits until these replicas answer requests with a key with a status.
async fn until_answered(services: &[Serving], key: &str, status: u16) {
    join_all(services.iter().map(async |service| {
        let (path, headers) = ("/api/v1/meetings", [("x-api-key", key)]);
        eventually(&format!("{} answers {status}", service.http), async || {
            request(service.http, "GET", path, &headers).await.status == status
        })
        .await;
    }))
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_revoked_key_is_rejected_by_all_replicas_while_servers_and_replicas_fail() {
    let mut replicas = Replicas::start().await;

    // The leader of the keys ends as soon as the revocation is acknowledged.
    let key = replicas.issue().await;
    let sockets = replicas.sockets(&key).await;
    let leader = replicas.cluster.stream_leader("ACCOUNTS").await;
    replicas.revoke(&key).await;
    replicas.cluster.kill(leader);
    replicas.until_rejected(&key, sockets).await;
    replicas.cluster.restart(leader);

    // The leader ended before it: the revocation waits for the next leader.
    let key = replicas.issue().await;
    let sockets = replicas.sockets(&key).await;
    let leader = replicas.cluster.stream_leader("ACCOUNTS").await;
    replicas.cluster.kill(leader);
    replicas.revoke(&key).await;
    replicas.until_rejected(&key, sockets).await;
    replicas.cluster.restart(leader);

    // A replica is paused meanwhile.
    let key = replicas.issue().await;
    let sockets = replicas.sockets(&key).await;
    replicas.services[0].pause();
    replicas.revoke(&key).await;
    until_answered(&replicas.services[1..], &key, 401).await;
    replicas.services[0].resume();
    replicas.until_rejected(&key, sockets).await;
}
