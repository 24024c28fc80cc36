//! [`LagWatch`]: whether this replica lags while another one has fresh views.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use futures::future::join_all;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::watch;
use tokio::time::{sleep, timeout};

use super::status::{Phase, Status};
use crate::clock::Uptime;
use crate::log::{Log, LogError};

/// How often a replica looks at its lag.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// How often a replica notes its address and reads those of the others: an entry ends after 20 seconds.
const NOTE_EVERY: Duration = Duration::from_secs(5);
const NOTE_TIMEOUT: Duration = Duration::from_secs(3);
/// How old the views of another replica may be to be fresh: older than between two proofs, and so much younger than the
/// limit for the lag that replicas which lose the log together do not take each other for fresh.
const FRESH_MAX: Duration = Duration::from_secs(5);
/// The time for another replica to answer.
const ASK_TIMEOUT: Duration = Duration::from_secs(2);
/// How long an answer counts that another replica has fresh views. Without any, no replica leaves.
const ANSWER_HOLDS: Duration = Duration::from_secs(5);
/// How often a bucket is tried again that this user may not use. The server logs each attempt.
const DENIED_RETRY: Duration = Duration::from_secs(10 * 60);

/// Finds out whether the views lag, and whether another replica has fresh ones. It asks the others themselves: without
/// NATS there is no other way.
#[derive(Debug)]
pub struct LagWatch {
    log: Log,
    /// Names this process.
    replica: Arc<str>,
    /// Where this replica answers in plain HTTP.
    http: Option<SocketAddr>,
    /// Whether the others cannot ask it there.
    is_hidden: bool,
    noted_at: Option<Uptime>,
    lag: Lag,
    others: watch::Sender<OtherReplicas>,
}

/// What is known of the other replicas.
#[derive(Debug, Default)]
pub struct OtherReplicas {
    addresses: Vec<SocketAddr>,
    /// When one was last known to be fresh while this one lagged.
    fresh_at: Option<Uptime>,
}

/// The lag of this replica. Clones share it.
#[derive(Debug, Clone)]
pub struct Lag {
    /// Zero is no limit.
    max: Duration,
    projector: watch::Receiver<Status>,
    others: watch::Receiver<OtherReplicas>,
}

impl Lag {
    /// The lag of a projector, and the sender of what is known of the others.
    pub fn new(
        max: Duration,
        projector: watch::Receiver<Status>,
    ) -> (Self, watch::Sender<OtherReplicas>) {
        let sender = watch::Sender::new(OtherReplicas::default());
        let lag = Self {
            max,
            projector,
            others: sender.subscribe(),
        };
        (lag, sender)
    }

    /// The addresses of the replicas that are asked.
    pub fn other_replicas(&self) -> Vec<SocketAddr> {
        self.others.borrow().addresses.clone()
    }

    /// Whether it is not known for too long that the views hold the whole log.
    pub fn is_too_long(&self) -> bool {
        let status = self.projector.borrow();
        !self.max.is_zero() && status.phase == Phase::Live && status.freshness.age() > self.max
    }

    /// Whether clients are better served by another replica: this one lags, and another one does not.
    pub fn should_leave(&self) -> bool {
        let known_at = self.others.borrow().fresh_at;
        known_at.is_some_and(|at| at.elapsed() < ANSWER_HOLDS) && self.is_too_long()
    }
}

impl LagWatch {
    /// A watch of the lag of a projector. The others ask this replica at `http`.
    pub fn new(
        log: Log,
        replica: Arc<str>,
        http: Option<SocketAddr>,
        max: Duration,
        projector: watch::Receiver<Status>,
    ) -> (Self, Lag) {
        let (lag, others) = Lag::new(max, projector);
        let watch = Self {
            log,
            replica,
            http,
            is_hidden: false,
            noted_at: None,
            lag: lag.clone(),
            others,
        };
        (watch, lag)
    }

    /// Watches until dropped. Without a limit there is nothing to watch.
    pub async fn run(mut self) {
        if self.lag.max.is_zero() {
            return std::future::pending().await;
        }
        loop {
            let wait = match self.look().await {
                Ok(()) => LOOK_EVERY,
                Err(error) => {
                    tracing::debug!(%error, "cannot find out where other replicas are");
                    let is_denied = matches!(error, LogError::Denied { .. });
                    if is_denied { DENIED_RETRY } else { LOOK_EVERY }
                }
            };
            sleep(wait).await;
        }
    }

    /// Asks the others whether they are fresh if this replica lags, and else finds out where they are.
    async fn look(&mut self) -> Result<(), LogError> {
        let mut found = None;
        if self.lag.is_too_long() {
            let asked_at = Uptime::now();
            let answers = join_all(self.lag.other_replicas().iter().map(is_fresh)).await;
            found = answers.contains(&true).then_some(asked_at);
        }
        let mut before = found;
        (self.others).send_modify(|others| std::mem::swap(&mut others.fresh_at, &mut before));
        match (before, found) {
            (None, Some(_)) => tracing::warn!("{LEAVES}"),
            (Some(_), None) => tracing::info!("this replica is ready again"),
            _ => {}
        }
        let is_noted = self.noted_at.is_some_and(|at| at.elapsed() < NOTE_EVERY);
        if self.lag.is_too_long() || is_noted {
            return Ok(());
        }
        timeout(NOTE_TIMEOUT, self.note()).await.unwrap_or(Ok(()))
    }

    async fn note(&mut self) -> Result<(), LogError> {
        let address = self.http.and_then(|http| self.log.address_for_others(http));
        let was_hidden = std::mem::replace(&mut self.is_hidden, address.is_none());
        if let Some(address) = address {
            self.log.note_replica(&self.replica, address).await?;
        } else if let (false, Some(http)) = (was_hidden, self.http) {
            tracing::warn!(%http, "{HIDDEN}");
        }
        let addresses = self.log.other_replicas(&self.replica).await?;
        (self.others).send_modify(|others| others.addresses = addresses);
        self.noted_at = Some(Uptime::now());
        Ok(())
    }
}

/// Whether the replica at an address answers that its views are right and fresh.
async fn is_fresh(address: &SocketAddr) -> bool {
    let (address, fresh) = (*address, FRESH_MAX.as_secs());
    let request = format!(
        "GET /readyz?fresh={fresh}s HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n"
    );
    let asking = async {
        let mut stream = TcpStream::connect(address).await?;
        stream.write_all(request.as_bytes()).await?;
        let mut status = [0; b"HTTP/1.1 200".len()];
        stream.read_exact(&mut status).await?;
        io::Result::Ok(&status == b"HTTP/1.1 200")
    };
    matches!(timeout(ASK_TIMEOUT, asking).await, Ok(Ok(true)))
}

const HIDDEN: &str = "other replicas cannot ask this one whether it is fresh: it listens on loopback, and NATS is on \
                      another machine: give --http an address of the network";
const LEAVES: &str =
    "this replica lags, and another one does not: it is not ready until it has caught up";
