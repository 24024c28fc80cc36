//! Golden files: an event of each type on the wire, and its schema. `UPDATE_GOLDEN=1` writes them again.

use std::path::{Path, PathBuf};

use serde_json::Value;

/// The text of the golden event of a type.
pub(crate) fn golden(type_name: &str) -> String {
    let path = golden_path(type_name);
    std::fs::read_to_string(&path)
        .unwrap_or_else(|e| panic!("{type_name} needs a golden file: {}: {e}", path.display()))
}

pub(crate) fn golden_path(type_name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/golden/{type_name}.json"))
}

/// A golden event with one change.
pub(crate) fn changed(type_name: &str, change: impl FnOnce(&mut Value)) -> Value {
    let mut event = serde_json::from_str(&golden(type_name)).expect("a golden file is JSON");
    change(&mut event);
    event
}

/// Compares the output of the code with a file.
pub(crate) fn check_file(path: &Path, output: &str) {
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        std::fs::create_dir_all(path.parent().expect("a file lies in a folder")).expect("a folder");
        std::fs::write(path, output).expect("a writable file");
        return;
    }
    let kept = std::fs::read_to_string(path)
        .unwrap_or_else(|e| panic!("{}: {e}; UPDATE_GOLDEN=1 writes it", path.display()));
    assert!(
        kept == output,
        "{} differs from the output of the code; UPDATE_GOLDEN=1 writes it again:\n{output}",
        path.display()
    );
}
