//! A replica that lags leaves the load balancer while another one is fresh, and returns by itself.

use std::time::Duration;

use futures::future::join_all;
use tempfile::TempDir;
use tokio::time::{Instant, sleep};

use crate::support::*;

/// Longer than the service needs to ask NATS for the end of the log.
const LAG_MAX: &str = "5s";
const PAUSED: Duration = Duration::from_secs(7);
/// More events than a process folds in some seconds that has a quarter of its time.
const BACKLOG: u32 = 30_000;

/// Replicas with a short limit for their lag.
struct Lagging {
    nats: Nats,
    replicas: Vec<Serving>,
    _folders: Vec<TempDir>,
}

impl Lagging {
    async fn start() -> Self {
        let nats = Nats::start();
        nats.create_leases(Duration::from_secs(3)).await;
        let (mut replicas, mut folders) = (Vec::new(), Vec::new());
        for _ in 0..2 {
            let folder = tempfile::tempdir().unwrap();
            let url = nats.url();
            let flags = [
                "--http",
                "127.0.0.1:0",
                "--nats",
                &url,
                "--lag-max",
                LAG_MAX,
            ];
            let replica = Serving::start_with(&flags, folder.path());
            replica.until_ready().await;
            replicas.push(replica);
            folders.push(folder);
        }
        let all = Self {
            nats,
            replicas,
            _folders: folders,
        };
        eventually("all are ready", async || {
            all.readiness().await.iter().all(String::is_empty)
        })
        .await;
        all
    }

    /// Why each replica is not ready; empty if it is.
    async fn readiness(&self) -> Vec<String> {
        join_all(self.replicas.iter().map(async |replica| {
            let reply = request(replica.http, "GET", "/readyz", &[]).await;
            let reason = reply.json()["reason"].as_str().unwrap().to_owned();
            assert_eq!(reply.status == 200, reason.is_empty(), "{reason}");
            reason
        }))
        .await
    }

    /// Publishes a backlog, while these replicas are paused for longer than they may lag.
    async fn fall_behind(&self, paused: &[usize]) -> u64 {
        let begun = Instant::now();
        paused.iter().for_each(|n| self.replicas[*n].pause());
        let prices =
            (0..BACKLOG).map(|n| odds("ST", 1, &second(n.into()), &[f64::from(n % 90) + 2.0]));
        let seq = self.nats.publish(prices).await;
        sleep(PAUSED.saturating_sub(begun.elapsed())).await;
        paused.iter().for_each(|n| self.replicas[*n].resume());
        seq
    }

    /// Lets these replicas run for a quarter of the time, until dropped.
    async fn slow_down(&self, slow: &[usize]) {
        loop {
            sleep(Duration::from_millis(50)).await;
            slow.iter().for_each(|n| self.replicas[*n].pause());
            sleep(Duration::from_millis(150)).await;
            slow.iter().for_each(|n| self.replicas[*n].resume());
        }
    }

    async fn until_caught_up(&self, seq: u64) {
        for replica in &self.replicas {
            let admin = replica.admin;
            eventually("the replica has caught up", async || {
                let status = request(admin, "GET", "/status", &[]).await.json();
                status["log"]["seq"] == seq && status["ready"] == true
            })
            .await;
        }
    }
}

#[tokio::test]
async fn a_replica_that_lags_is_unready_while_another_one_is_fresh_and_returns_by_itself() {
    let all = Lagging::start().await;
    let seq = all.fall_behind(&[0]).await;
    let left = eventually("the replica leaves", async || {
        let reasons = all.readiness().await;
        assert_eq!(reasons[1], "", "the other one stays");
        reasons[0].contains("another replica has fresh ones")
    });
    tokio::select! {
        () = left => {}
        () = all.slow_down(&[0]) => unreachable!("it has no end"),
    }
    // The signal that was sent last may be a pause.
    all.replicas[0].resume();
    all.until_caught_up(seq).await;
    assert_eq!(all.readiness().await, ["", ""]);
}

#[tokio::test]
async fn replicas_that_all_lag_stay_ready_and_so_they_do_without_nats() {
    let mut all = Lagging::start().await;
    let seq = all.fall_behind(&[0, 1]).await;
    let watched = async {
        let until = Instant::now() + PAUSED;
        while Instant::now() < until {
            let reasons = all.readiness().await;
            assert!(reasons.iter().any(String::is_empty), "{reasons:?}");
        }
    };
    tokio::select! {
        () = watched => {}
        () = all.slow_down(&[0, 1]) => unreachable!("it has no end"),
    }
    all.replicas.iter().for_each(Serving::resume);
    all.until_caught_up(seq).await;
    all.nats.freeze();
    sleep(PAUSED).await;
    assert_eq!(all.readiness().await, ["", ""], "NATS answers nothing");
    all.nats.thaw();
    all.nats.kill();
    sleep(PAUSED).await;
    assert_eq!(all.readiness().await, ["", ""], "NATS is down");
}
