//! [`Load`]: GETs at a steady rate.

use std::net::SocketAddr;
use std::time::Duration;

use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep_until, timeout};

use crate::support::*;

/// Failures that are shown.
const SHOWN_MAX: usize = 10;

/// The GET that is repeated, and its answers, of which each counts.
#[derive(Debug, Clone)]
pub(super) struct Get {
    pub(super) path: &'static str,
    pub(super) key: String,
    pub(super) bodies: Vec<Vec<u8>>,
}

/// GETs at a steady rate, independent of the answers, over connections that stay open.
#[derive(Debug)]
pub(super) struct Load {
    stop: watch::Sender<bool>,
    connections: Vec<JoinHandle<Outcome>>,
}

#[derive(Debug, Default)]
pub(super) struct Outcome {
    /// From when each GET was due, so that waiting for the answer before counts. In order of size.
    latencies: Vec<Duration>,
    /// Why GETs failed.
    pub(super) failures: Vec<String>,
}

impl Load {
    pub(super) fn start(
        proxy: SocketAddr,
        client: &TlsClient,
        get: &Get,
        connections: u32,
        gets_per_second: u32,
    ) -> Self {
        let (stop, stopped) = watch::channel(false);
        // The connections take turns.
        let interval = Duration::from_secs(1) * connections / gets_per_second;
        let begun = Instant::now();
        let connection = |n: u32| {
            let connection = Connection {
                proxy,
                client: client.clone(),
                get: get.clone(),
                open: None,
            };
            let first = begun + interval * n / connections;
            tokio::spawn(connection.run(first, interval, stopped.clone()))
        };
        Self {
            connections: (0..connections).map(connection).collect(),
            stop,
        }
    }

    pub(super) async fn stop(self) -> Outcome {
        self.stop.send_replace(true);
        let mut all = Outcome::default();
        for connection in self.connections {
            let outcome = connection.await.unwrap();
            all.latencies.extend(outcome.latencies);
            all.failures.extend(outcome.failures);
        }
        all.latencies.sort_unstable();
        all
    }
}

struct Connection {
    proxy: SocketAddr,
    client: TlsClient,
    get: Get,
    open: Option<TlsHttp>,
}

impl Connection {
    async fn run(
        mut self,
        first: Instant,
        interval: Duration,
        stopped: watch::Receiver<bool>,
    ) -> Outcome {
        let (begun, mut outcome) = (Instant::now(), Outcome::default());
        let mut due = first;
        while !*stopped.borrow() {
            sleep_until(due).await;
            match timeout(PATIENCE, self.send()).await {
                Ok(Ok(())) => {}
                failed => {
                    self.open = None;
                    let after = begun.elapsed();
                    outcome
                        .failures
                        .push(format!("after {after:.1?}: {failed:?}"));
                }
            }
            outcome.latencies.push(due.elapsed());
            due += interval;
        }
        outcome
    }

    /// Sends the GET, and compares the answer. Opens a connection if none is open.
    async fn send(&mut self) -> Result<(), String> {
        let mut open = match self.open.take() {
            Some(open) => open,
            None => {
                let opened = self.client.http(self.proxy).await;
                opened.map_err(|error| format!("no connection: {error}"))?.0
            }
        };
        let reply = open.get(self.get.path, &self.get.key).await;
        let reply = reply.map_err(|error| format!("no answer: {error:?}"))?;
        if reply.status != 200 || !self.get.bodies.contains(&reply.body) {
            return Err(format!("{}: {:.200}", reply.status, reply.text()));
        }
        // nginx ends a connection after 1,000 requests.
        if reply.header("connection") != "close" {
            self.open = Some(open);
        }
        Ok(())
    }
}

impl Outcome {
    pub(super) fn gets(&self) -> usize {
        self.latencies.len()
    }

    /// The latency that this part of the GETs had at most, in parts of a thousand.
    pub(super) fn latency(&self, per_mille: usize) -> Duration {
        let at = (self.latencies.len() * per_mille / 1_000).min(self.latencies.len() - 1);
        self.latencies[at]
    }

    /// The first failures, one a line.
    pub(super) fn summary(&self) -> String {
        let shown: Vec<&str> = self
            .failures
            .iter()
            .take(SHOWN_MAX)
            .map(String::as_str)
            .collect();
        let (failed, gets) = (self.failures.len(), self.gets());
        format!("{failed} of {gets} GETs failed\n{}", shown.join("\n"))
    }
}
