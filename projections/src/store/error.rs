//! [`StoreError`]: why the store failed.

use std::io;
use std::path::PathBuf;

use rustix::io::Errno;

/// What a use of the store returns.
pub(crate) type StoreResult<T> = Result<T, StoreError>;

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
    #[error("the disk of {} is full: {free} {unit} are free, {needed} are needed", .folder.display())]
    DiskFull {
        /// The folder of the store.
        folder: PathBuf,
        /// What there is too little of: bytes or inodes.
        unit: &'static str,
        /// How many are left.
        free: u64,
        /// How many a commit needs to be safe.
        needed: u64,
    },
    /// The process or the system has too many open files. Nothing was written: the store is as it was.
    /// The number of files that a commit may need, and the error of the system.
    #[error("{0} more files cannot be opened, as a commit may need: {1}")]
    TooManyFiles(usize, io::Error),
    /// No thread can be started. Nothing was written: the store is as it was.
    #[error("a thread that the store needs cannot be started: {0}")]
    NoThread(io::Error),
    /// Commits changed more than an export keeps, which is this many bytes, while it ran.
    #[error("commits changed more than {0} bytes of views while they were exported")]
    TooManyChanges(usize),
    /// Another process has the folder open. The store itself may be sound.
    #[error("the store is in use by another process")]
    InUse,
    /// A value is not in the form that this version writes, or not the one that was written.
    /// The first is its key, the second what is wrong with it.
    #[error("the store is damaged at {0}: {1}")]
    Corrupt(String, String),
}

impl StoreError {
    pub(crate) fn corrupt(key: &str, reason: impl ToString) -> Self {
        Self::Corrupt(key.to_owned(), reason.to_string())
    }

    /// Whether there is too little space for what was to be written.
    pub fn is_disk_full(&self) -> bool {
        match self {
            Self::DiskFull { .. } => true,
            Self::Sled(sled::Error::Io(error)) => is_full(error),
            _ => false,
        }
    }

    /// Whether the folder could not be used for a reason that is not in the store: the same folder may be opened later.
    pub fn is_of_disk(&self) -> bool {
        match self {
            Self::InUse | Self::DiskFull { .. } | Self::TooManyFiles { .. } | Self::NoThread(_) => {
                true
            }
            Self::Sled(sled::Error::Io(error)) => is_of_disk(error),
            _ => false,
        }
    }
}

/// Other errors, such as a missing file or unreadable bytes, are damage of the store.
fn is_of_disk(error: &io::Error) -> bool {
    use io::ErrorKind::{FileTooLarge, OutOfMemory, PermissionDenied, ReadOnlyFilesystem};
    let of_disk = [
        FileTooLarge,
        OutOfMemory,
        PermissionDenied,
        ReadOnlyFilesystem,
    ];
    is_full(error) || of_disk.contains(&error.kind()) || is_too_many_files(error)
}

fn is_full(error: &io::Error) -> bool {
    use io::ErrorKind::{QuotaExceeded, StorageFull};
    [StorageFull, QuotaExceeded].contains(&error.kind())
}

/// Whether the process or the system has too many open files.
pub(super) fn is_too_many_files(error: &io::Error) -> bool {
    let errno = Errno::from_io_error(error);
    errno.is_some_and(|errno| [Errno::MFILE, Errno::NFILE].contains(&errno))
}
