//! [`Replica`]: a replica of the service as a process, with an address of its own that it keeps.

use std::net::SocketAddr;
use std::path::Path;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use tempfile::TempDir;

use crate::ops::proxy::free_address;
use crate::support::*;

pub(super) struct Replica {
    pub(super) http: SocketAddr,
    routes: ClientRoutes,
    data: TempDir,
    serving: Serving,
}

impl Replica {
    pub(super) fn start(cluster: &Cluster) -> Self {
        let (http, data) = (free_address(), tempfile::tempdir().unwrap());
        let routes = cluster.routes_of_a_client();
        let serving = serve(&routes, http, data.path());
        Self {
            http,
            routes,
            data,
            serving,
        }
    }

    pub(super) async fn until_ready(&self) {
        self.serving.until_ready().await;
    }

    /// kill -9.
    pub(super) fn kill(&mut self) {
        self.serving.kill();
    }

    /// Starts it again after it was killed.
    pub(super) fn restart(&mut self) {
        self.serving = serve(&self.routes, self.http, self.data.path());
    }

    pub(super) fn freeze(&self) {
        self.signal(Signal::STOP);
    }

    pub(super) fn thaw(&self) {
        self.signal(Signal::CONT);
    }

    /// Cuts it off from all nats-servers. Clients still reach it.
    pub(super) fn partition(&self) {
        self.routes.cut();
    }

    pub(super) fn heal(&self) {
        self.routes.heal();
    }

    /// What its views are of, and their digest.
    pub(super) async fn digest(&self) -> Value {
        request(self.serving.admin, "GET", "/digest", &[])
            .await
            .json()
    }

    fn signal(&self, signal: Signal) {
        let id = i32::try_from(self.serving.id()).unwrap();
        kill_process(Pid::from_raw(id).unwrap(), signal).unwrap();
    }
}

fn serve(routes: &ClientRoutes, http: SocketAddr, data: &Path) -> Serving {
    let unlimited = Path::new(env!("CARGO_MANIFEST_DIR")).join("bench/plans.toml");
    let (http, plans) = (http.to_string(), unlimited.to_str().unwrap());
    let flags = ["--http", &http, "--nats", routes.url(), "--replicas", "3"];
    let behind_a_balancer = ["--trusted-proxies", "127.0.0.1", "--plans", plans];
    Serving::start_with(&[&flags[..], &behind_a_balancer].concat(), data)
}
