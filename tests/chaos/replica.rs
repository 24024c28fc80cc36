//! [`Replica`]: a replica of the service as a process, with an address and a data folder that it keeps.

use std::net::SocketAddr;
use std::path::Path;
use std::process::Command;

use serde_json::Value;
use socket2::Socket;
use tempfile::TempDir;

use crate::support::*;

pub(super) struct Replica {
    pub(super) http: SocketAddr,
    nats: String,
    data: TempDir,
    serving: Serving,
    /// While it is down, nothing else gets its port.
    kept_port: Option<Socket>,
}

impl Replica {
    /// Starts a replica on one nats-server, or on those of a cluster.
    pub(super) fn start(nats: &str) -> Self {
        Self::start_by(command(), nats)
    }

    /// The same with a command of its own, which runs once.
    pub(super) fn start_by(command: Command, nats: &str) -> Self {
        let (kept_port, data) = (kept_port(0), tempfile::tempdir().unwrap());
        let http = kept_port.local_addr().unwrap().as_socket().unwrap();
        let serving = serve(command, nats, http, data.path());
        Self {
            http,
            nats: nats.to_owned(),
            data,
            serving,
            kept_port: None,
        }
    }

    pub(super) async fn until_ready(&self) {
        self.serving.until_ready().await;
    }

    /// Waits until its views include an event.
    pub(super) async fn until_served(&self, seq: u64) {
        eventually(&format!("the views reflect {seq}"), async || {
            self.digest().await["seq"].as_u64() >= Some(seq)
        })
        .await;
    }

    /// Waits until it says that its views may be old, or they include events after this one.
    pub(super) async fn until_old_or_after(&self, seq: u64) {
        eventually("the replica notices that it is cut off", async || {
            self.status().await["feed"]["state"] != "live"
                || self.digest().await["seq"].as_u64() > Some(seq)
        })
        .await;
    }

    /// Compares its views with those of a fold of the log from the start, in another process.
    pub(super) async fn verify(&self, nats: &Nats) {
        let (admin, url) = (self.admin().to_string(), nats.url());
        let verified = railbird(["verify", "--admin", &admin, "--nats", &url]).await;
        assert_eq!(verified.code, 0, "{}", verified.all);
    }

    /// kill -9.
    pub(super) fn kill(&mut self) {
        self.serving.kill();
        self.kept_port = Some(kept_port(self.http.port()));
    }

    /// Starts it again after it was killed.
    pub(super) fn restart(&mut self) {
        self.serving = serve(command(), &self.nats, self.http, self.data.path());
        self.kept_port = None;
    }

    /// Starts it again on an empty data folder.
    pub(super) fn restart_without_data(&mut self) {
        self.data = tempfile::tempdir().unwrap();
        self.restart();
    }

    pub(super) fn freeze(&self) {
        self.serving.pause();
    }

    pub(super) fn thaw(&self) {
        self.serving.resume();
    }

    pub(super) fn admin(&self) -> SocketAddr {
        self.serving.admin
    }

    /// What its views are of, and their digest.
    pub(super) async fn digest(&self) -> Value {
        request(self.admin(), "GET", "/digest", &[]).await.json()
    }

    pub(super) async fn status(&self) -> Value {
        request(self.admin(), "GET", "/status", &[]).await.json()
    }
}

/// Plans without limits: rigs ask more often than a customer may.
pub(super) const UNLIMITED: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/bench/plans.toml");

fn serve(command: Command, nats: &str, http: SocketAddr, data: &Path) -> Serving {
    let http = http.to_string();
    let servers = (1 + nats.matches(',').count()).to_string();
    let flags = ["--http", &http, "--nats", nats, "--replicas", &servers];
    let behind_a_balancer = ["--trusted-proxies", "127.0.0.1", "--plans", UNLIMITED];
    let snapshots = ["--snapshot-secret", SNAPSHOT_SECRET];
    let flags = [&flags[..], &behind_a_balancer, &snapshots].concat();
    Serving::start_as(command, &flags, data)
}
