//! [`Tree`]: the keys and values below a store. Only this module, [`RedoLog`] and [`Flusher`] use sled.

use std::collections::BTreeMap;
use std::io;
use std::ops::Bound;
use std::path::Path;
use std::time::{Duration, Instant};

use parking_lot::{Mutex, RwLock};
use sled::IVec;

use super::flusher::Flusher;
use super::redo::{RedoLog, TreeBatch};
use super::{StoreError, StoreResult};
#[cfg(feature = "simulation")]
use crate::simulated::{SimulatedDisk, SimulatedTree};

/// The size of sled's page cache. The default of 1 GiB is more than all views of a season.
const CACHE_BYTES: u64 = 96 * 1024 * 1024;

/// How long to wait for a folder that another store is closing. sled's threads release it a little after the store is
/// dropped.
const LOCK_WAIT: Duration = Duration::from_secs(2);
const LOCK_POLL: Duration = Duration::from_millis(10);

/// The threads that must be free before a store is opened. sled starts 7 with the first store, and never again: without
/// them it waits for ever. One more is the store's own.
const FREE_THREADS_MIN: usize = 8;

/// Entries in the order of their keys.
pub(super) type Entries = Box<dyn DoubleEndedIterator<Item = sled::Result<(IVec, IVec)>> + Send>;

/// An ordered map on disk, or in memory. It accepts no write after one that failed.
#[derive(Debug)]
pub(super) enum Tree {
    Sled(sled::Db, RedoLog, Flusher),
    Memory(RwLock<BTreeMap<Vec<u8>, IVec>>),
    #[cfg(feature = "simulation")]
    Simulated(SimulatedTree),
}

impl Tree {
    /// Opens or creates the tree in a folder.
    pub(super) fn open(folder: &Path) -> StoreResult<Self> {
        #[cfg(feature = "simulation")]
        if let Some(disk) = SimulatedDisk::of(folder) {
            return Ok(Self::Simulated(disk.open(folder)?));
        }
        check_threads()?;
        let config = sled::Config::new()
            .path(folder)
            .cache_capacity(CACHE_BYTES)
            .flush_every_ms(None)
            .mode(sled::Mode::HighThroughput);
        let deadline = Instant::now() + LOCK_WAIT;
        let db = loop {
            match config.open() {
                Err(error) if is_locked(&error) && Instant::now() < deadline => {
                    std::thread::sleep(LOCK_POLL);
                }
                Err(error) if is_locked(&error) => return Err(StoreError::InUse),
                opened => break opened?,
            }
        };
        let redo = RedoLog::open(&db)?;
        let flusher = Flusher::start(db.clone(), folder)?;
        Ok(Self::Sled(db, redo, flusher))
    }

    pub(super) fn get(&self, key: &str) -> sled::Result<Option<IVec>> {
        match self {
            Self::Sled(db, ..) => db.get(key),
            Self::Memory(entries) => Ok(entries.read().get(key.as_bytes()).cloned()),
            #[cfg(feature = "simulation")]
            Self::Simulated(tree) => Ok(tree.get(key)),
        }
    }

    pub(super) fn prefix(&self, prefix: &str) -> Entries {
        if let Self::Sled(db, ..) = self {
            return Box::new(db.scan_prefix(prefix));
        }
        let end = [prefix.as_bytes(), &[u8::MAX]].concat();
        let from = Bound::Included(prefix.as_bytes().to_vec());
        self.range(from, Bound::Excluded(end))
    }

    pub(super) fn range(&self, from: Bound<Vec<u8>>, to: Bound<Vec<u8>>) -> Entries {
        match self {
            Self::Sled(db, ..) => Box::new(db.range((from, to))),
            Self::Memory(entries) => {
                let entries = entries.read();
                let found = entries.range((from, to));
                let found = found.map(|(key, value)| Ok((key.as_slice().into(), value.clone())));
                Box::new(found.collect::<Vec<_>>().into_iter())
            }
            #[cfg(feature = "simulation")]
            Self::Simulated(tree) => Box::new(tree.range(from, to).into_iter().map(Ok)),
        }
    }

    /// Runs `begin`, then applies a batch. If that fails or panics, the tree accepts no more.
    pub(super) fn apply(&self, batch: TreeBatch, begin: impl FnOnce()) -> StoreResult<()> {
        match self {
            Self::Sled(db, redo, flusher) => flusher.write(|| {
                begin();
                Ok(redo.apply(db, batch)?)
            }),
            Self::Memory(entries) => {
                begin();
                let mut entries = entries.write();
                for (key, value) in batch {
                    match value {
                        Some(value) => entries.insert(key.into_bytes(), value.into()),
                        None => entries.remove(key.as_bytes()),
                    };
                }
                Ok(())
            }
            #[cfg(feature = "simulation")]
            Self::Simulated(tree) => tree.apply(batch, begin),
        }
    }

    /// The error of an earlier write.
    pub(super) fn check(&self) -> sled::Result<()> {
        match self {
            Self::Sled(db, ..) => db.context.global_error(),
            Self::Memory(_) => Ok(()),
            #[cfg(feature = "simulation")]
            Self::Simulated(tree) => tree.check(),
        }
    }

    pub(super) fn size_on_disk(&self) -> sled::Result<u64> {
        match self {
            Self::Sled(db, ..) => db.size_on_disk(),
            _ => Ok(0),
        }
    }

    /// Waits until everything is on disk.
    pub(super) fn flush(&self) -> StoreResult<()> {
        match self {
            Self::Sled(.., flusher) => flusher.flush(),
            Self::Memory(_) => Ok(()),
            #[cfg(feature = "simulation")]
            Self::Simulated(tree) => tree.flush(),
        }
    }
}

/// A tree that cannot be written to disk stays in memory. If it was dropped, sled would wait for the disk and block all
/// other stores.
impl Drop for Tree {
    fn drop(&mut self) {
        if let Self::Sled(db, _, flusher) = self
            && let Err(error) = flusher.close()
        {
            tracing::warn!(%error, "cannot close the store: it stays in memory until the process ends");
            std::mem::forget(db.clone());
        }
    }
}

/// Checks that sled's threads can be started.
fn check_threads() -> StoreResult<()> {
    let gate = Mutex::new(());
    let checked: io::Result<()> = std::thread::scope(|scope| {
        let _closed = gate.lock();
        (0..FREE_THREADS_MIN).try_for_each(|_| {
            let thread = std::thread::Builder::new();
            thread.spawn_scoped(scope, || drop(gate.lock())).map(drop)
        })
    });
    checked.map_err(StoreError::NoThread)
}

/// Whether the folder is locked. sled reports this only in the text of an error.
fn is_locked(error: &sled::Error) -> bool {
    matches!(error, sled::Error::Io(io) if io.to_string().starts_with("could not acquire lock"))
}
