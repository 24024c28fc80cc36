//! A replica that lags leaves the load balancer while another one is fresh, and returns by itself. So does one that is
//! cut off from NATS.

use std::time::Duration;

use futures::future::join_all;
use serde_json::json;
use tempfile::TempDir;
use tokio::time::{Instant, sleep};

use crate::support::*;

/// Longer than the service needs to ask NATS for the end of the log.
const LAG_MAX: &str = "5s";
const LAG_MAX_MS: u64 = 5_000;
const PAUSED: Duration = Duration::from_secs(7);
/// More events than a process folds in some seconds that has a quarter of its time.
const BACKLOG: u32 = 30_000;

/// Replicas with a short limit for their lag.
struct Lagging {
    nats: Nats,
    /// The connection of the first replica to NATS.
    cable: Cable,
    replicas: Vec<Serving>,
    _folders: Vec<TempDir>,
}

impl Lagging {
    async fn start() -> Self {
        let nats = Nats::start();
        let cable = Cable::to(nats.address()).await;
        let (mut replicas, mut folders) = (Vec::new(), Vec::new());
        for url in [nats.url_by(cable.address), nats.url()] {
            let folder = tempfile::tempdir().unwrap();
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
            cable,
            replicas,
            _folders: folders,
        };
        for replica in &all.replicas {
            replica.until_it_knows_another_replica().await;
        }
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

    /// Waits until each replica has noticed for itself that it lags, and that the others do.
    async fn until_none_is_fresh(&self) {
        eventually("no replica is fresh", async || {
            let ages = self.replicas.iter().map(async |replica| {
                let reply = request(replica.http, "GET", "/readyz", &[]).await;
                reply.json()["feed"]["age_ms"].as_u64().unwrap()
            });
            let ages = join_all(ages).await;
            ages.iter().all(|age| *age > 2 * LAG_MAX_MS)
        })
        .await;
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
    all.until_none_is_fresh().await;
    assert_eq!(all.readiness().await, ["", ""], "NATS answers nothing");
    all.nats.thaw();
    all.until_caught_up(seq).await;
    all.nats.kill();
    all.until_none_is_fresh().await;
    assert_eq!(all.readiness().await, ["", ""], "NATS is down");
}

#[tokio::test]
async fn a_replica_that_is_cut_off_closes_its_sockets_while_another_one_is_fresh_and_keeps_them_while_none_is()
 {
    let all = Lagging::start().await;
    let key = issue_key(&all.nats).await;
    let [cut_off, fresh] = [&all.replicas[0], &all.replicas[1]];
    for replica in [cut_off, fresh] {
        until_valid(replica.http, &key).await;
    }
    let mut leaves = Socket::open(cut_off.http, &key).await;
    let mut stays = Socket::open(fresh.http, &key).await;
    all.cable.cut();
    let (messages, code) = leaves.until_closed().await;
    assert_eq!(code, Some(1013));
    let closing = &messages[messages.len() - 1];
    assert!(closing["retry_after_ms"].as_u64() > Some(0), "{closing}");
    let path = format!("/ws/live/odds?api_key={key}");
    assert_eq!(Socket::refused(cut_off.http, &path).await.status, 503);
    let reasons = all.readiness().await;
    assert!(reasons[0].contains("another replica has fresh ones"));
    assert_eq!(reasons[1], "");
    // It still answers, but to a proxy that can repeat the request.
    let key = ("x-api-key", key.as_str());
    let meetings = "/api/v1/meetings";
    let read = async |headers: &[_]| request(cut_off.http, "GET", meetings, headers).await.status;
    assert_eq!(read(&[key]).await, 200);
    assert_eq!(read(&[key, ("railbird-prefer-fresh", "yes")]).await, 503);

    all.nats.freeze();
    all.until_none_is_fresh().await;
    assert_eq!(all.readiness().await, ["", ""], "both lack the log");
    assert_eq!(read(&[key, ("railbird-prefer-fresh", "yes")]).await, 200);
    let mut accepted = Socket::connect(cut_off.http, &path).await;
    for socket in [&mut stays, &mut accepted] {
        socket.request(&json!({"op": "ping"})).await;
    }
}
