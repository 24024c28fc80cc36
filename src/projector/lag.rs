//! [`LagWatch`]: whether this replica lags while another one has fresh views.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::{sleep, timeout};

use super::status::{Phase, Status};
use crate::clock::Uptime;
use crate::log::{ConnectionStatus, Log, LogError};

/// How often a replica looks at its lag.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// How often a replica with fresh views notes that: an entry ends after 20 seconds.
const NOTE_EVERY: Duration = Duration::from_secs(5);
/// How long an answer counts that another replica has fresh views. Without NATS, no replica leaves.
const ANSWER_HOLDS: Duration = Duration::from_secs(5);
/// How often a bucket is tried again that this user may not use. The server logs each attempt.
const DENIED_RETRY: Duration = Duration::from_secs(10 * 60);

/// Finds out whether the views lag, and whether another replica has fresh ones.
#[derive(Debug)]
pub struct LagWatch {
    log: Log,
    /// Names this process.
    replica: Arc<str>,
    lag: Lag,
    /// When another replica was last known to be fresh while this one lagged.
    another_is_fresh: watch::Sender<Option<Uptime>>,
}

/// The lag of this replica. Clones share it.
#[derive(Debug, Clone)]
pub struct Lag {
    /// Zero is no limit.
    max: Duration,
    projector: watch::Receiver<Status>,
    connection: watch::Receiver<ConnectionStatus>,
    another_is_fresh: watch::Receiver<Option<Uptime>>,
}

impl Lag {
    /// Whether the log has events that the views have not, and had some for too long.
    #[must_use]
    pub fn is_too_long(&self) -> bool {
        let is_connected = self.connection.borrow().up;
        let status = self.projector.borrow();
        !self.max.is_zero()
            && is_connected
            && status.phase == Phase::Live
            && status.pending > 0
            && status.freshness.age() > self.max
    }

    /// Whether requests are better answered by another replica: this one lags, and another one does not.
    #[must_use]
    pub fn should_leave(&self) -> bool {
        let known_at = *self.another_is_fresh.borrow();
        known_at.is_some_and(|at| at.elapsed() < ANSWER_HOLDS) && self.is_too_long()
    }

    fn is_fresh(&self) -> bool {
        let status = self.projector.borrow();
        status.phase == Phase::Live && status.freshness.age() <= self.max
    }
}

impl LagWatch {
    /// A watch of the lag of a projector.
    pub fn new(
        log: Log,
        replica: Arc<str>,
        max: Duration,
        projector: watch::Receiver<Status>,
    ) -> (Self, Lag) {
        let (another_is_fresh, receiver) = watch::channel(None);
        let lag = Lag {
            max,
            projector,
            connection: log.connection(),
            another_is_fresh: receiver,
        };
        let watch = Self {
            log,
            replica,
            lag: lag.clone(),
            another_is_fresh,
        };
        (watch, lag)
    }

    /// Watches until dropped. Without a limit there is nothing to watch.
    pub async fn run(self) {
        if self.lag.max.is_zero() {
            return std::future::pending().await;
        }
        let mut noted: Option<(bool, Uptime)> = None;
        loop {
            let wait = match timeout(NOTE_EVERY, self.look(&mut noted)).await {
                Ok(Ok(())) | Err(_) => LOOK_EVERY,
                Ok(Err(error @ LogError::Denied { .. })) => {
                    tracing::debug!(%error, "it is not known which replicas are fresh");
                    DENIED_RETRY
                }
                Ok(Err(error)) => {
                    tracing::debug!(%error, "cannot find out which replicas are fresh");
                    LOOK_EVERY
                }
            };
            sleep(wait).await;
        }
    }

    /// Notes whether this replica is fresh, and asks for the others if it lags.
    ///
    /// A replica that lags first takes back that it is fresh. So of two that begin to lag together, at least one sees
    /// that the other one lags, and stays.
    async fn look(&self, noted: &mut Option<(bool, Uptime)>) -> Result<(), LogError> {
        let lags = self.lag.is_too_long();
        if lags || self.lag.is_fresh() {
            let is_noted =
                noted.is_some_and(|(was_fresh, at)| was_fresh != lags && at.elapsed() < NOTE_EVERY);
            if !is_noted {
                let seq = self.lag.projector.borrow().seq;
                self.log.note_replica(&self.replica, !lags, seq).await?;
                *noted = Some((!lags, Uptime::now()));
            }
        }
        let mut found = None;
        if lags {
            let asked_at = Uptime::now();
            let another = self.log.another_is_fresh(&self.replica).await?;
            found = another.then_some(asked_at);
        }
        let before = self.another_is_fresh.send_replace(found);
        match (before, found) {
            (None, Some(_)) => tracing::warn!("{LEAVES}"),
            (Some(_), None) => tracing::info!("this replica is ready again"),
            _ => {}
        }
        Ok(())
    }
}

const LEAVES: &str =
    "this replica lags, and another one does not: it is not ready until it has caught up";
