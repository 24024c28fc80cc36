//! [`replace`]: files that are either the old or the new ones, whenever the machine stops.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use serde::Serialize;

/// Writes JSON in place of a file. See [`replace`].
pub(crate) fn replace_json(path: &Path, value: &impl Serialize) -> io::Result<()> {
    replace(path, &serde_json::to_vec_pretty(value)?)
}

/// Writes a file, which this user alone can read, in place of the one of that name.
///
/// # Errors
/// Returns an error if the file cannot be written. The old one is then in force.
pub(crate) fn replace(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let draft = path.with_file_name(format!(".{name}.new"));
    let mut options = OpenOptions::new();
    options.write(true).create(true).truncate(true).mode(0o600);
    let mut file = options.open(&draft)?;
    file.write_all(bytes)?;
    file.sync_all()?;
    fs::rename(&draft, path)?;
    // The new file is in force. Until its name is on disk, a crash brings the old one back.
    let folder = path.parent().unwrap_or(path);
    if let Err(error) = File::open(folder).and_then(|folder| folder.sync_all()) {
        tracing::warn!(path = %folder.display(), %error, "cannot sync a folder");
    }
    Ok(())
}
