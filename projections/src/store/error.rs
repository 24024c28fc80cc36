//! [`StoreError`]: why the store failed.

/// Why the store failed. After any of these but [`StoreError::InUse`], set the folder aside and fold the log into a new
/// one.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// sled returned an error.
    #[error("the store failed: {0}")]
    Sled(#[from] sled::Error),
    /// An earlier commit failed halfway, and sled may wait for its end forever.
    #[error("the store is torn: an earlier commit failed halfway")]
    Torn,
    /// The disk did not take the written data in time.
    #[error("the store could not be written to disk in time")]
    Stuck,
    /// Another process has the folder open. The store itself may be sound.
    #[error("the store is in use by another process")]
    InUse,
    /// A value is not in the form that this version writes.
    #[error("the store is damaged at {key}: {reason}")]
    Corrupt {
        /// The key of the value.
        key: String,
        /// What is wrong with it.
        reason: String,
    },
}
