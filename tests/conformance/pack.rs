//! [`Pack`]: many clients at once.

use std::net::SocketAddr;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::sleep;

use super::client::{Client, Heard, Plan, Progress, Record, Stage, World};
use super::judge::{Judge, Tally};
use super::oracle::Oracle;

/// Objections that are shown.
const SHOWN_MAX: usize = 12;

#[derive(Debug)]
pub(crate) struct Pack {
    pub(crate) world: Arc<World>,
    progress: Vec<Arc<Progress>>,
    running: Vec<JoinHandle<Record>>,
}

/// What came of a pack.
#[derive(Debug)]
pub(crate) struct Verdict {
    pub(crate) tally: Tally,
    pub(crate) objections: Vec<String>,
    pub(crate) records: Vec<Record>,
    pub(crate) judge: Judge,
}

impl Pack {
    pub(crate) fn new(addresses: &[SocketAddr], key: &str, stage: Stage) -> Self {
        let world = World {
            addresses: Mutex::new(addresses.to_vec()),
            key: key.to_owned(),
            heard: Heard::default(),
            begun: Instant::now(),
            stage: watch::Sender::new(stage),
        };
        Self {
            world: Arc::new(world),
            progress: Vec::new(),
            running: Vec::new(),
        }
    }

    pub(crate) fn join(&mut self, plan: Plan) {
        let progress = Arc::new(Progress::default());
        let seed = 1_000 + self.progress.len() as u64;
        let client = Client::new(Arc::clone(&self.world), plan, seed, Arc::clone(&progress));
        self.progress.push(progress);
        self.running.push(tokio::spawn(client.run()));
    }

    pub(crate) fn stage(&self, stage: Stage) {
        self.world.stage.send_replace(stage);
    }

    pub(crate) fn move_to(&self, addresses: &[SocketAddr]) {
        *self.world.addresses.lock().expect("nobody panics") = addresses.to_vec();
    }

    /// Waits until something holds for every client; false if it takes too long.
    pub(crate) async fn all(&self, patience: Duration, holds: impl Fn(&Progress) -> bool) -> bool {
        self.most(self.progress.len(), patience, holds).await
    }

    /// Waits until something holds for so many clients.
    pub(crate) async fn most(
        &self,
        count: usize,
        patience: Duration,
        holds: impl Fn(&Progress) -> bool,
    ) -> bool {
        let until = Instant::now() + patience;
        while self
            .progress
            .iter()
            .filter(|progress| holds(progress))
            .count()
            < count
        {
            if Instant::now() > until {
                return false;
            }
            sleep(Duration::from_millis(5)).await;
        }
        true
    }

    /// How often every client has been connected.
    pub(crate) fn connections(&self) -> Vec<u64> {
        self.progress
            .iter()
            .map(|progress| progress.connections.load(Ordering::Relaxed))
            .collect()
    }

    /// Waits until every client has come back since `before` was counted; false if it takes too long.
    pub(crate) async fn back_since(&self, before: &[u64], patience: Duration) -> bool {
        let until = Instant::now() + patience;
        while self
            .connections()
            .iter()
            .zip(before)
            .any(|(now, before)| now <= before)
        {
            if Instant::now() > until {
                return false;
            }
            sleep(Duration::from_millis(5)).await;
        }
        true
    }

    /// Lets every client hear everything up to `seq`, and judges them all.
    pub(crate) async fn judge(self, oracle: Oracle, seq: u64, patience: Duration) -> Verdict {
        self.stage(Stage::Until(seq));
        let (mut records, mut objections) = (Vec::new(), Vec::new());
        let until = tokio::time::Instant::now() + patience;
        for mut running in self.running {
            match tokio::time::timeout_at(until, &mut running).await {
                Ok(record) => records.push(record.expect("a client does not panic")),
                Err(_) => {
                    running.abort();
                    objections.push(format!(
                        "a client did not hear everything up to {seq} in time"
                    ));
                }
            }
        }
        let judge = Judge::new(oracle, self.world.heard.all());
        let mut tally = Tally::default();
        for record in &records {
            let (of_client, said) = judge.judge(record);
            tally.add(&of_client);
            objections.extend(said);
        }
        Verdict {
            tally,
            objections,
            records,
            judge,
        }
    }
}

impl Verdict {
    /// The first objections, in lines.
    pub(crate) fn summary(&self) -> String {
        let shown: Vec<&str> = self
            .objections
            .iter()
            .take(SHOWN_MAX)
            .map(String::as_str)
            .collect();
        format!("{} objections\n{}", self.objections.len(), shown.join("\n"))
    }
}
