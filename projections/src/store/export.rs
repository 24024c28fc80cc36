//! [`Store::export`] and [`Store::import`]: all views as rows, while commits go on, and a store made of them.

use std::collections::BTreeMap;
use std::sync::PoisonError;
use std::sync::atomic::Ordering;

use super::{CHECKPOINT, Checkpoint, Store, StoreError, parse, with_checksum};
use crate::{json, keys};

/// What an export keeps of the changes of the commits meanwhile. A race day changes some megabytes of views in all.
const CHANGES_BYTES_MAX: usize = 64 * 1024 * 1024;

/// A row of an export: a key and its value; `None` if an earlier row of the key was removed.
pub type Row = (String, Option<Vec<u8>>);

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
        let one_at_a_time = self.exports.lock();
        let _one_at_a_time = one_at_a_time.unwrap_or_else(PoisonError::into_inner);
        // Before the first read: each row that is read is either as the last commit left it, or among the changes.
        self.followers().export = Some(RunningExport::default());
        let read = self.entries(self.tree.iter()).try_for_each(|entry| {
            let (key, value) = entry?;
            match key.starts_with(keys::META) {
                true => Ok(()),
                false => write(&key, Some(&value)),
            }
        });
        let (running, checkpoint) = {
            // No commit is half done while this is locked.
            let mut followers = self.followers();
            (followers.export.take(), self.checkpoint())
        };
        read?;
        let (running, checkpoint) = (
            running.unwrap_or_default(),
            checkpoint.ok_or_else(no_checkpoint)?,
        );
        if running.is_too_large() {
            let max = CHANGES_BYTES_MAX;
            return Err(StoreError::TooManyChanges { max }.into());
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

    /// Adds rows of an export, in their order, to a store that has no checkpoint. The last one is the checkpoint, with
    /// which the store is whole. [`Store::check`] then compares all of it with the digest.
    ///
    /// # Errors
    /// Returns [`StoreError::Corrupt`] if rows follow the checkpoint or it is not one, [`StoreError::DiskFull`], and
    /// [`StoreError::Sled`] if sled fails to write.
    pub fn import(&self, rows: Vec<Row>) -> Result<(), StoreError> {
        self.check_disk()?;
        let mut batch = sled::Batch::default();
        let mut last = self.checkpoint();
        for (key, value) in rows {
            if last.is_some() {
                let reason = "it follows the checkpoint".to_owned();
                return Err(StoreError::Corrupt { key, reason });
            }
            match value {
                Some(value) => {
                    if key == CHECKPOINT {
                        last = Some(parse(&key, &value)?);
                    }
                    batch.insert(key.as_bytes(), with_checksum(&key, &value));
                }
                None => batch.remove(key.as_bytes()),
            }
        }
        self.flusher.write(|| Ok(self.tree.apply_batch(batch)?))?;
        if let Some(checkpoint) = last {
            self.seq.store(checkpoint.seq, Ordering::Release);
            *self.lock_checkpoint() = Some(checkpoint);
        }
        Ok(())
    }
}

fn no_checkpoint() -> StoreError {
    StoreError::Corrupt {
        key: CHECKPOINT.to_owned(),
        reason: "the store is empty".to_owned(),
    }
}
