//! [`ClientGroup`]: many clients at once.

use std::net::SocketAddr;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::sleep;

use super::checker::{Checker, Tally};
use super::client::{Client, Plan, Progress, ReceivedMessages, Record, Shared, Stage};
use super::oracle::Oracle;

/// Violations that are shown.
const SHOWN_MAX: usize = 12;

#[derive(Debug)]
pub(crate) struct ClientGroup {
    pub(crate) shared: Arc<Shared>,
    progress: Vec<Arc<Progress>>,
    running: Vec<JoinHandle<Record>>,
}

/// The outcome of a test.
#[derive(Debug)]
pub(crate) struct Verdict {
    pub(crate) tally: Tally,
    pub(crate) violations: Vec<String>,
    pub(crate) records: Vec<Record>,
    pub(crate) checker: Checker,
}

impl ClientGroup {
    pub(crate) fn new(addresses: &[SocketAddr], key: &str, stage: Stage) -> Self {
        let shared = Shared {
            addresses: Mutex::new(addresses.to_vec()),
            key: key.to_owned(),
            received: ReceivedMessages::default(),
            started: Instant::now(),
            stage: watch::Sender::new(stage),
        };
        Self {
            shared: Arc::new(shared),
            progress: Vec::new(),
            running: Vec::new(),
        }
    }

    pub(crate) fn join(&mut self, plan: Plan) {
        let progress = Arc::new(Progress::default());
        let seed = 1_000 + self.progress.len() as u64;
        let client = Client::new(Arc::clone(&self.shared), plan, seed, Arc::clone(&progress));
        self.progress.push(progress);
        self.running.push(tokio::spawn(client.run()));
    }

    pub(crate) fn stage(&self, stage: Stage) {
        self.shared.stage.send_replace(stage);
    }

    pub(crate) fn move_to(&self, addresses: &[SocketAddr]) {
        *self.shared.addresses.lock().expect("no thread panics") = addresses.to_vec();
    }

    /// Waits until something holds for every client; false if it takes too long.
    pub(crate) async fn wait_for_all(
        &self,
        patience: Duration,
        holds: impl Fn(&Progress) -> bool,
    ) -> bool {
        self.wait_for_some(self.progress.len(), patience, holds)
            .await
    }

    /// Waits until something holds for this many clients; false if it takes too long.
    pub(crate) async fn wait_for_some(
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

    /// Waits until every client has connected again since `before` was counted; false if it takes too long.
    pub(crate) async fn reconnected_since(&self, before: &[u64], patience: Duration) -> bool {
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

    /// Waits until every client has received everything up to `seq`, and checks them all.
    pub(crate) async fn check(self, oracle: Oracle, seq: u64, patience: Duration) -> Verdict {
        self.stage(Stage::Until(seq));
        let (mut records, mut violations) = (Vec::new(), Vec::new());
        let until = tokio::time::Instant::now() + patience;
        for mut running in self.running {
            match tokio::time::timeout_at(until, &mut running).await {
                Ok(record) => records.push(record.expect("a client does not panic")),
                Err(_) => {
                    running.abort();
                    violations.push(format!(
                        "a client did not receive everything up to {seq} in time"
                    ));
                }
            }
        }
        let checker = Checker::new(oracle, self.shared.received.all());
        let mut tally = Tally::default();
        for record in &records {
            let (of_client, found) = checker.check(record);
            tally.add(&of_client);
            violations.extend(found);
        }
        Verdict {
            tally,
            violations,
            records,
            checker,
        }
    }
}

impl Verdict {
    /// The first violations, one a line.
    pub(crate) fn summary(&self) -> String {
        let shown: Vec<&str> = self
            .violations
            .iter()
            .take(SHOWN_MAX)
            .map(String::as_str)
            .collect();
        format!("{} violations\n{}", self.violations.len(), shown.join("\n"))
    }
}
