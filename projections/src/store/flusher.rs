//! [`Flusher`]: brings what a store wrote to disk, and knows whether the store can be closed.
//!
//! sled has a thread for this, and flushes again when it is dropped. Both wait under a lock that all stores of a process
//! share, and for ever if a write broke off: then no other store takes a commit. Here the wait is on a thread that holds
//! no lock and may be left behind.

use std::fs::{File, OpenOptions};
use std::io;
use std::path::Path;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use super::StoreError;

/// The tail is written to disk this often; what a crash takes from it, the log gives back.
const FLUSH_EVERY: Duration = Duration::from_millis(500);

/// A disk that is slow may take so long for all that a rebuild wrote.
const FLUSH_WAIT: Duration = Duration::from_secs(60);

/// The file in sled's folder that its log lies in.
const LOG_FILE: &str = "db";

type Done = Sender<Result<(), StoreError>>;

enum Request {
    Flush(Done),
    Close(Done),
}

/// What was written last.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Tail {
    OnDisk,
    InMemory,
    /// A batch broke off. sled may wait for the rest of it for ever.
    Torn,
}

/// A thread that writes the tail of a store to disk.
#[derive(Debug)]
pub(super) struct Flusher {
    requests: Sender<Request>,
    tail: Arc<Mutex<Tail>>,
}

impl Flusher {
    /// Begins to flush.
    pub(super) fn start(db: sled::Db, folder: &Path) -> io::Result<Self> {
        let file = OpenOptions::new().write(true).open(folder.join(LOG_FILE))?;
        let (requests, receiver) = mpsc::channel();
        let tail = Arc::new(Mutex::new(Tail::InMemory));
        let writer = Writer {
            db,
            file,
            tail: Arc::clone(&tail),
        };
        thread::Builder::new()
            .name("store-flusher".to_owned())
            .spawn(move || writer.run(&receiver))?;
        Ok(Self { requests, tail })
    }

    /// Does what writes to the store. If it fails, or panics, the store takes nothing more.
    pub(super) fn write(
        &self,
        work: impl FnOnce() -> Result<(), StoreError>,
    ) -> Result<(), StoreError> {
        let mut tail = self.tail.lock().unwrap_or_else(PoisonError::into_inner);
        if *tail == Tail::Torn {
            return Err(StoreError::Torn);
        }
        *tail = Tail::Torn;
        work()?;
        *tail = Tail::InMemory;
        Ok(())
    }

    /// Waits until everything is on disk.
    pub(super) fn flush(&self) -> Result<(), StoreError> {
        self.ask(Request::Flush)
    }

    /// The same, and ends the thread. After it, sled has nothing to wait for when it is dropped.
    pub(super) fn close(&self) -> Result<(), StoreError> {
        self.ask(Request::Close)
    }

    fn ask(&self, request: fn(Done) -> Request) -> Result<(), StoreError> {
        let (done, answer) = mpsc::channel();
        // A thread that is gone drops `done`, and that is an answer.
        let _ = self.requests.send(request(done));
        answer
            .recv_timeout(FLUSH_WAIT)
            .unwrap_or(Err(StoreError::Stuck))
    }
}

struct Writer {
    db: sled::Db,
    file: File,
    tail: Arc<Mutex<Tail>>,
}

impl Writer {
    fn run(self, requests: &Receiver<Request>) {
        loop {
            match requests.recv_timeout(FLUSH_EVERY) {
                Ok(Request::Flush(done)) => {
                    let _ = done.send(self.flush());
                }
                Ok(Request::Close(done)) => {
                    let flushed = self.flush();
                    // sled lets go of the folder when its last handle is dropped: the asker's.
                    drop(self);
                    let _ = done.send(flushed);
                    return;
                }
                Err(RecvTimeoutError::Timeout) if self.is_behind() => {
                    if let Err(error) = self.flush() {
                        tracing::error!(%error, "the tail of the store cannot be written to disk");
                    }
                }
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return,
            }
        }
    }

    fn is_behind(&self) -> bool {
        *self.tail.lock().unwrap_or_else(PoisonError::into_inner) == Tail::InMemory
    }

    /// What `sled::Tree::flush` does, without its lock.
    fn flush(&self) -> Result<(), StoreError> {
        let log = &self.db.context.pagecache.log;
        // Between batches: the end of one that is under way is not known yet.
        let end = {
            let mut tail = self.tail.lock().unwrap_or_else(PoisonError::into_inner);
            if *tail == Tail::Torn {
                return Err(StoreError::Torn);
            }
            // A cancelled message, as sled writes for an empty batch, tells how long the log is.
            let mark = log.reserve(sled::LogKind::Free, 0, &sled::Lsn::default(), &sled::pin())?;
            let (end, _) = mark.abort()?;
            *tail = Tail::OnDisk;
            end
        };
        log.make_stable(end)?;
        self.file.sync_all().map_err(sled::Error::from)?;
        // As sled's thread does: else memory that is free stays with the threads that freed it.
        sled::pin().flush();
        Ok(())
    }
}
