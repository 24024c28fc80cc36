//! [`Lines`]: the lines of a file one after the other, however large it is.

use std::collections::VecDeque;
use std::io::{self, BufRead};

/// The longest line that is held. A row of racing has under 10 KiB.
const LINE_BYTES_MAX: usize = 2 * 1024 * 1024;

/// A line without its end.
#[derive(Debug, Default)]
pub(crate) struct Line {
    /// From 1.
    pub(crate) number: u64,
    pub(crate) text: Vec<u8>,
    /// Why the text is not the line's.
    pub(crate) fault: Option<String>,
}

/// The lines of a file, ended by LF, CR LF or CR.
pub(crate) struct Lines {
    file: Box<dyn BufRead + Send>,
    number: u64,
    /// The last line ended with CR: an LF that follows belongs to it.
    after_cr: bool,
    ended: bool,
    /// Lines that were read and given back.
    ahead: VecDeque<Line>,
}

impl Lines {
    pub(crate) fn new(file: Box<dyn BufRead + Send>) -> Self {
        Self {
            file,
            number: 0,
            after_cr: false,
            ended: false,
            ahead: VecDeque::new(),
        }
    }

    /// Gives lines back, to be read again.
    pub(crate) fn unread(&mut self, lines: Vec<Line>) {
        for line in lines.into_iter().rev() {
            self.ahead.push_front(line);
        }
    }

    /// The next line with anything on it.
    pub(crate) fn next_filled(&mut self) -> Option<Line> {
        self.find(|line| line.fault.is_some() || !line.text.trim_ascii().is_empty())
    }

    fn read(&mut self) -> Option<Line> {
        let mut line = Line {
            number: self.number + 1,
            ..Line::default()
        };
        let mut begun = false;
        loop {
            let bytes = match self.file.fill_buf() {
                Ok(bytes) => bytes,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => {
                    line.fault = Some(format!("cannot be read any further: {error}"));
                    self.ended = true;
                    break;
                }
            };
            if bytes.is_empty() {
                self.ended = true;
                if !begun {
                    return None;
                }
                break;
            }
            if std::mem::take(&mut self.after_cr) && bytes[0] == b'\n' {
                self.file.consume(1);
                continue;
            }
            begun = true;
            let end = bytes.iter().position(|&b| b == b'\n' || b == b'\r');
            let piece = &bytes[..end.unwrap_or(bytes.len())];
            if line.text.len() + piece.len() > LINE_BYTES_MAX {
                line.fault = Some(format!("a line of over {LINE_BYTES_MAX} bytes"));
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

impl Iterator for Lines {
    type Item = Line;

    fn next(&mut self) -> Option<Line> {
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

    use super::{LINE_BYTES_MAX, Lines};

    fn lines(text: &[u8], at_once: usize) -> Vec<(u64, String)> {
        let file = BufReader::with_capacity(at_once, io::Cursor::new(text.to_vec()));
        Lines::new(Box::new(file))
            .map(|line| {
                (
                    line.number,
                    String::from_utf8(line.text).expect("plain text"),
                )
            })
            .collect()
    }

    #[test]
    fn a_line_too_long_is_no_line_and_the_next_one_is() {
        let text = [
            b"a\n".to_vec(),
            vec![b'x'; LINE_BYTES_MAX + 1],
            b"\nb".to_vec(),
        ];
        let all: Vec<_> =
            Lines::new(Box::new(BufReader::new(io::Cursor::new(text.concat())))).collect();
        let faults: Vec<bool> = all.iter().map(|line| line.fault.is_some()).collect();
        assert_eq!(faults, [false, true, false]);
        assert_eq!((all[2].number, &all[2].text[..]), (3, &b"b"[..]));
    }

    #[test]
    fn a_file_that_breaks_off_says_so_once() {
        struct Broken;
        impl Read for Broken {
            fn read(&mut self, _: &mut [u8]) -> io::Result<usize> {
                Err(io::Error::other("the disk is gone"))
            }
        }
        let file = BufReader::new(io::Cursor::new(b"a\nb".to_vec()).chain(Broken));
        let faults: Vec<Option<String>> =
            Lines::new(Box::new(file)).map(|line| line.fault).collect();
        let fault = "cannot be read any further: the disk is gone".to_owned();
        assert_eq!(faults, [None, Some(fault)]);
    }

    proptest! {
        #[test]
        fn where_the_file_is_cut_into_pieces_makes_no_difference(text in "[ab\r\n]{0,40}", at_once in 1_usize..8) {
            let expected: Vec<(u64, String)> = (1..).zip(
                text.replace("\r\n", "\n").replace('\r', "\n").lines().map(str::to_owned)
            ).collect();
            prop_assert_eq!(lines(text.as_bytes(), at_once), expected);
        }
    }
}
