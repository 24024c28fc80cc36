//! [`Store::export`] and [`StoreImport`]: all views as rows, while commits go on, and a store made of them.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use events::cut_reason;

use super::recount::compare;
use super::{CHECKPOINT, Checkpoint, Store, StoreError, StoreResult, TreeBatch, View, parse, view};
use crate::digest::{Digest, EntryHash};
use crate::{json, keys};

/// What an export keeps of the changes of the commits meanwhile. A race day changes some megabytes of views in all.
const CHANGES_BYTES_MAX: usize = 64 * 1024 * 1024;

/// A row of an export, in the form in which a store keeps it. To make it is much of the work of an import.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Row {
    key: String,
    stored: Option<Vec<u8>>,
    hash: Option<EntryHash>,
}

impl Row {
    /// A key and its value; `None` if an earlier row of the key was removed.
    pub fn new(key: String, value: Option<Vec<u8>>) -> Self {
        let hash = (value.as_ref()).map(|value| EntryHash::of(key.as_bytes(), value));
        let stored = value.map(|value| view::stored(&key, &value));
        Self { key, stored, hash }
    }
}

/// What commits changed since an export began.
#[derive(Debug, Default)]
pub(super) struct RunningExport {
    changes: BTreeMap<String, Option<Vec<u8>>>,
    bytes: usize,
}

impl RunningExport {
    /// Notes the changes of a commit: each key and its new value. After too many, the export fails.
    pub(super) fn follow<'a>(
        &mut self,
        changes: impl Iterator<Item = (&'a str, &'a Option<Vec<u8>>)>,
    ) {
        let size =
            |key: &str, value: &Option<Vec<u8>>| key.len() + value.as_ref().map_or(0, Vec::len);
        for (key, value) in changes {
            if self.is_too_large() {
                self.changes.clear();
                return;
            }
            self.bytes += size(key, value);
            if let Some(earlier) = self.changes.insert(key.to_owned(), value.clone()) {
                self.bytes -= size(key, &earlier);
            }
        }
    }

    fn is_too_large(&self) -> bool {
        self.bytes > CHANGES_BYTES_MAX
    }
}

impl Store {
    /// Writes all views and state as rows, as they are after one commit, and that commit's checkpoint as the last row.
    /// Later rows replace earlier ones of the same key: what commits change meanwhile comes again at the end. This
    /// blocks for as long as `write` takes for all; commits go on, and never wait for it.
    ///
    /// # Errors
    /// Returns the first error of `write`, and a [`StoreError`] if a value is damaged, sled fails to read, there is no
    /// checkpoint yet, or commits change too much meanwhile.
    pub fn export<E: From<StoreError>>(
        &self,
        mut write: impl FnMut(&str, Option<&[u8]>) -> Result<(), E>,
    ) -> Result<Checkpoint, E> {
        let _one_at_a_time = self.exports.lock();
        // Before the first read: each row that is read is either as the last commit left it, or among the changes.
        self.followers.lock().export = Some(RunningExport::default());
        let read = self.entries(self.tree.prefix("")).try_for_each(|entry| {
            let (key, value) = entry?;
            match key.starts_with(keys::META) {
                true => Ok(()),
                false => write(&key, Some(&value)),
            }
        });
        let (running, checkpoint) = {
            // No commit is half done while this is locked.
            let mut followers = self.followers.lock();
            (followers.export.take(), self.checkpoint())
        };
        read?;
        let running = running.unwrap_or_default();
        let is_empty = || corrupt(CHECKPOINT, "the store is empty");
        let checkpoint = checkpoint.ok_or_else(is_empty)?;
        if running.is_too_large() {
            return Err(StoreError::TooManyChanges(CHANGES_BYTES_MAX).into());
        }
        if self.is_torn() {
            return Err(StoreError::Torn.into());
        }
        for (key, value) in &running.changes {
            write(key, value.as_deref())?;
        }
        write(CHECKPOINT, Some(&json::render(&checkpoint)))?;
        Ok(checkpoint)
    }
}

/// Makes a store of the rows of an export.
#[derive(Debug)]
pub struct StoreImport {
    store: Arc<Store>,
    /// Of all rows so far.
    digest: Digest,
    last_key: String,
    /// Rows come in the order of their keys; then, in the same order, those that replace some of them.
    replaces: bool,
    is_whole: bool,
}

impl StoreImport {
    /// An import into a store that has no checkpoint.
    pub fn new(store: Arc<Store>) -> Self {
        Self {
            store,
            digest: Digest::default(),
            last_key: String::new(),
            replaces: false,
            is_whole: false,
        }
    }

    /// Adds rows in the order of the export. The last one is the checkpoint, with which the store is whole.
    ///
    /// # Errors
    /// Returns [`StoreError::Corrupt`] if the rows have another digest than the checkpoint, are in another order or
    /// follow it, or it is not one, [`StoreError::DiskFull`], and [`StoreError::Sled`] if sled fails.
    pub fn add(&mut self, rows: Vec<Row>) -> StoreResult<()> {
        self.store.check_disk()?;
        let mut batch = TreeBatch::new();
        for row in rows {
            if self.is_whole {
                return Err(corrupt(&row.key, "it follows the checkpoint"));
            }
            if row.key == CHECKPOINT {
                self.write(std::mem::take(&mut batch))?;
                self.finish(row)?;
                continue;
            }
            if row.key <= self.last_key {
                if self.replaces {
                    return Err(corrupt(&row.key, "the rows are out of order"));
                }
                self.replaces = true;
                self.write(std::mem::take(&mut batch))?;
            }
            if self.replaces
                && let Some(old) = self.store.get(&row.key)?
            {
                self.digest.remove(&EntryHash::of(row.key.as_bytes(), &old));
            }
            if let Some(hash) = &row.hash {
                self.digest.add(hash);
            }
            batch.push((row.key.clone(), row.stored));
            self.last_key = row.key;
        }
        self.write(batch)
    }

    fn write(&self, batch: TreeBatch) -> StoreResult<()> {
        self.store.tree.apply(batch, || {})
    }

    /// Writes the checkpoint, if all rows have its digest.
    fn finish(&mut self, row: Row) -> StoreResult<()> {
        let stored = row.stored.unwrap_or_default();
        let value = View::of(CHECKPOINT.as_bytes(), &stored.as_slice().into())?;
        let checkpoint: Checkpoint = parse(CHECKPOINT, &value)?;
        compare(self.digest, checkpoint.digest)?;
        self.write(vec![(CHECKPOINT.to_owned(), Some(stored))])?;
        self.store.seq.store(checkpoint.seq, Ordering::Release);
        *self.store.checkpoint.lock() = Some(checkpoint);
        self.is_whole = true;
        Ok(())
    }
}

fn corrupt(key: &str, reason: &str) -> StoreError {
    // Of a part whose checksum anybody can make.
    StoreError::corrupt(&cut_reason(key), reason)
}
