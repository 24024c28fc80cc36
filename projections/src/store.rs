//! [`Store`]: views, state and checkpoint in one sled tree. Only this module uses sled.

mod error;
mod flusher;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::ops::Deref;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use events::{Moment, RacingDate};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use self::flusher::Flusher;
use crate::digest::Digest;
use crate::{json, keys};

pub use self::error::StoreError;

/// The version of the form of keys, state and views. Another version has another folder, folded from the whole log.
pub const SCHEMA_VERSION: u32 = 6;

/// The size of sled's page cache. The default of 1 GiB is more than all views of a season.
const CACHE_BYTES: u64 = 96 * 1024 * 1024;

const CHECKPOINT: &str = "meta/checkpoint";

/// How long to wait for a folder that another store is closing. sled's threads release it a little after the store is
/// dropped.
const LOCK_WAIT: Duration = Duration::from_secs(2);
const LOCK_POLL: Duration = Duration::from_millis(10);

/// The identity of a log. The sequences of another log mean other messages.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LogIdentity {
    /// The stream's name.
    pub name: String,
    /// When the stream was created, as the server wrote it.
    pub created: String,
}

/// The position in a log that the views reflect, and the digest of the views.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Checkpoint {
    /// The log.
    pub log: LogIdentity,
    /// The sequence of the last message that the views reflect; 0 before the first.
    pub seq: u64,
    /// When the log stored that message. A log that lost its tail and grew again has another time at this sequence.
    pub recorded_at: Option<Moment>,
    /// The latest time of an event so far; for each at most when the log stored it. The clock of the races: a day that
    /// is played again later has the clock of its events.
    pub latest_time: Option<Moment>,
    /// The digest of all views and state.
    pub digest: Digest,
}

impl Checkpoint {
    /// The date of the earliest races that may be open: those of earlier dates are closed, whether an event closed them
    /// or not. `None` before the first event.
    pub fn open_from(&self) -> Option<RacingDate> {
        self.latest_time.map(RacingDate::earliest_at)
    }
}

/// Changes that are committed together: the new value of each key, or `None` to remove it.
pub(crate) type Writes = BTreeMap<String, Option<Vec<u8>>>;

/// A value of the store, shared with its page cache.
#[derive(Debug, Clone)]
pub struct View(sled::IVec);

impl Deref for View {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.0
    }
}

impl AsRef<[u8]> for View {
    fn as_ref(&self) -> &[u8] {
        &self.0
    }
}

/// Views and the checkpoint that they reflect, in one tree.
#[derive(Debug)]
pub struct Store {
    tree: sled::Db,
    flusher: Flusher,
    checkpoint: Mutex<Option<Checkpoint>>,
    seq: AtomicU64,
}

impl Store {
    /// Opens or creates the store in a folder. This blocks. If the folder is damaged, sled may panic or hang.
    ///
    /// # Errors
    /// Returns [`StoreError::InUse`] if another process has the folder open, [`StoreError::Corrupt`] if the checkpoint
    /// is damaged, and [`StoreError::Sled`] if the folder cannot be read or written.
    pub fn open(folder: &Path) -> Result<Self, StoreError> {
        let config = sled::Config::new()
            .path(folder)
            .cache_capacity(CACHE_BYTES)
            .flush_every_ms(None)
            .mode(sled::Mode::HighThroughput);
        let deadline = Instant::now() + LOCK_WAIT;
        let tree = loop {
            match config.open() {
                Err(error) if is_locked(&error) && Instant::now() < deadline => {
                    std::thread::sleep(LOCK_POLL);
                }
                Err(error) if is_locked(&error) => return Err(StoreError::InUse),
                opened => break opened?,
            }
        };
        let mut store = Self {
            flusher: Flusher::start(tree.clone(), folder).map_err(sled::Error::from)?,
            tree,
            checkpoint: Mutex::new(None),
            seq: AtomicU64::new(0),
        };
        if let Some(checkpoint) = store.read::<Checkpoint>(CHECKPOINT)? {
            store.seq = AtomicU64::new(checkpoint.seq);
            store.checkpoint = Mutex::new(Some(checkpoint));
        }
        Ok(store)
    }

    /// The view under a key.
    ///
    /// # Errors
    /// Returns [`StoreError::Sled`] if sled fails to read.
    pub fn get(&self, key: &str) -> Result<Option<View>, StoreError> {
        Ok(self.tree.get(key)?.map(View))
    }

    /// The state under a key.
    pub(crate) fn read<T: DeserializeOwned>(&self, key: &str) -> Result<Option<T>, StoreError> {
        let value = self.tree.get(key)?;
        value.map(|value| parse(key, &value)).transpose()
    }

    /// All views under a prefix, ordered by key, from either end.
    pub fn scan(
        &self,
        prefix: &str,
    ) -> impl DoubleEndedIterator<Item = Result<(String, View), StoreError>> + use<> {
        self.tree.scan_prefix(prefix).map(entry)
    }

    /// All views from one key up to another one, which is excluded.
    pub fn range(
        &self,
        from: &str,
        to: &str,
    ) -> impl DoubleEndedIterator<Item = Result<(String, View), StoreError>> + use<> {
        self.tree.range(from.as_bytes()..to.as_bytes()).map(entry)
    }

    /// The checkpoint that the views reflect; `None` in a fresh store.
    pub fn checkpoint(&self) -> Option<Checkpoint> {
        self.lock_checkpoint().clone()
    }

    fn lock_checkpoint(&self) -> MutexGuard<'_, Option<Checkpoint>> {
        let checkpoint = self.checkpoint.lock();
        checkpoint.unwrap_or_else(PoisonError::into_inner)
    }

    /// The sequence of the last message that the views reflect; 0 before the first.
    pub fn seq(&self) -> u64 {
        self.seq.load(Ordering::Acquire)
    }

    /// The size of the store on disk, in bytes.
    ///
    /// # Errors
    /// Returns [`StoreError::Sled`] if the folder cannot be read.
    pub fn size_on_disk(&self) -> Result<u64, StoreError> {
        Ok(self.tree.size_on_disk()?)
    }

    /// Waits until all commits are on disk. A process that ends without this loses the last half second, which is
    /// folded from the log again.
    ///
    /// # Errors
    /// Returns [`StoreError::Stuck`] if the disk does not answer in time, [`StoreError::Torn`] after a failed commit,
    /// and [`StoreError::Sled`] on an I/O error.
    pub fn flush(&self) -> Result<(), StoreError> {
        self.flusher.flush()
    }

    /// Commits changes and the checkpoint of the views after them in one atomic batch. A value that is stored already
    /// is not written. Returns the checkpoint with the digest of the views.
    pub(crate) fn commit(
        &self,
        writes: &Writes,
        mut checkpoint: Checkpoint,
    ) -> Result<Checkpoint, StoreError> {
        let mut batch = sled::Batch::default();
        for (key, value) in writes {
            let old = self.tree.get(key)?;
            if old.as_deref() == value.as_deref() {
                continue;
            }
            if let Some(old) = &old {
                checkpoint.digest.remove(key.as_bytes(), old);
            }
            match value {
                Some(value) => {
                    checkpoint.digest.add(key.as_bytes(), value);
                    batch.insert(key.as_bytes(), value.as_slice());
                }
                None => batch.remove(key.as_bytes()),
            }
        }
        batch.insert(CHECKPOINT, json::render(&checkpoint));
        self.flusher.write(|| Ok(self.tree.apply_batch(batch)?))?;
        self.seq.store(checkpoint.seq, Ordering::Release);
        *self.lock_checkpoint() = Some(checkpoint.clone());
        Ok(checkpoint)
    }

    /// Counts all views and computes their digest from the stored bytes, independently of the checkpoint.
    ///
    /// # Errors
    /// Returns [`StoreError::Sled`] if sled fails to read.
    pub fn recount(&self) -> Result<(u64, Digest), StoreError> {
        let (mut count, mut digest) = (0, Digest::default());
        for entry in self.tree.iter() {
            let (key, value) = entry?;
            if !key.starts_with(keys::META.as_bytes()) {
                count += 1;
                digest.add(&key, &value);
            }
        }
        Ok((count, digest))
    }
}

/// A store that cannot be written to disk stays in memory. If it was dropped, sled would wait for the disk and block
/// all other stores.
impl Drop for Store {
    fn drop(&mut self) {
        if let Err(error) = self.flusher.close() {
            tracing::warn!(%error, "cannot close the store: it stays in memory until the process ends");
            std::mem::forget(self.tree.clone());
        }
    }
}

fn entry(entry: sled::Result<(sled::IVec, sled::IVec)>) -> Result<(String, View), StoreError> {
    let (key, value) = entry?;
    Ok((String::from_utf8_lossy(&key).into_owned(), View(value)))
}

/// Parses the value of a key.
pub(crate) fn parse<T: DeserializeOwned>(key: &str, value: &[u8]) -> Result<T, StoreError> {
    serde_json::from_slice(value).map_err(|e| StoreError::Corrupt {
        key: key.to_owned(),
        reason: e.to_string(),
    })
}

/// Whether the folder is locked. sled reports this only in the text of an error.
fn is_locked(error: &sled::Error) -> bool {
    matches!(error, sled::Error::Io(io) if io.to_string().starts_with("could not acquire lock"))
}
