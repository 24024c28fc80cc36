//! [`rows`]: reads CSV files row by row, and returns what an importer makes of them.

use std::path::{Path, PathBuf};

use crate::input::cells::Cells;
use crate::input::csv_table::CsvTable;
use crate::input::files;
use crate::item::{InputError, Item, Items, Location};

/// What an importer makes of rows.
pub(crate) trait ReadRows: Send + 'static {
    /// The columns that a file must have.
    const REQUIRED: &'static [&'static str];

    /// Begins a file.
    fn begin(&mut self, table: CsvTable) -> CsvTable {
        table
    }

    /// Reads a row.
    ///
    /// # Errors
    /// Returns the reason why the row is rejected.
    fn row(
        &mut self,
        cells: &Cells,
        location: &Location,
        out: &mut Vec<Item>,
    ) -> Result<(), InputError>;

    /// Ends a file.
    fn end(&mut self, _file: &Location, _out: &mut Vec<Item>) {}

    /// Ends the import.
    fn finish(&mut self, _out: &mut Vec<Item>) {}
}

/// Reads files in their order. One row is held at a time, beside what the reader holds.
pub(crate) fn rows<R: ReadRows>(files: Vec<PathBuf>, mut reader: R) -> Items {
    let mut files = files.into_iter();
    let mut table: Option<(Location, CsvTable)> = None;
    let mut has_finished = false;
    let step = move || {
        let mut out = Vec::new();
        if let Some((file, rows)) = &mut table {
            if let Some((line, cells)) = rows.next() {
                let location = file.at(line);
                let read = cells.and_then(|cells| reader.row(&cells, &location, &mut out));
                out.extend(read.err().map(|reason| location.rejected(reason)));
            } else {
                reader.end(file, &mut out);
                table = None;
            }
        } else if let Some(path) = files.next() {
            match open(&path, R::REQUIRED) {
                Ok((file, rows)) => table = Some((file, reader.begin(rows))),
                Err(item) => out.push(item),
            }
        } else if has_finished {
            return None;
        } else {
            reader.finish(&mut out);
            has_finished = true;
        }
        Some(out)
    };
    Box::new(std::iter::from_fn(step).flatten())
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
