//! [`Lease`]: a role that one replica at a time has, agreed through a key-value bucket of NATS.
//!
//! An entry of the bucket ends with its term unless its holder renews it. Each write names the sequence that it
//! follows, so of several replicas one succeeds. A lease keeps replicas from doing the same work twice. It is no proof:
//! a process may be paused between its look at the lease and its act, so what must never happen twice is fenced by the
//! log.

use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use tokio::sync::watch;
use tokio::time::{sleep, timeout};

use super::connection::REQUEST_TIMEOUT;
use super::{LEASES, Log, LogError, LogResult, Outgoing};
use crate::clock::Uptime;

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

/// What one replica at a time does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, strum::Display)]
#[strum(serialize_all = "snake_case")]
pub enum Role {
    /// Announces rejections to feeders.
    Announcer,
    /// Writes snapshots of the views.
    Snapshots,
}

impl Role {
    fn subject(self) -> String {
        format!("{PREFIX}{self}")
    }
}

/// A time in which one replica has a role.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LeaseTerm {
    /// Grows with each new holder: the revision with which it took the lease.
    pub number: u64,
    ends_at: Uptime,
}

/// The share of a replica in a lease. Clones share it.
#[derive(Debug, Clone)]
pub struct Lease {
    state: Arc<watch::Sender<LeaseState>>,
    seen: watch::Receiver<LeaseState>,
}

/// What a replica knows of a lease, and wants of it.
#[derive(Debug, Clone, Default)]
struct LeaseState {
    term: Option<LeaseTerm>,
    is_denied: bool,
    /// What the holder has noted: this replica, or as it was read last.
    note: String,
    has_resigned: bool,
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
    pub fn held(&self) -> Option<LeaseTerm> {
        let term = self.state.borrow().term;
        term.filter(|term| Uptime::now() < term.ends_at)
    }

    /// Whether the user of this replica may not use the bucket, as with a configuration of NATS from before it.
    pub fn is_denied(&self) -> bool {
        self.state.borrow().is_denied
    }

    /// What the holder has noted, as this replica read it last. It stays known when the holder is gone.
    pub fn note(&self) -> String {
        self.state.borrow().note.clone()
    }

    /// Notes something as the holder, which is written at the next renewal.
    pub fn set_note(&self, note: String) {
        self.state.send_modify(|state| state.note = note);
    }

    /// Gives the role up for ever, so that another replica takes it without waiting for the end of the term.
    pub fn resign(&self) {
        self.state.send_modify(|state| {
            state.term = None;
            state.has_resigned = true;
        });
    }

    /// Waits until something of the lease has changed, or may have.
    pub async fn changed(&mut self) {
        // The sender is a part of this.
        let _ = self.seen.changed().await;
    }
}

impl Log {
    /// A lease of a role, and the task that takes it when it is free, and renews it until dropped or
    /// [resigned](Lease::resign). `holder` names this process and no other.
    pub fn lease(&self, role: Role, holder: &str) -> (Lease, impl Future<Output = ()> + use<>) {
        let (state, seen) = watch::channel(LeaseState::default());
        let state = Arc::new(state);
        let keeper = LeaseKeeper {
            log: self.clone(),
            role,
            holder: holder.to_owned(),
            state: Arc::clone(&state),
            term: None,
            last_seen: (0, Uptime::now()),
        };
        (Lease { state, seen }, keeper.run())
    }

    /// The time after which the bucket drops an entry.
    async fn lease_term(&self) -> LogResult<Duration> {
        let max_age = self.info(LEASES).await?.config.max_age;
        let endless = "the stream KV_LEASES has no max_age, so no lease would end";
        let ends = (!max_age.is_zero()).then_some(max_age);
        ends.ok_or_else(|| LogError::JetStream(endless.to_owned()))
    }
}

/// Takes a lease and renews it.
struct LeaseKeeper {
    log: Log,
    role: Role,
    holder: String,
    state: Arc<watch::Sender<LeaseState>>,
    /// That of the bucket, which an operator may have created.
    term: Option<Duration>,
    /// The sequence of the last entry, and when it was first seen.
    last_seen: (u64, Uptime),
}

impl LeaseKeeper {
    async fn run(mut self) {
        let mut state = self.state.subscribe();
        loop {
            let connection_number = self.log.connection_number();
            let wait = match self.look().await {
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
                    self.term = None;
                    RETRY
                }
            };
            tokio::select! {
                biased;
                () = sleep(wait) => {}
                () = self.log.reconnected(connection_number) => {}
                _ = state.wait_for(|state| state.has_resigned) => break,
            }
        }
        match timeout(REQUEST_TIMEOUT, self.give_up()).await {
            Ok(Ok(())) => {}
            failed => tracing::debug!(?failed, role = ?self.role, "a lease ends with its term"),
        }
    }

    /// The last entry and its sequence, 0 if there is none.
    async fn last_entry(&self) -> LogResult<(u64, Option<LeaseEntry>)> {
        let last = self.log.last_message(LEASES, &self.role.subject()).await?;
        let seq = last.as_ref().map_or(0, |last| last.seq);
        // What railbird has not written is as good as none.
        let entry = last.and_then(|last| serde_json::from_slice(&last.payload).ok());
        Ok((seq, entry))
    }

    /// Takes the lease if it is free, and renews it if it is this replica's. Returns the time to the next look.
    ///
    /// A lease is also free when its last entry has not been renewed for a term since it was first seen. The server
    /// keeps an entry longer than that where its clock was set back.
    async fn look(&mut self) -> LogResult<Duration> {
        let term = match self.term {
            Some(term) => term,
            None => self.log.lease_term().await?,
        };
        self.term = Some(term);
        let (seq, entry) = self.last_entry().await?;
        if self.last_seen.0 != seq {
            self.last_seen = (seq, Uptime::now());
        }
        if let Some(LeaseEntry { holder, note }) = entry
            && holder.as_ref() != Some(&self.holder)
        {
            self.state.send_modify(|state| {
                state.term = None;
                state.note = note;
            });
            if holder.is_some() && self.last_seen.1.elapsed() < term {
                return Ok(term / LOOKS_PER_TERM);
            }
        }
        // The term begins before the request is sent: the server counts from when it stores the entry.
        let ends_at = Uptime::now() + term * HELD_PERCENT / 100;
        match self.write(seq, Some(&self.holder)).await {
            Ok(seq) => self.hold(seq, ends_at),
            // Another replica was faster.
            Err(LogError::Conflict) => {}
            Err(error) => return Err(error),
        }
        Ok(term / LOOKS_PER_TERM)
    }

    async fn give_up(&self) -> LogResult<()> {
        let (seq, entry) = self.last_entry().await?;
        if entry.and_then(|entry| entry.holder).as_ref() == Some(&self.holder) {
            self.write(seq, None).await?;
        }
        Ok(())
    }

    /// Writes an entry after the one with this sequence, and returns its own.
    async fn write(&self, seq: u64, holder: Option<&str>) -> LogResult<u64> {
        let entry = LeaseEntry {
            holder: holder.map(str::to_owned),
            note: self.state.borrow().note.clone(),
        };
        let payload = serde_json::to_vec(&entry).expect("text is JSON");
        let outgoing = Outgoing::once(self.role.subject(), payload);
        let append = self.log.append_once(&outgoing, Some(seq));
        let silent = |_| LogError::Unreachable("no acknowledgement".to_owned());
        Ok(timeout(REQUEST_TIMEOUT, append).await.map_err(silent)??.seq)
    }

    /// Notes a term that this replica has. It continues the number of the last one if that has not ended.
    fn hold(&self, seq: u64, ends_at: Uptime) {
        self.state.send_modify(|state| {
            if state.has_resigned {
                return;
            }
            let last = state.term.filter(|term| Uptime::now() < term.ends_at);
            if last.is_none() {
                tracing::info!(role = ?self.role, term = seq, "this replica holds the lease");
            }
            let number = last.map_or(seq, |term| term.number);
            state.term = Some(LeaseTerm { number, ends_at });
        });
    }

    fn set_denied(&self, error: Option<LogError>) {
        self.state.send_if_modified(|state| {
            let changed = state.is_denied != error.is_some();
            state.is_denied = error.is_some();
            if changed && let Some(error) = error {
                tracing::warn!(%error, role = ?self.role, "{DENIED}");
            }
            changed
        });
    }
}
