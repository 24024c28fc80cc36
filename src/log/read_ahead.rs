//! [`ReadAhead`]: a reader that goes on while its batches are folded.

use std::mem;

use projections::BATCH_MESSAGES_MAX;
use tokio::sync::mpsc;
use tokio_util::task::AbortOnDropHandle;

use super::reader::BATCH_BYTES_MAX;
use super::{Batch, LogReplaced, Reader};
use crate::task;

type Batches = mpsc::Sender<Result<Batch, LogReplaced>>;

/// The batches of a reader, which a task of its own reads: full ones as long as the log has another full one, which
/// cost the least; then what arrives while a batch is folded.
#[derive(Debug)]
pub struct ReadAhead {
    batches: mpsc::Receiver<Result<Batch, LogReplaced>>,
    _reading: AbortOnDropHandle<()>,
}

impl ReadAhead {
    /// Waits for the next batch; `None` if the reader has panicked. Cancel-safe.
    pub async fn next(&mut self) -> Option<Result<Batch, LogReplaced>> {
        self.batches.recv().await
    }

    /// These batches, of a log that has no more messages.
    #[cfg(test)]
    pub(crate) fn of(all: Vec<Batch>) -> Self {
        let (sender, batches) = mpsc::channel(all.len());
        for batch in all {
            sender.try_send(Ok(batch)).expect("room for all");
        }
        let open = tokio::spawn(async move { sender.closed().await });
        Self {
            batches,
            _reading: AbortOnDropHandle::new(open),
        }
    }
}

impl Reader {
    /// Starts to read ahead.
    pub fn ahead(self) -> ReadAhead {
        let (sender, batches) = mpsc::channel(1);
        ReadAhead {
            batches,
            _reading: AbortOnDropHandle::new(task::spawn(self.send(sender))),
        }
    }

    async fn send(mut self, batches: Batches) {
        let (mut ready, mut bytes) = (Batch::default(), 0);
        let replaced = loop {
            // Whether a batch is all that the stream had is told behind its last message.
            let is_full = ready.head.is_some()
                || ready.messages.len() >= BATCH_MESSAGES_MAX
                || bytes >= BATCH_BYTES_MAX;
            let is_last = ready.pending < BATCH_MESSAGES_MAX as u64;
            tokio::select! {
                biased;
                place = batches.reserve(), if is_full || is_last && !ready.messages.is_empty() => {
                    let Ok(place) = place else { return };
                    place.send(Ok(mem::take(&mut ready)));
                    bytes = 0;
                }
                read = self.next(), if !is_full => match read {
                    Ok(next) => {
                        bytes += next.messages.iter().map(|m| m.payload.len()).sum::<usize>();
                        ready.messages.extend(next.messages);
                        (ready.pending, ready.head) = (next.pending, next.head);
                    }
                    Err(replaced) => break replaced,
                },
            }
        };
        if !ready.messages.is_empty() {
            let _ = batches.send(Ok(ready)).await;
        }
        let _ = batches.send(Err(replaced)).await;
    }
}
