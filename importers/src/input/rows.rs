//! [`rows`]: reads CSV files row by row, and returns what an importer makes of them.

use std::path::{Path, PathBuf};

use crate::input::cells::Cells;
use crate::input::csv_table::CsvTable;
use crate::input::files;
use crate::item::{InputError, Item, Items, LineItems, Location};

/// An importer of CSV files row by row.
pub(crate) trait ReadRows: Send + 'static {
    /// The columns that a file must have.
    const REQUIRED: &'static [&'static str];

    /// Begins a file.
    fn begin(&mut self, _file: &Location, table: CsvTable) -> CsvTable {
        table
    }

    /// Reads a row.
    ///
    /// # Errors
    /// Returns the reason why the row is rejected.
    fn row(&mut self, cells: &Cells, out: &mut LineItems) -> Result<(), InputError>;

    /// Ends a file.
    fn end(&mut self, _out: &mut LineItems) {}

    /// Ends the import.
    fn finish(&mut self) -> Items {
        Box::new(std::iter::empty())
    }
}

/// Reads files in their order. One row is held at a time, beside what the reader holds.
pub(crate) fn rows<R: ReadRows>(files: Vec<PathBuf>, mut reader: R) -> Items {
    let mut files = files.into_iter();
    let mut table: Option<(Location, CsvTable)> = None;
    let mut has_finished = false;
    let step = move || -> Option<Items> {
        if let Some((file, rows)) = &mut table {
            let mut out = LineItems::new(file.clone());
            if let Some((line, cells)) = rows.next() {
                out.location.line = line;
                if let Err(reason) = cells.and_then(|cells| reader.row(&cells, &mut out)) {
                    out.reject(reason);
                }
            } else {
                reader.end(&mut out);
                table = None;
            }
            return Some(Box::new(out.items.into_iter()));
        }
        if let Some(path) = files.next() {
            let rejected = match open(&path, R::REQUIRED) {
                Ok((file, rows)) => {
                    let rows = reader.begin(&file, rows);
                    table = Some((file, rows));
                    None
                }
                Err(item) => Some(item),
            };
            return Some(Box::new(rejected.into_iter()));
        }
        (!std::mem::replace(&mut has_finished, true)).then(|| reader.finish())
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
