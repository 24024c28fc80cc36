//! The files in `ops/`, with the programs that read them. Tests print a note and pass where a program is missing.

mod cluster;
mod containers;
mod fresh;
mod kubernetes;
mod load;
mod monitoring;
mod packages;
mod passing;
pub(crate) mod production;
pub(crate) mod proxy;
mod rolling;
mod scripts;
mod systemd;
mod upgrade;

use std::path::Path;

/// The text of a file of `ops/`, with other texts in place of some, each of which it must have.
pub(crate) fn shipped(name: &str, replacements: &[(&str, String)]) -> String {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("ops").join(name);
    let mut text = std::fs::read_to_string(file).unwrap();
    for (from, to) in replacements {
        assert!(text.contains(from), "{name} has no {from}");
        text = text.replace(from, to);
    }
    text
}
