//! [`JsonArray`]: the objects of a JSON array, or a single one, each with its line, as far as the file is intact.

use std::path::PathBuf;

use serde_json::{Map, Value};

use crate::input::files;
use crate::item::{Location, Result};

/// An object of an array, and where it begins.
pub(crate) type JsonElement = (Location, Result<Map<String, Value>>);

/// The objects of the arrays in some files; one error for a file that cannot be read.
pub(crate) fn elements(files: Vec<PathBuf>) -> impl Iterator<Item = JsonElement> + Send {
    files.into_iter().flat_map(|path| {
        let file = Location::file(&path);
        let elements: Box<dyn Iterator<Item = Element> + Send> = match files::read(&path) {
            Ok(bytes) => Box::new(JsonArray::new(bytes)),
            Err(error) => Box::new(std::iter::once((0, Err(error.to_string().into())))),
        };
        elements.map(move |(line, element)| (file.at(line), element))
    })
}

/// Splits a file into the elements of its outermost array before anything is parsed, so that a broken element does not
/// affect the others, and a truncated file loses only its end.
struct JsonArray {
    bytes: Vec<u8>,
    at: usize,
    line: u64,
    state: ArrayState,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ArrayState {
    Before,
    Inside,
    Behind,
    Done,
}

/// The line on which an element begins, or on which the file breaks, and the element.
type Element = (u64, Result<Map<String, Value>>);

impl JsonArray {
    fn new(mut bytes: Vec<u8>) -> Self {
        bytes.truncate(bytes.trim_ascii_end().len());
        Self {
            bytes,
            at: 0,
            line: 1,
            state: ArrayState::Before,
        }
    }

    fn skip(&mut self, blank: impl Fn(u8) -> bool) -> Option<u8> {
        while let Some(&byte) = self.bytes.get(self.at) {
            if !blank(byte) {
                return Some(byte);
            }
            self.line += u64::from(byte == b'\n');
            self.at += 1;
        }
        None
    }

    fn end(&mut self, reason: &str) -> Option<Element> {
        self.state = ArrayState::Done;
        Some((self.line, Err(reason.into())))
    }

    fn element(&mut self) -> Option<Element> {
        let start = self.at;
        let line = self.line;
        if !self.skip_element() {
            return self.end(&format!(
                "the file ends inside the element that begins on line {line}"
            ));
        }
        Some((line, parse(&self.bytes[start..self.at], line)))
    }

    /// Moves behind the element that begins here. Returns false if the file ends first.
    fn skip_element(&mut self) -> bool {
        let mut depth = 0_usize;
        let mut in_string = false;
        let mut escaped = false;
        while let Some(&byte) = self.bytes.get(self.at) {
            if !in_string && depth == 0 && matches!(byte, b',' | b']') {
                return true;
            }
            self.line += u64::from(byte == b'\n');
            self.at += 1;
            match byte {
                // JSON strings have no line breaks. A string that was left open ends with its line, so that the
                // following elements are not lost.
                b'\n' => (in_string, escaped) = (false, false),
                _ if escaped => escaped = false,
                b'\\' => escaped = in_string,
                b'"' => in_string = !in_string,
                b'{' | b'[' if !in_string => depth += 1,
                b'}' | b']' if !in_string => {
                    depth = depth.saturating_sub(1);
                    if depth == 0 {
                        return true;
                    }
                }
                _ => {}
            }
        }
        depth == 0 && !in_string
    }
}

impl Iterator for JsonArray {
    type Item = Element;

    fn next(&mut self) -> Option<Element> {
        let is_inside = self.state == ArrayState::Inside;
        let next = self.skip(|b| b.is_ascii_whitespace() || (b == b',' && is_inside));
        match (self.state, next) {
            (ArrayState::Before, Some(b'[')) => {
                self.at += 1;
                self.state = ArrayState::Inside;
                self.next()
            }
            (ArrayState::Before, Some(b'{')) => {
                self.state = ArrayState::Behind;
                self.element()
            }
            (ArrayState::Before, _) => self.end("neither a JSON array of races nor a race"),
            (ArrayState::Inside, Some(b']')) => {
                self.at += 1;
                self.state = ArrayState::Behind;
                self.next()
            }
            (ArrayState::Inside, Some(_)) => self.element(),
            (ArrayState::Inside, None) => self.end("the file ends before its array does"),
            (ArrayState::Behind, Some(_)) => self.end("unexpected data after the end"),
            (ArrayState::Behind, None) | (ArrayState::Done, _) => None,
        }
    }
}

fn parse(bytes: &[u8], line: u64) -> Result<Map<String, Value>> {
    serde_json::from_slice(bytes).map_err(|error| {
        let line = line + (error.line() as u64).saturating_sub(1);
        let message = error.to_string();
        let end = message.rfind(" at line ").unwrap_or(message.len());
        format!("line {line}: {}", &message[..end]).into()
    })
}

#[cfg(test)]
mod tests {
    use super::JsonArray;

    /// Checks the lines of complete elements, and the lines and reasons of rejections.
    fn check(text: &[u8], whole: &[u64], broken: &[(u64, &str)]) {
        let mut found = (Vec::new(), Vec::new());
        for (line, element) in JsonArray::new(text.to_vec()) {
            match element {
                Ok(_) => found.0.push(line),
                Err(error) => found.1.push((line, error.to_string())),
            }
        }
        let text = String::from_utf8_lossy(text);
        assert_eq!(found.0, whole, "{text}");
        assert_eq!(found.1.len(), broken.len(), "{text}: {:?}", found.1);
        for ((line, reason), (expected_line, part)) in found.1.iter().zip(broken) {
            assert_eq!(line, expected_line, "{text}: {reason}");
            assert!(reason.contains(part), "{text}: {reason}");
        }
    }

    #[test]
    fn a_complete_file_gives_all_elements() {
        check(b"[]", &[], &[]);
        check(
            b" [ {\"a\":\"]}\\\"[\"},\n {\"b\":[1,{}]}\n]\n",
            &[1, 2],
            &[],
        );
    }

    #[test]
    fn a_truncated_file_gives_its_complete_elements() {
        check(
            b"[\n{\"a\":1},\n{\"b\":\n2",
            &[2],
            &[(4, "inside the element that begins on line 3")],
        );
        check(
            b"[\n{\"a\":1},\n{\"b\":2}\n\n",
            &[2, 3],
            &[(3, "before its array does")],
        );
        check(
            b"[\n{\"a\":1},\n{\"b\":\"x",
            &[2],
            &[(3, "inside the element that begins on line 3")],
        );
        check(b"", &[], &[(1, "neither a JSON array")]);
        check(b"[", &[], &[(1, "before its array does")]);
    }

    #[test]
    fn a_broken_element_does_not_affect_the_others() {
        check(
            b"[{\"a\":1},\n{\"a\":,\n},\n7,null,\n{\"b\":1}]",
            &[1, 5],
            &[
                (2, "line 2: expected value"),
                (4, "expected a map"),
                (4, "expected a map"),
            ],
        );
        check(
            b"[{\"a\":\"x\n},\n{\"b\":1}]",
            &[3],
            &[(1, "control character")],
        );
        check(b"[{\"a\":\"\xff\"},\n{\"b\":1}]", &[2], &[(1, "unicode")]);
        check(
            b"[{\"a\":1}]\n[{\"b\":1}]",
            &[1],
            &[(2, "data after the end")],
        );
        check(b"{\"a\":1}\n", &[1], &[]);
        check(b"{\"a\":1}\n7", &[1], &[(2, "data after the end")]);
        check(b"7", &[], &[(1, "neither a JSON array")]);
    }

    #[test]
    fn deep_nesting_is_rejected() {
        let deep = [b"[".repeat(100_000), b"]".repeat(100_000)].concat();
        let found: Vec<_> = JsonArray::new(deep).collect();
        assert!(matches!(&found[..], [(1, Err(_))]));
    }
}
