//! Follows the stream `ACCOUNTS`: into the ledger, and from there into the ring.

use std::sync::Arc;
use std::time::Duration;

use events::Moment;
use jiff::Timestamp;
use tokio::sync::watch;
use tokio::time::{MissedTickBehavior, interval, sleep};

use super::{KeyCache, KeyId, Ledger};
use crate::log::{ACCOUNTS, Batch, Log, LogError, LogState, ReadError, ReadPosition, Reader};
use crate::metrics;

/// How long to wait before the log is asked again.
const RETRY: Duration = Duration::from_millis(500);
/// How often it is looked whether a key has ended. Requests look for themselves; this is for open sockets.
const SWEEP_EVERY: Duration = Duration::from_millis(500);

/// Follows the stream for as long as the service runs.
pub async fn follow(log: Log, ring: Arc<KeyCache>, ledger: watch::Sender<Ledger>) {
    tokio::join!(follow_streams(&log, &ring, &ledger), sweep(&ring));
}

/// All that the stream says until now.
///
/// # Errors
/// JetStream does not answer, or the stream was replaced meanwhile.
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

async fn follow_streams(log: &Log, ring: &KeyCache, ledger: &watch::Sender<Ledger>) {
    loop {
        match log.ensure(ACCOUNTS).await {
            Ok(state) => {
                let ReadError::LogReplaced(reason) = follow_stream(log, &state, ring, ledger).await;
                tracing::warn!(reason, "the stream of keys is another one; it is read anew");
                ring.clear();
                ledger.send_replace(Ledger::default());
            }
            Err(error) => {
                tracing::debug!(%error, "waiting for the keys");
                sleep(RETRY).await;
            }
        }
    }
}

/// Follows one stream until it is replaced. A key counts only once all that was said of it before is known.
async fn follow_stream(
    log: &Log,
    state: &LogState,
    ring: &KeyCache,
    ledger: &watch::Sender<Ledger>,
) -> ReadError {
    let mut reader = reader(log, state);
    if state.last_seq == 0 {
        ring.fill(&ledger.borrow(), now());
    }
    loop {
        let batch = match reader.next().await {
            Ok(batch) => batch,
            Err(error) => return error,
        };
        let mut changed = Vec::new();
        ledger.send_modify(|ledger| changed = fold(ledger, &batch));
        let ledger = ledger.borrow();
        if ring.is_complete() {
            ring.update(&ledger, &changed, now());
        } else if ledger.seq() >= state.last_seq || batch.pending == 0 {
            ring.fill(&ledger, now());
        }
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
                tracing::warn!(seq = message.seq, %error, "an account event was skipped");
                metrics::account_event_skipped();
            }
        }
    }
    changed
}

async fn sweep(ring: &KeyCache) {
    let mut tick = interval(SWEEP_EVERY);
    tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        tick.tick().await;
        ring.drop_ended(now());
    }
}

fn now() -> Moment {
    Timestamp::now().into()
}
