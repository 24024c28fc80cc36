//! [`Folder`]: where `dev` puts its mails, instead of sending them.

use std::fs;
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use super::failure::{Failure, Reason};

/// A folder for the eyes of this user alone, with a file for each mail.
#[derive(Debug, Clone)]
pub struct Folder(PathBuf);

impl Folder {
    /// This folder. It is made when the first mail comes.
    #[must_use]
    pub fn new(path: PathBuf) -> Self {
        Self(path)
    }

    /// Where it lies.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.0
    }

    /// Writes a mail, whole or not at all.
    pub(super) fn put(&self, name: &str, mail: &[u8]) -> Result<(), Failure> {
        let written = self.write(name, mail);
        written.map_err(|error| Failure::new(Reason::NotWritten, &error.to_string()))
    }

    fn write(&self, name: &str, mail: &[u8]) -> io::Result<()> {
        fs::DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(&self.0)?;
        let unfinished = self.0.join(format!(".{name}"));
        let _ = fs::remove_file(&unfinished);
        let mut options = fs::OpenOptions::new();
        let mut file = options
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(&unfinished)?;
        file.write_all(mail)?;
        file.sync_all()?;
        fs::rename(unfinished, self.0.join(name))
    }
}
