//! [`SnapshotWriter`]: writes snapshots of the views, now and then and when it is asked to.

use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use bytes::Bytes;
use jiff::Timestamp;
use projections::{Checkpoint, SCHEMA_VERSION, Store, StoreError, VIEWS_VERSION};
use tokio::sync::{mpsc, oneshot, watch};
use tokio::task::spawn_blocking;
use tokio::time::{sleep, timeout};
use uuid::Uuid;

use super::super::status::{Phase, Status};
use super::parts::PartEncoder;
use super::{SnapshotSecret, ViewsSnapshot, metadata};
use crate::log::{Lease, Log, LogError, ObjectWriter, Role};
use crate::metrics;
use crate::projector::views::Views;

/// Snapshots that are kept. If the latest is damaged, an older one is loaded.
const SNAPSHOTS_KEPT: usize = 3;
/// Fewer new events are folded in a second, so the snapshot before is as good.
const EVENTS_MIN: u64 = 10_000;
/// How often the object store is looked at, so that `railbird_snapshot_timestamp_seconds` is right on all replicas.
const CHECK_EVERY: Duration = Duration::from_secs(60);
/// How long a request waits for the lease: longer than the term of one whose holder is gone.
const LEASE_TIMEOUT: Duration = Duration::from_secs(30);
/// The time to give the lease up. After it, the others wait for the end of its term.
const RESIGN_TIMEOUT: Duration = Duration::from_secs(1);
/// How long the writer works at a time: live odds wait for a core for hardly longer.
const BURST: Duration = Duration::from_micros(500);
/// It rests for this many times as long.
const RESTS: u32 = 4;
/// Parts that wait for NATS. The thread that makes them waits then.
const PARTS_AHEAD: usize = 1;
/// Requests that wait. One snapshot answers all that came before it was begun.
const REQUESTS_MAX: usize = 4;

const WROTE: &str = "wrote a snapshot of the views";

/// Why no snapshot was written.
#[derive(Debug, thiserror::Error)]
pub enum SnapshotError {
    #[error("the service has no --snapshot-secret, with which replicas sign them")]
    NoSecret,
    #[error("the views are not live yet")]
    NotLive,
    #[error("another replica is writing a snapshot")]
    Busy,
    #[error("another replica took over: {0}")]
    Fenced(&'static str),
    #[error("the views cannot be read: {0}")]
    Store(#[from] StoreError),
    #[error(
        "the object store is full without an older snapshot: give the stream OBJ_SNAPSHOTS more room"
    )]
    Full,
    #[error("the object store failed: {0}")]
    Log(LogError),
    #[error("the writer ended")]
    Ended,
}

impl From<LogError> for SnapshotError {
    fn from(error: LogError) -> Self {
        match error {
            LogError::Conflict => Self::Fenced("it has written to the object store"),
            LogError::Full(_) => Self::Full,
            error => Self::Log(error),
        }
    }
}

type Written = Result<ViewsSnapshot, SnapshotError>;

/// Asks the writer for snapshots.
#[derive(Debug, Clone)]
pub struct SnapshotRequests {
    sender: mpsc::Sender<oneshot::Sender<Written>>,
    failures: Arc<AtomicU32>,
}

impl SnapshotRequests {
    /// Whether none could be written, twice in a row: one failure may be an election in the NATS cluster.
    pub fn are_failing(&self) -> bool {
        self.failures.load(Ordering::Relaxed) >= 2
    }

    /// Has a snapshot written now, and waits for it.
    ///
    /// # Errors
    /// Returns a [`SnapshotError`].
    pub async fn create(&self) -> Written {
        let (sender, written) = oneshot::channel();
        let sent = self.sender.send(sender).await;
        sent.map_err(|_| SnapshotError::Ended)?;
        written.await.unwrap_or(Err(SnapshotError::Ended))
    }
}

/// Writes snapshots of the views in force.
#[derive(Debug)]
pub struct SnapshotWriter {
    log: Log,
    views: Arc<Views>,
    status: watch::Receiver<Status>,
    /// Without it, none is written.
    secret: Option<SnapshotSecret>,
    /// Zero is never.
    every: Duration,
    requests: mpsc::Receiver<oneshot::Sender<Written>>,
    /// Those since the last success.
    failures: Arc<AtomicU32>,
}

impl SnapshotWriter {
    pub fn new(
        log: Log,
        views: Arc<Views>,
        status: watch::Receiver<Status>,
        secret: Option<SnapshotSecret>,
        every: Duration,
    ) -> (Self, SnapshotRequests) {
        let (sender, requests) = mpsc::channel(REQUESTS_MAX);
        let failures = Arc::<AtomicU32>::default();
        let writer = Self {
            log,
            views,
            status,
            secret,
            every,
            requests,
            failures: Arc::clone(&failures),
        };
        (writer, SnapshotRequests { sender, failures })
    }

    /// Writes snapshots until dropped.
    pub async fn run(mut self) {
        let mut wait = Duration::ZERO;
        loop {
            tokio::select! {
                () = sleep(wait) => match self.write_if_due().await {
                    // Another replica writes it.
                    Err(SnapshotError::Busy | SnapshotError::NotLive) => {}
                    outcome => self.note_outcome(outcome.as_ref().err()),
                },
                Some(requested) = self.requests.recv() => {
                    let written = self.write_alone(false).await;
                    self.note_outcome(written.as_ref().err());
                    // Nobody may wait for it any more.
                    let _ = requested.send(written);
                }
            }
            let every = Some(self.every).filter(|every| !every.is_zero());
            wait = every.map_or(CHECK_EVERY, |every| every.min(CHECK_EVERY));
        }
    }

    fn note_outcome(&self, error: Option<&SnapshotError>) {
        let Some(error) = error else {
            self.failures.store(0, Ordering::Relaxed);
            return;
        };
        tracing::warn!(%error, "cannot write a snapshot of the views");
        metrics::count("railbird_snapshot_failures_total");
        self.failures.fetch_add(1, Ordering::Relaxed);
    }

    /// Writes a snapshot, or finds that none is needed.
    async fn write_if_due(&self) -> Result<(), SnapshotError> {
        if !self.is_due().await {
            return Ok(());
        }
        self.write_alone(true).await.map(drop)
    }

    /// Writes a snapshot while this replica has the lease. With `if_due`, none if another replica has just written one.
    async fn write_alone(&self, if_due: bool) -> Written {
        let (mut lease, keeping) = self.log.lease(Role::Snapshots, &Uuid::now_v7().to_string());
        let mut keeping = pin!(keeping);
        let written = tokio::select! {
            written = self.write_with(&mut lease, if_due) => written,
            () = &mut keeping => Err(SnapshotError::Ended),
        };
        lease.resign();
        // It goes on until it is dropped.
        let _ = timeout(RESIGN_TIMEOUT, keeping).await;
        written
    }

    /// Waits for the lease, and writes a snapshot. If there is no space, the older ones are removed first.
    async fn write_with(&self, lease: &mut Lease, if_due: bool) -> Written {
        let held = async {
            while lease.held().is_none() && !lease.is_denied() {
                lease.changed().await;
            }
        };
        let held = timeout(LEASE_TIMEOUT, held).await;
        held.map_err(|_| SnapshotError::Busy)?;
        if if_due && !self.is_due().await {
            return Err(SnapshotError::Busy);
        }
        loop {
            match self.write(lease).await {
                Err(SnapshotError::Full) if self.remove_oldest_but(1).await? => {}
                written => return written,
            }
        }
    }

    /// Whether the latest snapshot is old enough, and there are enough new events. Notes it in the metrics.
    async fn is_due(&self) -> bool {
        let snapshots = match ViewsSnapshot::list(&self.log).await {
            Ok(snapshots) => snapshots,
            Err(error) => {
                tracing::debug!(%error, "cannot list the snapshots of the views");
                return false;
            }
        };
        let mut snapshots = snapshots.into_iter().flatten();
        let secret = self.secret.as_ref();
        let latest = snapshots.find(|found| secret.is_some_and(|secret| found.is_signed(secret)));
        note(latest.as_ref());
        self.needs_newer(latest.as_ref())
    }

    fn needs_newer(&self, latest: Option<&ViewsSnapshot>) -> bool {
        let Some(checkpoint) = self.views.current().and_then(|store| store.checkpoint()) else {
            return false;
        };
        let last = latest.filter(|latest| latest.checkpoint.log == checkpoint.log);
        let continued = last.filter(|last| last.is_of_this_schema());
        let last_seq = continued.map_or(0, |last| last.checkpoint.seq);
        let is_old = last.is_none_or(|last| age(last) >= self.every);
        let is_enabled = self.secret.is_some() && !self.every.is_zero();
        is_enabled && is_old && checkpoint.seq >= last_seq + EVENTS_MIN
    }

    /// Writes a snapshot, and removes the oldest if there are enough.
    async fn write(&self, lease: &Lease) -> Written {
        let began = Instant::now();
        let secret = self.secret.as_ref().ok_or(SnapshotError::NoSecret)?;
        let is_live = self.status.borrow().phase == Phase::Live;
        let current = self.views.read_current().filter(|_| is_live);
        let current = current.filter(|views| views.schema == SCHEMA_VERSION);
        let store = current.ok_or(SnapshotError::NotLive)?.store;
        let (sender, mut parts) = mpsc::channel(PARTS_AHEAD);
        let exporting = spawn_blocking(move || export(&store, &sender));
        let mut writer: Option<ObjectWriter> = None;
        while let Some(part) = parts.recv().await {
            check(lease)?;
            match &mut writer {
                None => writer = Some(self.log.write_object(part).await?),
                Some(writer) => writer.add(part).await?,
            }
        }
        let checkpoint = exporting.await.map_err(|_| SnapshotError::Ended)??;
        let writer = writer.ok_or(SnapshotError::Ended)?;
        check(lease)?;
        let at = Timestamp::now().as_millisecond();
        let name = format!("v{SCHEMA_VERSION}-{VIEWS_VERSION}-{}-{at}", checkpoint.seq);
        let signed = |checksum: &str| {
            let mut metadata = metadata(&checkpoint);
            secret.sign(&mut metadata, checksum);
            metadata
        };
        let object = writer.finish(name, signed).await?;
        let snapshot = ViewsSnapshot {
            object,
            checkpoint,
            schema: SCHEMA_VERSION,
            views: VIEWS_VERSION,
        };
        let name = &snapshot.object.info.name;
        let bytes = snapshot.object.info.size;
        let seq = snapshot.checkpoint.seq;
        let seconds = began.elapsed().as_secs_f64();
        tracing::info!(snapshot = name, seq, bytes, seconds, "{WROTE}");
        note(Some(&snapshot));
        if let Err(error) = self.remove_all_but(SNAPSHOTS_KEPT).await {
            tracing::warn!(%error, "cannot remove the oldest snapshot of the views");
        }
        Ok(snapshot)
    }

    /// Removes all snapshots but so many of the latest.
    async fn remove_all_but(&self, kept: usize) -> Result<(), LogError> {
        while self.remove_oldest_but(kept).await? {}
        Ok(())
    }

    /// Removes the oldest snapshot, but not one of so many latest ones. Returns whether there was one.
    async fn remove_oldest_but(&self, kept: usize) -> Result<bool, LogError> {
        let objects = self.log.objects().await?;
        let Some(oldest) = objects.iter().skip(kept).next_back() else {
            return Ok(false);
        };
        self.log.remove_object(oldest).await?;
        Ok(true)
    }
}

/// Makes the parts of a snapshot, and rests meanwhile: the service has other work, and commits wait for the reads of
/// sled. A thread of low priority would make them wait longer, since it keeps sled's locks while others run.
fn export(store: &Store, sender: &mpsc::Sender<Bytes>) -> Result<Checkpoint, SnapshotError> {
    let mut parts =
        PartEncoder::new(|part| sender.blocking_send(part).map_err(|_| SnapshotError::Ended));
    let mut began = Instant::now();
    let checkpoint = store.export(|key, value| {
        let added = parts.add(key, value);
        let worked = began.elapsed();
        if worked >= BURST {
            std::thread::sleep(worked * RESTS);
            began = Instant::now();
        }
        added
    })?;
    parts.finish()?;
    Ok(checkpoint)
}

/// Whether this replica still has the lease. Without the right to leases each replica writes; the object store lets one
/// at a time.
fn check(lease: &Lease) -> Result<(), SnapshotError> {
    let may_write = lease.held().is_some() || lease.is_denied();
    let ended = SnapshotError::Fenced("the lease ended");
    may_write.then_some(()).ok_or(ended)
}

fn note(latest: Option<&ViewsSnapshot>) {
    if let Some(latest) = latest {
        let info = &latest.object.info;
        let at = info.written_at.map(|at| at.timestamp());
        metrics::snapshot(at.unwrap_or_default(), latest.checkpoint.seq, info.size);
    }
}

fn age(snapshot: &ViewsSnapshot) -> Duration {
    let written_at = snapshot.object.info.written_at.map(|at| at.timestamp());
    let age = Timestamp::now().duration_since(written_at.unwrap_or_default());
    Duration::try_from(age).unwrap_or_default()
}
