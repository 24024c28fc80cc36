//! [`ExportJournal`]: which files of an export are whole, so that one that ended early is resumed; and its manifest.

use std::fs::{self, File, OpenOptions};
use std::io::{Read, Seek, Write};
use std::path::{Path, PathBuf};

use anyhow::Context;
use serde::{Deserialize, Serialize};

use super::{ExportRequest, WrongUse};
use crate::atomic_file::{draft_of, put_in_place};

/// A line for the export, then one for each file that is in place.
const JOURNAL: &str = "journal.ndjson";
const MANIFEST: &str = "manifest.json";

/// An export and its files.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct ExportManifest {
    /// The sequence of the last event that the files reflect.
    pub(super) as_of: u64,
    #[serde(flatten)]
    pub(super) request: ExportRequest,
    pub(super) files: Vec<SavedFile>,
}

/// A file that is in place.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct SavedFile {
    path: String,
    bytes: u64,
    /// BLAKE3, hexadecimal.
    blake3: String,
}

pub(super) struct ExportJournal {
    folder: PathBuf,
    file: File,
    pub(super) manifest: ExportManifest,
}

impl ExportJournal {
    /// Opens the folder of an export, or creates it. An export that it has keeps its place in the log.
    ///
    /// # Errors
    /// Returns [`WrongUse`] if it has another export, or another process writes to it.
    pub(super) fn open(folder: &Path, mut manifest: ExportManifest) -> anyhow::Result<Self> {
        let unusable = || format!("cannot use {} in {}", JOURNAL, folder.display());
        let refuse = |why| WrongUse(format!("{} {why}: use another folder", folder.display()));
        fs::create_dir_all(folder).with_context(unusable)?;
        let mut file = OpenOptions::new();
        let file = file.read(true).append(true).create(true);
        let mut file = file.open(folder.join(JOURNAL)).with_context(unusable)?;
        file.try_lock().map_err(|_| refuse("is in use"))?;
        let mut text = String::new();
        file.read_to_string(&mut text).with_context(unusable)?;
        // A machine that stopped may have left a part of a line.
        let whole = text.rfind('\n').map_or(0, |end| end + 1);
        file.set_len(whole as u64).with_context(unusable)?;
        let mut lines = text[..whole].lines();
        if let Some(first) = lines.next() {
            let first: ExportManifest = serde_json::from_str(first).with_context(unusable)?;
            if first.request != manifest.request {
                return Err(refuse("has an export with other arguments").into());
            }
            manifest.as_of = first.as_of;
        }
        for line in lines {
            let file = serde_json::from_str(line).with_context(unusable)?;
            manifest.files.push(file);
        }
        Ok(Self {
            folder: folder.to_owned(),
            file,
            manifest,
        })
    }

    pub(super) fn has(&self, path: &str) -> bool {
        self.manifest.files.iter().any(|file| file.path == path)
    }

    /// Creates the draft of the file at a path in the folder.
    pub(super) fn create(&self, path: &str) -> anyhow::Result<File> {
        let path = self.folder.join(path);
        fs::create_dir_all(path.parent().unwrap_or(&path))?;
        let draft = draft_of(&path);
        let mut options = OpenOptions::new();
        let options = options.read(true).write(true).create(true);
        let file = options.open(&draft);
        file.with_context(|| format!("cannot write {}", draft.display()))
    }

    /// Puts a draft in place, and adds it.
    pub(super) fn add(&mut self, mut file: File, path: &str) -> anyhow::Result<()> {
        file.rewind()?;
        let mut digest = blake3::Hasher::new();
        digest.update_reader(&file)?;
        put_in_place(&file, &self.folder.join(path))?;
        let saved = SavedFile {
            path: path.to_owned(),
            bytes: digest.count(),
            blake3: digest.finalize().to_hex().to_string(),
        };
        if self.file.metadata()?.len() == 0 {
            self.append(&serde_json::to_string(&self.manifest)?)?;
        }
        self.append(&serde_json::to_string(&saved)?)?;
        self.manifest.files.push(saved);
        Ok(())
    }

    fn append(&mut self, line: &str) -> anyhow::Result<()> {
        writeln!(self.file, "{line}")
            .and_then(|()| self.file.sync_data())
            .with_context(|| format!("cannot write {JOURNAL}"))
    }

    pub(super) fn write_manifest(&self) -> anyhow::Result<()> {
        let path = self.folder.join(MANIFEST);
        let mut file = File::create(draft_of(&path))?;
        serde_json::to_writer_pretty(&mut file, &self.manifest)?;
        Ok(put_in_place(&file, &path)?)
    }
}
