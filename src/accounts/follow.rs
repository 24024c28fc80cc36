//! Follows the stream `ACCOUNTS` into the ledger and the key cache.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::{MissedTickBehavior, interval, sleep};

use super::{KeyCache, KeyId, Ledger, now};
use crate::log::{ACCOUNTS, Batch, Log, LogError, LogReplaced, LogState, ReadPosition, Reader};
use crate::metrics;

/// The wait before the stream is looked up again after an error.
const RETRY_AFTER: Duration = Duration::from_millis(500);
/// How often expired keys are removed from the cache. Requests check the expiry themselves; open WebSockets rely on
/// this.
const SWEEP_EVERY: Duration = Duration::from_millis(500);

/// Follows the stream for as long as the service runs.
pub async fn follow(log: Log, keys: Arc<KeyCache>, ledger: watch::Sender<Ledger>) {
    tokio::join!(follow_streams(&log, &keys, &ledger), sweep(&keys));
}

/// Reads the stream to its end and returns the ledger; an empty one if there is no stream.
///
/// # Errors
/// Returns the [`LogError`] if JetStream does not respond, or the [`LogReplaced`] if the stream was replaced meanwhile.
pub async fn read(log: &Log) -> anyhow::Result<Ledger> {
    let mut ledger = Ledger::default();
    let state = match log.state(ACCOUNTS).await {
        Err(LogError::NoStream(_)) => return Ok(ledger),
        state => state?,
    };
    let mut reader = reader(log, &state);
    while ledger.seq() < state.last_seq {
        let batch = reader.next().await?;
        fold(&mut ledger, &batch);
        if batch.pending == 0 {
            break;
        }
    }
    Ok(ledger)
}

async fn follow_streams(log: &Log, keys: &KeyCache, ledger: &watch::Sender<Ledger>) {
    loop {
        match log.ensure(ACCOUNTS).await {
            Ok(state) => {
                let LogReplaced(reason) = follow_stream(log, &state, keys, ledger).await;
                tracing::warn!(reason, "the accounts stream was replaced; reading it again");
                keys.clear();
                ledger.send_replace(Ledger::default());
            }
            Err(error) => {
                tracing::debug!(%error, "waiting for the accounts stream");
                sleep(RETRY_AFTER).await;
            }
        }
    }
}

/// Follows one stream until it is replaced. The cache answers only after all events that existed at the start are
/// folded: an earlier one could not know which keys were revoked.
async fn follow_stream(
    log: &Log,
    state: &LogState,
    keys: &KeyCache,
    ledger: &watch::Sender<Ledger>,
) -> LogReplaced {
    let mut reader = reader(log, state);
    loop {
        let batch = match reader.next().await {
            Ok(batch) => batch,
            Err(error) => return error,
        };
        // The cache is updated before the receivers are notified, so they find both in step.
        ledger.send_modify(|ledger| {
            let changed = fold(ledger, &batch);
            if keys.is_complete() {
                keys.update(ledger, &changed, now());
            } else if ledger.seq() >= state.last_seq || batch.pending == 0 {
                keys.fill(ledger, now());
            }
            keys.advance(batch.head, ledger.seq());
        });
    }
}

fn reader(log: &Log, state: &LogState) -> Reader {
    let beginning = ReadPosition {
        log: state.identity.clone(),
        seq: 0,
        recorded_at: None,
    };
    log.reader(ACCOUNTS, beginning)
}

fn fold(ledger: &mut Ledger, batch: &Batch) -> Vec<KeyId> {
    let mut changed = Vec::new();
    for message in &batch.messages {
        match ledger.fold(message.as_message()) {
            Ok(keys) => changed.extend(keys),
            Err(error) => {
                tracing::warn!(seq = message.seq, %error, "account event skipped");
                metrics::account_event_skipped();
            }
        }
    }
    changed
}

async fn sweep(keys: &KeyCache) {
    let mut tick = interval(SWEEP_EVERY);
    tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        tick.tick().await;
        keys.remove_expired(now());
    }
}
