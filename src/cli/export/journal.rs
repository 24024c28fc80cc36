//! [`ExportJournal`]: which files of an export are whole, so that one that ended early is resumed; and its manifest.

use std::collections::{BTreeMap, HashSet};
use std::fs::{self, File, OpenOptions};
use std::io::{Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use anyhow::Context;
use events::RacingDate;
use projections::meetings::MeetingFacts;
use serde::{Deserialize, Serialize};

use super::columns::Columns;
use super::row_file::FileFormat;
use super::{ExportKind, WrongUse};
use crate::atomic_file::{draft_of, put_in_place};

const MANIFEST: &str = "manifest.json";
/// A line for the export, then one for each file that is in place.
const JOURNAL: &str = "manifest.partial";

/// What is exported: the arguments of the command.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct ExportRequest {
    /// Scheme, host and port of the service.
    pub(super) url: String,
    pub(super) kinds: Vec<ExportKind>,
    pub(super) format: FileFormat,
    pub(super) from: Option<RacingDate>,
    pub(super) to: Option<RacingDate>,
    pub(super) venues: Vec<String>,
    /// `--as-of`, if it was given.
    pub(super) as_of_given: Option<String>,
}

impl ExportRequest {
    /// Whether a meeting is at one of the venues.
    pub(super) fn has(&self, meeting: &MeetingFacts) -> bool {
        let names = [meeting.venue_code.as_str(), &meeting.venue];
        let is_at = |venue: &String| names.iter().any(|name| name.eq_ignore_ascii_case(venue));
        self.venues.is_empty() || self.venues.iter().any(is_at)
    }
}

/// An export, without its files.
#[derive(Debug, Serialize, Deserialize)]
struct ExportHead {
    /// The sequence of the last event that the files reflect.
    as_of: u64,
    #[serde(flatten)]
    request: ExportRequest,
    columns: BTreeMap<ExportKind, Columns>,
}

/// A file that is in place.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct ExportedFile {
    pub(super) path: String,
    pub(super) rows: u64,
    pub(super) bytes: u64,
    /// BLAKE3, hexadecimal.
    pub(super) blake3: String,
    /// The horses of a file of form. Only the journal has them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) horses: Vec<String>,
}

#[derive(Debug, Serialize, Deserialize)]
struct ExportManifest {
    #[serde(flatten)]
    head: ExportHead,
    files: Vec<ExportedFile>,
}

#[derive(Debug)]
pub(super) struct ExportJournal {
    folder: PathBuf,
    file: File,
    head: ExportHead,
    /// By path.
    files: BTreeMap<String, ExportedFile>,
}

/// A journal without lines, which is locked.
#[derive(Debug)]
pub(super) struct NewJournal {
    folder: PathBuf,
    file: File,
}

/// What a folder has of an export.
pub(super) enum Opened {
    /// So many files, which are all.
    Finished(usize),
    /// Some, with the form of these horses.
    Resumed(ExportJournal, HashSet<String>),
    New(NewJournal),
}

impl ExportJournal {
    /// Opens the folder of an export, or creates it.
    ///
    /// # Errors
    /// Returns [`WrongUse`] if it has another export, or one that another process is writing.
    pub(super) fn open(folder: &Path, request: &ExportRequest) -> anyhow::Result<Opened> {
        let unusable = || format!("cannot use the folder {}", folder.display());
        fs::create_dir_all(folder).with_context(unusable)?;
        let refuse = |why: &str| WrongUse(format!("{} {why}", folder.display()));
        let other = || refuse("has an export with other arguments: use another folder");
        if let Ok(manifest) = fs::read(folder.join(MANIFEST)) {
            let manifest: ExportManifest = serde_json::from_slice(&manifest)
                .map_err(|_| refuse("has a manifest.json of something else: use another folder"))?;
            if manifest.head.request != *request {
                return Err(other().into());
            }
            return Ok(Opened::Finished(manifest.files.len()));
        }
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).truncate(false);
        let mut file = options.open(folder.join(JOURNAL)).with_context(unusable)?;
        file.try_lock()
            .map_err(|_| refuse("is in use by another export"))?;
        let mut text = String::new();
        file.read_to_string(&mut text).with_context(unusable)?;
        // A machine that stopped may have left a part of a line.
        let whole = text.rfind('\n').map_or(0, |end| end + 1);
        file.set_len(whole as u64)?;
        file.seek(SeekFrom::End(0))?;
        let folder = folder.to_owned();
        let mut lines = text[..whole].lines();
        let Some(head) = lines.next() else {
            return Ok(Opened::New(NewJournal { folder, file }));
        };
        let head: ExportHead = serde_json::from_str(head).with_context(unusable)?;
        if head.request != *request {
            return Err(other().into());
        }
        let mut journal = Self {
            folder,
            file,
            head,
            files: BTreeMap::new(),
        };
        let mut horses = HashSet::new();
        for line in lines {
            let file = serde_json::from_str(line).with_context(unusable)?;
            horses.extend(journal.insert(file));
        }
        Ok(Opened::Resumed(journal, horses))
    }

    pub(super) fn request(&self) -> &ExportRequest {
        &self.head.request
    }

    pub(super) fn format(&self) -> FileFormat {
        self.head.request.format
    }

    /// The sequence of the event that the export is as of.
    pub(super) fn seq(&self) -> u64 {
        self.head.as_of
    }

    pub(super) fn columns(&self, kind: ExportKind) -> &Columns {
        &self.head.columns[&kind]
    }

    /// Where a file of the export is. Creates its folder.
    pub(super) fn path_of(&self, path: &str) -> std::io::Result<PathBuf> {
        let path = self.folder.join(path);
        fs::create_dir_all(path.parent().unwrap_or(&path))?;
        Ok(path)
    }

    pub(super) fn has(&self, path: &str) -> bool {
        self.files.contains_key(path)
    }

    /// Adds a file that is in place.
    pub(super) fn add(&mut self, file: ExportedFile) -> anyhow::Result<()> {
        append(&mut self.file, &file)?;
        self.insert(file);
        Ok(())
    }

    /// Keeps a file without its horses, and returns them.
    fn insert(&mut self, mut file: ExportedFile) -> Vec<String> {
        let horses = std::mem::take(&mut file.horses);
        self.files.insert(file.path.clone(), file);
        horses
    }

    /// Writes the manifest in place of the journal. Returns the numbers of files and rows, and the sequence.
    pub(super) fn finish(self) -> anyhow::Result<(usize, u64, u64)> {
        let path = self.folder.join(MANIFEST);
        let manifest = ExportManifest {
            head: self.head,
            files: self.files.into_values().collect(),
        };
        let mut file = File::create(draft_of(&path))?;
        serde_json::to_writer_pretty(&mut file, &manifest)?;
        put_in_place(&file, &path)?;
        fs::remove_file(self.folder.join(JOURNAL))?;
        let rows = manifest.files.iter().map(|file| file.rows).sum();
        Ok((manifest.files.len(), rows, manifest.head.as_of))
    }
}

impl NewJournal {
    pub(super) fn begin(
        mut self,
        request: ExportRequest,
        as_of: u64,
        columns: BTreeMap<ExportKind, Columns>,
    ) -> anyhow::Result<ExportJournal> {
        let head = ExportHead {
            as_of,
            request,
            columns,
        };
        append(&mut self.file, &head)?;
        Ok(ExportJournal {
            folder: self.folder,
            file: self.file,
            head,
            files: BTreeMap::new(),
        })
    }
}

fn append(file: &mut File, line: &impl Serialize) -> anyhow::Result<()> {
    let mut line = serde_json::to_vec(line)?;
    line.push(b'\n');
    file.write_all(&line)?;
    file.sync_data()
        .context("cannot write the journal of the export")
}
