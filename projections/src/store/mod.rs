//! [`Store`]: views, state and checkpoint in one sled tree. Only this module and those below use sled.

#[cfg(any(test, feature = "simulation"))]
#[path = "../../tests/damaged/mod.rs"]
mod damaged;
mod error;
mod export;
mod flusher;
mod recount;
mod redo;
#[cfg(test)]
mod tests;
mod tree;
mod view;

use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::ops::Bound;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering, fence};
use std::sync::{Arc, OnceLock};

use events::{Moment, RacingDate};
use parking_lot::{Mutex, RwLock};
use rustix::fs::statvfs;
use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use self::error::is_too_many_files;
use self::export::RunningExport;
use self::recount::RunningRecount;
use self::tree::{Entries, Tree};
use crate::digest::EntryHash;
use crate::{Digest, LogClock, LogHistory, SourceRankings, json};

pub use self::error::StoreError;
pub(crate) use self::error::StoreResult;
pub use self::export::{Row, StoreImport};
pub use self::recount::Recount;
pub(crate) use self::redo::TreeBatch;
pub use self::view::View;

/// The version of the form of keys, state and views. Another version has another folder, folded from the whole log.
pub const SCHEMA_VERSION: u32 = 18;

/// The version of what the answers are read from: keys, the form of views, and checksums. Views of another schema with
/// the same version are served until those of this schema are caught up. Raise it only if this code cannot read them.
pub const VIEWS_VERSION: u32 = 5;

/// The free space without which nothing is written. Enough for the largest commit, and for what sled has in memory, so
/// that sled never finds the disk full in the middle of a commit.
const FREE_BYTES_MIN: u64 = 32 * 1024 * 1024;

/// The free inodes without which nothing is written: sled keeps large values in files of their own, at most about one
/// for each key of a commit.
const FREE_INODES_MIN: u64 = 1024;
/// The files that may still be opened, without which nothing is written. sled opens one at a time; the rest is for what
/// others open meanwhile.
const FREE_DESCRIPTORS_MIN: usize = 8;

/// Reads without a lock before a reader stops the commits. Few answers meet one commit, hardly any two.
const UNLOCKED_READS: usize = 2;

const CHECKPOINT: &str = "meta/checkpoint";

/// The identity of a log. The sequences of another log mean other messages.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct LogIdentity {
    /// The stream's name.
    pub name: String,
    /// When the stream was created, as the server wrote it.
    pub created: String,
}

/// The position in a log that the views reflect, and the digest of the views.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Checkpoint {
    /// The log.
    pub log: LogIdentity,
    /// The sequence of the last message that the views reflect; 0 before the first.
    pub seq: u64,
    /// When the log stored that message. A log that lost its tail and grew again has another time at this sequence.
    pub recorded_at: Option<Moment>,
    /// Which messages up to that one were folded.
    pub history: LogHistory,
    /// The clock of the log up to that message.
    #[serde(default)]
    pub clock: LogClock,
    /// The rankings of sources up to that message.
    #[serde(default)]
    pub rankings: SourceRankings,
    /// The digest of all views and state.
    pub digest: Digest,
}

impl Checkpoint {
    /// The date of the earliest races that may be open: those of earlier dates are closed, whether an event closed them
    /// or not. The clock of the races is that of the events: so a day may be played again later. `None` before the
    /// second event.
    pub fn open_from(&self) -> Option<RacingDate> {
        self.clock.latest_time().map(RacingDate::earliest_at)
    }

    /// Whether [`Projection::of_part`](crate::Projection::of_part) and [`RaceReplay`](crate::RaceReplay) can fold the
    /// messages after a sequence: unless the log's clock stepped back, or sources were ranked, too often since.
    pub fn can_fold_after(&self, seq: u64) -> bool {
        self.clock.knows_steps_after(seq) && self.rankings.are_known_from(seq)
    }
}

/// Changes that are committed together: the new value of each key, or `None` to remove it.
pub(crate) type Writes = BTreeMap<String, Option<Vec<u8>>>;
/// A key with its value, as it is read.
pub type StoredRow = StoreResult<(String, View)>;

/// The first damage that a reader found. Shared with the iterators.
#[derive(Debug, Clone, Default)]
struct FoundDamage(Arc<OnceLock<String>>);

impl FoundDamage {
    fn note<T>(&self, result: StoreResult<T>) -> StoreResult<T> {
        // Without a descriptor a sound value cannot be read.
        if let Err(error) = &result
            && !error.is_of_disk()
        {
            let _ = self.0.set(error.to_string());
        }
        result
    }

    fn check(&self, key: &[u8], stored: &sled::IVec) -> StoreResult<View> {
        self.note(View::of(key, stored))
    }
}

/// Who reads all views while commits go on.
#[derive(Debug, Default)]
struct CommitFollowers {
    recount: Option<RunningRecount>,
    export: Option<RunningExport>,
}

/// Views and the checkpoint that they reflect, in one tree.
#[derive(Debug)]
pub struct Store {
    tree: Tree,
    folder: PathBuf,
    checkpoint: Mutex<Option<Checkpoint>>,
    seq: AtomicU64,
    /// Twice the number of commits; odd while one is applied, and for ever after one that failed halfway.
    commits: AtomicU64,
    /// Held by each commit, and by a reader that commits have disturbed too often.
    commit_gate: RwLock<()>,
    /// What is running and follows the commits, and who may start it.
    followers: Mutex<CommitFollowers>,
    recounts: Mutex<()>,
    exports: Mutex<()>,
    damage: FoundDamage,
}

impl Store {
    /// Opens or creates the store in a folder. This blocks. If the folder is damaged, sled may panic or hang.
    ///
    /// # Errors
    /// Returns [`StoreError::InUse`] if another process has the folder open, [`StoreError::NoThread`],
    /// [`StoreError::Corrupt`] if the checkpoint is damaged, and [`StoreError::Sled`] if the folder cannot be read or
    /// written.
    pub fn open(folder: &Path) -> StoreResult<Self> {
        let mut store = Self::of(Tree::open(folder)?, folder);
        if let Some(checkpoint) = store.read::<Checkpoint>(CHECKPOINT)? {
            store.seq = AtomicU64::new(checkpoint.seq);
            store.checkpoint = Mutex::new(Some(checkpoint));
        }
        Ok(store)
    }

    /// A fresh store in memory.
    pub fn in_memory() -> Self {
        Self::of(Tree::Memory(RwLock::default()), Path::new(""))
    }

    fn of(tree: Tree, folder: &Path) -> Self {
        Self {
            tree,
            folder: folder.to_owned(),
            checkpoint: Mutex::new(None),
            seq: AtomicU64::new(0),
            commits: AtomicU64::new(0),
            commit_gate: RwLock::new(()),
            followers: Mutex::default(),
            recounts: Mutex::new(()),
            exports: Mutex::new(()),
            damage: FoundDamage::default(),
        }
    }

    /// The view under a key.
    ///
    /// # Errors
    /// Returns [`StoreError::Corrupt`] if the value is not the one that was written, and [`StoreError::Sled`] if sled
    /// fails to read.
    pub fn get(&self, key: &str) -> StoreResult<Option<View>> {
        let stored = self.damage.note(self.tree.get(key).map_err(From::from))?;
        let check = |stored| self.damage.check(key.as_bytes(), &stored);
        stored.map(check).transpose()
    }

    /// The state under a key.
    pub(crate) fn read<T: DeserializeOwned>(&self, key: &str) -> StoreResult<Option<T>> {
        let value = self.get(key)?;
        value.map(|value| parse(key, &value)).transpose()
    }

    /// All views under a prefix, ordered by key, from either end.
    pub fn scan(&self, prefix: &str) -> impl DoubleEndedIterator<Item = StoredRow> + use<> {
        self.entries(self.tree.prefix(prefix))
    }

    /// All views under a prefix, without their keys.
    ///
    /// # Errors
    /// As [`Store::get`].
    pub fn views(&self, prefix: &str) -> StoreResult<Vec<View>> {
        self.scan(prefix).map(|row| Ok(row?.1)).collect()
    }

    /// All views from one key up to another one, which is excluded.
    pub fn range(
        &self,
        from: &str,
        to: &str,
    ) -> impl DoubleEndedIterator<Item = StoredRow> + use<> {
        let bytes = |key: &str| key.as_bytes().to_vec();
        let (from, to) = (Bound::Included(bytes(from)), Bound::Excluded(bytes(to)));
        self.entries(self.tree.range(from, to))
    }

    fn entries(&self, entries: Entries) -> impl DoubleEndedIterator<Item = StoredRow> + use<> {
        let damage = self.damage.clone();
        entries.map(move |entry| {
            let (key, stored) = damage.note(entry.map_err(From::from))?;
            let view = damage.check(&key, &stored)?;
            Ok((String::from_utf8_lossy(&key).into_owned(), view))
        })
    }

    /// Reads several views as they were together after one commit. Returns what `read` returns, and the sequence that
    /// it reflects. `read` may be called more than once: a commit meanwhile makes what it read worthless. The last call
    /// stops the commits, so it has to be short.
    ///
    /// # Errors
    /// Returns [`StoreError::Torn`] if a commit failed halfway.
    pub fn read_consistently<T>(&self, mut read: impl FnMut() -> T) -> StoreResult<(T, u64)> {
        for _ in 0..UNLOCKED_READS {
            let before = self.commits.load(Ordering::Acquire);
            if is_writing(before) {
                break;
            }
            let seq = self.seq();
            let found = read();
            fence(Ordering::Acquire);
            if self.commits.load(Ordering::Relaxed) == before {
                return Ok((found, seq));
            }
        }
        let _no_commit = self.commit_gate.read();
        if is_writing(self.commits.load(Ordering::Acquire)) {
            return Err(StoreError::Torn);
        }
        Ok((read(), self.seq()))
    }

    /// The checkpoint that the views reflect; `None` in a fresh store.
    pub fn checkpoint(&self) -> Option<Checkpoint> {
        self.checkpoint.lock().clone()
    }

    /// The sequence of the last message that the views reflect; 0 before the first.
    pub fn seq(&self) -> u64 {
        self.seq.load(Ordering::Acquire)
    }

    /// What is damaged, once a reader or [`Store::check`] has found it. Such a store is to be replaced.
    pub fn damage(&self) -> Option<&str> {
        self.damage.0.get().map(String::as_str)
    }

    /// Whether a commit failed halfway. Such a store answers nothing.
    pub fn is_torn(&self) -> bool {
        let _no_commit = self.commit_gate.read();
        is_writing(self.commits.load(Ordering::Acquire))
    }

    /// Whether no write has failed. After one that has, sled accepts no other.
    pub fn accepts_writes(&self) -> bool {
        !self.is_torn() && self.tree.check().is_ok()
    }

    /// The size of the store on disk, in bytes.
    ///
    /// # Errors
    /// Returns [`StoreError::Sled`] if the folder cannot be read.
    pub fn size_on_disk(&self) -> StoreResult<u64> {
        Ok(self.tree.size_on_disk()?)
    }

    /// Waits until all commits are on disk. A process that ends without this loses the last half second, which is
    /// folded from the log again.
    ///
    /// # Errors
    /// Returns [`StoreError::Stuck`] if the disk does not answer in time, [`StoreError::Torn`] after a failed commit,
    /// and [`StoreError::Sled`] on an I/O error.
    pub fn flush(&self) -> StoreResult<()> {
        self.tree.flush()
    }

    /// Whether a commit may be written: the disk has space, files can be opened, and no write has failed.
    ///
    /// # Errors
    /// As [`check_free_space`], and [`StoreError::Sled`] with the error of the earlier write.
    pub fn check_disk(&self) -> StoreResult<()> {
        if let Tree::Memory(_) = self.tree {
            return Ok(());
        }
        check_free_space(&self.folder)?;
        Ok(self.tree.check()?)
    }

    /// Commits changes and the checkpoint of the views after them in one atomic batch. A value that is stored already
    /// is not written. Returns the checkpoint with the digest of the views.
    pub(crate) fn commit(
        &self,
        writes: &Writes,
        mut checkpoint: Checkpoint,
    ) -> StoreResult<Checkpoint> {
        self.check_disk()?;
        let mut batch = TreeBatch::new();
        let mut changes = Vec::new();
        for (key, value) in writes {
            let old = self.get(key)?;
            if old.as_deref() == value.as_deref() {
                continue;
            }
            let hash = |value: &[u8]| EntryHash::of(key.as_bytes(), value);
            let (old, new) = (old.as_deref().map(hash), value.as_deref().map(hash));
            checkpoint.digest.replace(old.as_ref(), new.as_ref());
            let stored = value.as_deref().map(|value| view::stored(key, value));
            batch.push((key.clone(), stored));
            changes.push((key.as_str(), old, new));
        }
        let value = view::stored(CHECKPOINT, &json::render(&checkpoint));
        batch.push((CHECKPOINT.to_owned(), Some(value)));

        let _no_reader = self.commit_gate.write();
        let mut followers = self.followers.lock();
        self.tree.apply(batch, || {
            self.commits.fetch_add(1, Ordering::AcqRel);
        })?;
        if let Some(recount) = &mut followers.recount {
            recount.follow(&changes);
        }
        if let Some(export) = &mut followers.export {
            export.follow(changes.iter().map(|(key, ..)| (*key, &writes[*key])));
        }
        self.seq.store(checkpoint.seq, Ordering::Release);
        *self.checkpoint.lock() = Some(checkpoint.clone());
        self.commits.fetch_add(1, Ordering::Release);
        Ok(checkpoint)
    }
}

/// Whether a commit is being applied, by the number in [`Store::commits`].
fn is_writing(commits: u64) -> bool {
    commits & 1 != 0
}

/// Checks that a store in a folder can be written: its disk has space, and files can be opened.
///
/// # Errors
/// Returns [`StoreError::DiskFull`] or [`StoreError::TooManyFiles`]. A file system that does not report its space
/// counts as one with enough.
pub fn check_free_space(folder: &Path) -> StoreResult<()> {
    let check = |unit, free, needed| {
        if free < needed {
            Err(StoreError::DiskFull {
                folder: folder.to_owned(),
                unit,
                free,
                needed,
            })
        } else {
            Ok(())
        }
    };
    #[cfg(feature = "simulation")]
    if let Some(disk) = crate::simulated::SimulatedDisk::of(folder) {
        return check("bytes", u64::from(!disk.is_full()), 1);
    }
    if let Ok(disk) = statvfs(folder) {
        let free_bytes = disk.f_bavail.saturating_mul(disk.f_frsize);
        check("bytes", free_bytes, FREE_BYTES_MIN)?;
        // A file system without a fixed number of inodes reports none at all.
        if disk.f_files > 0 {
            check("inodes", disk.f_favail, FREE_INODES_MIN)?;
        }
    }
    // Each commit is checked: to duplicate a descriptor takes less time than to open a file.
    let opened = File::open(folder).and_then(|file| {
        let more = (1..FREE_DESCRIPTORS_MIN).map(|_| file.try_clone());
        more.collect::<io::Result<Vec<File>>>()
    });
    match opened {
        Err(error) if is_too_many_files(&error) => {
            Err(StoreError::TooManyFiles(FREE_DESCRIPTORS_MIN, error))
        }
        _ => Ok(()),
    }
}

/// The free space of the disk that a folder is on; `None` if the file system does not report it.
pub fn free_bytes(folder: &Path) -> Option<u64> {
    let space = statvfs(folder).ok()?;
    Some(space.f_bavail.saturating_mul(space.f_frsize))
}

/// Parses the value of a key.
pub(crate) fn parse<T: DeserializeOwned>(key: &str, value: &[u8]) -> StoreResult<T> {
    serde_json::from_slice(value).map_err(|error| StoreError::corrupt(key, error))
}
