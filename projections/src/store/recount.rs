//! [`Recount`]: the digest of a store, counted from its bytes while it is written.

use std::ops::Bound;

use super::{Checkpoint, Store, StoreError, StoreResult, View};
use crate::digest::{Digest, EntryHash};
use crate::keys;

/// Values that are counted at a time. A commit waits for them: about a millisecond.
const CHUNK: usize = 256;

/// The number and the digest of all views, counted from the stored bytes, independently of the checkpoint.
#[derive(Debug, Clone)]
pub struct Recount {
    /// The number of views and states.
    pub count: u64,
    /// Their digest.
    pub digest: Digest,
    /// The checkpoint when the count ended; `None` in a fresh store.
    pub checkpoint: Option<Checkpoint>,
}

/// A recount that has counted all keys up to a position. Commits correct it for the keys before that.
#[derive(Debug, Default)]
pub(super) struct RunningRecount {
    last_key: Vec<u8>,
    count: u64,
    digest: Digest,
}

impl RunningRecount {
    /// Notes the changes of a commit: the key, the earlier value and the new one.
    pub(super) fn follow(&mut self, changes: &[(&str, Option<EntryHash>, Option<EntryHash>)]) {
        for (key, old, new) in changes {
            if key.as_bytes() > self.last_key.as_slice() {
                continue;
            }
            self.digest.replace(old.as_ref(), new.as_ref());
            self.count += u64::from(new.is_some());
            self.count -= u64::from(old.is_some());
        }
    }
}

impl Store {
    /// Counts all views and computes their digest. This blocks for as long as all is read; commits go on.
    ///
    /// # Errors
    /// Returns [`StoreError::Corrupt`] if a value is not the one that was written, and [`StoreError::Sled`] if sled
    /// fails to read.
    pub fn recount(&self) -> StoreResult<Recount> {
        let _one_at_a_time = self.recounts.lock();
        self.followers.lock().recount = Some(RunningRecount::default());
        let recount = loop {
            if let Some(recount) = self.recount_chunk().transpose() {
                break recount;
            }
        };
        self.followers.lock().recount = None;
        self.damage.note(recount)
    }

    /// Counts the next values. Returns the recount when there are no more.
    fn recount_chunk(&self) -> StoreResult<Option<Recount>> {
        let mut followers = self.followers.lock();
        let running = followers.recount.get_or_insert_default();
        let after = Bound::Excluded(running.last_key.clone());
        let mut read = 0;
        for entry in self.tree.range(after, Bound::Unbounded).take(CHUNK) {
            let (key, stored) = entry?;
            let view = View::of(&key, &stored)?;
            if !key.starts_with(keys::META.as_bytes()) {
                running.count += 1;
                running.digest.add(&EntryHash::of(&key, &view));
            }
            running.last_key = key.to_vec();
            read += 1;
        }
        Ok((read < CHUNK).then(|| Recount {
            count: running.count,
            digest: running.digest,
            checkpoint: self.checkpoint(),
        }))
    }

    /// Compares all views with the digest of the checkpoint: sled may open with less than was written. This blocks for
    /// as long as all is read; commits go on.
    ///
    /// # Errors
    /// Returns [`StoreError::Corrupt`] if they differ, and as [`Store::recount`].
    pub fn check(&self) -> StoreResult<()> {
        let found = self.recount()?;
        let expected = found.checkpoint.unwrap_or_default().digest;
        self.damage.note(compare(found.digest, expected))
    }
}

/// Compares the digest of all views with that of their checkpoint.
pub(super) fn compare(digest: Digest, expected: Digest) -> StoreResult<()> {
    if digest == expected {
        return Ok(());
    }
    let reason = format!("the digest is {digest}, not {expected}");
    Err(StoreError::corrupt("all of it", reason))
}
