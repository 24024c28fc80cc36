//! [`CsvTable`]: the rows of a CSV file one by one, each with its line.

use std::io::BufRead;
use std::sync::Arc;

use csv::{ByteRecord, ReaderBuilder, StringRecord};

use crate::input::cells::{Cells, Columns};
use crate::input::lines::{LineRules, Lines, TextLine};
use crate::item::Result;

/// A row of racing has under 10 KiB.
const LINES: LineRules = LineRules {
    cr_ends: true,
    bytes_max: 2 * 1024 * 1024,
};
/// Lines that one record may span where a quoted cell has line breaks, so that a quote that is never closed costs its
/// own row and not the rest of the file.
const RECORD_LINES_MAX: usize = 8;

pub(crate) struct CsvTable {
    lines: Lines<Box<dyn BufRead + Send>>,
    pub(crate) columns: Arc<Columns>,
    /// Reads each line as a row. A quote is an ordinary character where the commas of a line make a whole row.
    pub(crate) one_row_per_line: bool,
}

impl CsvTable {
    /// Reads the header, which must have the required columns: `off|time` under either name.
    ///
    /// # Errors
    /// Returns the reason if there is no header, or if columns are missing.
    pub(crate) fn open(file: Box<dyn BufRead + Send>, required: &[&str]) -> Result<Self> {
        let mut lines = Lines::new(file, LINES);
        let first = lines.next_filled().ok_or("the file is empty")?;
        if let Some(fault) = first.fault {
            return Err(fault.to_string().into());
        }
        let record = spanning(&mut lines, &first, None)
            .or_else(|| parse(&first.text))
            .ok_or("the header is empty")?;
        let header: Vec<String> = record
            .iter()
            .map(|c| String::from_utf8_lossy(c).trim().to_lowercase())
            .collect();
        let columns = Columns::new(header);
        let mut missing = required.to_vec();
        missing.retain(|names| !names.split('|').any(|name| columns.has(name)));
        if !missing.is_empty() {
            let missing = missing.join(", ");
            return Err(format!("the header lacks the columns: {missing}").into());
        }
        Ok(Self {
            lines,
            columns: Arc::new(columns),
            one_row_per_line: false,
        })
    }

    fn record(&mut self, line: TextLine) -> Result<StringRecord> {
        if let Some(fault) = line.fault {
            return Err(fault.to_string().into());
        }
        let width = self.columns.names.len();
        let record = if self.one_row_per_line {
            Some(split(&line.text)).filter(|record| record.len() == width)
        } else {
            spanning(&mut self.lines, &line, Some(width))
        };
        let record = record.or_else(|| parse(&line.text)).unwrap_or_default();
        if record.len() != width {
            return Err(format!("{} columns, the header has {width}", record.len()).into());
        }
        StringRecord::from_byte_record(record).map_err(|error| {
            let column = self.columns.names.get(error.utf8_error().field());
            let column = column.map_or("a column", String::as_str);
            format!("{column} is not UTF-8").into()
        })
    }
}

impl Iterator for CsvTable {
    /// The line on which a row begins, and the row.
    type Item = (u64, Result<Cells>);

    fn next(&mut self) -> Option<Self::Item> {
        let line = self.lines.next_filled()?;
        let number = line.number;
        let columns = Arc::clone(&self.columns);
        let record = self.record(line);
        Some((number, record.map(|record| Cells { columns, record })))
    }
}

/// A record that spans several lines, if that makes a row of the right width.
fn spanning<R: BufRead>(
    lines: &mut Lines<R>,
    first: &TextLine,
    width: Option<usize>,
) -> Option<ByteRecord> {
    if !has_open_quote(&first.text) {
        return None;
    }
    let mut text = first.text.clone();
    let mut read = Vec::new();
    while read.len() + 1 < RECORD_LINES_MAX {
        let Some(next) = lines.next() else { break };
        text.push(b'\n');
        text.extend_from_slice(&next.text);
        let whole = next.fault.is_none() && !has_open_quote(&text);
        read.push(next);
        if whole
            && let Some((record, bytes)) = parse_quoted(&text)
            && bytes >= text.len()
            && width.is_none_or(|width| record.len() == width)
        {
            return Some(record);
        }
    }
    lines.unread(read);
    None
}

/// The first record of a text.
fn parse(text: &[u8]) -> Option<ByteRecord> {
    if !text.contains(&b'"') {
        // Most rows have no quotes, and setting up a reader costs more than the row.
        return Some(text.split(|&b| b == b',').collect());
    }
    parse_quoted(text).map(|(record, _)| record)
}

/// The first record of a text, and how many bytes it took.
fn parse_quoted(text: &[u8]) -> Option<(ByteRecord, usize)> {
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

/// The cells between the commas, without the quotes around them.
fn split(text: &[u8]) -> ByteRecord {
    let cells = text.split(|&b| b == b',').map(|cell| match cell {
        [b'"', inner @ .., b'"'] => inner,
        cell => cell,
    });
    cells.collect()
}

fn has_open_quote(text: &[u8]) -> bool {
    text.iter().filter(|&&b| b == b'"').count() % 2 == 1
}

#[cfg(test)]
mod tests {
    use std::io::Cursor;

    use super::CsvTable;

    fn open(text: &[u8], wanted: &[&str]) -> Result<CsvTable, String> {
        CsvTable::open(Box::new(Cursor::new(text.to_vec())), wanted)
            .map_err(|error| error.to_string())
    }

    fn rows(text: &[u8]) -> Vec<(u64, Result<Vec<String>, String>)> {
        shown(open(text, &["a", "b"]).expect("a header"))
    }

    fn shown(table: CsvTable) -> Vec<(u64, Result<Vec<String>, String>)> {
        table
            .map(|(line, row)| {
                (
                    line,
                    row.map(|r| r.record.iter().map(str::to_owned).collect())
                        .map_err(|error| error.to_string()),
                )
            })
            .collect()
    }

    fn row(a: &str, b: &str) -> Result<Vec<String>, String> {
        Ok(vec![a.to_owned(), b.to_owned()])
    }

    #[test]
    fn rows_have_the_numbers_of_their_lines() {
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
    fn a_bad_row_does_not_affect_the_others() {
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
    fn a_header_without_the_required_columns_is_rejected() {
        let error = |text: &[u8], wanted: &[&str]| open(text, wanted).map(|_| ()).expect_err("no");
        assert_eq!(error(b"", &["a"]), "the file is empty");
        assert_eq!(
            error(b"a,c\n1,2", &["a", "b|d", "d"]),
            "the header lacks the columns: b|d, d"
        );
        let table = open(b"a,c\n1,2", &["b|c"]).expect("c is there");
        assert!(table.columns.has("c") && !table.columns.has("b"));
    }

    #[test]
    fn a_header_may_span_lines() {
        let table = open(b"a,\"b\nand more\",c\n1,2,3\n", &["a", "c"]).expect("a header");
        assert_eq!(shown(table).len(), 1);
    }

    #[test]
    fn with_one_row_per_line_quotes_are_ordinary_characters() {
        let text = b"a,b\n1,\"never closed\n2,\"closed\"\n\"3,4\",5\n6,also open\"\n";
        let mut table = open(text, &["a", "b"]).expect("a header");
        table.one_row_per_line = true;
        assert_eq!(
            shown(table),
            [
                (2, row("1", "\"never closed")),
                (3, row("2", "closed")),
                (4, row("3,4", "5")),
                (5, row("6", "also open\""))
            ]
        );
    }
}
