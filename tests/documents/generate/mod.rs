//! Makes the documents that the service serves, and that are files of the repository, of its types and tables. Tests
//! compare them with the files; `UPDATE_GOLDEN=1` writes the files.
//!
//! The parts are mounted in `src` where the types are that they describe.

pub(crate) mod asyncapi;
#[path = "../../../events/tests/generators/schemas.rs"]
pub(crate) mod event_schemas;
mod health;
pub(crate) mod json_schema;

use std::env;
use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use serde_json::Value;

/// Who makes a page of `docs/`.
pub(crate) const MADE: &str = "<!-- A test makes this page. -->";

/// Compares a document with its file, or writes the file.
pub(crate) fn check(file: &str, document: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(file);
    if env::var_os("UPDATE_GOLDEN").is_some() {
        fs::write(&path, document).expect("a writable file");
        return;
    }
    let kept = fs::read_to_string(&path).unwrap_or_default();
    assert!(
        kept == document,
        "{file} differs from the code: UPDATE_GOLDEN=1 script/test --package railbird --lib documents"
    );
}

/// The same for a document that is served as JSON. The service serves what it reads from the file.
pub(crate) fn check_json(file: &str, document: &Value) {
    let text = format!("{document:#}\n");
    check(file, &text);
    let read: Value = serde_json::from_str(&text).expect("JSON");
    assert_eq!(read.to_string(), document.to_string(), "{file}");
}

/// Adds an item of a list, wrapped at 120 columns.
pub(crate) fn add_item(page: &mut String, text: &str) {
    const COLUMNS: usize = 120;
    let mut line = String::from("-");
    for word in text.split(' ') {
        if line.chars().count() + 1 + word.chars().count() > COLUMNS {
            page.push_str(&line);
            page.push('\n');
            line = String::from(" ");
        }
        let _ = write!(line, " {word}");
    }
    page.push_str(&line);
    page.push('\n');
}
