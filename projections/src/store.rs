//! [`Store`]: where views lie. Only this and its flusher name sled.

mod flusher;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::ops::Deref;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use events::Moment;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use self::flusher::Flusher;
use crate::{Digest, keys};

/// The form of keys, state and views. Another form is another folder, folded anew from the log.
pub const SCHEMA_VERSION: u32 = 5;

/// sled's page cache. Its default of 1 GiB is more than all views of a season.
const CACHE_BYTES: u64 = 96 * 1024 * 1024;

const CHECKPOINT: &str = "meta/checkpoint";

/// How long the folder may be held by a store that is being closed. sled's own threads let go of it a little after the
/// store was dropped.
const LOCK_WAIT: Duration = Duration::from_secs(2);
const LOCK_POLL: Duration = Duration::from_millis(10);

/// What can go wrong with the store. But for [`StoreError::InUse`], any of it means: set the folder aside and fold the log
/// anew.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// sled says no.
    #[error("the store failed: {0}")]
    Sled(#[from] sled::Error),
    /// sled panicked while it opened or read a damaged folder.
    #[error("the store is damaged: {0}")]
    Panicked(String),
    /// A commit broke off before, and sled may wait for the rest of it for ever.
    #[error("the store is torn: a commit broke off")]
    Torn,
    /// The disk does not take what was written.
    #[error("the store could not be written to disk in time")]
    Stuck,
    /// Somebody else has the folder open, and it is sound as far as anybody knows.
    #[error("the store is in use by another process")]
    InUse,
    /// A value is not what this version writes.
    #[error("the store is damaged at {key}: {reason}")]
    Corrupt {
        /// Where.
        key: String,
        /// What is wrong with it.
        reason: String,
    },
}

/// Which log a checkpoint is of. Another log has other sequences.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LogIdentity {
    /// The stream's name.
    pub name: String,
    /// When the stream was created, as the server wrote it.
    pub created: String,
}

/// How far into which log the views are, and the digest of all of them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Checkpoint {
    /// The log.
    pub log: LogIdentity,
    /// The last event that the views reflect; 0 before the first.
    pub seq: u64,
    /// When the log took that event: a log that lost its tail and grew again has another time there.
    pub recorded_at: Option<Moment>,
    /// The digest of all views and state.
    pub digest: Digest,
}

#[derive(Serialize, Deserialize)]
struct CheckpointJson {
    log: LogIdentity,
    seq: u64,
    recorded_at: Option<Moment>,
    digest: String,
}

/// Changes to the store that become visible together: a value, or `None` to remove it.
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
    /// Opens or creates the store in a folder. Blocks; a damaged folder may panic or hang in here.
    ///
    /// # Errors
    /// The folder cannot be read, is damaged, or is in use.
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
        if let Some(value) = store.tree.get(CHECKPOINT)? {
            let checkpoint = read_checkpoint(&value)?;
            store.seq = AtomicU64::new(checkpoint.seq);
            store.checkpoint = Mutex::new(Some(checkpoint));
        }
        Ok(store)
    }

    /// The view under a key.
    ///
    /// # Errors
    /// The store failed.
    pub fn get(&self, key: &str) -> Result<Option<View>, StoreError> {
        Ok(self.tree.get(key)?.map(View))
    }

    /// The state under a key.
    pub(crate) fn read<T: DeserializeOwned>(&self, key: &str) -> Result<Option<T>, StoreError> {
        let value = self.tree.get(key)?;
        value.map(|value| parse(key, &value)).transpose()
    }

    /// All views under a prefix, in the order of their keys, from either end.
    pub fn scan(
        &self,
        prefix: &str,
    ) -> impl DoubleEndedIterator<Item = Result<(String, View), StoreError>> + use<> {
        self.tree.scan_prefix(prefix).map(entry)
    }

    /// All views from one key up to, but without, another.
    pub fn range(
        &self,
        from: &str,
        to: &str,
    ) -> impl DoubleEndedIterator<Item = Result<(String, View), StoreError>> + use<> {
        self.tree.range(from.as_bytes()..to.as_bytes()).map(entry)
    }

    /// The checkpoint that the views reflect; `None` in a fresh store.
    #[must_use]
    pub fn checkpoint(&self) -> Option<Checkpoint> {
        self.checkpoint
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    /// The last event that the views reflect; 0 before the first.
    #[must_use]
    pub fn seq(&self) -> u64 {
        self.seq.load(Ordering::Acquire)
    }

    /// Bytes on disk.
    ///
    /// # Errors
    /// The folder cannot be read.
    pub fn size_on_disk(&self) -> Result<u64, StoreError> {
        Ok(self.tree.size_on_disk()?)
    }

    /// Writes everything to disk. A process that ends without it loses half a second, which the log gives back.
    ///
    /// # Errors
    /// The disk says no, or nothing in time.
    pub fn flush(&self) -> Result<(), StoreError> {
        self.flusher.flush()
    }

    /// Commits changes, and the checkpoint that they bring the views to, in one atomic batch. What would change no byte
    /// is not written. Returns how many keys changed.
    pub(crate) fn commit(
        &self,
        writes: &Writes,
        mut checkpoint: Checkpoint,
    ) -> Result<usize, StoreError> {
        let mut batch = sled::Batch::default();
        let mut changed = 0;
        for (key, value) in writes {
            let old = self.tree.get(key)?;
            if old.as_deref() == value.as_deref() {
                continue;
            }
            changed += 1;
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
        batch.insert(
            CHECKPOINT,
            crate::json::render(&CheckpointJson {
                log: checkpoint.log.clone(),
                seq: checkpoint.seq,
                recorded_at: checkpoint.recorded_at,
                digest: checkpoint.digest.to_string(),
            }),
        );
        self.flusher.write(|| Ok(self.tree.apply_batch(batch)?))?;
        self.seq.store(checkpoint.seq, Ordering::Release);
        *self
            .checkpoint
            .lock()
            .unwrap_or_else(PoisonError::into_inner) = Some(checkpoint);
        Ok(changed)
    }

    /// Counts all views and computes their digest from the bytes, without trusting the checkpoint's.
    ///
    /// # Errors
    /// The store failed.
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

/// A store that cannot be written out stays in memory: sled would wait for it here, and hold up all other stores.
impl Drop for Store {
    fn drop(&mut self) {
        if let Err(error) = self.flusher.close() {
            tracing::warn!(%error, "a store could not be closed and stays in memory until the process ends");
            std::mem::forget(self.tree.clone());
        }
    }
}

fn entry(entry: sled::Result<(sled::IVec, sled::IVec)>) -> Result<(String, View), StoreError> {
    let (key, value) = entry?;
    Ok((String::from_utf8_lossy(&key).into_owned(), View(value)))
}

/// Reads what this version wrote under a key.
pub(crate) fn parse<T: DeserializeOwned>(key: &str, value: &[u8]) -> Result<T, StoreError> {
    serde_json::from_slice(value).map_err(|e| StoreError::Corrupt {
        key: key.to_owned(),
        reason: e.to_string(),
    })
}

/// sled says so in words alone.
fn is_locked(error: &sled::Error) -> bool {
    matches!(error, sled::Error::Io(io) if io.to_string().starts_with("could not acquire lock"))
}

fn read_checkpoint(value: &[u8]) -> Result<Checkpoint, StoreError> {
    let corrupt = |reason: &str| StoreError::Corrupt {
        key: CHECKPOINT.to_owned(),
        reason: reason.to_owned(),
    };
    let json: CheckpointJson =
        serde_json::from_slice(value).map_err(|e| corrupt(&e.to_string()))?;
    let digest = Digest::parse(&json.digest)
        .ok_or_else(|| corrupt("the digest is not 64 hexadecimal digits"))?;
    Ok(Checkpoint {
        log: json.log,
        seq: json.seq,
        recorded_at: json.recorded_at,
        digest,
    })
}
