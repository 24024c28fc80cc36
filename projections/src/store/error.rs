//! [`StoreError`]: why the store failed.

use std::io;
use std::path::PathBuf;

/// Why the store failed.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// sled returned an error.
    #[error("the store failed: {0}")]
    Sled(#[from] sled::Error),
    /// An earlier commit failed halfway: some views are newer than the checkpoint, and sled may wait for its end
    /// forever.
    #[error("the store is torn: an earlier commit failed halfway")]
    Torn,
    /// The disk did not take the written data in time.
    #[error("the store could not be written to disk in time")]
    Stuck,
    /// The disk has too little space. Nothing was written: the store is as it was.
    #[error("the disk of {} is full: {free_bytes} bytes are free, {needed_bytes} are needed", .folder.display())]
    DiskFull {
        /// The folder of the store.
        folder: PathBuf,
        /// The space that is left.
        free_bytes: u64,
        /// The space that a commit needs to be safe.
        needed_bytes: u64,
    },
    /// Commits changed more than an export keeps while it ran.
    #[error("commits changed more than {max} bytes of views while they were exported")]
    TooManyChanges {
        /// What an export keeps.
        max: usize,
    },
    /// Another process has the folder open. The store itself may be sound.
    #[error("the store is in use by another process")]
    InUse,
    /// A value is not in the form that this version writes, or not the one that was written.
    #[error("the store is damaged at {key}: {reason}")]
    Corrupt {
        /// The key of the value.
        key: String,
        /// What is wrong with it.
        reason: String,
    },
}

impl StoreError {
    /// Whether there is too little space for what was to be written.
    pub fn is_disk_full(&self) -> bool {
        match self {
            Self::DiskFull { .. } => true,
            Self::Sled(sled::Error::Io(error)) => {
                use io::ErrorKind::{QuotaExceeded, StorageFull};
                [StorageFull, QuotaExceeded].contains(&error.kind())
            }
            _ => false,
        }
    }

    /// Whether the folder could not be used for a reason that is not in the store: the same folder may be opened later.
    pub fn is_of_disk(&self) -> bool {
        match self {
            Self::InUse | Self::DiskFull { .. } => true,
            Self::Sled(sled::Error::Io(error)) => is_of_disk(error),
            _ => false,
        }
    }
}

/// Other errors, such as a missing file or unreadable bytes, are damage of the store.
fn is_of_disk(error: &io::Error) -> bool {
    use io::ErrorKind::{
        FileTooLarge, OutOfMemory, PermissionDenied, QuotaExceeded, ReadOnlyFilesystem, StorageFull,
    };
    /// ENFILE and EMFILE: too many open files.
    const TOO_MANY_FILES: [i32; 2] = [23, 24];
    let of_disk = [
        FileTooLarge,
        OutOfMemory,
        PermissionDenied,
        QuotaExceeded,
        ReadOnlyFilesystem,
        StorageFull,
    ];
    of_disk.contains(&error.kind())
        || (error.raw_os_error()).is_some_and(|code| TOO_MANY_FILES.contains(&code))
}
