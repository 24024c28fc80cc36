//! [`rows`]: reads CSV files row by row, and returns what an importer makes of them.

use std::path::{Path, PathBuf};

use crate::input::cells::Cells;
use crate::input::csv_table::CsvTable;
use crate::input::files;
use crate::item::{Item, Items, LineItems, Location, Result};

/// An importer of CSV files row by row.
pub(crate) trait ReadRows: Send + 'static {
    /// The columns that a file must have.
    const REQUIRED: &'static [&'static str];

    /// Begins a file.
    fn begin(&mut self, _file: &Location, _table: &mut CsvTable) {}

    /// Reads a row.
    ///
    /// # Errors
    /// Returns the reason why the row is rejected.
    fn row(&mut self, cells: &Cells, out: &mut LineItems) -> Result<()>;

    /// Ends a file.
    fn end(&mut self, _out: &mut LineItems) {}

    /// Ends the import.
    fn finish(&mut self) -> Items {
        Box::new(std::iter::empty())
    }
}

/// Reads files in their order. One row is held at a time, beside what the reader holds.
pub(crate) fn rows<R: ReadRows>(files: Vec<PathBuf>, reader: R) -> Items {
    let mut reading = RowReader {
        reader,
        files: Some(files.into_iter()),
        table: None,
        known: Vec::new(),
    };
    Box::new(std::iter::from_fn(move || reading.step()).flatten())
}

struct RowReader<R> {
    reader: R,
    /// `None` when the import has ended.
    files: Option<std::vec::IntoIter<PathBuf>>,
    /// The open file.
    table: Option<(Location, CsvTable)>,
    /// The counts of its cells that are known, by column.
    known: Vec<u64>,
}

impl<R: ReadRows> RowReader<R> {
    /// Reads a row, or opens the next file. `None` at the end.
    fn step(&mut self) -> Option<Items> {
        if self.table.is_some() {
            return Some(Box::new(self.row()?.into_iter()));
        }
        if let Some(path) = self.files.as_mut()?.next() {
            let opened = open(&path, R::REQUIRED).map(|(file, mut rows)| {
                self.reader.begin(&file, &mut rows);
                self.table = Some((file, rows));
            });
            return Some(Box::new(opened.err().into_iter()));
        }
        self.files = None;
        Some(self.reader.finish())
    }

    fn row(&mut self) -> Option<Vec<Item>> {
        let (file, rows) = self.table.as_mut()?;
        let mut out = LineItems::new(file.clone());
        match rows.next() {
            Some((line, cells)) => {
                out.location.line = line;
                let known = &mut self.known;
                let read = cells.and_then(|cells| {
                    cells.count_known(known);
                    self.reader.row(&cells, &mut out)
                });
                if let Err(reason) = read {
                    out.reject(reason);
                }
            }
            None => {
                self.reader.end(&mut out);
                out.omit(rows.columns.omitted(&std::mem::take(&mut self.known)));
                self.table = None;
            }
        }
        Some(out.items)
    }
}

/// Opens a file as a table with the required columns.
pub(crate) fn open(path: &Path, required: &[&str]) -> Result<(Location, CsvTable), Item> {
    let file = Location::file(path);
    let bytes = files::open(path).map_err(|error| file.rejected(error))?;
    match CsvTable::open(bytes, required) {
        Ok(table) => Ok((file, table)),
        Err(reason) => Err(file.at(1).rejected(reason)),
    }
}
