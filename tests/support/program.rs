//! The programs that run what is in `ops/`.

use std::path::PathBuf;

/// The path of a program of `script/program`. Prints a note and returns `None` where there is none: not every system
/// has a package of it.
pub(crate) fn program(name: &str) -> Option<PathBuf> {
    let variable = format!("RAILBIRD_{}", name.to_uppercase());
    let path = std::env::var_os(&variable).filter(|path| !path.is_empty());
    if path.is_none() {
        eprintln!("SKIPPED: {variable} does not name a {name}; script/program prints one");
    }
    path.map(PathBuf::from)
}
