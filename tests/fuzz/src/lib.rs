//! Fuzz targets: each is a function that panics if any bytes break a property.
//!
//! `script/fuzz` runs them with libFuzzer, and `tests/corpora.rs` with the inputs in `corpus/`.

mod allocator;
mod event;
mod files;
mod requests;
mod stored;

use allocator::Counted;

#[global_allocator]
static ALLOCATOR: Counted = Counted;

/// A parser of input from outside, with its properties.
#[derive(Debug, Clone, Copy)]
pub struct Target {
    /// As the folder of its corpus.
    pub name: &'static str,
    check: fn(&[u8]),
    /// Bytes in memory at a time that do not depend on the input.
    memory_bytes: usize,
}

/// Each byte of input takes at most so many bytes in memory. A JSON list of numbers takes two bytes for each, in memory
/// 32, twice while the list grows, and may be there twice.
const MEMORY_FACTOR: usize = 256;
const MIB: usize = 1024 * 1024;

/// Every target.
pub const TARGETS: [Target; 12] = [
    target("event", event::event, MIB),
    target("request", requests::request, MIB),
    target("message", requests::message, MIB),
    target("hkjc_results_csv", files::hkjc_results_csv, 4 * MIB),
    target("hkjc_json", files::hkjc_json, 4 * MIB),
    target("hkjc_horses", files::hkjc_horses, 4 * MIB),
    target("hkjc_zh_results", files::hkjc_zh_results, 4 * MIB),
    target("hkjc_zh_horses", files::hkjc_zh_horses, 4 * MIB),
    target("rpscrape", files::rpscrape, 4 * MIB),
    // A block of bzip2, and a line that is unpacked.
    target("betfair", files::betfair, 128 * MIB),
    target("snapshot", stored::snapshot, 4 * MIB),
    target("backup", stored::backup, 4 * MIB),
];

const fn target(name: &'static str, check: fn(&[u8]), memory_bytes: usize) -> Target {
    Target {
        name,
        check,
        memory_bytes,
    }
}

impl Target {
    /// The target with a name.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        TARGETS.into_iter().find(|target| target.name == name)
    }

    /// Checks all properties of the target with an input.
    ///
    /// # Panics
    /// Panics if a property does not hold.
    pub fn run(&self, input: &[u8]) {
        let before = allocator::start();
        (self.check)(input);
        let peak = allocator::peak() - before;
        let max = self.memory_bytes + MEMORY_FACTOR * input.len();
        assert!(peak <= max, "{peak} bytes were in memory, {max} at most");
    }
}

/// The characters of the longest text about bad input.
const TEXT_CHARS_MAX: usize = 1000;

/// Checks a text that goes to a terminal, a log or a client.
fn check_text(text: &str) {
    let chars = text.chars().count();
    assert!(
        chars <= TEXT_CHARS_MAX,
        "{chars} characters: {}…",
        text.chars().take(200).collect::<String>()
    );
    assert!(
        !text.chars().any(char::is_control),
        "control characters: {text:?}"
    );
}
