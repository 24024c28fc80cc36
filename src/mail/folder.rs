//! [`Folder`]: the folder to which `dev` writes its mails.

use std::fs;
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::PathBuf;

use super::delivery_error::{DeliveryError, FailureReason};

/// A folder with a file for each mail, readable by this user alone.
#[derive(Debug, Clone)]
pub struct Folder(pub(super) PathBuf);

impl Folder {
    /// A folder, which is created with the first mail.
    pub fn new(path: PathBuf) -> Self {
        Self(path)
    }

    /// Writes a mail atomically.
    pub(super) fn write(&self, name: &str, mail: &[u8]) -> Result<(), DeliveryError> {
        self.write_and_rename(name, mail)
            .map_err(|error| DeliveryError::new(FailureReason::NotWritten, &error.to_string()))
    }

    fn write_and_rename(&self, name: &str, mail: &[u8]) -> io::Result<()> {
        let mut folder = fs::DirBuilder::new();
        folder.recursive(true).mode(0o700).create(&self.0)?;
        let unfinished = self.0.join(format!(".{name}"));
        let _ = fs::remove_file(&unfinished);
        let mut options = fs::OpenOptions::new();
        options.write(true).create_new(true).mode(0o600);
        let mut file = options.open(&unfinished)?;
        file.write_all(mail)?;
        file.sync_all()?;
        fs::rename(unfinished, self.0.join(name))
    }
}
