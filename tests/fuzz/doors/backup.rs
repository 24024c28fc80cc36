//! The reader of backups, for the fuzz targets.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::value::RawValue;
use sha2::{Digest, Sha256};

use super::{Backup, MANIFEST, SealedManifest, hex};

/// Opens a folder as a backup, and makes the settings of each stream as a restore does. `manifest` is not sealed yet.
/// Returns the paths that were read.
pub fn open_backup(folder: &Path, manifest: &str) -> Result<Vec<PathBuf>, String> {
    let text = |error: anyhow::Error| format!("{error:#}");
    let sealed = RawValue::from_string(manifest.to_owned()).map(|manifest| SealedManifest {
        sha256: hex(Sha256::new_with_prefix(manifest.get())),
        manifest,
    });
    let sealed = sealed.and_then(|sealed| serde_json::to_vec_pretty(&sealed));
    fs::write(
        folder.join(MANIFEST),
        sealed.as_deref().unwrap_or(manifest.as_bytes()),
    )
    .map_err(|error| text(error.into()))?;
    let backup = Backup::open(folder).map_err(text)?;
    let streams = &backup.manifest.streams;
    for stream in streams {
        drop(stream.head.restored_config(1, Some(1)));
    }
    Ok(streams
        .iter()
        .map(|stream| folder.join(stream.file.as_str()))
        .collect())
}
