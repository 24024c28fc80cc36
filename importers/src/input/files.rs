//! Which files the paths of a call mean, and their bytes.

use std::fs::{self, File};
use std::io::{self, BufRead, BufReader, Read};
use std::path::{Path, PathBuf};

use crate::{Item, Location};

/// A season of one racing authority is under 10 MiB; JSON is held in memory while it is read.
const FILE_BYTES_MAX: u64 = 256 * 1024 * 1024;
/// Folders within folders; a bound, so that a link to a parent ends.
const FOLDER_DEPTH_MAX: u32 = 8;
const UTF8_BOM: &[u8] = b"\xEF\xBB\xBF";

/// A format of file, told by its extension.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Csv,
    Json,
    Other,
}

impl Kind {
    /// Whatever a file is called.
    pub(crate) const ANY: &[Self] = &[Self::Csv, Self::Json, Self::Other];

    fn of(path: &Path) -> Self {
        let extension = path.extension().and_then(|extension| extension.to_str());
        match extension.map(str::to_ascii_lowercase).as_deref() {
            Some("csv") => Self::Csv,
            Some("json") => Self::Json,
            _ => Self::Other,
        }
    }
}

/// The files that were found, and what is to be said about the rest.
#[derive(Debug, Default)]
pub(crate) struct Found {
    pub(crate) files: Vec<(PathBuf, Kind)>,
    pub(crate) said: Vec<Item>,
}

impl Found {
    pub(crate) fn of(&self, kind: Kind) -> Vec<PathBuf> {
        let files = self.files.iter().filter(|(_, k)| *k == kind);
        files.map(|(path, _)| path.clone()).collect()
    }
}

/// Finds the files of the kinds that an importer reads: named ones, and those in named folders, by name.
pub(crate) fn find(paths: &[PathBuf], kinds: &[Kind]) -> Found {
    let mut found = Found::default();
    for path in paths {
        if path.is_dir() {
            let before = found.files.len();
            walk(path, kinds, FOLDER_DEPTH_MAX, &mut found);
            if found.files.len() == before {
                let reason = format!("there is no {}file in this folder", extensions(kinds));
                found.said.push(Location::whole(path).refused(reason));
            }
        } else {
            let kind = Kind::of(path);
            match kinds.contains(&kind) {
                true => found.files.push((path.clone(), kind)),
                false => found
                    .said
                    .push(Location::whole(path).refused(unread(kinds))),
            }
        }
    }
    found
}

fn walk(folder: &Path, kinds: &[Kind], depth: u32, found: &mut Found) {
    let entries = fs::read_dir(folder).and_then(|entries| {
        entries
            .map(|e| Ok(e?.path()))
            .collect::<io::Result<Vec<_>>>()
    });
    let mut entries = match entries {
        Ok(entries) => entries,
        Err(error) => return found.said.push(Location::whole(folder).refused(error)),
    };
    entries.sort();
    for path in entries {
        let hidden = path
            .file_name()
            .is_some_and(|name| name.as_encoded_bytes().starts_with(b"."));
        if hidden {
            continue;
        }
        if path.is_dir() {
            match depth.checked_sub(1) {
                Some(depth) => walk(&path, kinds, depth, found),
                None => found
                    .said
                    .push(Location::whole(&path).refused("folders are nested too deep")),
            }
            continue;
        }
        let kind = Kind::of(&path);
        match kinds.contains(&kind) {
            true => found.files.push((path, kind)),
            // Nobody asked for this very file, so it is no refusal.
            false => found.said.push(Location::whole(&path).note(unread(kinds))),
        }
    }
}

fn unread(kinds: &[Kind]) -> String {
    format!("not read: this importer reads {}files", extensions(kinds))
}

/// The extensions with a blank behind them; nothing, where any will do.
fn extensions(kinds: &[Kind]) -> String {
    if kinds == Kind::ANY {
        return String::new();
    }
    let names: Vec<&str> = kinds
        .iter()
        .map(|k| if *k == Kind::Csv { ".csv" } else { ".json" })
        .collect();
    format!("{} ", names.join(" and "))
}

/// Reads a file, without its byte order mark.
pub(crate) fn read(path: &Path) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    File::open(path)?
        .take(FILE_BYTES_MAX + 1)
        .read_to_end(&mut bytes)?;
    if bytes.len() as u64 > FILE_BYTES_MAX {
        let reason = format!("larger than {FILE_BYTES_MAX} bytes: split it");
        return Err(io::Error::new(io::ErrorKind::FileTooLarge, reason));
    }
    if bytes.starts_with(UTF8_BOM) {
        bytes.drain(..UTF8_BOM.len());
    }
    Ok(bytes)
}

/// Opens a file to be read line by line, behind its byte order mark.
pub(crate) fn open(path: &Path) -> io::Result<Box<dyn BufRead + Send>> {
    let mut file = BufReader::with_capacity(64 * 1024, File::open(path)?);
    if file.fill_buf()?.starts_with(UTF8_BOM) {
        file.consume(UTF8_BOM.len());
    }
    Ok(Box::new(file))
}
