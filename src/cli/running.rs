//! [`RunningService`]: a service on a task of its own, and its end.

use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use rustix::fs::Mode;
use tokio::task::JoinHandle;
use tokio::time::{sleep, timeout};

use crate::app::Service;
use crate::http::state::App;
use crate::shutdown::{Shutdown, Signals, StoppedAtOnce};
use crate::supervisor::TaskEnded;

/// The time for a service to end after its drain delay: 10 s for requests, live clients and mails side by side, 5 s to
/// write the views to disk, and some to spare.
pub(super) const STOP_TIMEOUT: Duration = Duration::from_secs(18);

/// Lets nobody else read the files that this process and its children create: views, keys, mails, the log of `dev`.
pub(super) fn keep_files_private() {
    rustix::process::umask(Mode::RWXG | Mode::RWXO);
}

/// A service that serves until it is stopped, or a task of it ends.
pub(super) struct RunningService {
    app: Arc<App>,
    shutdown: Shutdown,
    serving: JoinHandle<Result<(), TaskEnded>>,
}

impl RunningService {
    /// Runs a service that ends with `shutdown`.
    pub(super) fn new(service: Service, shutdown: Shutdown) -> Self {
        Self {
            app: Arc::clone(&service.app),
            shutdown,
            serving: tokio::spawn(service.run()),
        }
    }

    /// Waits until the service ends by itself, which is an error. Cancel-safe.
    pub(super) async fn ended(&mut self) -> anyhow::Error {
        match (&mut self.serving).await {
            Ok(Ok(())) => anyhow::anyhow!("the service ended"),
            Ok(Err(error)) => error.into(),
            Err(error) => error.into(),
        }
    }

    /// Stops the service: it is unready for the time of `delay`, and then refuses connections and ends what is
    /// in progress.
    ///
    /// # Errors
    /// Returns [`StoppedAtOnce`] at the next signal, and an error if the service fails or does not end in
    /// [`STOP_TIMEOUT`].
    pub(super) async fn stop(self, delay: Duration, signals: &mut Signals) -> anyhow::Result<()> {
        tracing::info!(drain_delay = ?delay, "stopping");
        self.app.health.draining.cancel();
        let shutdown = self.shutdown;
        let stopping = async {
            sleep(delay).await;
            shutdown.cancel();
            let ended = timeout(STOP_TIMEOUT, self.serving).await;
            ended
                .with_context(|| format!("the service did not end within {STOP_TIMEOUT:?}"))???;
            tracing::info!("stopped");
            anyhow::Ok(())
        };
        tokio::select! {
            stopped = stopping => stopped,
            () = signals.next() => Err(StoppedAtOnce.into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::STOP_TIMEOUT;
    use crate::cli::serve::DRAIN_DELAY_DEFAULT;

    #[test]
    fn the_service_ends_within_the_time_that_compose_and_systemd_give() {
        let compose = include_str!("../../docker-compose.yml");
        let unit = include_str!("../../ops/railbird@.service");
        let needed = STOP_TIMEOUT.as_secs() + DRAIN_DELAY_DEFAULT.as_secs().unsigned_abs();
        let cluster = include_str!("../../ops/docker-compose.cluster.yml");
        let kubernetes = include_str!("../../ops/kubernetes/railbird.yaml");
        // The drain delay is one of its own there.
        let pods = (kubernetes, "terminationGracePeriodSeconds: ", needed + 10);
        for (text, name, needed) in [
            (compose, "stop_grace_period: ", needed),
            (cluster, "stop_grace_period: ", needed),
            (unit, "TimeoutStopSec=", needed),
            pods,
        ] {
            let seconds = |text: &str| text.trim_end_matches('s').parse::<u64>().ok();
            let mut lines = text.lines().map(str::trim);
            let given = (lines.find_map(|line| line.strip_prefix(name))).and_then(seconds);
            // A few seconds for the process itself, and for docker.
            let is_enough = given.is_some_and(|given| needed + 5 <= given);
            assert!(is_enough, "{name} {given:?}");
            // What `check-config` takes for it.
            let (_, told) = text.split_once("RAILBIRD_STOP_TIMEOUT").expect(name);
            let told = told.trim_start_matches([':', '=', ' ', '\n']);
            let told = told.trim_start_matches("value:").split_whitespace().next();
            assert_eq!(told.and_then(seconds), given, "{name}");
        }
    }
}
