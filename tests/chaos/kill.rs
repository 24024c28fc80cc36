//! kill -9 of the service and of nats-server under traffic, also while views are rebuilt, swapped, written to a
//! snapshot and loaded from one, and while a backup of the log is restored.

use std::net::SocketAddr;
use std::time::Duration;

use tokio::time::sleep;

use super::budget::Budget;
use super::replica::Replica;
use super::stored::StoredLog;
use super::traffic::{Load, Traffic};
use crate::conformance::rng::Rng;
use crate::support::*;

const LOAD: Load = Load {
    events_per_second: 500,
    sockets: 0..20,
    gets_per_second: 50,
};
const SHORT_KILLS: u64 = 5;
const LONG_KILLS: u64 = 20;
/// 200 in the share of this rig of two hours.
const KILLS_AN_HOUR: u64 = 650;
/// A kill comes within this time after its activity has begun: rebuilds of so few events are over then.
const DELAY_MS_MAX: u64 = 600;
const DOWN_MS_MAX: u64 = 400;
/// Of a hundred kills, so many are during a restore of the log.
const RESTORES_PERCENT: u64 = 15;

/// What the service does when the kill comes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Activity {
    Serving,
    Rebuilding,
    WritingSnapshot,
    LoadingSnapshot,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Victim {
    Service,
    Server,
    Both,
}

struct World {
    nats: Nats,
    replica: Replica,
    /// Whether a data folder was lost: its sockets may be unable to resume.
    has_lost_data: bool,
}

impl World {
    async fn kill(&mut self, budget: &mut Budget, rng: &mut Rng) {
        let activity = *rng.of(&[
            Activity::Serving,
            Activity::Rebuilding,
            Activity::WritingSnapshot,
            Activity::LoadingSnapshot,
        ]);
        let victim = *rng.of(&[Victim::Service, Victim::Server, Victim::Both]);
        let (delay, down) = (rng.below(DELAY_MS_MAX), rng.below(DOWN_MS_MAX));
        budget.step(format!(
            "{activity:?}: {victim:?} is killed after {delay} ms, for {down} ms"
        ));
        self.begin(activity).await;
        sleep(Duration::from_millis(delay)).await;
        if victim != Victim::Server {
            self.replica.kill();
        }
        if victim != Victim::Service {
            self.nats.kill();
        }
        sleep(Duration::from_millis(down)).await;
        if victim != Victim::Service {
            self.nats.start_again();
        }
        if victim != Victim::Server {
            self.replica.restart();
        }
        self.check().await;
    }

    async fn begin(&mut self, activity: Activity) {
        let admin = self.replica.admin();
        match activity {
            Activity::Serving => {}
            Activity::Rebuilding => drop(tokio::spawn(post_to(admin, "/rebuild"))),
            Activity::WritingSnapshot => drop(tokio::spawn(post_to(admin, "/snapshot"))),
            Activity::LoadingSnapshot => {
                post_to(admin, "/snapshot").await;
                self.replica.kill();
                self.replica.restart_without_data();
                self.has_lost_data = true;
            }
        }
    }

    /// The service serves all that the log has, and its views are those of a fold from the start.
    async fn check(&self) {
        self.replica.until_ready().await;
        self.replica.until_served(self.nats.last_seq().await).await;
        self.replica.verify(&self.nats).await;
    }

    /// Kills the command or the server that restore a backup of the log, and restores it again.
    async fn restore(&self, budget: &mut Budget, rng: &mut Rng) {
        let (delay, is_server) = (rng.below(DELAY_MS_MAX), rng.happens(50));
        let victim = if is_server {
            "nats-server"
        } else {
            "the command"
        };
        budget.step(format!(
            "a restore of the log: {victim} is killed after {delay} ms"
        ));
        let (folder, last) = (tempfile::tempdir().unwrap(), self.nats.last_seq().await);
        let backup = folder.path().join("backup");
        let backup = backup.to_str().unwrap();
        let url = self.nats.url_of("admin");
        let written = railbird(["log", "backup", backup, "--nats", &url]).await;
        assert_eq!(written.code, 0, "{}", written.all);
        let mut restored = Nats::start_with(without_sync);
        let url = restored.url_of("admin");
        let args = ["log", "restore", backup, "--nats", &url];
        let mut restore = command();
        restore.args(args);
        let mut restoring = Process::start(restore, folder.path().join("output"));
        sleep(Duration::from_millis(delay)).await;
        if is_server {
            restored.kill();
            restored.start_again();
        } else {
            restoring.signal(rustix::process::Signal::KILL);
        }
        restoring.ended().await;
        let again = railbird(args).await;
        assert_eq!(again.code, 0, "{}then:\n{}", restoring.output(), again.all);
        let copy = StoredLog::read(restored.client_of("admin").await).await;
        let mut original = StoredLog::read(self.nats.client_of("admin").await).await;
        let copied = copy.events.last_key_value().map_or(0, |(seq, _)| *seq);
        assert!(
            copied >= last,
            "the backup ends at {copied}, and the log ended at {last} before it"
        );
        original.events.retain(|seq, _| *seq <= copied);
        assert!(
            copy.events == original.events,
            "{} events were restored, not the {} up to {copied}",
            copy.events.len(),
            original.events.len()
        );
    }
}

/// The kill may come before the answer.
async fn post_to(admin: SocketAddr, path: &'static str) {
    let _ = try_send(admin, "POST", path, &[], String::new()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_is_lost_repeated_or_wrong_when_anything_is_killed_at_any_time() {
    let mut budget = Budget::of("kill", 1).with_an_hour("kills", KILLS_AN_HOUR);
    while let Some(rng) = budget.next_round() {
        round(&mut budget, rng).await;
    }
    budget.end();
}

async fn round(budget: &mut Budget, mut rng: Rng) {
    let nats = Nats::start();
    let (replica, key) = (Replica::start(&nats.url()), issue_key(&nats).await);
    let (http, feeder) = (replica.http, async || nats.client_of("feeder").await);
    let traffic = Traffic::start(feeder, nats.log().await, http, &key, &LOAD, rng.next()).await;
    let mut world = World {
        nats,
        replica,
        has_lost_data: false,
    };
    let kills = if budget.is_long() {
        LONG_KILLS
    } else {
        SHORT_KILLS
    };
    for n in 0..kills {
        if n > 0 && !budget.has_time() {
            break;
        }
        if rng.happens(RESTORES_PERCENT) {
            world.restore(budget, &mut rng).await;
        } else {
            world.kill(budget, &mut rng).await;
        }
        budget.count("kills", 1);
    }
    let admin = async || world.nats.client_of("admin").await;
    let until_served = async |last| world.replica.until_served(last).await;
    let outcome = traffic.check(budget, admin, http, until_served).await;
    world.check().await;
    let tally = outcome.sockets;
    // On a machine with other work, a restarted service may not read the last events again in time.
    if budget.is_long() && !world.has_lost_data {
        assert_eq!((tally.not_recovered, tally.resyncs), (0, 0), "{tally:?}");
    }
}
