//! Code samples: their languages, and the values that the page fills in.

/// The languages of samples, as in a fenced block and on the page.
const LANGUAGES: [(&str, &str); 4] = [
    ("sh", "curl"),
    ("python", "Python"),
    ("javascript", "JavaScript"),
    ("rust", "Rust"),
];

/// The name on the page of the language of a fenced block. Other blocks are not samples.
pub(super) fn language(fence: &str) -> Option<&'static str> {
    Some(LANGUAGES.iter().find(|(name, _)| *name == fence)?.1)
}

/// What stands in code for the key and the address of the reader. The page fills in what it knows.
pub(super) const KEY: &str = "rb_...";
pub(super) const HTTP: &str = "http://127.0.0.1:8080";
const WS: &str = "ws://127.0.0.1:8080";

/// Characters for private use, which mark a value in code.
const START: char = '\u{E000}';
const NAME_END: char = '\u{E001}';
const END: char = '\u{E002}';

/// An example that the page replaces by a value that the service has.
pub(super) fn fill(name: &str, example: &str) -> String {
    format!("{START}{name}{NAME_END}{example}{END}")
}

/// Code as HTML.
pub(super) fn code_html(code: &str) -> String {
    let mut marked = code.to_owned();
    for (name, example) in [("key", KEY), ("http", HTTP), ("ws", WS)] {
        marked = marked.replace(example, &fill(name, example));
    }
    marked
        .replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
        .replace(START, "<span data-fill=\"")
        .replace(NAME_END, "\">")
        .replace(END, "</span>")
}
