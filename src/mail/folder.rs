//! [`Folder`]: the folder to which `dev` writes its mails.

use std::fs;
use std::os::unix::fs::DirBuilderExt;
use std::path::PathBuf;

use super::delivery_error::{DeliveryError, FailureReason};
use crate::atomic_file;

/// A folder with a file for each mail, readable by this user alone.
#[derive(Debug, Clone)]
pub struct Folder(pub PathBuf);

impl Folder {
    /// Writes a mail atomically.
    pub(super) fn write(&self, name: &str, mail: &[u8]) -> Result<(), DeliveryError> {
        let mut folder = fs::DirBuilder::new();
        let created = folder.recursive(true).mode(0o700).create(&self.0);
        let written = created.and_then(|()| atomic_file::replace(&self.0.join(name), mail));
        written.map_err(|error| DeliveryError::new(FailureReason::NotWritten, &error.to_string()))
    }
}
