//! [`Lease`]: a role that one replica at a time has, agreed through a key-value bucket of NATS.
//!
//! An entry of the bucket ends with its term unless its holder renews it. Each write names the sequence that it follows,
//! so of several replicas one succeeds. A lease keeps replicas from doing the same work twice. It is no proof: a process
//! may be paused between its look at the lease and its act, so what must never happen twice is fenced by the log.

use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};
use serde::{Deserialize, Serialize};
use tokio::sync::watch;
use tokio::time::{sleep, timeout};
use uuid::Uuid;

use super::append::Outgoing;
use super::connection::{Log, REQUEST_TIMEOUT};
use super::error::LogError;
use super::stream::LEASES;

/// The prefix of the subjects of the bucket.
const PREFIX: &str = "$KV.LEASES.";

/// A holder renews its lease, and the others look at it, this often in a term: four attempts may fail in a row.
const LOOKS_PER_TERM: u32 = 5;

/// The part of a term, in percent, after which a holder that could not renew its lease gives it up. The rest is for the
/// servers of a cluster, whose clocks differ, and which end the entry.
const HELD_PERCENT: u32 = 80;

/// After a failure, such as an election in the cluster.
const RETRY: Duration = Duration::from_secs(1);

/// How often a bucket is tried again that this user may not use. The server logs each attempt.
const DENIED_RETRY: Duration = Duration::from_secs(10 * 60);

const DENIED: &str = "replicas cannot agree on which of them has a role, so each one has it: give the user railbird \
     the rights to the stream KV_LEASES as in railbird's nats.conf";

/// The clock of leases goes on while the machine sleeps, and nobody sets it.
#[cfg(target_os = "linux")]
const CLOCK: ClockId = ClockId::Boottime;
#[cfg(not(target_os = "linux"))]
const CLOCK: ClockId = ClockId::Monotonic;

/// What one replica at a time does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// Announces rejections to feeders.
    Announcer,
    /// Writes snapshots of the views.
    Snapshots,
}

impl Role {
    fn subject(self) -> String {
        let key = match self {
            Self::Announcer => "announcer",
            Self::Snapshots => "snapshots",
        };
        format!("{PREFIX}{key}")
    }
}

/// A time in which one replica has a role.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LeaseTerm {
    /// Grows with each new holder: the revision with which it took the lease.
    pub epoch: u64,
    /// The reading of the clock at which it ends.
    ends_at: Duration,
}

/// The share of a replica in a lease. Clones share it.
#[derive(Debug, Clone)]
pub struct Lease {
    state: watch::Receiver<LeaseState>,
    wanted: watch::Sender<Wanted>,
}

/// What is known of a lease.
#[derive(Debug, Clone, Default)]
struct LeaseState {
    term: Option<LeaseTerm>,
    is_denied: bool,
    /// What the holder has noted, as this replica read it last.
    note: String,
}

/// What a replica wants of a lease.
#[derive(Debug, Clone, Default)]
struct Wanted {
    resigned: bool,
    note: String,
}

/// An entry of the bucket.
#[derive(Debug, Serialize, Deserialize)]
struct LeaseEntry {
    /// The replica; `None` once it has given the lease up.
    holder: Option<String>,
    note: String,
}

impl Lease {
    /// The term of the lease, if this replica holds it. Look again before each act: it ends by itself.
    #[must_use]
    pub fn held(&self) -> Option<LeaseTerm> {
        let term = self.state.borrow().term;
        term.filter(|term| now() < term.ends_at)
    }

    /// Whether the user of this replica may not use the bucket, as with a configuration of NATS from before it.
    #[must_use]
    pub fn is_denied(&self) -> bool {
        self.state.borrow().is_denied
    }

    /// What the holder has noted, as this replica read it last. It stays known when the holder is gone.
    #[must_use]
    pub fn note(&self) -> String {
        self.state.borrow().note.clone()
    }

    /// Notes something with the lease, from the next renewal on.
    pub fn set_note(&self, note: String) {
        self.wanted.send_modify(|wanted| wanted.note = note);
    }

    /// Gives the lease up for ever, so that another replica takes it without waiting for the end of the term.
    pub fn resign(&self) {
        self.wanted.send_modify(|wanted| wanted.resigned = true);
    }

    /// Waits until the lease was looked at again.
    pub async fn changed(&mut self) {
        if self.state.changed().await.is_err() {
            // Nobody keeps it any more.
            std::future::pending::<()>().await;
        }
    }
}

impl Log {
    /// A lease of a role, and the task that takes it when it is free, and renews it until dropped. `holder` names this
    /// process and no other.
    pub fn lease(&self, role: Role, holder: &str) -> (Lease, impl Future<Output = ()> + use<>) {
        let (state_sender, state) = watch::channel(LeaseState::default());
        let (wanted_sender, wanted) = watch::channel(Wanted::default());
        let keeper = LeaseKeeper {
            log: self.clone(),
            role,
            holder: holder.to_owned(),
            wanted,
            state: state_sender,
        };
        let lease = Lease {
            state,
            wanted: wanted_sender,
        };
        (lease, keeper.run())
    }
}

/// Takes a lease and renews it.
struct LeaseKeeper {
    log: Log,
    role: Role,
    holder: String,
    wanted: watch::Receiver<Wanted>,
    state: watch::Sender<LeaseState>,
}

impl LeaseKeeper {
    async fn run(self) {
        // The term of the bucket, which an operator may have created.
        let mut term = None;
        loop {
            let epoch = self.log.epoch();
            let wait = match self.look(&mut term).await {
                Ok(wait) => {
                    self.set_denied(None);
                    wait
                }
                Err(error @ LogError::Denied { .. }) => {
                    self.set_denied(Some(error));
                    DENIED_RETRY
                }
                Err(error) => {
                    tracing::debug!(%error, role = ?self.role, "cannot take or renew a lease");
                    term = None;
                    RETRY
                }
            };
            tokio::select! {
                () = sleep(wait) => {}
                () = self.log.reconnected(epoch) => {}
                () = self.resigned() => {}
            }
        }
    }

    /// Resolves once, with the role ended, when a held lease is to be given up.
    async fn resigned(&self) {
        let mut wanted = self.wanted.clone();
        let resigned = wanted.wait_for(|wanted| wanted.resigned).await.is_ok();
        let is_first = |state: &mut LeaseState| state.term.take().is_some();
        if !resigned || !self.state.send_if_modified(is_first) {
            std::future::pending::<()>().await;
        }
    }

    /// Takes the lease if it is free, and renews it if it is this replica's. Returns the time to the next look.
    async fn look(&self, known_term: &mut Option<Duration>) -> Result<Duration, LogError> {
        let term = match *known_term {
            Some(term) => term,
            None => *known_term.insert(self.log.lease_term().await?),
        };
        let wait = term / LOOKS_PER_TERM;
        let last = self.log.last_message(LEASES, &self.role.subject()).await?;
        let seq = last.as_ref().map_or(0, |last| last.seq);
        // What railbird has not written is as good as none.
        let entry = last.and_then(|last| serde_json::from_slice::<LeaseEntry>(&last.payload).ok());
        let holder = entry.as_ref().and_then(|entry| entry.holder.as_deref());
        let is_own = holder == Some(&self.holder);
        if !is_own {
            let note = entry.as_ref().map(|entry| entry.note.clone());
            self.state.send_modify(|state| {
                state.term = None;
                if let Some(note) = note {
                    state.note = note;
                }
            });
            if holder.is_some() {
                return Ok(wait);
            }
        }
        let Wanted { resigned, note } = self.wanted.borrow().clone();
        if resigned && !is_own {
            return Ok(wait);
        }
        self.write(seq, resigned, note, term).await?;
        Ok(wait)
    }

    /// Writes the entry after the one with this sequence.
    async fn write(
        &self,
        seq: u64,
        resigned: bool,
        note: String,
        term: Duration,
    ) -> Result<(), LogError> {
        let entry = LeaseEntry {
            holder: (!resigned).then(|| self.holder.clone()),
            note,
        };
        let outgoing = Outgoing {
            subject: self.role.subject(),
            id: Uuid::now_v7().to_string(),
            payload: serde_json::to_vec(&entry).expect("text is JSON"),
        };
        // The term begins before the request is sent: the server counts from when it stores the entry.
        let ends_at = now() + term * HELD_PERCENT / 100;
        let append = self.log.append_once_expecting(&outgoing, seq);
        let appended = match timeout(REQUEST_TIMEOUT, append).await {
            Ok(Ok(appended)) => appended,
            // Another replica was faster.
            Ok(Err(LogError::Conflict)) => return Ok(()),
            Ok(Err(error)) => return Err(error),
            Err(_) => return Err(LogError::Unreachable("no acknowledgement".to_owned())),
        };
        if !resigned {
            self.hold(appended.seq, ends_at);
        }
        Ok(())
    }

    /// Notes a term that this replica has. It is the next one of the same epoch if the last one has not ended.
    fn hold(&self, seq: u64, ends_at: Duration) {
        self.state.send_modify(|state| {
            let last = state.term.filter(|term| now() < term.ends_at);
            if last.is_none() {
                tracing::info!(role = ?self.role, epoch = seq, "this replica holds the lease");
            }
            let epoch = last.map_or(seq, |term| term.epoch);
            state.term = Some(LeaseTerm { epoch, ends_at });
        });
    }

    fn set_denied(&self, error: Option<LogError>) {
        self.state.send_if_modified(|state| {
            let changed = state.is_denied != error.is_some();
            state.is_denied = error.is_some();
            if let (true, Some(error)) = (changed, error) {
                tracing::warn!(%error, role = ?self.role, "{DENIED}");
            }
            changed
        });
    }
}

impl Log {
    /// The time after which the bucket drops an entry. Creates the bucket if there is none.
    async fn lease_term(&self) -> Result<Duration, LogError> {
        self.ensure(LEASES).await?;
        let max_age = self.info(LEASES).await?.config.max_age;
        if max_age.is_zero() {
            return Err(LogError::JetStream(
                "the stream KV_LEASES has no max_age, so no lease would end".to_owned(),
            ));
        }
        Ok(max_age)
    }
}

/// The reading of the clock of leases.
fn now() -> Duration {
    let now = clock_gettime(CLOCK);
    // The clock counts from the start of the machine, so it is never negative.
    Duration::new(
        u64::try_from(now.tv_sec).unwrap_or(0),
        u32::try_from(now.tv_nsec).unwrap_or(0),
    )
}
