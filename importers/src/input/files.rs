//! Finds the files that the paths of an import name, and opens them.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::path::{Path, PathBuf};

use walkdir::{DirEntry, WalkDir};

use crate::item::{Item, Items, Location};

/// A season of one racing authority is under 10 MiB; JSON is held in memory while it is read.
const FILE_BYTES_MAX: u64 = 256 * 1024 * 1024;
/// Folders within folders.
const FOLDER_DEPTH_MAX: usize = 8;
/// The extensions of archives and packed files.
const PACKED: [&str; 8] = ["zip", "tar", "gz", "tgz", "bz2", "xz", "7z", "rar"];
const UTF8_BOM: &[u8] = b"\xEF\xBB\xBF";

/// Finds the files with one of some extensions, or all files where no extension is given: named files, and those in
/// named folders, by name. The items are about everything else that the paths name.
pub(crate) fn find(paths: &[PathBuf], extensions: &[&str]) -> (Vec<PathBuf>, Vec<Item>) {
    let mut files = Vec::new();
    let mut items = Vec::new();
    let is_wanted =
        |path: &Path| extensions.is_empty() || extensions.iter().any(|e| has_extension(path, e));
    let wanted = match extensions {
        [] => "file".to_owned(),
        _ => format!(".{} file", extensions.join(" and .")),
    };
    let unread = |path: &Path| {
        // What cannot be opened is rejected when it is.
        let is_special = std::fs::metadata(path).is_ok_and(|data| !data.is_file());
        Some(if is_special {
            "not read: neither a file nor a folder".to_owned()
        } else if is_wanted(path) {
            return None;
        } else if PACKED.iter().any(|e| has_extension(path, e)) {
            format!("not read: unpack it first, as this importer reads {wanted}s")
        } else {
            format!("not read: this importer reads {wanted}s")
        })
    };
    for path in paths {
        if path.is_dir() {
            let before = files.len();
            for file in files_in(path) {
                match file.map(|file| (unread(&file), file)) {
                    Ok((None, file)) => files.push(file),
                    // The file was not named itself, so it is not rejected.
                    Ok((Some(reason), file)) => items.push(Location::file(&file).note(reason)),
                    Err(item) => items.push(item),
                }
            }
            if files.len() == before {
                let reason = format!("there is no {wanted} in this folder");
                items.push(Location::file(path).rejected(reason));
            }
        } else if let Some(reason) = unread(path) {
            items.push(Location::file(path).rejected(reason));
        } else {
            files.push(path.clone());
        }
    }
    (files, items)
}

/// The items of an import: those of [`find`], and what `read` makes of the files when the first of its items is needed.
pub(crate) fn import<I>(
    paths: &[PathBuf],
    extensions: &[&str],
    read: impl FnOnce(Vec<PathBuf>) -> I + Send + 'static,
) -> Items
where
    I: Iterator<Item = Item> + Send + 'static,
{
    let (files, items) = find(paths, extensions);
    let read = std::iter::once_with(move || read(files));
    Box::new(items.into_iter().chain(read.flatten()))
}

pub(crate) fn has_extension(path: &Path, extension: &str) -> bool {
    (path.extension()).is_some_and(|e| e.eq_ignore_ascii_case(extension))
}

/// The files in a folder and its folders, by name, without hidden ones; a rejection for what cannot be read.
fn files_in(folder: &Path) -> impl Iterator<Item = Result<PathBuf, Item>> {
    let is_hidden = |entry: &DirEntry| {
        entry.depth() > 0 && entry.file_name().as_encoded_bytes().starts_with(b".")
    };
    let walk = WalkDir::new(folder).max_depth(FOLDER_DEPTH_MAX + 1);
    let walk = walk.follow_links(true).sort_by_file_name();
    let entries = walk.into_iter().filter_entry(move |e| !is_hidden(e));
    entries.filter_map(move |entry| match entry {
        Ok(entry) if !entry.file_type().is_dir() => Some(Ok(entry.into_path())),
        Ok(entry) if entry.depth() > FOLDER_DEPTH_MAX => {
            let reason = format!("folders are nested more than {FOLDER_DEPTH_MAX} deep");
            Some(Err(Location::file(entry.path()).rejected(reason)))
        }
        Ok(_) => None,
        Err(error) => {
            let location = Location::file(error.path().unwrap_or(folder));
            // The text of the walk's error repeats the path.
            let reason = error.io_error().map(ToString::to_string);
            Some(Err(
                location.rejected(reason.unwrap_or_else(|| error.to_string()))
            ))
        }
    })
}

/// Reads a file, without its byte order mark.
///
/// # Errors
/// Returns an I/O error, also if the file has more than [`FILE_BYTES_MAX`] bytes.
pub(crate) fn read(path: &Path) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    let mut file = open(path)?.take(FILE_BYTES_MAX + 1);
    file.read_to_end(&mut bytes)?;
    if bytes.len() as u64 > FILE_BYTES_MAX {
        let reason = format!("larger than {FILE_BYTES_MAX} bytes: split it");
        return Err(io::Error::new(io::ErrorKind::FileTooLarge, reason));
    }
    Ok(bytes)
}

/// Opens a file behind its byte order mark.
pub(crate) fn open(path: &Path) -> io::Result<Box<dyn BufRead + Send>> {
    let mut file = BufReader::with_capacity(64 * 1024, File::open(path)?);
    if file.fill_buf()?.starts_with(UTF8_BOM) {
        file.consume(UTF8_BOM.len());
    }
    Ok(Box::new(file))
}
