//! [`Flusher`]: a thread that writes a store to disk.
//!
//! sled has a thread for this, and flushes again when it is dropped. Both wait under a lock that all stores of a
//! process share, and wait forever after a write that failed halfway, so that no other store could commit. This thread
//! waits without a lock, and may be abandoned.

use std::fs::{File, OpenOptions};
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::thread;
use std::time::Duration;

use parking_lot::Mutex;

use super::error::{StoreError, StoreResult};

/// How often the tail is written to disk. What a crash loses of it is folded from the log again.
const FLUSH_EVERY: Duration = Duration::from_millis(500);

/// How long to wait for a flush. A slow disk may need this long for the writes of a rebuild.
const FLUSH_WAIT: Duration = Duration::from_secs(60);

/// The file of sled's log in its folder.
const LOG_FILE: &str = "db";

type Done = Sender<StoreResult<()>>;

enum FlushRequest {
    Flush(Done),
    Close(Done),
}

/// The state of the last write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Tail {
    OnDisk,
    InMemory,
    /// A batch failed halfway. sled may wait for its end forever.
    Torn,
}

/// The handle of the thread that writes the tail of a store to disk.
#[derive(Debug)]
pub(super) struct Flusher {
    requests: Sender<FlushRequest>,
    tail: Arc<Mutex<Tail>>,
}

impl Flusher {
    pub(super) fn start(db: sled::Db, folder: &Path) -> StoreResult<Self> {
        let file = OpenOptions::new().write(true).open(folder.join(LOG_FILE));
        let file = file.map_err(sled::Error::from)?;
        let (requests, receiver) = mpsc::channel();
        let tail = Arc::new(Mutex::new(Tail::InMemory));
        let writer = Writer {
            db,
            file,
            tail: Arc::clone(&tail),
        };
        thread::Builder::new()
            .name("store-flusher".to_owned())
            .spawn(move || writer.run(&receiver))
            .map_err(StoreError::NoThread)?;
        Ok(Self { requests, tail })
    }

    /// Runs a write to the store. If it fails or panics, the store accepts no more writes.
    pub(super) fn write(&self, work: impl FnOnce() -> StoreResult<()>) -> StoreResult<()> {
        let mut tail = self.tail.lock();
        if *tail == Tail::Torn {
            return Err(StoreError::Torn);
        }
        *tail = Tail::Torn;
        work()?;
        *tail = Tail::InMemory;
        Ok(())
    }

    /// Waits until everything is on disk.
    pub(super) fn flush(&self) -> StoreResult<()> {
        self.request(FlushRequest::Flush)
    }

    /// Waits until everything is on disk, and ends the thread. Afterwards sled does not wait when it is dropped.
    pub(super) fn close(&self) -> StoreResult<()> {
        self.request(FlushRequest::Close)
    }

    fn request(&self, request: fn(Done) -> FlushRequest) -> StoreResult<()> {
        let (done, result) = mpsc::channel();
        // If the thread has ended, `done` is dropped and the wait ends at once.
        let _ = self.requests.send(request(done));
        let flushed = result.recv_timeout(FLUSH_WAIT);
        flushed.unwrap_or(Err(StoreError::Stuck))
    }
}

struct Writer {
    db: sled::Db,
    file: File,
    tail: Arc<Mutex<Tail>>,
}

impl Writer {
    fn run(self, requests: &Receiver<FlushRequest>) {
        loop {
            match requests.recv_timeout(FLUSH_EVERY) {
                Ok(FlushRequest::Flush(done)) => {
                    let _ = done.send(self.flush());
                }
                Ok(FlushRequest::Close(done)) => {
                    let flushed = self.flush();
                    // sled releases the folder when its last handle is dropped. That is now the caller's.
                    drop(self);
                    let _ = done.send(flushed);
                    return;
                }
                Err(RecvTimeoutError::Timeout) if self.is_behind() => {
                    if let Err(error) = self.flush() {
                        tracing::error!(%error, "cannot write the tail of the store to disk");
                    }
                }
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return,
            }
        }
    }

    fn is_behind(&self) -> bool {
        *self.tail.lock() == Tail::InMemory
    }

    /// Does the same as `sled::Tree::flush`, without its lock.
    fn flush(&self) -> StoreResult<()> {
        let log = &self.db.context.pagecache.log;
        // Taken between batches, because the end of an unfinished batch is not known yet.
        let end = {
            let mut tail = self.tail.lock();
            if *tail == Tail::Torn {
                return Err(StoreError::Torn);
            }
            // A cancelled message, as sled writes it for an empty batch, gives the length of the log.
            let mark = log.reserve(sled::LogKind::Free, 0, &sled::Lsn::default(), &sled::pin())?;
            let (end, _) = mark.abort()?;
            *tail = Tail::OnDisk;
            end
        };
        log.make_stable(end)?;
        self.file.sync_all().map_err(sled::Error::from)?;
        // As sled's thread does. Otherwise freed memory stays with the threads that freed it.
        sled::pin().flush();
        Ok(())
    }
}
