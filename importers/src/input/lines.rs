//! [`Lines`]: the lines of a file one after the other, however large it is.

use std::collections::VecDeque;
use std::io::{self, BufRead};

/// A line without its end.
#[derive(Debug, Default)]
pub(crate) struct TextLine {
    /// From 1.
    pub(crate) number: u64,
    pub(crate) text: Vec<u8>,
    /// Why the text is not that of the line.
    pub(crate) fault: Option<LineFault>,
    /// The file ends here, without the end of a line.
    pub(crate) is_unended: bool,
}

#[derive(Debug, thiserror::Error)]
pub(crate) enum LineFault {
    #[error("the line is longer than {0} bytes")]
    TooLong(usize),
    /// No line follows.
    #[error("cannot be read any further: {0}")]
    Unreadable(io::Error),
}

/// Where lines end, and how long they may be.
#[derive(Debug, Clone, Copy)]
pub(crate) struct LineRules {
    /// CR ends a line as LF does, with LF behind it or without.
    pub(crate) cr_ends: bool,
    pub(crate) bytes_max: usize,
}

pub(crate) struct Lines<R> {
    pub(crate) file: R,
    rules: LineRules,
    number: u64,
    /// The last line ended with CR: an LF that follows belongs to it.
    after_cr: bool,
    ended: bool,
    /// Lines that were read and given back.
    ahead: VecDeque<TextLine>,
}

impl<R: BufRead> Lines<R> {
    pub(crate) fn new(file: R, rules: LineRules) -> Self {
        Self {
            file,
            rules,
            number: 0,
            after_cr: false,
            ended: false,
            ahead: VecDeque::new(),
        }
    }

    /// Gives lines back, to be read again.
    pub(crate) fn unread(&mut self, lines: Vec<TextLine>) {
        for line in lines.into_iter().rev() {
            self.ahead.push_front(line);
        }
    }

    /// The next line that is not blank.
    pub(crate) fn next_filled(&mut self) -> Option<TextLine> {
        self.find(|line| line.fault.is_some() || !line.text.trim_ascii().is_empty())
    }

    fn read(&mut self) -> Option<TextLine> {
        let LineRules { cr_ends, bytes_max } = self.rules;
        let mut line = TextLine {
            number: self.number + 1,
            ..TextLine::default()
        };
        let mut has_begun = false;
        loop {
            let bytes = match self.file.fill_buf() {
                Ok(bytes) => bytes,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => {
                    line.fault = Some(LineFault::Unreadable(error));
                    self.ended = true;
                    break;
                }
            };
            if bytes.is_empty() {
                self.ended = true;
                if !has_begun {
                    return None;
                }
                line.is_unended = true;
                break;
            }
            if std::mem::take(&mut self.after_cr) && bytes[0] == b'\n' {
                self.file.consume(1);
                continue;
            }
            has_begun = true;
            let mut each = bytes.iter();
            let end = each.position(|&b| b == b'\n' || (cr_ends && b == b'\r'));
            let piece = &bytes[..end.unwrap_or(bytes.len())];
            if line.text.len() + piece.len() > bytes_max {
                line.fault = Some(LineFault::TooLong(bytes_max));
            } else {
                line.text.extend_from_slice(piece);
            }
            self.after_cr = end.is_some_and(|end| bytes[end] == b'\r');
            let taken = piece.len() + usize::from(end.is_some());
            self.file.consume(taken);
            if end.is_some() {
                break;
            }
        }
        self.number = line.number;
        Some(line)
    }
}

impl<R: BufRead> Iterator for Lines<R> {
    type Item = TextLine;

    fn next(&mut self) -> Option<TextLine> {
        if let Some(line) = self.ahead.pop_front() {
            return Some(line);
        }
        if self.ended { None } else { self.read() }
    }
}

#[cfg(test)]
mod tests {
    use std::io::{self, BufReader, Read};

    use proptest::prelude::*;

    use super::{LineRules, Lines};

    const RULES: LineRules = LineRules {
        cr_ends: true,
        bytes_max: 100,
    };

    fn lines(text: &[u8], at_once: usize) -> Vec<(u64, String)> {
        let file = BufReader::with_capacity(at_once, io::Cursor::new(text.to_vec()));
        Lines::new(file, RULES)
            .map(|line| {
                (
                    line.number,
                    String::from_utf8(line.text).expect("plain text"),
                )
            })
            .collect()
    }

    #[test]
    fn a_line_that_is_too_long_does_not_affect_the_next_one() {
        let text = [
            b"a\n".to_vec(),
            vec![b'x'; RULES.bytes_max + 1],
            b"\nb".to_vec(),
        ];
        let all: Vec<_> = Lines::new(io::Cursor::new(text.concat()), RULES).collect();
        let faults: Vec<bool> = all.iter().map(|line| line.fault.is_some()).collect();
        assert_eq!(faults, [false, true, false]);
        assert_eq!((all[2].number, &all[2].text[..]), (3, &b"b"[..]));
    }

    #[test]
    fn an_unreadable_file_is_reported_once() {
        struct Broken;
        impl Read for Broken {
            fn read(&mut self, _: &mut [u8]) -> io::Result<usize> {
                Err(io::Error::other("the disk is gone"))
            }
        }
        let file = BufReader::new(io::Cursor::new(b"a\nb".to_vec()).chain(Broken));
        let faults: Vec<Option<String>> = Lines::new(file, RULES)
            .map(|line| line.fault.map(|fault| fault.to_string()))
            .collect();
        let fault = "cannot be read any further: the disk is gone".to_owned();
        assert_eq!(faults, [None, Some(fault)]);
    }

    proptest! {
        #[test]
        fn how_the_file_is_split_into_reads_makes_no_difference(text in "[ab\r\n]{0,40}", at_once in 1_usize..8) {
            let expected: Vec<(u64, String)> = (1..).zip(
                text.replace("\r\n", "\n").replace('\r', "\n").lines().map(str::to_owned)
            ).collect();
            prop_assert_eq!(lines(text.as_bytes(), at_once), expected);
        }
    }
}
