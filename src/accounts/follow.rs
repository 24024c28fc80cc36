//! Follows the stream `ACCOUNTS` into the ledger and the key cache.

use std::mem::take;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::sleep;

use super::{AccountEvent, Actor, Fact, KeyCache, KeyId, Ledger, Revocations, now};
use crate::log::{
    ACCOUNTS, Batch, Continuity, Head, Log, LogError, LogReplaced, LogState, ReadPosition,
    Resolution,
};
use crate::metrics;

/// How often expired keys are removed from the cache. Requests check the expiry themselves; open WebSockets rely on
/// this.
const SWEEP_EVERY: Duration = Duration::from_millis(500);

/// Follows the stream for as long as the service runs.
pub async fn follow(
    (log, continuity): (Log, Continuity),
    keys: Arc<KeyCache>,
    ledger: watch::Sender<Ledger>,
    revocations: Revocations,
) {
    let mut follower = Follower {
        log,
        continuity,
        revocations,
        keys: Arc::clone(&keys),
        ledger,
        read: None,
    };
    tokio::join!(follower.run(), sweep(&keys));
}

/// Reads the stream to its end and returns the ledger.
///
/// # Errors
/// Returns the [`LogError`] if there is no stream or JetStream does not respond, or the [`LogReplaced`] if the stream
/// was replaced meanwhile.
pub async fn read(log: &Log) -> anyhow::Result<Ledger> {
    let mut ledger = Ledger::default();
    let state = log.state(ACCOUNTS).await?;
    let mut reader = log.reader(ACCOUNTS, ReadPosition::start_of(&state));
    while ledger.seq < state.last_seq {
        let batch = reader.next().await?;
        fold(&mut ledger, &batch);
        // The last events may have been deleted since.
        if batch.is_at_end(ledger.seq) {
            break;
        }
    }
    Ok(ledger)
}

/// Follows the stream through restarts of the server and the decisions of operators.
struct Follower {
    log: Log,
    continuity: Continuity,
    keys: Arc<KeyCache>,
    ledger: watch::Sender<Ledger>,
    revocations: Revocations,
    /// The last event in the ledger.
    read: Option<ReadPosition>,
}

impl Follower {
    async fn run(&mut self) {
        loop {
            let replaced = match self.continuity.find(&self.log, ACCOUNTS).await {
                Ok(state) => self.follow(&state).await,
                Err(replaced) => replaced,
            };
            // Meanwhile the keys that are known stay valid for `--keys-stale-max`.
            let resolving = self.continuity.resolve(&self.log, ACCOUNTS, replaced);
            if let Resolution::Accepted(state) = resolving.await {
                self.continuity.note(&ReadPosition::start_of(&state));
                self.keys.clear();
                self.ledger.send_replace(Ledger::default());
                self.read = None;
            }
        }
    }

    /// Follows one stream until it is replaced. The cache answers only after all events that existed at the start are
    /// folded, and those that the stream lacks: an earlier one could not know which keys were revoked.
    async fn follow(&mut self, state: &LogState) -> LogReplaced {
        let from = (self.read.clone()).unwrap_or_else(|| ReadPosition::start_of(state));
        let mut reader = self.log.reader(ACCOUNTS, from);
        loop {
            let batch = match reader.next().await {
                Ok(batch) => batch,
                Err(error) => return error,
            };
            if batch.messages.is_empty() && self.keys.is_complete() {
                self.advance(batch.head).await;
            } else {
                self.apply(&batch, state).await;
            }
            let read = reader.position();
            if self.keys.is_complete() && self.read.as_ref() != Some(read) {
                self.continuity.note(read);
            }
            self.read = Some(read.clone());
        }
    }

    /// Notes that nothing has followed. An overlap that the stream does not know may have ended meanwhile.
    async fn advance(&mut self, head: Option<Head>) {
        let missing = {
            let ledger = self.ledger.borrow();
            self.keys.advance(head, ledger.seq);
            self.revocations.missing_from(&ledger, now())
        };
        self.revocations.save().await;
        self.append(missing).await;
    }

    /// Folds a batch, remembers what has ended, and updates the cache.
    async fn apply(&mut self, batch: &Batch, state: &LogState) {
        let keys = &self.keys;
        let mut missing = Vec::new();
        let mut next = Ledger::default();
        self.ledger.send_if_modified(|ledger| {
            // Nobody relies on a part of the stream: only then is it not copied.
            let copy = keys.is_complete().then(|| ledger.clone());
            next = copy.unwrap_or_else(|| take(ledger));
            false
        });
        let changed = fold(&mut next, batch);
        let is_read = next.seq >= state.last_seq || batch.is_at_end(next.seq);
        if keys.is_complete() || is_read {
            missing = self.revocations.missing_from(&next, now());
            self.revocations.note(&next);
        }
        // Before a key is rejected: no loss of power may take back what was answered.
        self.revocations.save().await;
        // The cache is updated before the receivers are notified, so they find both in step.
        self.ledger.send_modify(|ledger| {
            *ledger = next;
            if keys.is_complete() {
                keys.update(ledger, &changed, now());
            } else if is_read && missing.is_empty() {
                keys.fill(ledger, now());
            }
            keys.advance(batch.head, ledger.seq);
        });
        self.append(missing).await;
    }

    /// Appends what the stream lacks. The next batch has it, from here or from another replica; if this fails, it is
    /// missing again then.
    async fn append(&self, missing: Vec<Fact>) {
        for fact in missing {
            let subject = fact.subject();
            let last_seq = self.ledger.borrow().last_seq(&subject);
            let outgoing = (&AccountEvent::new(Actor::Service, fact, now())).into();
            let appending = self.log.append_expecting(ACCOUNTS, outgoing, last_seq);
            match appending.await {
                Ok(_) => {
                    tracing::warn!(%subject, "ended it again: the stream was restored from before")
                }
                Err(LogError::Conflict) => {}
                Err(error) => tracing::error!(%subject, %error, "cannot end it again"),
            }
        }
    }
}

fn fold(ledger: &mut Ledger, batch: &Batch) -> Vec<KeyId> {
    let mut changed = Vec::new();
    for message in &batch.messages {
        match ledger.fold(message.as_message()) {
            Ok(keys) => changed.extend(keys),
            Err(error) => {
                tracing::warn!(seq = message.seq, %error, "account event skipped");
                metrics::count("railbird_account_events_skipped_total");
            }
        }
    }
    changed
}

async fn sweep(keys: &KeyCache) {
    loop {
        keys.remove_expired(now());
        sleep(SWEEP_EVERY).await;
    }
}
