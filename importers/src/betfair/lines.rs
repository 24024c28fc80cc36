//! [`Lines`]: the lines of a file one by one, however it is packed and however long it is.

use std::io;
use std::path::Path;

use super::unpack::{Damage, Unpacked};

/// A message with the full images of some hundred markets is a few MB.
pub(super) const LINE_BYTES_MAX: usize = 16 * 1024 * 1024;

#[derive(Debug)]
pub(super) struct Lines {
    unpacked: Unpacked,
    /// What was unpacked, from [`Self::at`] on not yet handed out.
    text: Vec<u8>,
    at: usize,
    number: u64,
    state: State,
}

#[derive(Debug)]
enum State {
    Reading,
    /// Nothing follows behind the text that is there, or only a reason why.
    Ending(Option<Damage>),
    Ended,
}

/// A line, or why there is none.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Line<'a> {
    Whole(&'a [u8]),
    /// The file ends here, without the end of a line: it may have been cut off, at this byte.
    Unended(&'a [u8], u64),
    /// It has been passed over.
    TooLong,
    /// The file cannot be read on.
    Damaged(Damage),
}

impl Lines {
    pub(super) fn open(path: &Path) -> io::Result<Self> {
        Ok(Self {
            unpacked: Unpacked::open(path)?,
            text: Vec::new(),
            at: 0,
            number: 0,
            state: State::Reading,
        })
    }

    /// The next line that is not blank, and its number from 1.
    pub(super) fn next(&mut self) -> Option<(u64, Line<'_>)> {
        let Found { start, end, kind } = loop {
            self.number += 1;
            let found = self.find()?;
            let blank = self.text[found.start..found.end].trim_ascii().is_empty();
            if !blank || matches!(found.kind, Kind::TooLong | Kind::Damaged(_)) {
                break found;
            }
        };
        let text = &self.text[start..end];
        let line = match kind {
            Kind::Whole => Line::Whole(text),
            Kind::Unended => Line::Unended(text, self.unpacked.offset()),
            Kind::TooLong => Line::TooLong,
            Kind::Damaged(damage) => Line::Damaged(damage),
        };
        Some((self.number, line))
    }

    fn find(&mut self) -> Option<Found> {
        let (mut seen, mut too_long) = (self.at, false);
        loop {
            if let Some(length) = self.text[seen..].iter().position(|byte| *byte == b'\n') {
                let (start, end) = (self.at, seen + length);
                self.at = end + 1;
                let kind = match too_long || end - start > LINE_BYTES_MAX {
                    true => Kind::TooLong,
                    false => Kind::Whole,
                };
                return Some(Found { start, end, kind });
            }
            if self.text.len() - self.at > LINE_BYTES_MAX {
                too_long = true;
                self.at = self.text.len();
            }
            match std::mem::replace(&mut self.state, State::Reading) {
                State::Reading => seen = self.read(),
                State::Ending(damage) => {
                    self.state = State::Ended;
                    let (start, end) = (self.at, self.text.len());
                    let kind = match damage {
                        Some(damage) => Kind::Damaged(damage),
                        None if too_long => Kind::TooLong,
                        None => Kind::Unended,
                    };
                    return Some(Found { start, end, kind });
                }
                State::Ended => {
                    self.state = State::Ended;
                    return None;
                }
            }
        }
    }

    /// Unpacks more behind the line that has begun, and says where that is.
    fn read(&mut self) -> usize {
        self.text.drain(..self.at);
        self.at = 0;
        let seen = self.text.len();
        match self.unpacked.read(&mut self.text) {
            Ok(0) => self.state = State::Ending(None),
            Ok(_) => {}
            Err(damage) => self.state = State::Ending(Some(damage)),
        }
        seen
    }
}

struct Found {
    start: usize,
    end: usize,
    kind: Kind,
}

enum Kind {
    Whole,
    Unended,
    TooLong,
    Damaged(Damage),
}

#[cfg(test)]
mod tests {
    use tempfile::TempDir;

    use super::{LINE_BYTES_MAX, Line, Lines};

    /// Numbers of the lines with what is there, in short.
    fn read(text: &[u8]) -> Vec<(u64, String)> {
        let folder = TempDir::new().expect("a folder");
        let path = folder.path().join("file");
        std::fs::write(&path, text).expect("a file");
        let mut lines = Lines::open(&path).expect("a file");
        let mut found = Vec::new();
        while let Some((number, line)) = lines.next() {
            let text = |text: &[u8]| String::from_utf8_lossy(text).into_owned();
            let said = match line {
                Line::Whole(line) => text(line),
                Line::Unended(line, end) => format!("{} until {end}", text(line)),
                Line::TooLong => "too long".to_owned(),
                Line::Damaged(damage) => damage.to_string(),
            };
            found.push((number, said));
        }
        found
    }

    fn check(text: &[u8], expected: &[(u64, &str)]) {
        let found = read(text);
        let found: Vec<_> = found.iter().map(|(n, said)| (*n, said.as_str())).collect();
        assert_eq!(found, expected);
    }

    #[test]
    fn lines_are_numbered_and_blank_ones_passed_over() {
        check(b"", &[]);
        check(b"\n \r\n", &[]);
        check(b"a\n\nb\r\n", &[(1, "a"), (3, "b\r")]);
        check(b"a\nb", &[(1, "a"), (2, "b until 3")]);
    }

    #[test]
    fn a_line_that_is_too_long_is_passed_over() {
        let long = "x".repeat(LINE_BYTES_MAX);
        let longer = format!("{long}x");
        let found = read(format!("a\n{long}\n{longer}\nb\n{longer}{longer}").as_bytes());
        let short: Vec<_> = found.iter().map(|(n, s)| (*n, s.len(), &s[..1])).collect();
        assert_eq!(
            short,
            [
                (1, 1, "a"),
                (2, LINE_BYTES_MAX, "x"),
                (3, 8, "t"),
                (4, 1, "b"),
                (5, 8, "t")
            ]
        );
    }

    #[test]
    fn what_is_whole_before_the_damage_comes_first() {
        let packed = [b"BZh9".as_slice(), b"nonsense"].concat();
        let found = read(&packed);
        assert_eq!(found.len(), 1);
        assert!(
            found[0]
                .1
                .starts_with("the file is damaged between byte 0 and byte "),
            "{found:?}"
        );
    }
}
