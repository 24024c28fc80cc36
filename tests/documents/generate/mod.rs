//! Makes the documents that the service serves and that are files of the repository: of the types of messages and
//! responses, of the command line and of the metrics. Tests compare them with the files; `UPDATE_GOLDEN=1` writes the
//! files.
//!
//! The parts are mounted in the crate where the types are that they describe.

pub(crate) mod asyncapi;
pub(crate) mod json_schema;

use std::env;
use std::fs;
use std::path::Path;

use serde_json::Value;

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
