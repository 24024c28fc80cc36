//! What railbird reads back: snapshots of the views, and backups.

use std::fs;
use std::path::Component;

use railbird::fuzzing::{decode_part, decode_rows, list_snapshot, open_backup, recode_rows};

use crate::check_text;
use crate::files::new_folder;

/// The message that names a snapshot, and its parts: the kind is the first byte.
pub(crate) fn snapshot(input: &[u8]) {
    match input.split_first() {
        Some((b'{', _)) => check_text(&list_snapshot(input).unwrap_or_else(|error| error)),
        Some((b'P', part)) => check_error(decode_part(part)),
        Some((b'R', rows)) => {
            let parts = rows.split_at(rows.len() / 2);
            check_error(decode_rows(&[rows]));
            let whole = decode_rows(&[rows]);
            let halves = decode_rows(&[parts.0, parts.1]);
            assert_eq!(whole.is_ok(), halves.is_ok());
        }
        _ => recode(&String::from_utf8_lossy(input)),
    }
}

fn check_error(decoded: Result<usize, String>) {
    if let Err(error) = decoded {
        check_text(&error);
    }
}

/// Each line is a key, and a value behind a space.
fn recode(text: &str) {
    let rows = text.lines().map(|line| match line.split_once(' ') {
        Some((key, value)) => (key, Some(value.as_bytes())),
        None => (line, None),
    });
    recode_rows(&rows.collect::<Vec<_>>());
}

/// The manifest of a backup. Behind a line with three dashes it is the content of the file of its stream.
pub(crate) fn backup(input: &[u8]) {
    let text = String::from_utf8_lossy(input);
    let (manifest, content) = text.split_once("\n---\n").unwrap_or((&text, ""));
    let folder = new_folder();
    fs::write(folder.path().join("RACING.snapshot"), content).expect("a file");
    match open_backup(folder.path(), manifest) {
        Ok(files) => {
            for file in files {
                let inside = file.strip_prefix(folder.path()).expect("in the folder");
                let parts = inside.components().collect::<Vec<_>>();
                assert!(
                    matches!(parts[..], [Component::Normal(_)]),
                    "{}",
                    file.display()
                );
            }
        }
        Err(error) => check_text(&error),
    }
}
