//! [`Table`]: the rows of a CSV file one by one, each with its line, whatever stands between them.

use std::collections::HashMap;
use std::sync::Arc;

use csv::{ByteRecord, ReaderBuilder, StringRecord};

use super::cells::Cells;

/// Lines that one record may span where a quoted field holds line breaks. A bound, so that a quote that is never
/// closed costs its own row and not the rest of the file.
const RECORD_LINES_MAX: usize = 8;

/// The rows behind a header.
#[derive(Debug)]
pub(super) struct Table {
    lines: Lines,
    header: Vec<String>,
    columns: Arc<HashMap<String, usize>>,
}

/// The line on which a row begins, and the row or what is wrong with it.
pub(super) type Row = (u64, Result<Cells, String>);

impl Table {
    /// Reads the header and finds the wanted columns in it.
    ///
    /// # Errors
    /// The reason: no header, or a column is missing.
    pub(super) fn open(bytes: Vec<u8>, wanted: &[&str]) -> Result<Self, String> {
        let mut lines = Lines {
            bytes,
            at: 0,
            line: 0,
        };
        let line = lines.next_filled().ok_or("the file is empty")?;
        let (record, _) = parse(lines.text(line)).ok_or("the header is empty")?;
        let header: Vec<String> = record
            .iter()
            .map(|c| String::from_utf8_lossy(c).trim().to_lowercase())
            .collect();
        let missing: Vec<&str> = wanted
            .iter()
            .copied()
            .filter(|w| !header.iter().any(|c| c == w))
            .collect();
        if missing.is_empty() {
            let columns = header.iter().cloned().zip(0..).collect();
            Ok(Self {
                lines,
                header,
                columns: Arc::new(columns),
            })
        } else {
            Err(format!(
                "the header lacks the columns: {}",
                missing.join(", ")
            ))
        }
    }

    fn record(&mut self, first: Line) -> Result<StringRecord, String> {
        let record = match self.spanning(first) {
            Some(record) => record,
            None => parse(self.lines.text(first))
                .map(|(record, _)| record)
                .unwrap_or_default(),
        };
        if record.len() != self.header.len() {
            return Err(format!(
                "{} columns, the header has {}",
                record.len(),
                self.header.len()
            ));
        }
        StringRecord::from_byte_record(record).map_err(|error| {
            let column = error.utf8_error().field();
            format!(
                "{} is not UTF-8",
                self.header.get(column).map_or("a column", String::as_str)
            )
        })
    }

    /// A record that goes on over the end of its first line, where that makes a row of the right width.
    fn spanning(&mut self, first: Line) -> Option<ByteRecord> {
        if !has_open_quote(self.lines.text(first)) {
            return None;
        }
        let back = (self.lines.at, self.lines.line);
        for _ in 1..RECORD_LINES_MAX {
            let Some(next) = self.lines.next_line() else {
                break;
            };
            let text = &self.lines.bytes[first.start..next.end];
            if !has_open_quote(text)
                && let Some((record, bytes)) = parse(text)
                && bytes >= text.len()
                && record.len() == self.header.len()
            {
                return Some(record);
            }
        }
        (self.lines.at, self.lines.line) = back;
        None
    }
}

impl Iterator for Table {
    type Item = Row;

    fn next(&mut self) -> Option<Row> {
        let line = self.lines.next_filled()?;
        let record = self.record(line);
        let columns = Arc::clone(&self.columns);
        Some((line.number, record.map(|record| Cells { columns, record })))
    }
}

/// The first record of a text, and how many bytes it took.
fn parse(text: &[u8]) -> Option<(ByteRecord, usize)> {
    if !text.contains(&b'"') {
        // Most rows have no quotes, and need none of what a reader sets up.
        return Some((text.split(|&b| b == b',').collect(), text.len()));
    }
    let mut reader = ReaderBuilder::new()
        .has_headers(false)
        .flexible(true)
        .buffer_capacity(1024)
        .from_reader(text);
    let mut record = ByteRecord::new();
    let found = reader.read_byte_record(&mut record).ok()?;
    let bytes = usize::try_from(reader.position().byte()).ok()?;
    found.then_some((record, bytes))
}

fn has_open_quote(text: &[u8]) -> bool {
    text.iter().filter(|&&b| b == b'"').count() % 2 == 1
}

/// A line without its end.
#[derive(Debug, Clone, Copy)]
struct Line {
    number: u64,
    start: usize,
    end: usize,
}

/// The lines of a file, ended by LF, CR LF or CR.
#[derive(Debug)]
struct Lines {
    bytes: Vec<u8>,
    at: usize,
    line: u64,
}

impl Lines {
    fn next_line(&mut self) -> Option<Line> {
        let start = self.at;
        let rest = self.bytes.get(start..).filter(|rest| !rest.is_empty())?;
        let length = rest
            .iter()
            .position(|&b| b == b'\n' || b == b'\r')
            .unwrap_or(rest.len());
        let end_bytes = if rest[length..].starts_with(b"\r\n") {
            2
        } else {
            1
        };
        self.at = start + length + end_bytes;
        self.line += 1;
        Some(Line {
            number: self.line,
            start,
            end: start + length,
        })
    }

    fn next_filled(&mut self) -> Option<Line> {
        loop {
            let line = self.next_line()?;
            if !self.text(line).trim_ascii().is_empty() {
                return Some(line);
            }
        }
    }

    fn text(&self, line: Line) -> &[u8] {
        &self.bytes[line.start..line.end]
    }
}

#[cfg(test)]
mod tests {
    use super::Table;

    fn rows(text: &[u8]) -> Vec<(u64, Result<Vec<String>, String>)> {
        let table = Table::open(text.to_vec(), &["a", "b"]).expect("a header");
        table
            .map(|(line, row)| {
                (
                    line,
                    row.map(|r| r.record.iter().map(str::to_owned).collect()),
                )
            })
            .collect()
    }

    fn row(a: &str, b: &str) -> Result<Vec<String>, String> {
        Ok(vec![a.to_owned(), b.to_owned()])
    }

    #[test]
    fn rows_come_with_their_lines() {
        assert_eq!(
            rows(b"A,b\r\n1,2\r\n\r\n\"x,\"\"y\",\"3\"\n"),
            [(2, row("1", "2")), (4, row("x,\"y", "3"))]
        );
        assert_eq!(
            rows(b"a,b\r1,2\r3,4"),
            [(2, row("1", "2")), (3, row("3", "4"))]
        );
        assert_eq!(
            rows(b"a,b\n\"1\n2\",3\n4,5\n"),
            [(2, row("1\n2", "3")), (4, row("4", "5"))]
        );
    }

    #[test]
    fn a_bad_row_costs_itself_alone() {
        let narrow = Err("1 columns, the header has 2".to_owned());
        assert_eq!(
            rows(b"a,b\nx\n1,2,3\n4,5"),
            [
                (2, narrow.clone()),
                (3, Err("3 columns, the header has 2".to_owned())),
                (4, row("4", "5"))
            ]
        );
        assert_eq!(
            rows(b"a,b\n\"never closed,2\n4,5\n6,7\n"),
            [(2, narrow), (3, row("4", "5")), (4, row("6", "7"))]
        );
        assert_eq!(
            rows(b"a,b\n1,\xff\n4,5"),
            [(2, Err("b is not UTF-8".to_owned())), (3, row("4", "5"))]
        );
        assert_eq!(
            rows(b"a,b\n5\"6,2\n4,5"),
            [(2, row("5\"6", "2")), (3, row("4", "5"))]
        );
    }

    #[test]
    fn a_header_has_the_wanted_columns() {
        assert!(Table::open(Vec::new(), &["a"]).is_err());
        let error = Table::open(b"a,c\n1,2".to_vec(), &["a", "b", "d"]).expect_err("no b");
        assert_eq!(error, "the header lacks the columns: b, d");
    }
}
